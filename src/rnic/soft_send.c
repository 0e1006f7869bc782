/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * soft_send.c - posting work requests on the software RNIC
 *
 * A write is a copy into the peer's slab, done when post_send returns; a CQE
 * published after it tells the peer.  The order of publication is in lane.h.
 */
#include <string.h>

#include "base/config.h"
#include "base/copy.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/probe.h"
#include "base/sys.h"
#include "rnic/soft.h"

/* What a work request is to do, after all checks. */
struct post {
	uint8_t *dst;			/* in the peer's slab, or NULL: in the CQE */
	uint32_t bytes;
	enum cqe_op op;			/* 0: no CQE */
};

static int gather_len(const struct ibv_send_wr *wr, uint32_t *bytes)
{
	uint64_t sum = 0;

	if (unlikely(wr->num_sge < 0 || wr->num_sge > SOFT_MAX_SGE))
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	if (unlikely(sum > INT32_MAX))
		return EINVAL;
	if (unlikely((wr->send_flags & IBV_SEND_INLINE) && sum > SOFT_MAX_INLINE))
		return EINVAL;
	*bytes = (uint32_t)sum;
	return 0;
}

static int target_check(const struct soft_qp *qp, const struct ibv_send_wr *wr, struct post *p)
{
	uint64_t off = wr->wr.rdma.remote_addr;

	if (!p->bytes)
		return 0;
	if (unlikely(wr->wr.rdma.rkey != qp->peer_rkey))
		return EINVAL;
	if (unlikely(off > qp->peer_len || p->bytes > qp->peer_len - off))
		return EINVAL;
	p->dst = qp->peer + off;
	return 0;
}

static int post_plan(const struct soft_qp *qp, const struct ibv_send_wr *wr, struct post *p)
{
	int err = gather_len(wr, &p->bytes);

	if (unlikely(err))
		return err;
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (unlikely(config.fault.no_write_imm))
			return EOPNOTSUPP;
		p->op = CQE_WRITE_IMM;
		return target_check(qp, wr, p);
	case IBV_WR_RDMA_WRITE:
		return target_check(qp, wr, p);
	case IBV_WR_SEND:
		p->op = CQE_SEND;
		break;
	case IBV_WR_SEND_WITH_IMM:
		p->op = CQE_SEND_IMM;
		break;
	default:
		return EOPNOTSUPP;
	}
	return p->bytes > LANE_CQE_DATA ? EINVAL : 0;
}

static void gather_copy(uint8_t *dst, const struct ibv_send_wr *wr)
{
	for (int i = 0; i < wr->num_sge; i++) {
		const void *src = (const void *)(uintptr_t)wr->sg_list[i].addr;
		uint32_t n = wr->sg_list[i].length;

		/* the upper layer's transmit ring may be the mapped slab itself */
		if ((uintptr_t)dst - (uintptr_t)src < n || (uintptr_t)src - (uintptr_t)dst < n)
			memmove(dst, src, n);
		else if (n)
			copy_bytes(dst, src, n);
		dst += n;
	}
}

static int lane_room(struct soft_qp *qp)
{
	if (likely(qp->out_tail - qp->out_head < qp->out_size))
		return 0;
	if (!soft_out_head(qp))
		return EIO;
	if (qp->out_tail - qp->out_head < qp->out_size)
		return 0;
	/* pairs with soft_qp_fail() of the peer */
	return ld_acq(&qp->out->rx_error) ? EIO : ENOMEM;
}

/*
 * The count first: who reads an index that belongs to a later number sees in
 * the count, read after it, that its own place has been used again.
 */
static void imm_note(struct soft_qp *qp)
{
	uint64_t n = qp->imm_posted;

	st_rlx(&qp->imm_posted, n + 1);
	/* pairs with soft_wr_taken(): the count before the index */
	st_rel(&qp->imm_index[n & (qp->imm_size - 1)], qp->out_tail);
}

static void lane_publish(struct soft_qp *qp, const struct ibv_send_wr *wr, const struct post *p)
{
	struct cqe *c = &qp->out->cqe[qp->out_tail & (qp->out_size - 1)];

	if (p->op == CQE_WRITE_IMM) {
		st_rlx(&c->off, wr->wr.rdma.remote_addr);
		imm_note(qp);
	} else {
		gather_copy(c->data, wr);
	}
	st_rlx(&c->imm, wr->imm_data);
	st_rlx(&c->byte_len, p->bytes);
	st_rlx(&c->op, (uint32_t)p->op);
	/* pairs with lane_take(): the fields above and the payload in the slab */
	st_rel(&c->seq, ++qp->out_tail);
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
}

/* Once the CQE is out: its index is out_tail - 1. */
static void sq_push(struct soft_qp *qp, const struct ibv_send_wr *wr, const struct post *p)
{
	struct soft_swr *s = &qp->sq[qp->sq_tail++ & (qp->sq_size - 1)];

	s->wr_id = wr->wr_id;
	s->index = qp->out_tail - 1;
	s->byte_len = p->bytes;
	s->opcode = wc_opcode(wr->opcode);
	s->at_once = p->op == 0;
	qp_slot(qp)->busy = 1;
}

/* Return: 0 or an errno value, with nothing done. */
static int post_one(struct soft_qp *qp, const struct ibv_send_wr *wr, bool signaled)
{
	struct post p = { .op = 0 };
	int err = post_plan(qp, wr, &p);

	if (unlikely(err))
		return err;
	if (unlikely(signaled && qp->sq_tail - qp->sq_head == qp->sq_size))
		return ENOMEM;
	if (p.op) {
		err = lane_room(qp);
		if (unlikely(err))
			return err;
	}
	if (p.dst)
		gather_copy(p.dst, wr);
	if (p.op)
		lane_publish(qp, wr, &p);
	if (signaled)
		sq_push(qp, wr, &p);
	return 0;
}

/* Wake the peer if it sleeps, or is about to. */
static void doorbell(struct soft_qp *qp)
{
	if (qp->peer_event < 0)
		return;
	/* pairs with the fence in soft_req_notify_cq(): it sees our CQE, or we its flag */
	fence_full();
	if (unlikely(ld_rlx(&qp->out->armed_rx)) && xchg_acqrel(&qp->out->armed_rx, 0))
		soft_wake_peer(qp);
}

/* Somebody sleeps on our own CQ: what was just posted must wake him when done. */
static void sq_arm(struct soft_qp *qp)
{
	st_rlx(&qp->out->armed_tx, 1);
	/* pairs with the fence before took_finish(): it sees the flag, or we its head */
	fence_full();
	if (!soft_out_head(qp) || swr_done(qp, &qp->sq[qp->sq_head & (qp->sq_size - 1)])) {
		qp->cq->armed = false;
		soft_kick(qp->ib.recv_cq->channel->fd);
	}
}

int soft_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct soft_qp *qp = to_qp(ibqp);
	uint32_t posted = 0, signaled = 0, tail = qp->out_tail;
	int err = fault_device() ? ENOMEM : 0;

	if (unlikely(err))
		*bad = wr;
	for (; wr && !err; wr = wr->next, posted++) {
		bool sig = qp->sig_all || (wr->send_flags & IBV_SEND_SIGNALED);

		if (unlikely(!qp->connected || qp->err))
			err = qp->err ? EIO : EINVAL;
		else
			err = post_one(qp, wr, sig);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		signaled += sig;
	}
	probe_2(post, ibqp->qp_num, posted);	/* here: further down it costs more than its nop */
	if (qp->out_tail != tail)
		doorbell(qp);
	count(CNT_wr_posted, posted);
	count(CNT_doorbells, 1);
	if (signaled) {
		if (unlikely(qp->cq->armed))
			sq_arm(qp);
		count(CNT_wr_signaled, signaled);
	}
	return err;
}

int soft_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct soft_qp *qp = to_qp(ibqp);
	int err = fault_device() ? ENOMEM : 0;

	if (unlikely(err))
		*bad = wr;
	for (; wr && !err; wr = wr->next) {
		struct soft_rwr *r = &qp->rq[qp->rq_tail & (qp->rq_size - 1)];

		err = wr->num_sge < 0 || wr->num_sge > 1 ? EINVAL :
		      qp->rq_tail - qp->rq_head >= qp->rq_max ? ENOMEM : 0;
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		r->wr_id = wr->wr_id;
		r->addr = wr->num_sge ? (void *)(uintptr_t)wr->sg_list[0].addr : NULL;
		r->len = wr->num_sge ? wr->sg_list[0].length : 0;
		qp->rq_tail++;
	}
	if (unlikely(qp->err))
		slot_refresh(qp);
	/* a CQE that waited for a receive, or a flush, is a completion now */
	if (unlikely(qp->cq->armed) && (qp->err || lane_peek(qp))) {
		qp->cq->armed = false;
		soft_kick(ibqp->recv_cq->channel->fd);
	}
	return err;
}

bool soft_wr_taken(const struct ibv_qp *ibqp, uint64_t seq)
{
	struct soft_qp *qp = to_qp((struct ibv_qp *)(uintptr_t)ibqp);
	/* pairs with lane_publish_head(): the consumer is done with what is below.
	 * Not checked: a lie is the liar's loss, and a post looks again. */
	uint32_t head = ld_acq(&qp->out->head);
	uint32_t index = ld_acq(&qp->imm_index[(seq - 1) & (qp->imm_size - 1)]);
	/* pairs with lane_publish(): an index that was replaced shows in the count */
	uint64_t posted = ld_acq(&qp->imm_posted);

	if (seq > posted)
		return false;
	/* its place in the lane has been used again */
	if (ld_rlx(&qp->err) || posted - seq >= qp->imm_size)
		return true;
	return (int32_t)(head - index) > 0;
}
