/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * verbs_qp.c - queue pairs of a verbs device: birth, connection, error, end
 *
 * Timeout 14 with 6 retries gives up 0.5 s after the last good answer; 7 would
 * be "for ever" on some devices.  RNR is retried for ever, since by our credits
 * it cannot happen but by a moment's misorder of the peer's.
 */
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/sys.h"
#include "rnic/shmem.h"
#include "rnic/verbs.h"

#define WIRE_MAGIC	0x53535631u	/* "SSV1": sidestep verbs */
#define WIRE_VERSION	1
#define WIRE_IMM_BY_SEND 1u

#define ACK_TIMEOUT	14		/* 4.096 us << 14 */
#define RETRIES		6
#define RNR_FOR_EVER	7
#define RNR_TIMER	12		/* 0.64 ms */

/* The bytes of struct rnic_params; little endian. */
struct wire {
	uint32_t magic;
	uint16_t version;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t flags;
	uint32_t qp_num;
	uint32_t psn;
	uint8_t gid[16];
	uint64_t slab_base;
	uint64_t slab_len;
	uint32_t rkey;
	uint16_t lid;
	uint16_t reserved;
};

/* What rdma_cm does not tell. */
struct wire_cm {
	uint64_t slab_base;
	uint32_t slab_pages;
	uint32_t rkey;
	uint8_t version;
	uint8_t flags;
} __attribute__((packed));

_Static_assert(sizeof(struct wire_cm) == RNIC_CM_BYTES, "no padding on the wire");
_Static_assert(sizeof(struct wire) == 56, "no padding on the wire");
_Static_assert(sizeof(struct wire) <= RNIC_PARAM_BYTES, "parameters fit");

static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* base 0: only how many bytes it takes. */
static size_t queues_layout(struct verbs_qp *qp, uintptr_t base)
{
	size_t off = (sizeof(*qp) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);

	qp->sq = (struct verbs_swr *)(base + off);
	off += qp->sq_size * sizeof(*qp->sq);
	qp->rq = (uint64_t *)(base + off);
	off += qp->rq_size * sizeof(*qp->rq);
	/* on pages of their own: they are registered */
	off = (off + SHMEM_PAGE - 1) & ~(size_t)(SHMEM_PAGE - 1);
	qp->rq_msg = (struct imm_msg *)(base + off);
	off += qp->r->imm_by_send ? qp->rq_size * sizeof(*qp->rq_msg) : 0;
	return (off + SHMEM_PAGE - 1) & ~(size_t)(SHMEM_PAGE - 1);
}

static bool attr_ok(const struct verbs_rnic *r, const struct ibv_qp_init_attr *a)
{
	return a->qp_type == IBV_QPT_RC && a->send_cq && a->send_cq == a->recv_cq && !a->srq &&
	       a->cap.max_send_wr && a->cap.max_send_wr <= r->rnic.max_send_wr &&
	       a->cap.max_recv_wr && a->cap.max_recv_wr <= r->rnic.max_recv_wr &&
	       a->cap.max_send_sge <= VERBS_MAX_SGE && a->cap.max_recv_sge <= 1 &&
	       a->cap.max_inline_data <= r->rnic.max_inline;
}

static struct verbs_qp *qp_alloc(struct verbs_rnic *r, const struct ibv_qp_cap *cap)
{
	uint32_t send = cap->max_send_wr * (1 + r->imm_by_send) + 1;
	struct verbs_qp probe = { .r = r, .sq_size = pow2_at_least(send),
				  .rq_size = pow2_at_least(cap->max_recv_wr) };
	size_t bytes = queues_layout(&probe, 0);
	struct verbs_qp *qp = pages_new(bytes);

	if (!qp)
		return NULL;
	/* or a child's copy-on-write would take the registered pages from us */
	sys3(SYS_madvise, qp, bytes, MADV_DONTFORK);
	qp->r = r;
	qp->bytes = bytes;
	qp->sq_size = probe.sq_size;
	qp->rq_size = probe.rq_size;
	qp->sq_max = send - 1;
	qp->rq_max = cap->max_recv_wr;
	qp->psn = (uint32_t)(clock_ticks() * 2654435761u) & 0xffffff;
	queues_layout(qp, (uintptr_t)qp);
	return qp;
}

static int cq_reserve(struct verbs_cq *cq, struct verbs_qp *qp)
{
	/* in the error state each request completes, signalled or not */
	uint32_t need = qp->sq_max + 1 + qp->rq_max, sum = cq->reserved + need;

	for (uint32_t tries = 0; cq->qps[cq->next_id % VERBS_MAX_QP]; tries++, cq->next_id++)
		if (tries == VERBS_MAX_QP)
			return -ENOSPC;
	if (sum > qp->r->rnic.max_cqe)
		return -ENOSPC;
	if (sum > (uint32_t)cq->real->cqe) {
		/* twice as large, or else as large as need be */
		uint32_t most = MIN(2 * sum, qp->r->rnic.max_cqe);
		int err = verbs->resize_cq(cq->real, (int)most);

		if (err && most > sum)
			err = verbs->resize_cq(cq->real, (int)sum);
		if (err)
			return verbs_ret(err);
	}
	cq->ib.cqe = cq->real->cqe;
	cq->reserved = sum;
	qp->reserved = need;
	qp->id = cq->next_id++ & 0x7fffffff;
	qp->cq = cq;
	cq->qps[qp->id % VERBS_MAX_QP] = qp;
	return 0;
}

static int real_new(struct verbs_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr real = {
		.qp_context = &qp->ib,
		.send_cq = qp->cq->real,
		.recv_cq = qp->cq->real,
		.cap = attr->cap,
		.qp_type = IBV_QPT_RC,
	};

	real.cap.max_send_wr = qp->sq_max + 1;
	if (qp->r->imm_by_send) {
		real.cap.max_recv_sge = 1;
		real.cap.max_inline_data = MAX(real.cap.max_inline_data,
					       (uint32_t)sizeof(struct imm_msg));
		qp->rq_mr = verbs->reg_mr(to_vpd(pd)->real, qp->rq_msg,
					  qp->rq_size * sizeof(*qp->rq_msg), IBV_ACCESS_LOCAL_WRITE);
		if (!qp->rq_mr)
			return verbs_errno();
	}
	qp->real = verbs->create_qp(to_vpd(pd)->real, &real);
	return qp->real ? 0 : verbs_errno();
}

static int to_init(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = qp->r->port,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;

	/* receives are posted before the connection */
	if (!qp->r->iwarp)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	return verbs_ret(verbs->modify_qp(qp->real, &attr, mask));
}

struct ibv_qp *verbs_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct verbs_rnic *r = to_vr(pd->context);
	struct verbs_qp *qp;

	if (!attr_ok(r, attr) || fault_device())
		return NULL;
	qp = qp_alloc(r, &attr->cap);
	if (!qp)
		return NULL;
	if (cq_reserve(to_vcq(attr->send_cq), qp) || real_new(qp, pd, attr) || to_init(qp)) {
		verbs_qp_free(&qp->ib);
		return NULL;
	}
	qp->sig_all = attr->sq_sig_all;
	qp->ib = (struct ibv_qp){ .context = pd->context, .qp_context = attr->qp_context,
				  .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
				  .qp_num = qp->real->qp_num, .state = IBV_QPS_INIT,
				  .qp_type = IBV_QPT_RC };
	return &qp->ib;
}

int verbs_qp_export(struct ibv_qp *ibqp, const struct rnic_slab *slab, struct rnic_params *out)
{
	struct verbs_qp *qp = to_vqp(ibqp);
	struct wire w = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .mtu = qp->r->mtu,
			  .flags = qp->r->imm_by_send ? WIRE_IMM_BY_SEND : 0,
			  .qp_num = ibqp->qp_num, .psn = qp->psn,
			  .slab_base = (uintptr_t)slab->addr, .slab_len = slab->len,
			  .rkey = slab->rkey, .lid = qp->r->lid };

	memcpy(w.gid, qp->r->gid.raw, sizeof(w.gid));
	memset(out, 0, sizeof(*out));
	if (fault_device())
		return -ENOMEM;
	memcpy(out->bytes, &w, sizeof(w));
	out->nbytes = sizeof(w);
	st_rlx(&qp->in_slab_len, slab->len);	/* a poll may be at it: see soft_qp_export() */
	return 0;
}

int verbs_cm_export(struct ibv_qp *ibqp, const struct rnic_slab *slab, uint8_t out[RNIC_CM_BYTES])
{
	struct verbs_qp *qp = to_vqp(ibqp);
	struct wire_cm w = { .slab_base = (uintptr_t)slab->addr,
			     .slab_pages = (uint32_t)(slab->len / SHMEM_PAGE), .rkey = slab->rkey,
			     .version = WIRE_VERSION,
			     .flags = qp->r->imm_by_send ? WIRE_IMM_BY_SEND : 0 };

	if (fault_device())
		return -ENOMEM;
	memcpy(out, &w, sizeof(w));
	st_rlx(&qp->in_slab_len, slab->len);	/* as in verbs_qp_export() */
	return 0;
}

static bool wire_ok(const struct verbs_qp *qp, const struct wire *w, const struct rnic_params *p)
{
	return p->nbytes == sizeof(*w) && p->nfds == 0 && w->magic == WIRE_MAGIC &&
	       w->version == WIRE_VERSION && w->mtu >= IBV_MTU_256 && w->mtu <= IBV_MTU_4096 &&
	       w->flags == (qp->r->imm_by_send ? WIRE_IMM_BY_SEND : 0) &&
	       w->qp_num <= 0xffffff && w->psn <= 0xffffff && w->slab_len &&
	       w->slab_len <= UINT64_MAX - w->slab_base;
}

static int to_rtr(struct verbs_qp *qp, const struct wire *w)
{
	enum ibv_mtu mtu = (enum ibv_mtu)MIN(w->mtu, qp->r->mtu);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = w->qp_num,
		.rq_psn = w->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = { .dlid = w->lid, .port_num = qp->r->port,
			     .is_global = qp->r->grh,
			     .grh = { .hop_limit = 64, .sgid_index = (uint8_t)qp->r->gid_index } },
	};

	memcpy(attr.ah_attr.grh.dgid.raw, w->gid, sizeof(w->gid));
	return verbs_ret(verbs->modify_qp(qp->real, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				 IBV_QP_MIN_RNR_TIMER));
}

static int to_rts(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = ACK_TIMEOUT,
				    .retry_cnt = RETRIES, .rnr_retry = RNR_FOR_EVER,
				    .sq_psn = qp->psn, .max_rd_atomic = 1 };

	return verbs_ret(verbs->modify_qp(qp->real, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
				 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC));
}

static int connect_by_bytes(struct verbs_qp *qp, const struct rnic_params *peer, struct wire *w)
{
	int err;

	memcpy(w, peer->bytes, sizeof(*w));
	if (!wire_ok(qp, w, peer))
		return -EPROTO;
	err = to_rtr(qp, w);
	return err ? err : to_rts(qp);
}

/* ------------------------------------------------- joined by rdma_cm -- */

static bool wire_cm_ok(const struct verbs_qp *qp, const struct wire_cm *w,
		       const struct rnic_params *p)
{
	return p->nbytes == sizeof(*w) && p->nfds == 0 && w->version == WIRE_VERSION &&
	       w->flags == (qp->r->imm_by_send ? WIRE_IMM_BY_SEND : 0) &&
	       w->slab_pages &&
	       (uint64_t)w->slab_pages * SHMEM_PAGE <= UINT64_MAX - w->slab_base;
}

/* rdma_cm knows the path; how long to try and what the peer may do is ours to say. */
static int cm_move(struct verbs_qp *qp, struct rdma_cm_id *id, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };
	int mask = 0;

	errno = 0;
	if (cm->init_qp_attr(id, &attr, &mask))
		return verbs_errno();
	if ((mask & IBV_QP_PORT && attr.port_num != qp->r->port) ||
	    (mask & IBV_QP_AV && attr.ah_attr.port_num != qp->r->port))
		return -EHOSTUNREACH;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	attr.min_rnr_timer = RNR_TIMER;
	attr.timeout = ACK_TIMEOUT;
	attr.retry_cnt = RETRIES;
	attr.rnr_retry = RNR_FOR_EVER;
	return verbs_ret(verbs->modify_qp(qp->real, &attr, mask));
}

static int connect_by_cm(struct verbs_qp *qp, const struct rnic_params *peer, struct wire *w)
{
	static const enum ibv_qp_state steps[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct wire_cm short_w;
	int err = 0;

	memcpy(&short_w, peer->bytes, sizeof(short_w));
	if (!wire_cm_ok(qp, &short_w, peer))
		return -EPROTO;
	/* iWARP's kernel moves it, in rdma_connect() and rdma_accept() */
	for (size_t i = 0; i < ARRAY_SIZE(steps) && !err && !qp->r->iwarp; i++)
		err = cm_move(qp, peer->cm, steps[i]);
	*w = (struct wire){ .slab_base = short_w.slab_base, .rkey = short_w.rkey,
			    .slab_len = (uint64_t)short_w.slab_pages * SHMEM_PAGE };
	return err;
}

static int connect_checked(struct verbs_qp *qp, const struct rnic_params *peer)
{
	struct wire w;
	int err = peer->cm ? connect_by_cm(qp, peer, &w) : connect_by_bytes(qp, peer, &w);

	if (err)
		return err;
	qp->peer_base = w.slab_base;
	qp->peer_len = w.slab_len;
	qp->peer_rkey = w.rkey;
	qp->connected = true;
	qp->ib.state = IBV_QPS_RTS;
	return 0;
}

int verbs_qp_connect(struct ibv_qp *ibqp, const struct rnic_params *peer)
{
	struct verbs_qp *qp = to_vqp(ibqp);
	int err;

	if (qp->connected || ld_rlx(&qp->err))
		err = -EISCONN;
	else if (fault_device())
		err = -ENOMEM;
	else if (qp->r->iwarp && !peer->cm)
		err = -EOPNOTSUPP;
	else
		err = connect_checked(qp, peer);
	if (err)
		log_info("rnic: qp 0x%x cannot connect: %d", ibqp->qp_num, err);
	/* there should be none: a peer's are not to pile up here */
	for (uint32_t i = 0; i < MIN(peer->nfds, (uint32_t)RNIC_PARAM_FDS); i++)
		sys_close(peer->fds[i]);
	return err;
}

int verbs_qp_peer_part(struct ibv_qp *ibqp, size_t off, size_t len, uint32_t rkey)
{
	struct verbs_qp *qp = to_vqp(ibqp);
	int err = 0;

	if (off > qp->peer_len || len > qp->peer_len - off)
		return -EPROTO;
	lock_take(&qp->sq_lock);
	if (qp->nparts < VERBS_PARTS)
		qp->parts[qp->nparts++] = (struct verbs_part){ off, len, rkey };
	else
		err = -ENOSPC;
	lock_drop(&qp->sq_lock);
	return err;
}

int verbs_qp_peer_populate(struct ibv_qp *ibqp, size_t off, size_t len)
{
	return -EOPNOTSUPP;
}

void *verbs_qp_peer_slab(struct ibv_qp *ibqp, size_t *len, uint32_t *rkey, uint64_t *base)
{
	struct verbs_qp *qp = to_vqp(ibqp);

	*len = qp->peer_len;
	*rkey = qp->peer_rkey;
	*base = qp->peer_base;
	return NULL;
}

void verbs_qp_error(struct ibv_qp *ibqp)
{
	struct verbs_qp *qp = to_vqp(ibqp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	verbs_failed(qp);
	if (qp->ib.state == IBV_QPS_ERR)
		return;
	qp->ib.state = IBV_QPS_ERR;
	verbs->modify_qp(qp->real, &attr, IBV_QP_STATE);
}

bool verbs_qp_broken(const struct ibv_qp *ibqp)
{
	return ld_rlx(&to_vqp(ibqp)->err);
}

static void cq_leave(struct verbs_qp *qp)
{
	qp->cq->qps[qp->id % VERBS_MAX_QP] = NULL;
	qp->cq->reserved -= qp->reserved;
	qp->cq->nbroken -= qp->counted;
}

/* A half-built one too. */
void verbs_qp_free(struct ibv_qp *ibqp)
{
	struct verbs_qp *qp;

	if (!ibqp)
		return;
	qp = to_vqp(ibqp);
	if (qp->real)
		verbs->destroy_qp(qp->real);
	if (qp->rq_mr)
		verbs->dereg_mr(qp->rq_mr);
	if (qp->cq)
		cq_leave(qp);
	pages_free(qp, qp->bytes);
}

bool verbs_wr_taken(const struct ibv_qp *ibqp, uint64_t seq)
{
	struct verbs_qp *qp = to_vqp(ibqp);

	/* pairs with send_done() */
	return ld_rlx(&qp->err) || seq <= ld_acq(&qp->imm_done);
}
