/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ends.c - see ends.h */
#define _GNU_SOURCE
#include "ends.h"

#include <config.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

#define POKE	0x706f6b65u	/* wr_id of what end_broken() sends */
#define CM_ONLY	78		/* exit status of device_works()' child */

const struct rnic_ops *contract_device = &rnic_soft_ops;
static bool iwarp;

#ifdef HAVE_VERBS
/* Opened in a process of its own: what runs afterwards may fork before it does. */
static int device_works(void)
{
	struct rnic *r = NULL;
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		int err = contract_device->open(&r, NULL);

		if (err)
			printf("no %s device: %s\n", contract_device->name, strerror(-err));
		fflush(stdout);
		_exit(err ? 77 : r->cm_only ? CM_ONLY : 0);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status))
		return 1;
	iwarp = WEXITSTATUS(status) == CM_ONLY;
	return iwarp ? 0 : WEXITSTATUS(status);
}
#endif

int contract_pick(int argc, char **argv)
{
	if (getenv("SIDESTEP_LOG_FILE"))
		log_open(LOG_INFO, getenv("SIDESTEP_LOG_FILE"));
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	config.fault.far = argc > 1 && !strcmp(argv[1], "far");
	if (argc < 2 || !strcmp(argv[1], "soft") || config.fault.far)
		return 0;
	config.fault.no_write_imm = !strcmp(argv[1], "verbs-noimm");
	if (!config.fault.no_write_imm && strcmp(argv[1], "verbs") != 0)
		return 2;
#ifdef HAVE_VERBS
	contract_device = &rnic_verbs_ops;
	return device_works();
#else
	puts("built without verbs");
	return 77;
#endif
}

bool contract_shared(void)
{
	return contract_device == &rnic_soft_ops && !config.fault.far;
}

bool contract_waits(void)
{
	return !iwarp;
}

void end_open(struct end *e, const struct rnic_ops *dev, uint32_t depth, struct end *share)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_recv_wr = depth, .max_send_wr = depth, .max_send_sge = 4,
			 .max_recv_sge = 1 } };

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
		/* for those that share it, where it cannot grow */
		e->cq = dev->cq_new(e->rnic, (int)((iwarp ? 16 : 4) * depth), e->ch);
		assert_non_null(e->cq);
	}
	attr.cap.max_inline_data = MIN(e->rnic->max_inline, 65536u);
	attr.send_cq = attr.recv_cq = e->cq;
	e->qp = dev->qp_new(e->pd, &attr);
	assert_non_null(e->qp);
	assert_true(attr.cap.max_recv_wr >= depth);
	assert_int_equal(dev->slab_new(e->pd, SLAB_BYTES, &e->slab), 0);
	e->source.fd = -1;
	if (!e->rnic->shared)
		assert_int_equal(dev->source_new(e->pd, 2 * SLAB_BYTES, &e->source), 0);
}

void end_close(struct end *e)
{
	e->dev->qp_free(e->qp);
	join_close(&e->join);
	e->dev->slab_free(&e->slab);
	e->dev->slab_free(&e->source);
	if (e->cq_shared)
		return;
	e->dev->cq_free(e->cq);
	e->dev->channel_free(e->ch);
	e->dev->pd_free(e->pd);
	e->dev->close(e->rnic);
}

int end_export(struct end *e, struct rnic_params *p)
{
	if (e->rnic->cm_only)
		return join_export(&e->join, e->dev, e->qp, &e->slab, p);
	return e->dev->qp_export(e->qp, &e->slab, p);
}

static int joined(struct end *e, const struct rnic_params *p)
{
	int err = e->dev->qp_connect(e->qp, p);
	size_t len = 0;

	if (err)
		return err;
	e->peer = e->dev->qp_peer_slab(e->qp, &len, &e->rkey, &e->base);
	return len ? 0 : -EPROTO;
}

static int join_begin(struct end *e, const struct rnic_params *p)
{
	return join_asks(&e->join, p) ? join_ask(&e->join, p, e->qp->qp_num) :
	       join_answer(&e->join, e->qp->qp_num);
}

static int join_end(struct end *e, const struct rnic_params *p)
{
	int err = join_wait(&e->join);
	struct rnic_params full = join_params(&e->join, p);

	return err ? err : joined(e, &full);
}

int end_accept(struct end *e, const struct rnic_params *p)
{
	int err;

	if (!e->rnic->cm_only)
		return joined(e, p);
	err = join_begin(e, p);
	return err ? err : join_end(e, p);
}

/* Both in one thread: none may wait for what the other has not done. */
static void ends_join(struct end *a, struct end *b, const struct rnic_params *pa,
		      const struct rnic_params *pb)
{
	if (!join_asks(&a->join, pb)) {
		ends_join(b, a, pb, pa);
		return;
	}
	assert_int_equal(join_begin(a, pb), 0);
	assert_int_equal(join_begin(b, pa), 0);
	assert_int_equal(join_end(a, pb), 0);
	assert_int_equal(join_end(b, pa), 0);
}

void ends_connect(struct end *a, struct end *b)
{
	struct rnic_params pa, pb;

	assert_int_equal(end_export(a, &pa), 0);
	assert_int_equal(end_export(b, &pb), 0);
	if (a->rnic->cm_only) {
		ends_join(a, b, &pa, &pb);
		return;
	}
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

/* From registered memory, if the device reads it itself. */
static void source_use(struct end *e, struct ibv_sge *sge, unsigned int *flags)
{
	uint8_t *to;

	if (sge->length > e->rnic->max_inline)
		*flags &= ~(unsigned int)IBV_SEND_INLINE;
	if (e->rnic->shared || (*flags & IBV_SEND_INLINE) || sge->length > SLAB_BYTES)
		return;
	if (e->source_at + sge->length > e->source.len)
		e->source_at = 0;
	to = (uint8_t *)e->source.addr + e->source_at;
	e->source_at += sge->length;
	memcpy(to, (const void *)(uintptr_t)sge->addr, sge->length);
	*sge = (struct ibv_sge){ (uintptr_t)to, sge->length, e->source.lkey };
}

int end_post(struct end *e, enum ibv_wr_opcode op, const void *src, uint32_t len, uint64_t off,
	     uint32_t imm, unsigned int flags, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)src, len, e->slab.lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = len ? 1 : 0,
				  .opcode = op, .imm_data = imm }, *bad = NULL;
	int err;

	if (len)
		source_use(e, &sge, &flags);
	wr.send_flags = flags;
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

bool end_taken(struct end *e, uint64_t seq)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;

	while (!e->dev->wr_taken(e->qp, seq))
		if (e->rnic->shared || !end_idle(e) || clock_ns() > until)
			return false;
	return true;
}

bool end_broken(struct end *e)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;
	struct ibv_wc wc = { .wr_id = POKE };

	if (e->rnic->shared || e->dev->qp_broken(e->qp))
		return e->dev->qp_broken(e->qp);
	if (e->rnic->cm_only) {		/* its sends need not complete any more, but rdma_cm tells */
		if (join_gone(&e->join))
			return false;
		e->dev->qp_error(e->qp);
		return true;
	}
	if (end_post(e, IBV_WR_RDMA_WRITE, NULL, 0, 0, 0, IBV_SEND_SIGNALED, POKE))
		return false;
	/* one by one: what is flushed after it is the test's */
	while (!e->dev->qp_broken(e->qp))
		if ((ibv_poll_cq(e->cq, 1, &wc) == 1 && wc.wr_id != POKE) || clock_ns() > until)
			return false;
	return true;
}

bool end_arrived(struct end *e, struct end *peer)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;
	uint8_t *last = (uint8_t *)peer->slab.addr + SLAB_BYTES - 1;
	struct ibv_wc wc;

	st_rlx(last, 0);
	if (end_post(e, IBV_WR_RDMA_WRITE, "!", 1, SLAB_BYTES - 1, 0, IBV_SEND_SIGNALED, POKE))
		return false;
	while (ld_acq(last) != '!')
		if (clock_ns() > until)
			return false;
	return end_wait(e, &wc) && wc.wr_id == POKE;
}

bool end_readable(struct end *e)
{
	struct pollfd p = { e->ch->fd, POLLIN, 0 };

	return poll(&p, 1, e->rnic->shared ? 0 : BOUND_MS) == 1;
}
