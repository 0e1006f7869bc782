/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bench_rnic.c - the device itself, driven through ibv_post_send, ibv_post_recv,
 * ibv_poll_cq and ibv_req_notify_cq, without a socket
 *
 * Two processes, one on each of the first two allowed cores.  Each case makes
 * its objects, runs, and takes them down.  What crosses:
 *
 *   ping-pong  WRITE_WITH_IMM each way; the receiver copies the payload out
 *   stream     WRITE_WITH_IMM through a window of the peer's slab; the
 *              receiver returns a count by RDMA WRITE when a quarter is used
 *              up, and copies out as well; sources lie in the sender's cache
 *
 * Every figure names how the CQ was consumed: "polled" spins, "event" arms the
 * CQ and sleeps in poll(2) on the completion channel.
 */
#define _GNU_SOURCE
#include "bench_rnic.h"

#include <poll.h>
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
#include "rnic/rnic.h"

#define SLAB_BYTES	(4u << 20)
#define WINDOW_BYTES	(256u << 10)	/* a ring, as a connection has it */
#define CREDIT_OFF	(3u << 20)	/* the word that counts consumed messages */
#define SRC_BYTES	(64u << 10)
#define DEPTH		1024u		/* receives posted */
#define MAX_BATCH	16
#define POLL_BATCH	32
#define GIVE_UP_S	20

struct end {
	struct rnic *rnic;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct rnic_slab slab;
	uint32_t rkey;
	uint64_t base;
	bool event;
	uint8_t *src, *dst;		/* the program's buffers */
};

struct bench_case {
	bool stream;
	bool event;
	uint32_t bytes;
	uint32_t batch;			/* work requests a post */
	uint64_t count;
};

struct result {
	double p50_us, p99_us, msgs_per_s, gb_per_s;
};

static bool json, first_row = true;
static cpu_set_t allowed;
static const struct rnic_ops *const device = &rnic_soft_ops;

static bool fail(const char *what)
{
	fprintf(stderr, "sidestep-bench rnic: %s failed\n", what);
	return false;
}

/* Parameters and their descriptors over a socket pair. */
static bool params_send(int fd, const struct rnic_params *p)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(sizeof(p->fds))];
	} c = { .buf = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (p->nfds) {
		m.msg_control = c.buf;
		m.msg_controllen = CMSG_SPACE(p->nfds * sizeof(int));
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(p->nfds * sizeof(int));
		memcpy(CMSG_DATA(&c.h), p->fds, p->nfds * sizeof(int));
	}
	return sendmsg(fd, &m, 0) == sizeof(*p);
}

static bool params_recv(int fd, struct rnic_params *p)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(sizeof(p->fds))];
	} c;
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct cmsghdr *h;

	if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != sizeof(*p))
		return false;
	h = CMSG_FIRSTHDR(&m);
	if (p->nfds && h)
		memcpy(p->fds, CMSG_DATA(h), p->nfds * sizeof(int));
	return !p->nfds || h;
}

static bool end_connect(struct end *e, int sock)
{
	struct rnic_params mine, theirs;
	size_t len;

	if (device->qp_export(e->qp, &e->slab, &mine))
		return fail("qp_export");
	if (!params_send(sock, &mine))
		return fail("sendmsg");
	for (uint32_t i = 0; i < mine.nfds; i++)
		close(mine.fds[i]);
	if (!params_recv(sock, &theirs))
		return fail("recvmsg");
	if (device->qp_connect(e->qp, &theirs))
		return fail("qp_connect");
	device->qp_peer_slab(e->qp, &len, &e->rkey, &e->base);
	return true;
}

static bool post_recvs(struct end *e, uint32_t n)
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

static bool end_open(struct end *e, int sock, bool event)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_recv_wr = DEPTH, .max_send_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 } };

	memset(e, 0, sizeof(*e));
	e->event = event;
	if (device->open(&e->rnic, NULL))
		return fail("open");
	e->pd = device->pd_new(e->rnic);
	e->ch = device->channel_new(e->rnic);
	e->cq = e->pd && e->ch ? device->cq_new(e->rnic, 2 * DEPTH, e->ch) : NULL;
	if (!e->cq)
		return fail("cq_new");
	attr.send_cq = attr.recv_cq = e->cq;
	e->qp = device->qp_new(e->pd, &attr);
	e->src = aligned_alloc(4096, SRC_BYTES);
	e->dst = aligned_alloc(4096, SRC_BYTES);
	if (!e->qp || !e->src || !e->dst || device->slab_new(e->pd, SLAB_BYTES, &e->slab) ||
	    device->slab_populate(&e->slab, 0, SLAB_BYTES))
		return fail("qp_new or slab_new");
	memset(e->src, 0x5a, SRC_BYTES);
	memset(e->dst, 0, SRC_BYTES);
	/* every page mapped: faults are no part of the figures */
	memset(e->slab.addr, 0, SLAB_BYTES);
	return post_recvs(e, DEPTH) && end_connect(e, sock);
}

static void end_close(struct end *e)
{
	device->qp_free(e->qp);
	device->slab_free(&e->slab);
	device->cq_free(e->cq);
	device->channel_free(e->ch);
	device->pd_free(e->pd);
	device->close(e->rnic);
	free(e->src);
	free(e->dst);
}

static bool sleep_event(struct end *e)
{
	struct pollfd p = { e->ch->fd, POLLIN, 0 };

	if (poll(&p, 1, GIVE_UP_S * 1000) != 1)
		return fail("waiting for an event");
	device->channel_drain(e->ch);
	return true;
}

/* At least one completion; -1 on failure. */
static int wait_some(struct end *e, struct ibv_wc *wc, int max)
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

static void wr_write(struct end *e, struct ibv_send_wr *wr, struct ibv_sge *sge, uint64_t off,
		     uint32_t bytes)
{
	*sge = (struct ibv_sge){ (uintptr_t)e->src, bytes, 0 };
	*wr = (struct ibv_send_wr){ .sg_list = sge, .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				    .send_flags = IBV_SEND_INLINE };
	wr->wr.rdma.remote_addr = e->base + off;
	wr->wr.rdma.rkey = e->rkey;
}

static bool ping(struct end *e, const struct bench_case *c)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	wr_write(e, &wr, &sge, 0, c->bytes);
	return !ibv_post_send(e->qp, &wr, &bad) || fail("ibv_post_send");
}

static bool pong(struct end *e, const struct bench_case *c)
{
	struct ibv_wc wc;

	if (wait_some(e, &wc, 1) < 0)
		return fail("ibv_poll_cq");
	memcpy(e->dst, e->slab.addr, c->bytes);
	return post_recvs(e, 1);
}

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static bool pingpong_lead(struct end *e, const struct bench_case *c, struct result *r)
{
	uint32_t *t = calloc(c->count, sizeof(*t));
	uint64_t warm = c->count / 10, t0, t1;
	bool ok = t != NULL;

	for (uint64_t i = 0; ok && i < warm; i++)
		ok = ping(e, c) && pong(e, c);
	t0 = clock_ticks();
	for (uint64_t i = 0; ok && i < c->count; i++) {
		ok = ping(e, c) && pong(e, c);
		t1 = clock_ticks();
		t[i] = (uint32_t)(t1 - t0);
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
	for (uint64_t i = 0; i < c->count + c->count / 10; i++)
		if (!pong(e, c) || !ping(e, c))
			return false;
	return true;
}

static uint32_t window_slots(const struct bench_case *c)
{
	return MIN(WINDOW_BYTES / c->bytes, DEPTH / 2);
}

static bool stream_post(struct end *e, const struct bench_case *c, uint64_t at, uint32_t n)
{
	struct ibv_send_wr wr[MAX_BATCH], *bad;
	struct ibv_sge sge[MAX_BATCH];

	for (uint32_t i = 0; i < n; i++) {
		wr_write(e, &wr[i], &sge[i], (at + i) % window_slots(c) * c->bytes, c->bytes);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	return !ibv_post_send(e->qp, wr, &bad) || fail("ibv_post_send");
}

static bool stream_lead(struct end *e, const struct bench_case *c, struct result *r)
{
	const uint64_t *credit = (const uint64_t *)(const void *)
				 ((uint8_t *)e->slab.addr + CREDIT_OFF);
	uint64_t sent = 0, acked = 0, t0 = clock_ns();

	while (sent < c->count) {
		uint32_t n = (uint32_t)MIN(c->count - sent, (uint64_t)c->batch);

		/* pairs with the release in the peer's write: the ring is free */
		while (sent + n - acked > window_slots(c))
			acked = ld_acq(credit);
		if (!stream_post(e, c, sent, n))
			return false;
		sent += n;
	}
	while (acked < sent)
		acked = ld_acq(credit);		/* as above */
	r->msgs_per_s = (double)sent * 1e9 / (double)(clock_ns() - t0);
	r->gb_per_s = r->msgs_per_s * c->bytes / 1e9;
	return true;
}

static bool credit_write(struct end *e, uint64_t count)
{
	struct ibv_sge sge = { (uintptr_t)&count, sizeof(count), 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE }, *bad;

	wr.wr.rdma.remote_addr = e->base + CREDIT_OFF;
	wr.wr.rdma.rkey = e->rkey;
	return !ibv_post_send(e->qp, &wr, &bad) || fail("ibv_post_send");
}

static bool stream_follow(struct end *e, const struct bench_case *c)
{
	uint64_t seen = 0, told = 0;
	uint32_t quarter = MAX(window_slots(c) / 4, 1u);
	struct ibv_wc wc[POLL_BATCH];
	const uint8_t *slab = e->slab.addr;

	while (seen < c->count) {
		int n = wait_some(e, wc, POLL_BATCH);

		if (n < 0)
			return fail("ibv_poll_cq");
		for (int i = 0; i < n; i++, seen++)
			memcpy(e->dst, slab + seen % window_slots(c) * c->bytes, c->bytes);
		if (!post_recvs(e, (uint32_t)n))
			return false;
		if (seen - told >= quarter || seen == c->count) {
			if (!credit_write(e, seen))
				return false;
			told = seen;
		}
	}
	return true;
}

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
	ok = end_open(&e, sock, c->event) &&
	     (c->stream ? stream_follow(&e, c) : pingpong_follow(&e, c));
	/* the leader closes first */
	ok = ok && read(sock, &bye, 1) >= 0;
	_exit(ok ? 0 : 1);
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
	ok = pid > 0 && end_open(&e, sock[0], c->event) &&
	     (c->stream ? stream_lead(&e, c, r) : pingpong_lead(&e, c, r));
	if (!ok && pid > 0)
		kill(pid, SIGKILL);
	close(sock[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (ok)
		end_close(&e);
	return ok && status == 0;
}

/* The best of a few runs: the machine's noise only ever adds. */
static bool run_best(const struct bench_case *c, int runs, struct result *best)
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

static void row(const char *what, const struct bench_case *c, const struct result *r)
{
	const char *cq = c->event ? "event" : "polled";

	if (json) {
		printf("%s\n  {\"test\":\"%s\",\"cq_mode\":\"%s\",\"bytes\":%u,\"batch\":%u,"
		       "\"p50_us\":%.3f,\"p99_us\":%.3f,\"msgs_per_s\":%.0f,\"gb_per_s\":%.3f}",
		       first_row ? "" : ",", what, cq, c->bytes, c->batch, r->p50_us, r->p99_us,
		       r->msgs_per_s, r->gb_per_s);
		first_row = false;
	} else if (c->stream) {
		printf("stream    %-6s %6u B  batch %2u  %10.3f M msgs/s  %8.3f GB/s\n", cq,
		       c->bytes, c->batch, r->msgs_per_s / 1e6, r->gb_per_s);
	} else {
		printf("ping-pong %-6s %6u B            p50 %7.3f us  p99 %7.3f us\n", cq,
		       c->bytes, r->p50_us, r->p99_us);
	}
	fflush(stdout);
}

static bool bench_pingpong(int runs, uint64_t scale)
{
	static const uint32_t sizes[] = { 8, 64, 1024, 4096 };

	for (int event = 0; event < 2; event++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct bench_case c = { .event = event, .bytes = sizes[i], .batch = 1,
						.count = scale * (event ? 20 : 200) };
			struct result r;

			if (!run_best(&c, runs, &r))
				return false;
			row("pingpong", &c, &r);
		}
	return true;
}

static bool bench_stream(int runs, uint64_t scale)
{
	static const uint32_t sizes[] = { 64, 512, 4096, 8192, 65536 };

	for (uint32_t batch = 1; batch <= MAX_BATCH; batch += MAX_BATCH - 1)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct bench_case c = { .stream = true, .bytes = sizes[i], .batch = batch,
						.count = scale * (sizes[i] > 4096 ? 100 : 1000) };
			struct result r;

			/* a batch that fills the window leaves nothing to overlap */
			c.batch = MIN(batch, MAX(window_slots(&c) / 4, 1u));
			if (!run_best(&c, runs, &r))
				return false;
			row("stream", &c, &r);
		}
	return true;
}

static void row_slab(size_t bytes, double make_us, double fill_us)
{
	if (json) {
		printf("%s\n  {\"test\":\"slab_new\",\"bytes\":%zu,\"register_us\":%.2f,"
		       "\"populate_us\":%.2f}", first_row ? "" : ",", bytes, make_us, fill_us);
		first_row = false;
		return;
	}
	printf("slab_new  %10zu B  register %8.2f us  populate %10.2f us\n", bytes, make_us, fill_us);
}

/* Registration apart from transfer, and from finding the memory. */
static bool bench_slab(void)
{
	struct rnic *r;
	struct ibv_pd *pd;

	if (device->open(&r, NULL) || !(pd = device->pd_new(r)))
		return fail("pd_new");
	for (size_t bytes = 4096; bytes <= 64u << 20; bytes *= 16) {
		uint64_t make = UINT64_MAX, fill = UINT64_MAX;

		for (int i = 0; i < 5; i++) {
			struct rnic_slab s;
			uint64_t t0 = clock_ns(), t1, t2;

			if (device->slab_new(pd, bytes, &s))
				return fail("slab_new");
			t1 = clock_ns();
			if (device->slab_populate(&s, 0, bytes))
				return fail("slab_populate");
			t2 = clock_ns();
			device->slab_free(&s);
			make = MIN(make, t1 - t0);
			fill = MIN(fill, t2 - t1);
		}
		row_slab(bytes, (double)make / 1e3, (double)fill / 1e3);
	}
	device->pd_free(pd);
	device->close(r);
	return true;
}

static int usage(const char *name)
{
	fprintf(stderr, "usage: %s [--json] [--quick] [--device soft]\n", name);
	return 2;
}

int bench_rnic_main(int argc, char **argv)
{
	uint64_t scale = 1000;
	int runs = 3;
	bool ok;

	json = false;
	first_row = true;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--quick"))
			scale = 100, runs = 1;
		else if (!strcmp(argv[i], "--device") && i + 1 < argc &&
			 !strcmp(argv[i + 1], device->name))
			i++;
		else
			return usage(argc ? argv[0] : "rnic");
	}
	clock_init();
	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2) {
		fail("finding two cores");
		return 1;
	}
	pin(0);
	if (json)
		printf("{\"rnic\":\"%s\",\"runs\":%d,\"figures\":[", device->name, runs);
	else
		printf("rnic %s, best of %d runs, one core an end\n", device->name, runs);
	ok = bench_pingpong(runs, scale) && bench_stream(runs, scale) && bench_slab();
	if (json)
		printf("\n]}\n");
	return ok ? 0 : 1;
}
