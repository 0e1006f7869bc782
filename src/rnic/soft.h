/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * soft.h - objects of the software RNIC (private to src/rnic/soft_*.c)
 *
 * Private memory only; what two processes share is in lane.h.  Each object is
 * one mapping of its own.  Locking: the caller's, per CQ (rnic.h).
 */
#ifndef RNIC_SOFT_H
#define RNIC_SOFT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/util.h"
#include "rnic/lane.h"
#include "rnic/rnic.h"

#define SOFT_MAX_QP	4096		/* on one CQ */
#define SOFT_MAX_SGE	16
#define SOFT_MAX_INLINE	(1u << 20)
#define SOFT_FAR_INLINE	256u		/* fault far */
#define SOFT_MAX_SLAB	(1ull << 40)

/* The channel is an eventfd: the peer has a duplicate to write to. */
struct soft_channel {
	struct ibv_comp_channel ib;
};

/* What a poll looks at, for all QPs of a CQ in one array: an idle poll reads
 * this and the line of the next CQE, nothing else. */
struct soft_slot {
	const struct cqe *next;
	uint32_t want;			/* seq of the next CQE */
	uint32_t busy;			/* visit even if there is no CQE: see slot_refresh() */
	struct soft_qp *qp;
};

struct soft_cq {
	struct ibv_cq ib;
	uint32_t nslots;
	uint32_t first;			/* where the next poll begins */
	bool armed;			/* since then no poll has found anything */
	struct soft_slot slots[SOFT_MAX_QP];
};

struct soft_rwr {
	uint64_t wr_id;
	void *addr;
	uint32_t len;
};

/* A signalled work request whose completion has not been polled. */
struct soft_swr {
	uint64_t wr_id;
	uint32_t index;			/* of its CQE in the peer's lane */
	uint32_t byte_len;
	enum ibv_wc_opcode opcode;
	bool at_once;			/* raised no CQE: done when it is its turn */
};

/* Indices are free-running; sizes are powers of two. */
struct soft_qp {
	struct ibv_qp ib;
	struct soft_cq *cq;
	uint32_t slot;			/* in cq->slots */
	uint32_t bytes;			/* of this mapping */
	bool sig_all;
	bool connected;
	bool err;			/* nothing goes out; the lane is drained, then all is flushed */
	bool lane_done;			/* nothing more comes out of the lane */

	/* inbound */
	struct lane *in;
	int in_fd;
	uint32_t in_size, in_head;
	uint32_t drain_left;		/* in the error state: CQEs that may still be delivered */
	const uint8_t *in_slab;		/* exported to the peer; only prefetched from */
	uint64_t in_slab_len;
	struct soft_rwr *rq;
	uint32_t rq_size, rq_head, rq_tail, rq_max;
	uint64_t held_since_ns;		/* fault delay-completions */
	struct soft_qp *took_next;	/* list within one poll */

	/* outbound */
	struct lane *out;
	uint32_t out_size, out_tail;
	uint32_t out_head;		/* the peer's, as last read and found possible */
	uint8_t *peer;			/* its slab */
	uint64_t peer_len;
	uint32_t peer_rkey, peer_qpn;
	int peer_event;			/* its channel, or -1 */
	bool by_socket;			/* ... or a socket to it */
	struct soft_swr *sq;
	uint32_t sq_size, sq_head, sq_tail;
	uint64_t imm_posted;		/* WRITE_WITH_IMMs so far */
	uint32_t *imm_index;		/* their CQE indices, by number modulo imm_size */
	uint32_t imm_size;		/* LANE_MAX at most, out_size when connected */
};

static inline struct soft_qp *to_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct soft_qp, ib);
}

static inline struct soft_cq *to_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct soft_cq, ib);
}

static inline struct soft_slot *qp_slot(struct soft_qp *qp)
{
	return &qp->cq->slots[qp->slot];
}

static inline const struct cqe *lane_peek(struct soft_qp *qp)
{
	const struct cqe *c = &qp->in->cqe[qp->in_head & (qp->in_size - 1)];

	/* pairs with lane_publish() and error_tell_peer(): all that came before */
	return ld_acq(&c->seq) == qp->in_head + 1 ? c : NULL;
}

static inline bool swr_done(const struct soft_qp *qp, const struct soft_swr *s)
{
	return s->at_once || (int32_t)(qp->out_head - s->index) > 0;
}

extern const struct cqe soft_no_cqe;	/* never published */

/* A visit without a CQE is due while completions of sends, or flushes, may be there. */
static inline void slot_refresh(struct soft_qp *qp)
{
	struct soft_slot *s = qp_slot(qp);

	s->next = qp->lane_done ? &soft_no_cqe : &qp->in->cqe[qp->in_head & (qp->in_size - 1)];
	s->want = qp->lane_done ? 1 : qp->in_head + 1;
	s->busy = qp->sq_head != qp->sq_tail ||
		  (qp->err && (!qp->lane_done || qp->rq_head != qp->rq_tail));
}

/* soft_qp.c */
struct ibv_qp *soft_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int soft_qp_wake_by(struct ibv_qp *qp, int sock);
int soft_qp_export(struct ibv_qp *qp, const struct rnic_slab *slab, struct rnic_params *out);
int soft_qp_connect(struct ibv_qp *qp, const struct rnic_params *peer);
void *soft_qp_peer_slab(struct ibv_qp *qp, size_t *len, uint32_t *rkey, uint64_t *base);
int soft_qp_peer_part(struct ibv_qp *qp, size_t off, size_t len, uint32_t rkey);
int soft_qp_peer_populate(struct ibv_qp *qp, size_t off, size_t len);
void soft_qp_error(struct ibv_qp *qp);
bool soft_qp_broken(const struct ibv_qp *qp);
void soft_qp_free(struct ibv_qp *qp);
/* Into the error state; trust_lane: what the peer has published still counts. */
void soft_qp_fail(struct soft_qp *qp, bool trust_lane);
/* Read the consumer index of the peer's lane.  Return: false when the value
 * was impossible; the QP is in the error state then. */
bool soft_out_head(struct soft_qp *qp);

/* soft_send.c */
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
bool soft_wr_taken(const struct ibv_qp *qp, uint64_t seq);

/* soft_poll.c */
int soft_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Write to an eventfd. */
void soft_kick(int fd);
/* The peer sleeps, or is about to. */
void soft_wake_peer(const struct soft_qp *qp);

#endif
