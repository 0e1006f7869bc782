/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * soft_qp.c - queue pairs of the software RNIC: birth, connection, error, end
 *
 * A QP is one private mapping (the struct and its queues) and one shared
 * lane.  Connecting adds the peer's lane, slab and event fd; they stay until
 * qp_free(), also when the peer is long dead.
 */
#include <fcntl.h>
#include <string.h>

#include "base/config.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "rnic/shmem.h"
#include "rnic/soft.h"

#define WIRE_MAGIC	0x53534c31u	/* "SSL1": sidestep lane */
#define WIRE_VERSION	1

enum { FD_LANE, FD_SLAB, FD_EVENT, FD_COUNT };

/* The bytes of struct rnic_params; both ends are on one host. */
struct wire {
	uint32_t magic;
	uint16_t version;
	uint16_t has_event;
	uint32_t qp_num;
	uint32_t lane_size;		/* CQEs */
	uint64_t slab_len;
	uint32_t rkey;
	uint32_t recv_depth;		/* receives posted so far: the lane holds at least as many */
};

_Static_assert(sizeof(struct wire) == 32, "no padding on the wire");
_Static_assert(sizeof(struct wire) <= RNIC_PARAM_BYTES, "parameters fit");
_Static_assert((int)FD_COUNT <= RNIC_PARAM_FDS, "descriptors fit");

const struct cqe soft_no_cqe;

static uint32_t last_qpn = 0x100;

static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = LANE_MIN;

	while (p < n)
		p <<= 1;
	return p;
}

/* base 0: only how many bytes it takes. */
static size_t queues_layout(struct soft_qp *qp, uintptr_t base)
{
	size_t off = (sizeof(*qp) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);

	qp->rq = (struct soft_rwr *)(base + off);
	off += qp->rq_size * sizeof(*qp->rq);
	qp->sq = (struct soft_swr *)(base + off);
	off += qp->sq_size * sizeof(*qp->sq);
	/* for the largest lane a peer may have; untouched pages cost nothing */
	qp->imm_index = (uint32_t *)(base + off);
	off += LANE_MAX * sizeof(*qp->imm_index);
	return (off + SHMEM_PAGE - 1) & ~(size_t)(SHMEM_PAGE - 1);
}

static struct soft_qp *qp_alloc(const struct ibv_qp_cap *cap)
{
	struct soft_qp probe = { .rq_size = pow2_at_least(cap->max_recv_wr),
				 .sq_size = pow2_at_least(cap->max_send_wr) };
	size_t bytes = queues_layout(&probe, 0);
	struct soft_qp *qp = pages_new(bytes);

	if (!qp)
		return NULL;
	qp->bytes = (uint32_t)bytes;
	qp->rq_size = probe.rq_size;
	qp->sq_size = probe.sq_size;
	qp->rq_max = cap->max_recv_wr;
	queues_layout(qp, (uintptr_t)qp);
	qp->in_fd = qp->peer_event = -1;
	return qp;
}

static bool attr_ok(const struct ibv_qp_init_attr *a)
{
	return a->qp_type == IBV_QPT_RC && a->send_cq && a->send_cq == a->recv_cq && !a->srq &&
	       a->cap.max_recv_wr <= LANE_MAX && a->cap.max_send_wr <= LANE_MAX &&
	       a->cap.max_send_sge <= SOFT_MAX_SGE && a->cap.max_recv_sge <= 1 &&
	       a->cap.max_inline_data <= SOFT_MAX_INLINE &&
	       to_cq(a->send_cq)->nslots < SOFT_MAX_QP;
}

struct ibv_qp *soft_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct soft_qp *qp;
	void *lane = NULL;

	if (!attr_ok(attr) || fault_device())
		return NULL;
	qp = qp_alloc(&attr->cap);
	if (!qp)
		return NULL;
	qp->in_size = qp->rq_size;
	qp->in_fd = shmem_new("sidestep-lane", lane_bytes(qp->in_size), &lane);
	if (qp->in_fd < 0 ||
	    sys4(SYS_fallocate, qp->in_fd, 0, 0, lane_bytes(qp->in_size)) < 0) {
		privfd_close(qp->in_fd);
		shmem_unmap(lane, lane_bytes(qp->in_size));
		pages_free(qp, qp->bytes);
		return NULL;
	}
	qp->in = lane;
	qp->cq = to_cq(attr->send_cq);
	qp->sig_all = attr->sq_sig_all;
	qp->ib = (struct ibv_qp){ .context = pd->context, .qp_context = attr->qp_context,
				  .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
				  .qp_num = add_rlx(&last_qpn, 1), .state = IBV_QPS_INIT,
				  .qp_type = IBV_QPT_RC };
	qp->slot = qp->cq->nslots++;
	qp_slot(qp)->qp = qp;
	slot_refresh(qp);
	attr->cap = (struct ibv_qp_cap){ .max_send_wr = qp->sq_size, .max_recv_wr = qp->rq_max,
					 .max_send_sge = SOFT_MAX_SGE, .max_recv_sge = 1,
					 .max_inline_data = SOFT_MAX_INLINE };
	return &qp->ib;
}

int soft_qp_wake_by(struct ibv_qp *ibqp, int sock)
{
	struct soft_qp *qp = to_qp(ibqp);
	int fd = privfd_dup(sock);

	if (fd < 0)
		return fd;
	qp->peer_event = fd;
	qp->by_socket = true;
	return 0;
}

int soft_qp_export(struct ibv_qp *ibqp, const struct rnic_slab *slab, struct rnic_params *out)
{
	struct soft_qp *qp = to_qp(ibqp);
	struct ibv_comp_channel *ch = qp->cq->ib.channel;
	const int from[FD_COUNT] = { qp->in_fd, slab->fd, ch ? ch->fd : -1 };
	bool event = ch && !qp->by_socket;
	struct wire w = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .has_event = event,
			  .qp_num = ibqp->qp_num, .lane_size = qp->in_size, .slab_len = slab->len,
			  .rkey = slab->rkey, .recv_depth = qp->rq_tail };

	memset(out, 0, sizeof(*out));
	if (fault_device())
		return -ENOMEM;
	memcpy(out->bytes, &w, sizeof(w));
	out->nbytes = sizeof(w);
	for (int i = 0; i < (event ? FD_COUNT : FD_EVENT); i++) {
		int fd = privfd_dup(from[i]);

		if (fd < 0) {
			while (i-- > 0)
				privfd_close(out->fds[i]);
			out->nfds = 0;
			return fd;
		}
		out->fds[out->nfds++] = fd;
	}
	/* a poll may be at it: no completion comes before the peer has this, or the peer lies */
	st_rlx(&qp->in_slab, slab->addr);
	st_rlx(&qp->in_slab_len, slab->len);
	return 0;
}

static bool wire_ok(const struct wire *w, const struct rnic_params *p)
{
	return p->nbytes == sizeof(*w) && w->magic == WIRE_MAGIC && w->version == WIRE_VERSION &&
	       w->has_event <= 1 && p->nfds == 2u + w->has_event &&
	       w->lane_size >= LANE_MIN && w->lane_size <= LANE_MAX &&
	       (w->lane_size & (w->lane_size - 1)) == 0 && w->recv_depth <= w->lane_size &&
	       w->slab_len && w->slab_len <= SOFT_MAX_SLAB && w->slab_len % SHMEM_PAGE == 0;
}

/*
 * A write to it must not block us: an eventfd, nonblocking.  The peer can change
 * that later, and hang whoever writes or reads; so only the same user's is taken,
 * who could kill us as well.  See soft_qp_wake_by().
 */
static bool event_ok(int fd)
{
	static const char want[] = "anon_inode:[eventfd]";
	char path[] = "/proc/thread-self/fd/0000000000", link[32];
	char *p = path + sizeof("/proc/thread-self/fd/") - 1;
	char digits[12];
	int n = 0, fl = sys_fcntl(fd, F_GETFL, 0);
	long len;

	if (fl < 0 || !(fl & O_NONBLOCK) || (fl & O_ACCMODE) != O_RDWR)
		return false;
	for (int v = fd; v || !n; v /= 10)
		digits[n++] = (char)('0' + v % 10);
	while (n)
		*p++ = digits[--n];
	*p = 0;
	len = sys4(SYS_readlinkat, AT_FDCWD, path, link, sizeof(link));
	/* no /proc here (chroot, sandbox): the flags must do */
	return len < 0 ||
	       (len == sizeof(want) - 1 && memcmp(link, want, sizeof(want) - 1) == 0);
}

static int map_peer(struct soft_qp *qp, const struct wire *w, const int *fds)
{
	void *lane = NULL, *slab = NULL;
	int err = shmem_map_peer(fds[FD_LANE], lane_bytes(w->lane_size), &lane);

	if (err)
		return err;
	err = shmem_map_peer(fds[FD_SLAB], w->slab_len, &slab);
	if (err) {
		shmem_unmap(lane, lane_bytes(w->lane_size));
		return err;
	}
	qp->out = lane;
	qp->peer = slab;
	return 0;
}

static int connect_checked(struct soft_qp *qp, const struct wire *w, const int *fds)
{
	int event = -1, err;

	if (w->has_event) {
		if (qp->by_socket || !event_ok(fds[FD_EVENT]))
			return -EPROTO;
		event = privfd_dup(fds[FD_EVENT]);
		if (event < 0)
			return event;
	}
	err = map_peer(qp, w, fds);
	if (err) {
		privfd_close(event);
		return err;
	}
	qp->out_size = qp->imm_size = w->lane_size;
	qp->peer_len = w->slab_len;
	qp->peer_rkey = w->rkey;
	qp->peer_qpn = w->qp_num;
	if (!qp->by_socket)
		qp->peer_event = event;
	qp->connected = true;
	qp->ib.state = IBV_QPS_RTS;
	/* the event of what waits here may have been taken for nothing */
	if (qp->cq->ib.channel && lane_peek(qp))
		soft_kick(qp->cq->ib.channel->fd);
	return 0;
}

static void fd_drop(int fd)
{
	if (privfd_is(fd))
		privfd_close(fd);
	else if (fd >= 0)
		sys_close(fd);
}

int soft_qp_connect(struct ibv_qp *ibqp, const struct rnic_params *peer)
{
	struct soft_qp *qp = to_qp(ibqp);
	uint32_t nfds = MIN(peer->nfds, (uint32_t)RNIC_PARAM_FDS);
	struct wire w;
	int err;

	memcpy(&w, peer->bytes, sizeof(w));
	if (qp->connected || qp->err)
		err = -EISCONN;
	else if (fault_device())
		err = -ENOMEM;
	else if (!wire_ok(&w, peer))
		err = -EPROTO;
	else
		err = connect_checked(qp, &w, peer->fds);
	if (err)
		log_info("rnic: qp 0x%x cannot connect: %d", ibqp->qp_num, err);
	for (uint32_t i = 0; i < nfds; i++)
		fd_drop(peer->fds[i]);
	return err;
}

void *soft_qp_peer_slab(struct ibv_qp *ibqp, size_t *len, uint32_t *rkey, uint64_t *base)
{
	struct soft_qp *qp = to_qp(ibqp);

	*len = qp->peer_len;
	*rkey = qp->peer_rkey;
	*base = 0;
	return config.fault.far ? NULL : qp->peer;
}

/* It is mapped whole, and has one key. */
int soft_qp_peer_part(struct ibv_qp *ibqp, size_t off, size_t len, uint32_t rkey)
{
	const struct soft_qp *qp = to_qp(ibqp);

	return off > qp->peer_len || len > qp->peer_len - off || rkey != qp->peer_rkey ? -EPROTO : 0;
}

int soft_qp_peer_populate(struct ibv_qp *ibqp, size_t off, size_t len)
{
	struct soft_qp *qp = to_qp(ibqp);

	if (fault_device())
		return -ENOMEM;
	if (off > qp->peer_len || len > qp->peer_len - off)
		return -EINVAL;
	return sys_populate(qp->peer + off, len);
}

bool soft_out_head(struct soft_qp *qp)
{
	/* pairs with lane_publish_head(): the consumer is done with what is below */
	uint32_t head = ld_acq(&qp->out->head);

	if (unlikely(head - qp->out_head > qp->out_tail - qp->out_head)) {
		log_error("rnic: qp 0x%x: impossible consumer index, link dropped", qp->ib.qp_num);
		soft_qp_fail(qp, false);
		return false;
	}
	qp->out_head = head;
	return true;
}

/* The peer learns by CQE_ERROR or, if its lane is full, by the flag when it
 * has taken something. */
static void error_tell_peer(struct soft_qp *qp)
{
	uint32_t head = ld_acq(&qp->out->head);		/* pairs with lane_publish_head() */
	struct cqe *c = &qp->out->cqe[qp->out_tail & (qp->out_size - 1)];

	if (qp->out_tail - head < qp->out_size) {
		st_rlx(&c->op, CQE_ERROR);
		st_rlx(&c->byte_len, 0);
		/* pairs with lane_take(): the fields above */
		st_rel(&c->seq, qp->out_tail + 1);
	}
	if (qp->peer_event >= 0)
		soft_wake_peer(qp);
}

void soft_qp_fail(struct soft_qp *qp, bool trust_lane)
{
	struct ibv_comp_channel *ch = qp->cq->ib.channel;

	if (!trust_lane)
		qp->lane_done = true;
	if (!qp->err) {
		qp->err = true;
		qp->ib.state = IBV_QPS_ERR;
		qp->drain_left = qp->in_size;
		/* pairs with post_one(): nobody takes what is posted from now on */
		st_rel(&qp->in->rx_error, 1);
		if (qp->connected) {
			/* pairs with lane_take(): all that was published is there */
			st_rel(&qp->out->tx_error, 1);
			fence_full();
			error_tell_peer(qp);
		}
		if (ch)
			soft_kick(ch->fd);
	}
	slot_refresh(qp);
}

void soft_qp_error(struct ibv_qp *ibqp)
{
	soft_qp_fail(to_qp(ibqp), true);
}

bool soft_qp_broken(const struct ibv_qp *ibqp)
{
	const struct soft_qp *qp = container_of(ibqp, const struct soft_qp, ib);

	/* pairs with soft_qp_fail() of the peer */
	return qp->err || ld_acq(&qp->in->tx_error) ||
	       (qp->connected && ld_acq(&qp->out->rx_error));
}

static void slot_remove(struct soft_qp *qp)
{
	struct soft_cq *cq = qp->cq;
	struct soft_slot *last = &cq->slots[--cq->nslots];

	*qp_slot(qp) = *last;
	last->qp->slot = qp->slot;
	if (cq->first >= cq->nslots)
		cq->first = 0;
}

void soft_qp_free(struct ibv_qp *ibqp)
{
	struct soft_qp *qp;

	if (!ibqp)
		return;
	qp = to_qp(ibqp);
	soft_qp_fail(qp, false);
	slot_remove(qp);
	privfd_close(qp->in_fd);
	privfd_close(qp->peer_event);
	shmem_unmap(qp->in, lane_bytes(qp->in_size));
	shmem_unmap(qp->out, lane_bytes(qp->out_size));
	shmem_unmap(qp->peer, qp->peer_len);
	pages_free(qp, qp->bytes);
}
