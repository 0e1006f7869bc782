/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* play.c - see play.h */
#define _GNU_SOURCE
#include "play.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/util.h"
#include "end.h"

static cpu_set_t allowed;

/* ------------------------------------------------------------ ping-pong -- */

/* round: what the last byte says, where that is what the peer looks at */
static bool ping(struct end *e, const struct bench_case *c, uint64_t round)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	if (!c->imm)
		e->src[c->bytes - 1] = (uint8_t)(1 + round % 200);
	end_write(e, &wr, &sge, 0, c->bytes,
		  c->imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
	return end_post(e, &wr);
}

static bool see_last_byte(struct end *e, const struct bench_case *c, uint64_t round)
{
	const uint8_t *last = (const uint8_t *)e->slab.addr + c->bytes - 1;

	for (uint32_t spins = 0; spins < 2000000000u; spins++) {
		/* pairs with the peer's device: it is written last, or nearly */
		if (ld_acq(last) == 1 + round % 200)
			return true;
		/* a device of libibverbs wants its queue to be emptied */
		if (spins % 1024 == 1023 && !end_take_sends(e))
			return false;
	}
	return fail("waiting for a write");
}

static bool pong(struct end *e, const struct bench_case *c, uint64_t round)
{
	struct ibv_wc wc;

	if (c->imm ? end_wait_recvs(e, &wc, 1) < 0 : !see_last_byte(e, c, round))
		return c->imm ? fail("ibv_poll_cq") : false;
	memcpy(e->dst, e->slab.addr, c->bytes);
	return !c->imm || end_post_recvs(e, 1);
}

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static bool pingpong_lead(struct end *e, const struct bench_case *c, struct result *r)
{
	uint32_t *t = calloc(c->count, sizeof(*t));
	uint64_t warm = c->count / 10, t0 = clock_ticks(), t1;
	bool ok = t != NULL;

	for (uint64_t i = 0; ok && i < warm + c->count; i++) {
		ok = ping(e, c, i) && pong(e, c, i);
		t1 = clock_ticks();
		if (i >= warm)
			t[i - warm] = (uint32_t)(t1 - t0);
		t0 = t1;
	}
	if (ok) {
		qsort(t, c->count, sizeof(*t), cmp_u32);
		r->p50_us = t[c->count / 2] / (double)clock_ticks_per_us;
		r->p99_us = t[c->count - 1 - c->count / 100] / (double)clock_ticks_per_us;
	}
	free(t);
	return ok;
}

static bool pingpong_follow(struct end *e, const struct bench_case *c)
{
	for (uint64_t i = 0; i < c->count / 10 + c->count; i++)
		if (!pong(e, c, i) || !ping(e, c, i))
			return false;
	return true;
}

/* --------------------------------------------------------------- stream -- */

uint32_t play_window(const struct bench_case *c)
{
	uint32_t n = MIN(WINDOW_BYTES / c->bytes, DEPTH / 2);

	return c->depth ? MIN(c->depth, n) : n;
}

static bool stream_post(struct end *e, const struct bench_case *c, uint64_t at, uint32_t n)
{
	struct ibv_send_wr wr[MAX_BATCH];
	struct ibv_sge sge[MAX_BATCH];

	for (uint32_t i = 0; i < n; i++) {
		end_write(e, &wr[i], &sge[i], (at + i) % play_window(c) * c->bytes, c->bytes,
			  IBV_WR_RDMA_WRITE_WITH_IMM);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	return end_post(e, wr);
}

static void rate(struct result *r, const struct bench_case *c, uint64_t t0)
{
	r->msgs_per_s = (double)c->count * 1e9 / (double)(clock_ns() - t0);
	r->gb_per_s = r->msgs_per_s * c->bytes / 1e9;
}

static bool stream_lead(struct end *e, const struct bench_case *c, struct result *r)
{
	const uint64_t *credit = (const uint64_t *)(const void *)
				 ((uint8_t *)e->slab.addr + CREDIT_OFF);
	uint64_t sent = 0, acked = 0, t0 = clock_ns();

	while (sent < c->count) {
		uint32_t n = (uint32_t)MIN(c->count - sent, (uint64_t)c->batch);

		/* pairs with the release in the peer's write: the ring is free */
		while (sent + n - acked > play_window(c))
			acked = ld_acq(credit);
		if (!stream_post(e, c, sent, n))
			return false;
		sent += n;
	}
	while (acked < sent)
		acked = ld_acq(credit);		/* as above */
	rate(r, c, t0);
	return true;
}

static bool credit_write(struct end *e, uint64_t count)
{
	struct ibv_sge sge = { (uintptr_t)&count, sizeof(count), 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE };

	wr.wr.rdma.remote_addr = e->base + CREDIT_OFF;
	wr.wr.rdma.rkey = e->rkey;
	return end_post(e, &wr);
}

static bool stream_follow(struct end *e, const struct bench_case *c)
{
	uint64_t seen = 0, told = 0;
	uint32_t quarter = MAX(play_window(c) / 4, 1u);
	struct ibv_wc wc[POLL_BATCH];
	const uint8_t *slab = e->slab.addr;

	while (seen < c->count) {
		int n = end_wait_recvs(e, wc, POLL_BATCH);

		if (n < 0)
			return fail("ibv_poll_cq");
		for (int i = 0; i < n; i++, seen++)
			memcpy(e->dst, slab + seen % play_window(c) * c->bytes, c->bytes);
		if (!end_post_recvs(e, (uint32_t)n))
			return false;
		if (seen - told >= quarter || seen == c->count) {
			if (!credit_write(e, seen))
				return false;
			told = seen;
		}
	}
	return true;
}

/* ---------------------------------------------------------------- write -- */

/* Done: each one up to the last that was signalled and has completed. */
static bool write_lead(struct end *e, const struct bench_case *c, struct result *r)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint64_t t0 = clock_ns();

	for (uint64_t i = 0; i < c->count; i++) {
		end_write(e, &wr, &sge, i % play_window(c) * c->bytes, c->bytes, IBV_WR_RDMA_WRITE);
		wr.wr_id = i + 1;
		if ((i + 1) % c->signal == 0 || i + 1 == c->count)
			wr.send_flags |= IBV_SEND_SIGNALED;
		while (i - e->told >= MAX(play_window(c), c->signal))
			if (!end_take_sends(e))
				return false;
		if (!end_post(e, &wr))
			return false;
	}
	while (e->told < c->count)
		if (!end_take_sends(e))
			return false;
	rate(r, c, t0);
	return true;
}

/* ------------------------------------------------------------ processes -- */

/* allowed: as it was before the first pin() */
static void pin(int which)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &allowed) && which-- == 0) {
			CPU_SET(i, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
}

static void follow(int sock, const struct bench_case *c)
{
	struct end e;
	char bye;
	bool ok;

	pin(1);
	ok = end_open(&e, sock, c->event);
	if (ok && c->kind == PLAY_PINGPONG)
		ok = pingpong_follow(&e, c);
	else if (ok && c->kind == PLAY_STREAM)
		ok = stream_follow(&e, c);
	/* the leader closes first */
	ok = ok && read(sock, &bye, 1) >= 0;
	_exit(ok ? 0 : 1);
}

static bool lead(struct end *e, const struct bench_case *c, struct result *r)
{
	switch (c->kind) {
	case PLAY_PINGPONG:
		return pingpong_lead(e, c, r);
	case PLAY_STREAM:
		return stream_lead(e, c, r);
	default:
		return write_lead(e, c, r);
	}
}

/* One run of a case, the follower in a process of its own. */
static bool run_once(const struct bench_case *c, struct result *r)
{
	struct end e;
	int sock[2], status = 1;
	pid_t pid;
	bool ok;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return fail("socketpair");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(sock[0]);
		follow(sock[1], c);
	}
	close(sock[1]);
	ok = pid > 0 && end_open(&e, sock[0], c->event) && lead(&e, c, r);
	if (!ok && pid > 0)
		kill(pid, SIGKILL);
	close(sock[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (ok)
		end_close(&e);
	return ok && status == 0;
}

bool play_init(void)
{
	clock_init();
	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return fail("finding two cores");
	pin(0);
	return true;
}

bool play_best(const struct bench_case *c, int runs, struct result *best)
{
	memset(best, 0, sizeof(*best));
	for (int i = 0; i < runs; i++) {
		struct result r = { 0 };

		if (!run_once(c, &r))
			return false;
		if (!i || r.msgs_per_s > best->msgs_per_s || r.p50_us < best->p50_us)
			*best = r;
	}
	return true;
}
