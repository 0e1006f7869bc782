/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * soft_poll.c - polling and arming completion queues of the software RNIC
 *
 * A CQ has no memory of its own: polling it visits the lanes of its QPs.  An
 * idle QP costs one look at the seq word of its next CQE.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/probe.h"
#include "base/sys.h"
#include "rnic/soft.h"

void soft_kick(int fd)
{
	const uint64_t one = 1;

	/* EAGAIN: saturated, so the sleeper has been told */
	if (fd >= 0)
		sys_write(fd, &one, sizeof(one));
}

/* Out of line: compilers take a probe for long, and would not inline its caller. */
__attribute__((noinline, cold)) void soft_wake_peer(const struct soft_qp *qp)
{
	/* EAGAIN: it is full, so the peer has been told */
	if (qp->by_socket)
		sys_sendto(qp->peer_event, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		soft_kick(qp->peer_event);
	count(CNT_wakes, 1);
	probe_1(wake, PROBE_WAKES_PEER);
}

static void wc_fill(struct soft_qp *qp, struct ibv_wc *wc, uint64_t wr_id,
		    enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	*wc = (struct ibv_wc){ .wr_id = wr_id, .status = status, .opcode = opcode,
			       .qp_num = qp->ib.qp_num };
}

/* Signalled sends whose CQE the peer has taken; in the error state the rest, flushed. */
static int sq_reap(struct soft_qp *qp, int max, struct ibv_wc *wc)
{
	int got = 0;

	if (qp->connected)
		soft_out_head(qp);
	while (got < max && qp->sq_head != qp->sq_tail) {
		const struct soft_swr *s = &qp->sq[qp->sq_head & (qp->sq_size - 1)];
		bool done = swr_done(qp, s);

		if (!done && !qp->err)
			break;
		wc_fill(qp, &wc[got], s->wr_id, done ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR,
			s->opcode);
		wc[got++].byte_len = s->byte_len;
		qp->sq_head++;
	}
	return got;
}

static int rq_flush(struct soft_qp *qp, int max, struct ibv_wc *wc)
{
	int got = 0;

	for (; got < max && qp->rq_head != qp->rq_tail; got++)
		wc_fill(qp, &wc[got], qp->rq[qp->rq_head++ & (qp->rq_size - 1)].wr_id,
			IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	return got;
}

/* What one CQE says, read once; nothing in it is to be trusted. */
static enum ibv_wc_status cqe_read(struct soft_qp *qp, const struct cqe *c, uint32_t op,
				   const struct soft_rwr *r, struct ibv_wc *wc)
{
	uint32_t len = ld_rlx(&c->byte_len);

	wc->byte_len = len;
	if (op != CQE_SEND) {
		wc->imm_data = ld_rlx(&c->imm);
		wc->wc_flags = IBV_WC_WITH_IMM;
	}
	if (likely(op == CQE_WRITE_IMM)) {
		/* the caller reads it next: its way here overlaps with our fence */
		uint64_t slab_len = ld_rlx(&qp->in_slab_len);
		uint64_t off = MIN(ld_rlx(&c->off), slab_len);

		__builtin_prefetch(ld_rlx(&qp->in_slab) + off);
		wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		return likely(len <= slab_len) ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR;
	}
	if ((op != CQE_SEND && op != CQE_SEND_IMM) || len > LANE_CQE_DATA)
		return IBV_WC_LOC_QP_OP_ERR;
	if (len > r->len)
		return IBV_WC_LOC_LEN_ERR;
	if (len)
		memcpy(r->addr, c->data, len);
	return IBV_WC_SUCCESS;
}

/* One published CQE into one posted receive.  Return: false when the QP broke on it. */
static bool cqe_deliver(struct soft_qp *qp, const struct cqe *c, uint32_t op, struct ibv_wc *wc)
{
	const struct soft_rwr *r = &qp->rq[qp->rq_head & (qp->rq_size - 1)];

	wc_fill(qp, wc, r->wr_id, IBV_WC_SUCCESS, IBV_WC_RECV);
	wc->src_qp = qp->peer_qpn;
	wc->status = cqe_read(qp, c, op, r, wc);
	qp->rq_head++;
	return likely(wc->status == IBV_WC_SUCCESS);
}

/* Fault delay-completions: a CQE is seen only so long after it was first found. */
static bool lane_held(struct soft_qp *qp)
{
	uint64_t now = clock_ns();

	if (!qp->held_since_ns)
		qp->held_since_ns = now;
	if (now - qp->held_since_ns < config.fault.delay_completions * NS_PER_US)
		return true;
	qp->held_since_ns = 0;
	return false;
}

/* Return: completions written; the lane's own state is in qp. */
static int lane_take(struct soft_qp *qp, int max, struct ibv_wc *wc)
{
	const struct cqe *c;
	int got = 0;

	if (unlikely(config.fault.delay_completions) && !qp->err && lane_peek(qp) && lane_held(qp))
		return 0;
	while (got < max && (c = lane_peek(qp)) != NULL) {
		uint32_t op = ld_rlx(&c->op);

		if (unlikely(op == CQE_ERROR)) {
			soft_qp_fail(qp, false);
			return got;
		}
		if (unlikely(qp->rq_head == qp->rq_tail))
			break;
		if (unlikely(qp->err && qp->drain_left-- == 0)) {
			soft_qp_fail(qp, false);
			return got;
		}
		qp->in_head++;
		if (unlikely(!cqe_deliver(qp, c, op, &wc[got++]))) {
			soft_qp_fail(qp, false);
			return got;
		}
	}
	if (unlikely(qp->err) && !lane_peek(qp))
		qp->lane_done = true;
	return got;
}

/* Let the producer have the places back, and know what was taken. */
static void lane_publish_head(struct soft_qp *qp)
{
	/* pairs with soft_out_head(): we are done with the CQEs below */
	st_rel(&qp->in->head, qp->in_head);
}

static int qp_visit(struct soft_qp *qp, int max, struct ibv_wc *wc, struct soft_qp **took)
{
	uint32_t head = qp->in_head;
	int got = 0;

	if (unlikely(qp->sq_head != qp->sq_tail))
		got = sq_reap(qp, max, wc);
	/* a peer that is connected already may send: not before we are, too */
	if (likely(!qp->lane_done && (qp->connected || qp->err)))
		got += lane_take(qp, max - got, wc + got);
	if (qp->in_head != head) {
		lane_publish_head(qp);
		qp->took_next = *took;
		*took = qp;
	}
	if (unlikely(qp->err && qp->lane_done))
		got += rq_flush(qp, max - got, wc + got);
	slot_refresh(qp);
	return got;
}

/* After a full fence that follows the new heads. */
static void took_finish(struct soft_qp *took)
{
	for (struct soft_qp *qp = took; qp; qp = qp->took_next) {
		/* pairs with the fence in soft_req_notify_cq() of the producer */
		if (unlikely(ld_rlx(&qp->in->armed_tx)) && xchg_acqrel(&qp->in->armed_tx, 0))
			soft_wake_peer(qp);
		/* pairs with soft_qp_fail(): it found the lane full; what it
		 * published before is drained first */
		if (unlikely(ld_acq(&qp->in->tx_error)) && !qp->err)
			soft_qp_fail(qp, true);
	}
}

int soft_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct soft_cq *cq = to_cq(ibcq);
	uint32_t n = cq->nslots, i = cq->first;
	struct soft_qp *took = NULL;
	int got = 0;

	for (uint32_t k = 0; k < n && got < num; k++) {
		const struct soft_slot *s = &cq->slots[i];

		i = i + 1 == n ? 0 : i + 1;
		__builtin_prefetch(cq->slots[i].next);
		if (ld_rlx(&s->next->seq) == s->want || s->busy)
			got += qp_visit(s->qp, num - got, wc + got, &took);
	}
	cq->first = i;
	if (took) {
		/* whoever asks wr_taken() after a fence sees our heads, or we
		 * see, at our next look at the memory, what it stored before */
		fence_full();
		took_finish(took);
	}
	if (got) {
		cq->armed = false;
		count(CNT_wc_polled, (uint64_t)got);
		probe_1(completion, got);
	}
	return got;
}

/* What is already there raises no event later: a held completion (fault) must be re-polled. */
static bool qp_holds(struct soft_qp *qp)
{
	return config.fault.delay_completions && !qp->lane_done && lane_peek(qp);
}

int soft_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct soft_cq *cq = to_cq(ibcq);
	bool kick = false;

	/* its own sends raise nothing that the peer's program did not take: all are worth it */
	if (!ibcq->channel)
		return EINVAL;
	cq->armed = true;
	for (uint32_t i = 0; i < cq->nslots; i++) {
		struct soft_qp *qp = cq->slots[i].qp;

		st_rlx(&qp->in->armed_rx, 1);
		if (qp->connected && qp->sq_head != qp->sq_tail)
			st_rlx(&qp->out->armed_tx, 1);
	}
	/* pairs with doorbell() and took_finish(): the peer sees the flag, or the
	 * caller's next poll sees what the peer did */
	fence_full();
	for (uint32_t i = 0; unlikely(config.fault.delay_completions) && i < cq->nslots; i++)
		kick |= qp_holds(cq->slots[i].qp);
	if (kick)
		soft_kick(ibcq->channel->fd);
	return 0;
}
