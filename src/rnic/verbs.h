/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * verbs.h - objects of the verbs device (private to src/rnic/verbs_*.c)
 *
 * Each object of libibverbs is behind one of ours (`real`), whose context's
 * table leads to us first.  That is where devices are made to look alike:
 *
 *  - work requests are checked against the peer's slab, queues have exact
 *    bounds, errors are errno values, a broken QP says EIO;
 *  - the device sees few signalled requests but always the last: see below;
 *  - a device without WRITE_WITH_IMM (iWARP) gets a WRITE and a small SEND;
 *  - receives posted to a broken QP are flushed, whatever the driver does.
 *
 * Signalling.  Entries of the send queue are known done when a later one of
 * the QP completes.  A request that the peer's program will see (an immediate,
 * a SEND) is signalled when no signalled one is under way, and every so many;
 * when one completes and such requests follow it unsignalled, a WRITE of no
 * bytes is posted behind them (mark()).  So wr_taken() becomes true without
 * further posting.  Both the decision and mark() are taken under sq_lock:
 *
 *	post:  lock; sq_head, sq_sig -> signal or not; post; unlock
 *	poll:  sq_head; lock; none under way and some not known done -> mark; unlock
 *
 * so either the post saw the new sq_head and signalled, or poll sees the post.
 *
 * Concurrency: posting (one caller at a time) and polling (one at a time) may
 * go on at once.  sq_lock is a leaf; sq entries pass from post to poll through
 * the device, sq_head back by release.  Words shared otherwise are atomic.
 */
#ifndef RNIC_VERBS_H
#define RNIC_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/util.h"
#include "rnic/rnic.h"
#include "rnic/verbs_lib.h"

#define VERBS_MAX_QP	1024		/* on one CQ; a power of two */
#define VERBS_CQ_FIRST	8191		/* entries of a CQ to begin with: 512 KiB on most devices */
#define VERBS_MAX_SGE	4
#define VERBS_MAX_WR	32768u
#define VERBS_INLINE	512		/* asked for; what is granted is a device's own */
#define VERBS_PERIOD	16u		/* signal one in so many */
#define VERBS_PARTS	64		/* of a peer's slab, after the first */

struct verbs_rnic {
	struct rnic rnic;
	struct ibv_context ctx;
	struct ibv_context *real;
	char name[IBV_SYSFS_NAME_MAX];
	union ibv_gid gid;
	uint32_t gid_index;
	uint16_t lid;
	uint8_t port;
	uint8_t mtu;			/* enum ibv_mtu */
	bool grh;			/* Ethernet: addressed by GID only */
	bool iwarp;			/* QPs are connected by rdma_cm only */
	bool imm_by_send;		/* no WRITE_WITH_IMM */
	uint64_t max_mr;		/* bytes */
};

struct verbs_pd {
	struct ibv_pd ib;
	struct ibv_pd *real;
};

struct verbs_channel {
	struct ibv_comp_channel ib;
	struct ibv_comp_channel *real;
};

struct verbs_cq {
	struct ibv_cq ib;
	struct ibv_cq *real;
	uint32_t reserved;		/* CQEs that its QPs may need at once, never above real->cqe */
	uint32_t next_id;
	uint32_t nbroken;		/* QPs in the error state: they may have flushes of ours */
	struct verbs_qp *qps[VERBS_MAX_QP];	/* by id modulo */
};

/* In the device's wr_id: a completion of a QP that is gone finds no one. */
#define WR_SEND		(1ull << 63)
static inline uint64_t wr_id_of(uint32_t qp_id, uint32_t index) { return (uint64_t)qp_id << 32 | index; }

struct verbs_swr {
	uint64_t wr_id;
	uint64_t imm;			/* WRITE_WITH_IMMs of the QP up to here */
	uint32_t byte_len;
	uint8_t opcode;			/* enum ibv_wc_opcode */
	bool told;			/* its poster asked for a completion */
};

/* What an immediate becomes on iWARP; the length makes the completion the same. */
struct imm_msg {
	uint32_t imm;			/* as in the work request */
	uint32_t byte_len;
};

/* Indices are free-running, sizes powers of two. */
struct verbs_qp {
	struct ibv_qp ib;
	struct ibv_qp *real;
	struct verbs_cq *cq;
	struct verbs_rnic *r;
	uint32_t id;			/* in cq->qps, 31 bits */
	uint32_t reserved;		/* of the CQ's entries */
	size_t bytes;			/* of this mapping */
	uint32_t psn;
	bool sig_all;
	bool connected;
	bool err;			/* atomic: nothing is posted any more */
	bool counted;			/* in cq->nbroken */
	uint64_t in_slab_len;
	uint64_t peer_base, peer_len;
	uint32_t peer_rkey;

	/* sending */
	struct lock sq_lock cacheline_aligned;
	uint32_t nparts;
	struct verbs_part {
		uint64_t off, len;
		uint32_t rkey;
	} parts[VERBS_PARTS];
	struct verbs_swr *sq;
	uint32_t sq_size, sq_max;	/* entries; those that the caller may have under way */
	uint32_t sq_tail;
	uint32_t sq_sig;		/* behind the last signalled one */
	uint64_t imm_posted;
	uint32_t sq_head;		/* poll */
	uint64_t imm_done;		/* poll */

	/* receiving */
	uint64_t *rq;			/* wr_ids */
	struct imm_msg *rq_msg;		/* imm_by_send: where SENDs land */
	struct ibv_mr *rq_mr;
	uint32_t rq_size, rq_max;
	uint32_t rq_tail cacheline_aligned;	/* post */
	uint32_t rq_real;		/* post: those given to the device, a prefix */
	uint32_t rq_head;		/* poll */
};

static inline struct verbs_rnic *to_vr(struct ibv_context *ctx)
{
	return container_of(ctx, struct verbs_rnic, ctx);
}
static inline struct verbs_pd *to_vpd(struct ibv_pd *pd) { return container_of(pd, struct verbs_pd, ib); }
static inline struct verbs_cq *to_vcq(struct ibv_cq *cq) { return container_of(cq, struct verbs_cq, ib); }
static inline struct verbs_qp *to_vqp(const struct ibv_qp *qp)
{
	return (struct verbs_qp *)((uintptr_t)qp - offsetof(struct verbs_qp, ib));
}

/* Known to be in the error state; the lock of polling is held. */
static inline void verbs_failed(struct verbs_qp *qp)
{
	st_rlx(&qp->err, true);
	if (!qp->counted) {
		qp->counted = true;
		qp->cq->nbroken++;
	}
}

/* What a call of libibverbs returned: an errno value, from some drivers a negative one. */
static inline int verbs_ret(int ret)
{
	return ret > 0 ? -ret : ret;
}

/* What a call of libibverbs that returned NULL meant. */
static inline int verbs_errno(void)
{
	return errno > 0 ? -errno : -ENOMEM;
}

/* verbs_qp.c */
struct ibv_qp *verbs_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int verbs_qp_export(struct ibv_qp *qp, const struct rnic_slab *slab, struct rnic_params *out);
int verbs_cm_export(struct ibv_qp *qp, const struct rnic_slab *slab, uint8_t out[RNIC_CM_BYTES]);
int verbs_qp_connect(struct ibv_qp *qp, const struct rnic_params *peer);
void *verbs_qp_peer_slab(struct ibv_qp *qp, size_t *len, uint32_t *rkey, uint64_t *base);
int verbs_qp_peer_part(struct ibv_qp *qp, size_t off, size_t len, uint32_t rkey);
int verbs_qp_peer_populate(struct ibv_qp *qp, size_t off, size_t len);
void verbs_qp_error(struct ibv_qp *qp);
bool verbs_qp_broken(const struct ibv_qp *qp);
void verbs_qp_free(struct ibv_qp *qp);
bool verbs_wr_taken(const struct ibv_qp *qp, uint64_t seq);

/* verbs_send.c */
int verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void verbs_mark(struct verbs_qp *qp);

/* verbs_poll.c */
int verbs_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc);
int verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif
