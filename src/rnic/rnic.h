/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic.h - the device contract: what a link needs of an RNIC
 *
 * Data path: ibv_post_send, ibv_post_recv, ibv_poll_cq and ibv_req_notify_cq,
 * the inline calls of <infiniband/verbs.h>, through context->ops.  The software
 * device fills in a struct ibv_context of its own; a verbs device has
 * libibverbs'.  Control path: the table below.  Nothing above this header may
 * ask which device it runs on; it asks the capabilities in struct rnic.
 *
 * Locking: a CQ, its QPs and their posting are serialised by the caller (one
 * engine lock); different CQs are independent.  No call blocks.  qp_export,
 * slab_* and params are the caller's to serialise per object.
 *
 * What both devices promise: completions of one QP come in order; receives are
 * used up in the order they were posted; a WRITE_WITH_IMM or SEND takes one
 * receive and waits at the receiver while none is posted; payload and all
 * earlier writes of the QP are visible before its completion is.  post_send
 * returns 0 or an errno value with *bad_wr set, and what precedes *bad_wr is
 * posted: ENOMEM (queue or lane full: poll, try again), EINVAL, EOPNOTSUPP;
 * on a broken QP EIO (soft) or 0 and a flushed completion (verbs).
 */
#ifndef RNIC_RNIC_H
#define RNIC_RNIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rnic_ops;

struct rnic {
	const struct rnic_ops *ops;
	struct ibv_context *ctx;
	const char *name;		/* "soft", or the verbs device's */
	bool shared;			/* the peer's slab is mapped here: a transmit ring may alias it */
	uint32_t max_inline;		/* bytes ibv_post_send takes with IBV_SEND_INLINE */
	uint32_t max_send_bytes;	/* of one IBV_WR_SEND or SEND_WITH_IMM */
	uint32_t max_recv_wr;		/* limits for create_qp */
	uint32_t max_send_wr;
	uint32_t max_cqe;
};

/* Memory that a peer may write into, by rkey: sealed memfd (soft) or anonymous (verbs). */
struct rnic_slab {
	void *addr;
	size_t len;			/* bytes, a multiple of the page size */
	uint32_t lkey, rkey;
	struct ibv_mr *mr;
	int fd;				/* soft: the memfd, a private fd; else -1 */
};

/* What one end of a QP tells the other: bytes and descriptors. */
#define RNIC_PARAM_BYTES 128
#define RNIC_PARAM_FDS	 4

struct rnic_params {
	uint32_t nbytes, nfds;
	uint8_t bytes[RNIC_PARAM_BYTES];
	int fds[RNIC_PARAM_FDS];
};

/*
 * All calls return 0 or -errno unless said otherwise.  Destructors take NULL.
 * Each failure leaves nothing behind.
 */
struct rnic_ops {
	const char *name;

	int (*open)(struct rnic **r, const char *device);
	void (*close)(struct rnic *r);

	struct ibv_pd *(*pd_new)(struct rnic *r);
	void (*pd_free)(struct ibv_pd *pd);

	/* Sparse on soft: pages come with the first touch, or with slab_populate(). */
	int (*slab_new)(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab);
	/* Make [off, off+len) usable without SIGBUS: -ENOMEM/-ENOSPC otherwise. */
	int (*slab_populate)(struct rnic_slab *slab, size_t off, size_t len);
	void (*slab_free)(struct rnic_slab *slab);

	/* channel->fd is the descriptor to sleep on (nonblocking, private). */
	struct ibv_comp_channel *(*channel_new)(struct rnic *r);
	void (*channel_free)(struct ibv_comp_channel *ch);
	/* Take all pending events off the channel (a read of the eventfd, or get and ack). */
	void (*channel_drain)(struct ibv_comp_channel *ch);

	struct ibv_cq *(*cq_new)(struct rnic *r, int cqe, struct ibv_comp_channel *ch);
	void (*cq_free)(struct ibv_cq *cq);

	/* RC, send_cq == recv_cq. attr->cap is updated to what was granted. */
	struct ibv_qp *(*qp_new)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	/* What the peer needs; slab: the memory it will write into. Descriptors in
	 * out are duplicates that the caller closes (soft), nfds 0 otherwise. */
	int (*qp_export)(struct ibv_qp *qp, const struct rnic_slab *slab, struct rnic_params *out);
	/* Connect to the peer's end. Checks everything a hostile peer could get
	 * wrong (sizes, seals, versions): -EPROTO. Takes the descriptors over. */
	int (*qp_connect)(struct ibv_qp *qp, const struct rnic_params *peer);
	/*
	 * The peer's slab, once connected: its length, its rkey, and *base, the
	 * wr.rdma.remote_addr of its first byte (byte off of it is *base + off;
	 * soft: *base is 0, an offset is an address).  Return: where a shared
	 * device has it mapped here, NULL on others.
	 */
	void *(*qp_peer_slab)(struct ibv_qp *qp, size_t *len, uint32_t *rkey, uint64_t *base);
	/* Move to the error state: both ends see flushed completions
	 * (IBV_WC_WR_FLUSH_ERR) after whatever was published before, also when the
	 * peer is dead; both channels get an event. */
	void (*qp_error)(struct ibv_qp *qp);
	/* In the error state here, or the peer says it is there. */
	bool (*qp_broken)(const struct ibv_qp *qp);
	/* An error for the peer; unmaps its slab.  Before cq_free() and slab_free(). */
	void (*qp_free)(struct ibv_qp *qp);

	/*
	 * Has the peer taken the completion that the seq-th WRITE_WITH_IMM of this
	 * QP (counted from 1) raised at its side?  Lets a sender append instead of
	 * posting while one is under way.  soft: reads the lane's consumer index,
	 * after a full fence of the caller's.  true on a broken QP: a new post
	 * then says so.  May be asked without the lock that serialises posting.
	 */
	bool (*wr_taken)(const struct ibv_qp *qp, uint64_t seq);
};

extern const struct rnic_ops rnic_soft_ops;

#endif
