/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ends.c - see ends.h */
#define _GNU_SOURCE
#include "ends.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

const struct rnic_ops *const contract_devices[] = { &rnic_soft_ops };
const size_t contract_ndevices = ARRAY_SIZE(contract_devices);

void end_open(struct end *e, const struct rnic_ops *dev, uint32_t depth, struct end *share)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_recv_wr = depth, .max_send_wr = depth, .max_send_sge = 4,
			 .max_recv_sge = 1, .max_inline_data = 65536 } };

	memset(e, 0, sizeof(*e));
	e->dev = dev;
	if (share) {
		e->rnic = share->rnic;
		e->pd = share->pd;
		e->ch = share->ch;
		e->cq = share->cq;
		e->cq_shared = true;
	} else {
		assert_int_equal(dev->open(&e->rnic, NULL), 0);
		e->pd = dev->pd_new(e->rnic);
		e->ch = dev->channel_new(e->rnic);
		assert_non_null(e->pd);
		assert_non_null(e->ch);
		e->cq = dev->cq_new(e->rnic, (int)(4 * depth), e->ch);
		assert_non_null(e->cq);
	}
	attr.send_cq = attr.recv_cq = e->cq;
	e->qp = dev->qp_new(e->pd, &attr);
	assert_non_null(e->qp);
	assert_true(attr.cap.max_recv_wr >= depth);
	assert_int_equal(dev->slab_new(e->pd, SLAB_BYTES, &e->slab), 0);
}

void end_close(struct end *e)
{
	e->dev->qp_free(e->qp);
	e->dev->slab_free(&e->slab);
	if (e->cq_shared)
		return;
	e->dev->cq_free(e->cq);
	e->dev->channel_free(e->ch);
	e->dev->pd_free(e->pd);
	e->dev->close(e->rnic);
}

int end_export(struct end *e, struct rnic_params *p)
{
	return e->dev->qp_export(e->qp, &e->slab, p);
}

int end_accept(struct end *e, const struct rnic_params *p)
{
	int err = e->dev->qp_connect(e->qp, p);
	size_t len = 0;

	if (err)
		return err;
	e->peer = e->dev->qp_peer_slab(e->qp, &len, &e->rkey, &e->base);
	return len ? 0 : -EPROTO;
}

void ends_connect(struct end *a, struct end *b)
{
	struct rnic_params pa, pb;

	assert_int_equal(end_export(a, &pa), 0);
	assert_int_equal(end_export(b, &pb), 0);
	assert_int_equal(end_accept(a, &pb), 0);
	assert_int_equal(end_accept(b, &pa), 0);
}

void ends_open(struct end *a, struct end *b, const struct rnic_ops *dev, uint32_t depth)
{
	end_open(a, dev, depth, NULL);
	end_open(b, dev, depth, NULL);
	ends_connect(a, b);
}

void ends_close(struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
}

int end_recvs(struct end *e, uint32_t n)
{
	struct ibv_recv_wr *bad;
	int err = 0;

	for (; n && !err; n--) {
		struct ibv_recv_wr wr = { .wr_id = e->next_recv };

		err = ibv_post_recv(e->qp, &wr, &bad);
		e->next_recv += !err;
	}
	return err;
}

int end_post(struct end *e, enum ibv_wr_opcode op, const void *src, uint32_t len, uint64_t off,
	     uint32_t imm, unsigned int flags, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)src, len, e->slab.lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = len ? 1 : 0,
				  .opcode = op, .send_flags = flags, .imm_data = imm }, *bad = NULL;
	int err;

	wr.wr.rdma.remote_addr = e->base + off;
	wr.wr.rdma.rkey = e->rkey;
	err = ibv_post_send(e->qp, &wr, &bad);
	return err && bad != &wr ? -1 : err;
}

int end_write(struct end *e, const void *src, uint32_t len, uint64_t off, uint32_t imm,
	      unsigned int flags, uint64_t wr_id)
{
	return end_post(e, IBV_WR_RDMA_WRITE_WITH_IMM, src, len, off, imm, flags, wr_id);
}

bool end_wait(struct end *e, struct ibv_wc *wc)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;

	while (ibv_poll_cq(e->cq, 1, wc) != 1)
		if (clock_ns() > until)
			return false;
	return true;
}

bool end_sleep(struct end *e, struct ibv_wc *wc)
{
	struct pollfd p = { e->ch->fd, POLLIN, 0 };

	for (;;) {
		if (ibv_poll_cq(e->cq, 1, wc) == 1)
			return true;
		if (ibv_req_notify_cq(e->cq, 0))
			return false;
		if (ibv_poll_cq(e->cq, 1, wc) == 1)
			return true;
		if (poll(&p, 1, BOUND_MS) != 1)
			return false;
		e->dev->channel_drain(e->ch);
	}
}

bool end_idle(struct end *e)
{
	struct ibv_wc wc;

	return ibv_poll_cq(e->cq, 1, &wc) == 0;
}

union fd_control {
	struct cmsghdr h;
	char buf[CMSG_SPACE(sizeof(int) * RNIC_PARAM_FDS)];
};

bool params_send(int sock, struct rnic_params *p)
{
	union fd_control c = { .buf = { 0 } };
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	bool ok;

	if (p->nfds) {
		m.msg_control = c.buf;
		m.msg_controllen = CMSG_SPACE(p->nfds * sizeof(int));
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(p->nfds * sizeof(int));
		memcpy(CMSG_DATA(&c.h), p->fds, p->nfds * sizeof(int));
	}
	ok = sendmsg(sock, &m, MSG_NOSIGNAL) == sizeof(*p);
	for (uint32_t i = 0; i < p->nfds; i++)
		close(p->fds[i]);
	return ok;
}

bool params_recv(int sock, struct rnic_params *p)
{
	union fd_control c;
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct cmsghdr *h;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != sizeof(*p))
		return false;
	h = CMSG_FIRSTHDR(&m);
	if (p->nfds && h)
		memcpy(p->fds, CMSG_DATA(h), p->nfds * sizeof(int));
	return !p->nfds || h;
}
