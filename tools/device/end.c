/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* end.c - see end.h */
#define _GNU_SOURCE
#include "end.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "params.h"

#define GIVE_UP_S	20

const struct rnic_ops *bench_device = &rnic_soft_ops;
const char *bench_device_name;

bool fail(const char *what)
{
	fprintf(stderr, "sidestep-bench rnic: %s failed\n", what);
	return false;
}

static bool end_connect(struct end *e, int sock)
{
	struct rnic_params mine, theirs;
	size_t len;

	if (bench_device->qp_export(e->qp, &e->slab, &mine))
		return fail("qp_export");
	if (!params_send(sock, &mine))
		return fail("sendmsg");
	if (!params_recv(sock, &theirs))
		return fail("recvmsg");
	if (bench_device->qp_connect(e->qp, &theirs))
		return fail("qp_connect");
	bench_device->qp_peer_slab(e->qp, &len, &e->rkey, &e->base);
	return true;
}

bool end_post_recvs(struct end *e, uint32_t n)
{
	struct ibv_recv_wr wr[64], *bad;

	while (n) {
		uint32_t k = MIN(n, 64u);

		for (uint32_t i = 0; i < k; i++)
			wr[i] = (struct ibv_recv_wr){ .next = i + 1 < k ? &wr[i + 1] : NULL };
		if (ibv_post_recv(e->qp, wr, &bad))
			return fail("ibv_post_recv");
		n -= k;
	}
	return true;
}

/* What is sent comes out of registered memory, but on a device that needs none. */
static bool buffers(struct end *e)
{
	e->dst = aligned_alloc(4096, SRC_BYTES);
	if (e->rnic->shared)
		e->src = aligned_alloc(4096, SRC_BYTES);
	else if (!bench_device->source_new(e->pd, SRC_BYTES, &e->source))
		e->src = e->source.addr;
	if (!e->src || !e->dst)
		return fail("allocating buffers");
	/* every page mapped: faults are no part of the figures */
	memset(e->src, 0x5a, SRC_BYTES);
	memset(e->dst, 0, SRC_BYTES);
	memset(e->slab.addr, 0, SLAB_BYTES);
	return true;
}

bool end_open(struct end *e, int sock, bool event)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_recv_wr = DEPTH, .max_send_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 } };

	memset(e, 0, sizeof(*e));
	e->event = event;
	if (bench_device->open(&e->rnic, bench_device_name))
		return fail("opening the device");
	e->pd = bench_device->pd_new(e->rnic);
	e->ch = bench_device->channel_new(e->rnic);
	e->cq = e->pd && e->ch ? bench_device->cq_new(e->rnic, 2 * DEPTH, e->ch) : NULL;
	if (!e->cq)
		return fail("cq_new");
	attr.send_cq = attr.recv_cq = e->cq;
	attr.cap.max_inline_data = MIN(e->rnic->max_inline, SRC_BYTES);
	e->qp = bench_device->qp_new(e->pd, &attr);
	if (!e->qp || bench_device->slab_new(e->pd, SLAB_BYTES, &e->slab) ||
	    bench_device->slab_populate(&e->slab, 0, SLAB_BYTES))
		return fail("qp_new or slab_new");
	return buffers(e) && end_post_recvs(e, DEPTH) && end_connect(e, sock);
}

void end_close(struct end *e)
{
	bench_device->qp_free(e->qp);
	bench_device->slab_free(&e->slab);
	if (e->rnic->shared)
		free(e->src);
	else
		bench_device->slab_free(&e->source);
	bench_device->cq_free(e->cq);
	bench_device->channel_free(e->ch);
	bench_device->pd_free(e->pd);
	bench_device->close(e->rnic);
	free(e->dst);
}

void end_write(struct end *e, struct ibv_send_wr *wr, struct ibv_sge *sge, uint64_t off,
	       uint32_t bytes, enum ibv_wr_opcode opcode)
{
	*sge = (struct ibv_sge){ (uintptr_t)e->src, bytes, e->source.lkey };
	*wr = (struct ibv_send_wr){ .sg_list = sge, .num_sge = 1, .opcode = opcode };
	if (e->rnic->shared || bytes <= e->rnic->max_inline)
		wr->send_flags = IBV_SEND_INLINE;
	wr->wr.rdma.remote_addr = e->base + off;
	wr->wr.rdma.rkey = e->rkey;
}

static bool is_send(const struct ibv_wc *wc)
{
	return wc->opcode == IBV_WC_RDMA_WRITE || wc->opcode == IBV_WC_SEND;
}

bool end_take_sends(struct end *e)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = ibv_poll_cq(e->cq, POLL_BATCH, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return fail("a work request");
		if (is_send(&wc[i]))
			e->told = wc[i].wr_id;
	}
	return n >= 0 || fail("ibv_poll_cq");
}

bool end_post(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(e->qp, wr, &bad);

	while (err == ENOMEM) {
		if (!end_take_sends(e))
			return false;
		err = ibv_post_send(e->qp, bad, &bad);
	}
	return !err || fail("ibv_post_send");
}

static bool sleep_event(struct end *e)
{
	struct pollfd p = { e->ch->fd, POLLIN, 0 };

	if (poll(&p, 1, GIVE_UP_S * 1000) != 1)
		return fail("waiting for an event");
	bench_device->channel_drain(e->ch);
	return true;
}

int end_wait_recvs(struct end *e, struct ibv_wc *wc, int max)
{
	bool armed = false;

	for (uint32_t spins = 0;; spins++) {
		int n = ibv_poll_cq(e->cq, max, wc);

		if (n)
			return n < 0 || wc[0].status != IBV_WC_SUCCESS ? -1 : n;
		if (!e->event) {
			/* no pause: it costs up to 140 cycles of latency */
			if (spins > 2000000000u)
				return -1;
		} else if (!armed) {
			armed = !ibv_req_notify_cq(e->cq, 0);
		} else if (!sleep_event(e)) {
			return -1;
		} else {
			armed = false;
		}
	}
}

