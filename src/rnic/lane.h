/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lane.h - the memory two software RNICs share: a lane of completions
 *
 * A QP owns the lane of what arrives for it: a ring of one-cache-line CQEs
 * behind a page of control words.  The owner consumes, the peer produces;
 * either may be another process, and either may be hostile.
 *
 * Invariants
 *  1. CQE i is published when its seq word equals i + 1 (32 bits, wrapping);
 *     all other fields were stored before it.  So a producer that dies between
 *     any two stores leaves a CQE published or not, never half.
 *  2. An end keeps its own index in private memory and never reads back what
 *     it has put here.
 *  3. What the other end wrote is read once and then checked.  A consumer that
 *     meets a wrong seq sees "not published"; an index out of range or a field
 *     that cannot be puts the QP into the error state.
 *  4. The producer never overwrites a CQE the consumer's index has not passed.
 *
 * Progress: publishing and taking are wait-free.
 *
 * Synchronisation matrix (P producer, C consumer; each row is one pair)
 *
 *   word       writer        order            reader  order     what becomes visible
 *   cqe.seq    P             release          C       acquire   the CQE and the payload in the slab
 *   head       C             release          P       acquire   C is done with the CQEs below head
 *   head       C             then full fence  P       rlx after a full fence of its caller: the
 *                                             append pattern (wr_taken): P sees head, or C's next
 *                                             look at the ring sees the bytes appended
 *   armed_rx   C sets        full fence       P       rlx after publishing and a full fence: P sees
 *                                             the flag or C's re-poll sees the CQE; P clears by xchg
 *   armed_tx   P sets        full fence       C       rlx after storing head and a full fence: C sees
 *                                             the flag or P's re-poll sees head; C clears by xchg
 *   tx_error   P             release, fence   C       acquire   all that P published before; P then
 *                                             tries to publish CQE_ERROR: either there is room, or
 *                                             C's fence after its next head lets it see the flag
 *   rx_error   C             release          P       acquire   nobody takes CQEs any more
 */
#ifndef RNIC_LANE_H
#define RNIC_LANE_H

#include <stdint.h>

#include "base/util.h"

#define LANE_CQE_DATA	48
#define LANE_MIN	64u		/* CQEs; a power of two */
#define LANE_MAX	(1u << 16)

enum cqe_op {
	CQE_WRITE_IMM = 1,		/* byte_len bytes lie in the slab */
	CQE_SEND,			/* byte_len bytes lie in data */
	CQE_SEND_IMM,
	CQE_ERROR,			/* the producer has left; takes no receive */
};

struct cqe {
	uint32_t seq;			/* index + 1: published, see invariant 1 */
	uint32_t imm;			/* network order, as in the work request */
	uint32_t byte_len;
	uint32_t op;
	union {
		uint64_t off;		/* CQE_WRITE_IMM: of the payload in the slab, a hint */
		uint8_t data[LANE_CQE_DATA];
	};
} cacheline_aligned;

struct lane {
	uint32_t head cacheline_aligned;	/* C: CQEs taken so far */
	uint32_t armed_rx cacheline_aligned;	/* C sets, P clears: wake me on a CQE */
	uint32_t armed_tx cacheline_aligned;	/* P sets, C clears: wake me when you take */
	uint32_t tx_error cacheline_aligned;	/* P: I am in the error state */
	uint32_t rx_error cacheline_aligned;	/* C: I am in the error state */
	uint8_t reserved[4096 - 5 * CACHE_LINE] cacheline_aligned;
	struct cqe cqe[];
};

_Static_assert(sizeof(struct cqe) == CACHE_LINE, "a CQE is one cache line");
_Static_assert(__builtin_offsetof(struct cqe, data) == 16, "CQE header is 16 bytes");
_Static_assert(__builtin_offsetof(struct lane, cqe) == 4096, "CQEs start on a page");
_Static_assert(__builtin_offsetof(struct lane, rx_error) == 4 * CACHE_LINE,
	       "control words: one cache line each");

static inline uint64_t lane_bytes(uint32_t entries)
{
	return sizeof(struct lane) + (uint64_t)entries * sizeof(struct cqe);
}

#endif
