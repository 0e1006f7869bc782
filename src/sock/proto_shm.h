/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto_shm.h - the shared words of a slot (soft), by writer's cache lines
 *
 *	line	word	writer	meaning
 *	sender	p	A	log2(window) << 56 | P (48 bits)
 *	sender	n	A	N of the epoch in state
 *	sender	state	A, B	e << 16 | b0 << 8 | enum slot_state
 *	sender	end	A	how the kernel socket will end: enum slot_end
 *	receiver credit	B	e << 48 | C
 *
 * Order of an attach: p with P = 0, n, then state RAW -> SWITCHING by
 * compare-and-swap (e and b0 change with it), SWITCH, ring bytes, then p
 * (release).  B changes state only RAW -> BARRED and back.  While state is
 * RAW or BARRED, all of the epoch's bytes are on the kernel socket; the ring
 * keeps them until the next epoch, for a RST may drop what the kernel had.  Loads that another process may have made are clamped by
 * the reader; nothing here is believed.
 * end is stored before the kernel is told, so a FIN without either of its bits is
 * that of a program that does not read any more: killed, exited or closed.  A may
 * know of the link's death, leave the slot and send a FIN long before B knows.
 * Progress: every operation is one atomic instruction, except that a compare-
 * and-swap may fail, and then says so.
 */
#ifndef SOCK_PROTO_SHM_H
#define SOCK_PROTO_SHM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/util.h"
#include "sock/proto.h"

enum slot_state { SLOT_RAW, SLOT_SWITCHING, SLOT_ON, SLOT_PUMP, SLOT_BARRED };

enum slot_end {
	SLOT_END_FIN = 1,	/* half a close: its program may go on reading */
	SLOT_END_LEFT = 2,	/* A has left the slot with its link, and says nothing here any more */
};

struct slot_shm {
	/* sender's line */
	uint64_t p cacheline_aligned;
	uint64_t n;
	uint64_t state;
	uint64_t end;
	uint64_t pad0[4];
	/* receiver's line */
	uint64_t credit cacheline_aligned;
	uint64_t pad1[7];
};

static_assert(sizeof(struct slot_shm) == 128, "two cache lines");
static_assert(offsetof(struct slot_shm, n) == 8, "layout is shared");
static_assert(offsetof(struct slot_shm, state) == 16, "layout is shared");
static_assert(offsetof(struct slot_shm, end) == 24, "layout is shared");
static_assert(offsetof(struct slot_shm, credit) == 64, "receiver's own line");

#define COUNT48(v)	((v) & PROTO_COUNT_MAX)

static inline uint64_t credit_pack(uint16_t e, uint64_t C) { return (uint64_t)e << 48 | COUNT48(C); }
static inline uint16_t credit_epoch(uint64_t w) { return w >> 48; }
static inline uint64_t credit_count(uint64_t w) { return COUNT48(w); }

static inline uint64_t slot_p_pack(uint64_t P, unsigned int window_log2)
{
	return (uint64_t)(window_log2 & 0xff) << 56 | COUNT48(P);
}
static inline uint64_t slot_p_count(uint64_t w) { return COUNT48(w); }
static inline unsigned int slot_p_window_log2(uint64_t w) { return w >> 56; }

static inline uint64_t slot_state_pack(uint16_t e, uint8_t b0, enum slot_state s)
{
	return (uint64_t)e << 16 | (uint64_t)b0 << 8 | (uint64_t)s;
}
static inline uint16_t slot_state_epoch(uint64_t w) { return (w >> 16) & 0xffff; }
static inline uint8_t slot_state_b0(uint64_t w) { return (w >> 8) & 0xff; }
static inline uint8_t slot_state_of(uint64_t w) { return w & 0xff; }

/* A: begin epoch e.  false: B has barred the slot, no attach. */
static inline bool slot_attach(struct slot_shm *s, uint16_t e, uint64_t N, uint8_t b0,
			       unsigned int window_log2)
{
	uint64_t old = ld_rlx(&s->state);

	if (slot_state_of(old) != SLOT_RAW)
		return false;
	st_rlx(&s->p, slot_p_pack(0, window_log2));
	st_rel(&s->n, N);	/* behind P = 0: the last epoch's P is never read with this N */
	/* pairs with slot_read(): n and p are those of e */
	return cas_acqrel(&s->state, old, slot_state_pack(e, b0, SLOT_SWITCHING));
}

/* A: publish P; pairs with slot_read(): the ring bytes before P are stored */
static inline void slot_publish(struct slot_shm *s, uint64_t P, unsigned int window_log2)
{
	st_rel(&s->p, slot_p_pack(P, window_log2));
}

/* A: state after attach; RAW only after the last PUMP byte is in the kernel */
static inline void slot_state_set(struct slot_shm *s, enum slot_state st)
{
	uint64_t w = ld_rlx(&s->state);

	/* B never changes a state but RAW and BARRED, so a store is enough */
	st_rel(&s->state, (w & ~0xffull) | (uint64_t)st);
}

/* B: has A begun to leave the ring? */
static inline bool slot_left(const struct slot_shm *s)
{
	uint8_t state = slot_state_of(ld_acq(&s->state)); /* pairs with slot_state_set() */

	return state == SLOT_PUMP || state == SLOT_RAW;
}

/* B: has A begun an epoch, or given it up, that B has not answered? */
static inline bool slot_switching(const struct slot_shm *s)
{
	return slot_state_of(ld_acq(&s->state)) == SLOT_SWITCHING; /* pairs with slot_attach() */
}

/* B: ... or is it writing to the kernel what B never met in the ring?  met: B's last epoch */
static inline bool slot_unmet(const struct slot_shm *s, uint16_t met)
{
	uint64_t w = ld_acq(&s->state); /* pairs with slot_state_set() */

	return slot_state_of(w) == SLOT_PUMP && slot_state_epoch(w) != met;
}

/* A: before its kernel FIN; pairs with slot_half_closed(): FIN seen, so is this */
static inline void slot_end_set(struct slot_shm *s, uint64_t end)
{
	st_rel(&s->end, end);
}

/* B: after the kernel's FIN */
static inline bool slot_half_closed(const struct slot_shm *s)
{
	return ld_acq(&s->end) & (SLOT_END_FIN | SLOT_END_LEFT);
}

/* ... and was it an orderly one? */
static inline bool slot_said_fin(const struct slot_shm *s)
{
	return ld_acq(&s->end) & SLOT_END_FIN;	/* pairs with slot_end_set() */
}

/* B: RAW -> BARRED before exec.  false: A is attached, wait. */
static inline bool slot_bar(struct slot_shm *s)
{
	uint64_t w = ld_acq(&s->state); /* pairs with slot_state_set(): PUMP is over */

	if (slot_state_of(w) == SLOT_BARRED)
		return true;
	return slot_state_of(w) == SLOT_RAW &&
	       cas_acqrel(&s->state, w, (w & ~0xffull) | SLOT_BARRED);
}

/* B: the exec failed */
static inline void slot_unbar(struct slot_shm *s)
{
	uint64_t w = ld_rlx(&s->state);

	if (slot_state_of(w) == SLOT_BARRED)
		st_rel(&s->state, (w & ~0xffull) | SLOT_RAW);
}

/* B: after the kernel's FIN (A is gone, the words are final) */
static inline struct pslot slot_read(const struct slot_shm *s)
{
	uint64_t w = ld_acq(&s->state); /* pairs with slot_attach() */

	return (struct pslot){
		.e = slot_state_epoch(w),
		.state = slot_state_of(w),
		.b0 = slot_state_b0(w),
		.N = ld_rlx(&s->n),
		.P = slot_p_count(ld_acq(&s->p)), /* pairs with slot_publish() */
	};
}

static inline enum slot_state ptx_slot_state(const struct ptx *tx)
{
	switch (tx->state) {
	case PTX_SWITCHING: return SLOT_SWITCHING;
	case PTX_ON: return SLOT_ON;
	case PTX_PUMP: return SLOT_PUMP;
	default: return SLOT_RAW;
	}
}

#endif
