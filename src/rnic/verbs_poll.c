/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * verbs_poll.c - completions of a verbs device
 *
 * The device's completions are rewritten in place: those that only we asked
 * for, and those of QPs that are gone, are dropped.
 */
#include "base/counters.h"
#include "base/log.h"
#include "base/probe.h"
#include "rnic/verbs.h"

/* The first error of a QP is the cause of all others. */
static void wc_failed(struct verbs_qp *qp, const struct ibv_wc *wc)
{
	if (!ld_rlx(&qp->err))
		log_info("rnic: qp 0x%x broken, status %d, vendor 0x%x", qp->ib.qp_num,
			 (int)wc->status, wc->vendor_err);
	count(CNT_wc_errors, wc->status != IBV_WC_WR_FLUSH_ERR);
	verbs_failed(qp);
}

/* Return: completions for the caller, 0 or 1, written to *wc. */
static int send_done(struct verbs_qp *qp, uint32_t index, struct ibv_wc *wc)
{
	const struct verbs_swr s = qp->sq[index & (qp->sq_size - 1)];

	if (unlikely(wc->status != IBV_WC_SUCCESS))
		wc_failed(qp, wc);
	else
		st_rel(&qp->imm_done, s.imm);	/* pairs with verbs_wr_taken() */
	/* pairs with none_signaled_under_way() and wr_add(): the entries are free */
	st_rel(&qp->sq_head, index + 1);
	if (likely(wc->status == IBV_WC_SUCCESS))
		verbs_mark(qp);
	*wc = (struct ibv_wc){ .wr_id = s.wr_id, .status = wc->status, .qp_num = qp->ib.qp_num,
			       .vendor_err = wc->vendor_err, .byte_len = s.byte_len,
			       .opcode = (enum ibv_wc_opcode)s.opcode };
	return s.told;
}

/* What stood for an immediate: the completion that WRITE_WITH_IMM would have raised. */
static void imm_read(struct verbs_qp *qp, uint32_t index, struct ibv_wc *wc)
{
	const struct imm_msg m = qp->rq_msg[index & (qp->rq_size - 1)];

	if (unlikely(wc->byte_len != sizeof(m) || m.byte_len > ld_rlx(&qp->in_slab_len))) {
		wc->status = IBV_WC_LOC_QP_OP_ERR;
		return;
	}
	wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	wc->wc_flags = IBV_WC_WITH_IMM;
	wc->imm_data = m.imm;
	wc->byte_len = m.byte_len;
}

static int recv_done(struct verbs_qp *qp, uint32_t index, struct ibv_wc *wc)
{
	(void)ld_acq(&qp->rq_tail);	/* pairs with recv_one(): the entry */
	if (qp->r->imm_by_send && wc->status == IBV_WC_SUCCESS)
		imm_read(qp, index, wc);
	wc->wr_id = qp->rq[index & (qp->rq_size - 1)];
	wc->qp_num = qp->ib.qp_num;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		wc->opcode = IBV_WC_RECV;
		wc_failed(qp, wc);
	}
	st_rel(&qp->rq_head, index + 1);	/* pairs with recv_one() */
	return 1;
}

static int wc_take(struct verbs_cq *cq, struct ibv_wc *wc)
{
	uint32_t id = (uint32_t)(wc->wr_id >> 32) & 0x7fffffff, index = (uint32_t)wc->wr_id;
	struct verbs_qp *qp = cq->qps[id % VERBS_MAX_QP];

	if (unlikely(!qp || qp->id != id))
		return 0;
	return wc->wr_id & WR_SEND ? send_done(qp, index, wc) : recv_done(qp, index, wc);
}

/* Receives that were posted when the QP was known to be broken. */
static int flush_qp(struct verbs_qp *qp, int max, struct ibv_wc *wc)
{
	int got = 0;

	/* those that the device has come first, from the device */
	while (got < max && (int32_t)(qp->rq_head - ld_rlx(&qp->rq_real)) >= 0 &&
	       qp->rq_head != ld_acq(&qp->rq_tail)) {	/* pairs with recv_one() */
		wc[got++] = (struct ibv_wc){
			.wr_id = qp->rq[qp->rq_head & (qp->rq_size - 1)],
			.status = IBV_WC_WR_FLUSH_ERR,
			.opcode = IBV_WC_RECV,
			.qp_num = qp->ib.qp_num,
		};
		st_rel(&qp->rq_head, qp->rq_head + 1);	/* pairs with recv_one() */
	}
	return got;
}

static int flush(struct verbs_cq *cq, int max, struct ibv_wc *wc)
{
	int got = 0;

	for (uint32_t i = 0; i < VERBS_MAX_QP && got < max; i++)
		if (cq->qps[i] && ld_rlx(&cq->qps[i]->err))
			got += flush_qp(cq->qps[i], max - got, wc + got);
	return got;
}

int verbs_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct verbs_cq *cq = to_vcq(ibcq);
	int got = 0;

	while (got < num) {
		int want = num - got, n = ibv_poll_cq(cq->real, want, wc + got), first = got;

		if (unlikely(n < 0))
			return got ? got : -1;
		count(CNT_wc_polled, (uint64_t)n);
		for (int i = 0; i < n; i++) {
			struct ibv_wc one = wc[first + i];

			if (wc_take(cq, &one))
				wc[got++] = one;
		}
		if (n < want)
			break;
	}
	if (unlikely(cq->nbroken) && got < num)
		got += flush(cq, num - got, wc + got);
	if (got)
		probe_1(completion, got);
	return got;
}

int verbs_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	if (!ibcq->channel)
		return EINVAL;
	/* siw (Linux 6.1) never raises one for a solicited receive: siw_rqe_complete() */
	if (to_vr(ibcq->context)->iwarp)
		solicited_only = 0;
	return ibv_req_notify_cq(to_vcq(ibcq)->real, solicited_only);
}
