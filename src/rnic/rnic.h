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
 * receive and waits at the receiver while none is posted (iWARP: it breaks the
 * QP); payload and all earlier writes of the QP are visible before its completion
 * is.  post_send returns 0 or an errno value with *bad_wr set, and what precedes
 * *bad_wr is posted: ENOMEM (queue or lane full: poll, try again), EINVAL,
 * EOPNOTSUPP; on a QP known to be broken EIO.  A request that was not signalled
 * raises no completion, flushed neither.  A CQ that is armed for solicited
 * completions only raises an event for a request with IBV_SEND_SOLICITED and for a
 * receive that is flushed; soft and iWARP: for all that it would raise one for
 * otherwise.  A source that is not inline lies in a slab of the same PD (soft:
 * anywhere).
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
	bool hardware;			/* libibverbs': how it is counted and shown */
	bool cm_only;			/* iWARP: rdma_cm alone joins QPs, at ports of TCP's, and
					 * who has accepted sends nothing before the other has */
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

/* A piece of a slab that is registered by itself. */
struct rnic_part {
	size_t off, len;		/* in the slab */
	uint32_t lkey, rkey;
	struct ibv_mr *mr;
};

/* News of the device itself, by ctx->async_fd (-1: it has none). */
enum rnic_event_kind {
	RNIC_EVENT_QP,			/* qp is broken */
	RNIC_EVENT_CQ,			/* completions are lost: all its QPs are to be given up */
	RNIC_EVENT_GONE,		/* the device is: likewise */
	RNIC_EVENT_PORT_DOWN,		/* what is under way may still arrive, or time out */
	RNIC_EVENT_PORT_UP,
	RNIC_EVENT_OTHER,
};

struct rnic_event {
	enum rnic_event_kind kind;
	struct ibv_qp *qp;		/* RNIC_EVENT_QP: valid until its qp_free() */
};

struct rdma_cm_id;

/*
 * What one end of a QP tells the other: bytes and descriptors.  Where a connection
 * of rdma_cm joins them (cm), that tells all but where the slab is, and the bytes
 * are the RNIC_CM_BYTES of cm_export().
 */
#define RNIC_PARAM_BYTES 128
#define RNIC_PARAM_FDS	 4
#define RNIC_CM_BYTES	 18

struct rnic_params {
	uint32_t nbytes, nfds;
	uint8_t bytes[RNIC_PARAM_BYTES];
	int fds[RNIC_PARAM_FDS];
	struct rdma_cm_id *cm;
};

/*
 * All calls return 0 or -errno unless said otherwise.  Destructors take NULL.
 * Each failure leaves nothing behind.
 */
struct rnic_ops {
	const char *name;

	int (*open)(struct rnic **r, const char *device);
	void (*close)(struct rnic *r);
	/* When ctx->async_fd is readable.  -EAGAIN: nothing more; any other error
	 * comes with RNIC_EVENT_GONE.  Not called where there is no such fd. */
	int (*event_take)(struct rnic *r, struct rnic_event *ev);

	struct ibv_pd *(*pd_new)(struct rnic *r);
	void (*pd_free)(struct ibv_pd *pd);

	/* Sparse on soft: pages come with the first touch, or with slab_populate(). */
	int (*slab_new)(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab);
	/* Memory to send from, which no peer can reach.  Not called where r->shared:
	 * sending needs no registration there. */
	int (*source_new)(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab);
	/*
	 * Where nothing is shared, memory may come in parts, each registered when
	 * it is needed, for the peer to write into or only to send from.  Until
	 * then there are addresses only.  The keys of a part at offset 0 become
	 * the slab's, which qp_export() tells.  All parts go before the slab.
	 */
	int (*slab_reserve)(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab);
	int (*part_new)(struct ibv_pd *pd, struct rnic_slab *slab, size_t off, size_t len,
			bool remote, struct rnic_part *part);
	void (*part_free)(struct rnic_part *part);
	/* Make [off, off+len) usable without SIGBUS: -ENOMEM/-ENOSPC otherwise. */
	int (*slab_populate)(struct rnic_slab *slab, size_t off, size_t len);
	/* Nobody needs what is in [off, off+len): its memory may go. */
	void (*slab_trim)(struct rnic_slab *slab, size_t off, size_t len);
	void (*slab_free)(struct rnic_slab *slab);

	/* channel->fd is the descriptor to sleep on (nonblocking, private). */
	struct ibv_comp_channel *(*channel_new)(struct rnic *r);
	void (*channel_free)(struct ibv_comp_channel *ch);
	/* Take the event of an arming off the channel (a read of the eventfd, or get
	 * and ack).  An event need not mean a completion of the caller's. */
	void (*channel_drain)(struct ibv_comp_channel *ch);

	struct ibv_cq *(*cq_new)(struct rnic *r, int cqe, struct ibv_comp_channel *ch);
	void (*cq_free)(struct ibv_cq *cq);

	/* RC, send_cq == recv_cq.  attr->cap is updated to what was granted.  The
	 * CQ has room for all that the QP can raise at once, or grows, or there is
	 * no QP: it never overflows. */
	struct ibv_qp *(*qp_new)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	/*
	 * Before export and connect: the peer is another user's, so the two share
	 * no event descriptor; each wakes the other by a byte on this connected Unix
	 * socket, whose end to sleep on is the caller's.  NULL: a device needs none.
	 */
	int (*qp_wake_by)(struct ibv_qp *qp, int sock);
	/* What the peer needs; slab: the memory it will write into. Descriptors in
	 * out are duplicates that the caller closes (soft), nfds 0 otherwise. */
	int (*qp_export)(struct ibv_qp *qp, const struct rnic_slab *slab, struct rnic_params *out);
	/* The same for a peer that rdma_cm tells the rest.  NULL where it knows no such device. */
	int (*cm_export)(struct ibv_qp *qp, const struct rnic_slab *slab,
			 uint8_t out[RNIC_CM_BYTES]);
	/* Connect to the peer's end; nothing is delivered before.  Checks everything
	 * a hostile peer could get wrong (sizes, seals, versions): -EPROTO.  Takes
	 * the descriptors over. */
	int (*qp_connect)(struct ibv_qp *qp, const struct rnic_params *peer);
	/*
	 * The peer's slab, once connected: its length, its rkey, and *base, the
	 * wr.rdma.remote_addr of its first byte (byte off of it is *base + off;
	 * soft: *base is 0, an offset is an address).  Return: where a shared
	 * device has it mapped here, NULL on others.
	 */
	void *(*qp_peer_slab)(struct ibv_qp *qp, size_t *len, uint32_t *rkey, uint64_t *base);
	/* The peer has registered another part of its slab, says the peer: writes
	 * to it are taken from now on.  -EPROTO: that cannot be; -ENOSPC. */
	int (*qp_peer_part)(struct ibv_qp *qp, size_t off, size_t len, uint32_t rkey);
	/* As slab_populate(), of the peer's slab where it is mapped here; any thread.
	 * -EOPNOTSUPP elsewhere, -EINVAL on kernels before 5.14. */
	int (*qp_peer_populate)(struct ibv_qp *qp, size_t off, size_t len);
	/*
	 * Move to the error state: after whatever was published before come
	 * flushed completions (IBV_WC_WR_FLUSH_ERR), also when the peer is dead,
	 * and an event if any.  soft: both ends, at once.  verbs: this end, soon;
	 * the peer finds out when it sends.
	 */
	void (*qp_error)(struct ibv_qp *qp);
	/* In the error state here, or the peer says it is there. */
	bool (*qp_broken)(const struct ibv_qp *qp);
	/* An error for the peer; unmaps its slab.  Before cq_free() and slab_free(). */
	void (*qp_free)(struct ibv_qp *qp);

	/*
	 * Has the peer taken the completion that the seq-th WRITE_WITH_IMM of this
	 * QP (counted from 1) raised at its side?  Lets a sender append instead of
	 * posting while one is under way.  soft: reads the lane's consumer index,
	 * after a full fence of the caller's.  verbs: the peer's device has, iWARP:
	 * this host's TCP; known here once this CQ was polled.  true on a broken QP:
	 * a new post then says so.  May be asked without the lock that serialises posting.
	 */
	bool (*wr_taken)(const struct ibv_qp *qp, uint64_t seq);
};

extern const struct rnic_ops rnic_soft_ops;
extern const struct rnic_ops rnic_verbs_ops;	/* where built: HAVE_VERBS */

#endif
