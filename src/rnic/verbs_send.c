/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * verbs_send.c - posting work requests on a verbs device
 *
 * A list is checked and translated piece by piece, one doorbell a piece; what
 * the device refuses of a piece is taken off our queue again.  Signalling is
 * explained in verbs.h.
 */
#include "base/counters.h"
#include "base/fault.h"
#include "base/probe.h"
#include "rnic/verbs.h"

#define PIECE	32

struct piece {
	struct ibv_send_wr wr[PIECE];
	struct ibv_send_wr *from[PIECE];	/* whose request it is */
	struct imm_msg msg[PIECE];		/* imm_by_send */
	struct ibv_sge sge[PIECE];
	uint32_t n;
	/* as they were before */
	uint32_t tail, sig;
	uint64_t imm;
};

static int length_check(const struct verbs_qp *qp, const struct ibv_send_wr *wr, uint32_t *bytes)
{
	uint64_t sum = 0;

	if (unlikely(wr->num_sge < 0 || wr->num_sge > VERBS_MAX_SGE))
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	if (unlikely(sum > INT32_MAX))
		return EINVAL;
	if (unlikely((wr->send_flags & IBV_SEND_INLINE) && sum > qp->r->rnic.max_inline))
		return EINVAL;
	*bytes = (uint32_t)sum;
	return 0;
}

static bool in_a_part(const struct verbs_qp *qp, uint64_t off, uint32_t bytes, uint32_t rkey)
{
	for (uint32_t i = 0; i < qp->nparts; i++) {
		const struct verbs_part *p = &qp->parts[i];

		if (off - p->off < p->len && bytes <= p->len - (off - p->off) && rkey == p->rkey)
			return true;
	}
	return false;
}

/* Here a wrong one is refused; on the wire it would break the QP. */
static int target_check(const struct verbs_qp *qp, const struct ibv_send_wr *wr, uint32_t bytes)
{
	uint64_t off = wr->wr.rdma.remote_addr - qp->peer_base;

	if (!bytes)
		return 0;
	if (unlikely(wr->wr.rdma.rkey != qp->peer_rkey))
		return in_a_part(qp, off, bytes, wr->wr.rdma.rkey) ? 0 : EINVAL;
	return likely(off <= qp->peer_len && bytes <= qp->peer_len - off) ? 0 : EINVAL;
}

static int wr_check(const struct verbs_qp *qp, const struct ibv_send_wr *wr, uint32_t *bytes)
{
	int err = length_check(qp, wr, bytes);

	if (unlikely(err))
		return err;
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
		return target_check(qp, wr, *bytes);
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		/* there they stand for immediates */
		if (qp->r->imm_by_send)
			return EOPNOTSUPP;
		return *bytes > qp->r->rnic.max_send_bytes ? EINVAL : 0;
	default:
		return EOPNOTSUPP;
	}
}

static bool none_signaled_under_way(const struct verbs_qp *qp)
{
	/* pairs with send_done() */
	return (int32_t)(qp->sq_sig - ld_acq(&qp->sq_head)) <= 0;
}

/* One entry of the queue for one request to the device. */
static void entry_add(struct verbs_qp *qp, struct piece *p, struct ibv_send_wr *from,
		      uint32_t bytes, bool last)
{
	struct ibv_send_wr *wr = &p->wr[p->n];
	struct verbs_swr *s = &qp->sq[qp->sq_tail & (qp->sq_size - 1)];
	bool seen = last && from->opcode != IBV_WR_RDMA_WRITE;
	bool told = last && (qp->sig_all || (from->send_flags & IBV_SEND_SIGNALED));
	uint32_t period = MIN(VERBS_PERIOD, qp->sq_max / 4 + 1);

	if (last && from->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		qp->imm_posted++;
	*s = (struct verbs_swr){ .wr_id = from->wr_id, .imm = qp->imm_posted, .byte_len = bytes,
				 .told = told, .opcode = IBV_WC_RDMA_WRITE };
	if (from->opcode == IBV_WR_SEND || from->opcode == IBV_WR_SEND_WITH_IMM)
		s->opcode = IBV_WC_SEND;
	wr->wr_id = WR_SEND | wr_id_of(qp->id, qp->sq_tail++);
	wr->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	if (told || (seen && none_signaled_under_way(qp)) || qp->sq_tail - qp->sq_sig >= period) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		qp->sq_sig = qp->sq_tail;
		count(CNT_wr_signaled, 1);
	}
	wr->next = NULL;
	if (p->n)
		p->wr[p->n - 1].next = wr;
	p->from[p->n++] = from;
}

static void imm_by_send(struct verbs_qp *qp, struct piece *p, struct ibv_send_wr *from,
			uint32_t bytes)
{
	uint32_t n;

	if (bytes) {
		p->wr[p->n] = *from;
		p->wr[p->n].opcode = IBV_WR_RDMA_WRITE;
		entry_add(qp, p, from, bytes, false);
	}
	n = p->n;
	p->msg[n] = (struct imm_msg){ .imm = from->imm_data, .byte_len = bytes };
	p->sge[n] = (struct ibv_sge){ (uintptr_t)&p->msg[n], sizeof(p->msg[n]), 0 };
	p->wr[n] = (struct ibv_send_wr){ .sg_list = &p->sge[n], .num_sge = 1,
					 .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE |
					 (from->send_flags & IBV_SEND_SOLICITED) };
	entry_add(qp, p, from, bytes, true);
}

/* Return: 0 or an errno value, with nothing done. */
static int wr_add(struct verbs_qp *qp, struct piece *p, struct ibv_send_wr *wr)
{
	uint32_t bytes = 0;
	int err = wr_check(qp, wr, &bytes);
	bool two = qp->r->imm_by_send && wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (unlikely(err))
		return err;
	/* pairs with send_done() */
	if (unlikely(qp->sq_tail - ld_acq(&qp->sq_head) + two >= qp->sq_max))
		return ENOMEM;
	if (two) {
		imm_by_send(qp, p, wr, bytes);
		return 0;
	}
	p->wr[p->n] = *wr;
	entry_add(qp, p, wr, bytes, true);
	return 0;
}

/* The device took the first k only. */
static void take_back(struct verbs_qp *qp, const struct piece *p, uint32_t k)
{
	qp->sq_tail = p->tail + k;
	qp->imm_posted = k ? qp->sq[(qp->sq_tail - 1) & (qp->sq_size - 1)].imm : p->imm;
	qp->sq_sig = p->sig;
	for (uint32_t i = 0; i < k; i++)
		if (p->wr[i].send_flags & IBV_SEND_SIGNALED)
			qp->sq_sig = p->tail + i + 1;
}

/* Return: 0, or an errno value with *bad set. */
static int piece_post(struct verbs_qp *qp, struct piece *p, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *refused = NULL;
	uint32_t k = 0;
	int err;

	if (!p->n)
		return 0;
	err = ibv_post_send(qp->real, p->wr, &refused);
	if (likely(!err)) {
		count(CNT_wr_posted, p->n);
		return 0;
	}
	while (k < p->n && &p->wr[k] != refused)
		k++;
	k %= p->n;	/* no such request: a driver that says nothing has posted nothing */
	count(CNT_wr_posted, k);
	take_back(qp, p, k);
	*bad = p->from[k];
	/* siw answers -EINVAL; what a queue with room refuses is no want of room */
	err = err < 0 ? -err : err;
	return err == ENOMEM ? ENOMEM : err == EINVAL ? EINVAL : EIO;
}

static int list_post(struct verbs_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct piece p;
	int err = 0, late = 0;

	while (wr && !err) {
		p.n = 0;
		p.tail = qp->sq_tail;
		p.sig = qp->sq_sig;
		p.imm = qp->imm_posted;
		for (; wr && !late && p.n + 1 < PIECE; wr = late ? wr : wr->next)
			late = wr_add(qp, &p, wr);
		err = piece_post(qp, &p, bad);
		count(CNT_doorbells, p.n != 0);
		probe_2(post, qp->ib.qp_num, p.n);
		if (late && !err) {
			*bad = wr;
			err = late;
		}
	}
	return err;
}

int verbs_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct verbs_qp *qp = to_vqp(ibqp);
	int err;

	if (unlikely(!qp->connected || ld_rlx(&qp->err))) {
		*bad = wr;
		return ld_rlx(&qp->err) ? EIO : EINVAL;
	}
	if (fault_device()) {
		*bad = wr;
		return ENOMEM;
	}
	lock_take(&qp->sq_lock);
	err = list_post(qp, wr, bad);
	lock_drop(&qp->sq_lock);
	return err;
}

void verbs_mark(struct verbs_qp *qp)
{
	struct verbs_swr *s;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };

	lock_take(&qp->sq_lock);
	if (none_signaled_under_way(qp) && qp->imm_posted != ld_rlx(&qp->imm_done) &&
	    !ld_rlx(&qp->err)) {
		s = &qp->sq[qp->sq_tail & (qp->sq_size - 1)];
		*s = (struct verbs_swr){ .imm = qp->imm_posted };
		wr.wr_id = WR_SEND | wr_id_of(qp->id, qp->sq_tail);
		wr.wr.rdma.remote_addr = qp->peer_base;
		wr.wr.rdma.rkey = qp->peer_rkey;
		/* refused: the QP is broken, which others will find */
		if (!ibv_post_send(qp->real, &wr, &bad)) {
			qp->sq_sig = ++qp->sq_tail;
			count(CNT_wr_posted, 1);
			count(CNT_wr_signaled, 1);
		}
	}
	lock_drop(&qp->sq_lock);
}

/* ------------------------------------------------------- receiving -- */

/* An errno value, with nothing posted; in the error state poll flushes it. */
static int recv_one(struct verbs_qp *qp, const struct ibv_recv_wr *wr)
{
	uint32_t i = qp->rq_tail & (qp->rq_size - 1);
	struct ibv_recv_wr real = *wr, *bad;
	struct ibv_sge sge;
	int err;

	/* pairs with recv_done() */
	if (unlikely(qp->rq_tail - ld_acq(&qp->rq_head) >= qp->rq_max))
		return ENOMEM;
	qp->rq[i] = wr->wr_id;
	real.wr_id = wr_id_of(qp->id, qp->rq_tail);
	real.next = NULL;
	if (qp->r->imm_by_send) {
		sge = (struct ibv_sge){ (uintptr_t)&qp->rq_msg[i], sizeof(*qp->rq_msg),
					qp->rq_mr->lkey };
		real.sg_list = &sge;
		real.num_sge = 1;
	}
	if (!ld_rlx(&qp->err)) {
		st_rel(&qp->rq_tail, qp->rq_tail + 1);	/* pairs with recv_done() */
		err = ibv_post_recv(qp->real, &real, &bad);
		if (unlikely(err)) {
			st_rel(&qp->rq_tail, qp->rq_tail - 1);
			return err < 0 ? -err : err;
		}
		st_rlx(&qp->rq_real, qp->rq_tail);
		return 0;
	}
	/* pairs with flush(): the entry is there */
	st_rel(&qp->rq_tail, qp->rq_tail + 1);
	return 0;
}

int verbs_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct verbs_qp *qp = to_vqp(ibqp);
	int err = fault_device() ? ENOMEM : 0;

	if (unlikely(err))
		*bad = wr;
	for (; wr && !err; wr = wr->next) {
		err = wr->num_sge < 0 || wr->num_sge > 1 ? EINVAL : recv_one(qp, wr);
		if (unlikely(err))
			*bad = wr;
	}
	return err;
}
