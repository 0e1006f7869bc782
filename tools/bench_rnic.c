/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bench_rnic.c - the device itself, driven through ibv_post_send, ibv_post_recv,
 * ibv_poll_cq and ibv_req_notify_cq, without a socket: which cases there are,
 * and rows for them
 *
 * Every figure names how the CQ was consumed: "polled" spins, "event" arms the
 * CQ and sleeps in poll(2) on the completion channel.
 */
#define _GNU_SOURCE
#include <config.h>

#include "bench_rnic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "bench/machine.h"
#include "device/end.h"
#include "device/play.h"

static bool json, first_row = true;
static int runs;
static uint64_t scale;

/* ------------------------------------------------------------------ rows -- */

static void row_json(const struct bench_case *c, const struct result *r)
{
	printf("%s\n  {\"test\":\"%s\",\"opcode\":\"%s\",\"cq_mode\":\"%s\",\"bytes\":%u,"
	       "\"batch\":%u,\"depth\":%u,\"signal\":%u,",
	       first_row ? "" : ",", c->test, c->imm ? "write_with_imm" : "write",
	       c->event ? "event" : "polled", c->bytes, c->batch,
	       c->kind == PLAY_PINGPONG ? 1 : play_window(c), c->signal);
	if (c->kind == PLAY_PINGPONG)
		printf("\"p50_us\":%.3f,\"p99_us\":%.3f}", r->p50_us, r->p99_us);
	else
		printf("\"msgs_per_s\":%.0f,\"gb_per_s\":%.3f}", r->msgs_per_s, r->gb_per_s);
	first_row = false;
}

static void row(const struct bench_case *c, const struct result *r)
{
	char how[48] = "";

	if (json) {
		row_json(c, r);
		return;
	}
	if (c->kind == PLAY_STREAM)
		snprintf(how, sizeof(how), "batch %2u, depth %3u", c->batch, play_window(c));
	else if (c->kind == PLAY_WRITE)
		snprintf(how, sizeof(how), "signal 1 in %u", c->signal);
	printf("%-10s %-14s %-6s %6u B  %-20s ", c->test, c->imm ? "write_with_imm" : "write",
	       c->event ? "event" : "polled", c->bytes, how);
	if (c->kind == PLAY_PINGPONG)
		printf("p50 %8.3f us  p99 %8.3f us\n", r->p50_us, r->p99_us);
	else
		printf("%8.3f M msgs/s  %7.3f GB/s\n", r->msgs_per_s / 1e6, r->gb_per_s);
	fflush(stdout);
}

static bool one(const struct bench_case *c)
{
	struct result r;

	if (!play_best(c, runs, &r))
		return false;
	row(c, &r);
	return true;
}

/* ----------------------------------------------------------------- cases -- */

static bool bench_pingpong(void)
{
	static const struct { bool imm, event; } how[] = { { true, false }, { false, false },
							   { true, true } };
	static const uint32_t sizes[] = { 8, 64, 1024, 4096 };

	for (size_t h = 0; h < ARRAY_SIZE(how); h++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct bench_case c = { .test = "pingpong", .kind = PLAY_PINGPONG,
						.imm = how[h].imm, .event = how[h].event,
						.bytes = sizes[i], .batch = 1,
						.count = scale * (how[h].event ? 20 : 200) };

			if (!one(&c))
				return false;
		}
	return true;
}

/* One by one and in lists; then one by one, the receiver sleeping. */
static bool bench_stream(void)
{
	static const struct { uint32_t batch; bool event; } how[] = { { 1, false },
		{ MAX_BATCH, false }, { 1, true } };
	static const uint32_t sizes[] = { 64, 512, 4096, 8192, 65536 };

	for (size_t h = 0; h < ARRAY_SIZE(how); h++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct bench_case c = { .test = "stream", .kind = PLAY_STREAM, .imm = true,
						.event = how[h].event, .bytes = sizes[i],
						.count = scale * (sizes[i] > 4096 ? 100 : 1000) };

			/* a batch that fills the window leaves nothing to overlap */
			c.batch = MIN(how[h].batch, MAX(play_window(&c) / 4, 1u));
			if (!one(&c))
				return false;
		}
	return true;
}

static bool bench_depth(void)
{
	for (int event = 0; event < 2; event++)
		for (uint32_t depth = 1; depth <= DEPTH / 2; depth *= 4) {
			struct bench_case c = { .test = "depth", .kind = PLAY_STREAM, .imm = true,
						.event = event, .bytes = 64, .batch = 1,
						.depth = depth,
						.count = scale * (event ? 20 : depth < 16 ? 100 : 500) };

			if (!one(&c))
				return false;
		}
	return true;
}

static bool bench_signal(void)
{
	static const uint32_t sizes[] = { 64, 4096, 65536 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (uint32_t signal = 1; signal <= 64; signal *= 4) {
			struct bench_case c = { .test = "signal", .kind = PLAY_WRITE,
						.bytes = sizes[i], .batch = 1, .signal = signal,
						.count = scale * (sizes[i] > 4096 ? 50 : 1000) };

			if (!one(&c))
				return false;
		}
	return true;
}

/* --------------------------------------------------------- registration -- */

/* On soft, where nothing is registered: a sealed memfd, mapped. */
static const char *registering(void)
{
	return bench_device == &rnic_soft_ops ? "slab_new" : "ibv_reg_mr";
}

static void row_slab(size_t bytes, double make_us, double fill_us)
{
	if (json) {
		printf("%s\n  {\"test\":\"%s\",\"bytes\":%zu,\"register_us\":%.2f,"
		       "\"populate_us\":%.2f}", first_row ? "" : ",", registering(), bytes, make_us, fill_us);
		first_row = false;
		return;
	}
	printf("%-10s %10zu B  register %8.2f us  populate %10.2f us\n", registering(), bytes, make_us, fill_us);
}

/* Registration apart from transfer, and from finding the memory. */
static bool bench_slab(void)
{
	struct rnic *r;
	struct ibv_pd *pd;

	if (bench_device->open(&r, bench_device_name) || !(pd = bench_device->pd_new(r)))
		return fail("pd_new");
	for (size_t bytes = 4096; bytes <= 64u << 20; bytes *= 16) {
		uint64_t make = UINT64_MAX, fill = UINT64_MAX;

		for (int i = 0; i < 5; i++) {
			struct rnic_slab s;
			uint64_t t0 = clock_ns(), t1, t2;

			if (bench_device->slab_new(pd, bytes, &s))
				return fail("slab_new");
			t1 = clock_ns();
			if (bench_device->slab_populate(&s, 0, bytes))
				return fail("slab_populate");
			t2 = clock_ns();
			bench_device->slab_free(&s);
			make = MIN(make, t1 - t0);
			fill = MIN(fill, t2 - t1);
		}
		row_slab(bytes, (double)make / 1e3, (double)fill / 1e3);
	}
	bench_device->pd_free(pd);
	bench_device->close(r);
	return true;
}

/* ------------------------------------------------------------------ main -- */

static const char usage_text[] =
"usage: sidestep-bench rnic [OPTIONS]\n"
"What the RNIC does, without sockets, between two processes on two cores.\n\n"
"  -j, --json         one JSON object\n"
"  -m, --messages N   how much is sent: 1000, a case sends 20 to 1000 times that\n"
"      --quick        100, and one run of each case in place of three\n"
"      --device NAME  soft (the default), verbs, or a device of libibverbs\n";

static bool choose(const char *name)
{
	if (!strcmp(name, rnic_soft_ops.name))
		return true;
#ifdef HAVE_VERBS
	bench_device = &rnic_verbs_ops;
	bench_device_name = strcmp(name, rnic_verbs_ops.name) ? name : NULL;
	return true;
#else
	return fail("--device: built without libibverbs, it");
#endif
}

/* Before anything is printed. */
static bool there(void)
{
	struct rnic *r;

	if (bench_device->open(&r, bench_device_name))
		return fail("opening the device");
	bench_device->close(r);
	return true;
}

/* Return: -1 to go on, else the exit status. */
static int parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json") || !strcmp(argv[i], "-j")) {
			json = true;
		} else if (!strcmp(argv[i], "--quick")) {
			scale = 100;
			runs = 1;
		} else if ((!strcmp(argv[i], "--messages") || !strcmp(argv[i], "-m")) &&
			   i + 1 < argc && strtoul(argv[i + 1], NULL, 10)) {
			scale = strtoul(argv[++i], NULL, 10);
		} else if (!strcmp(argv[i], "--device") && i + 1 < argc) {
			if (!choose(argv[++i]))
				return 1;
		} else {
			bool help = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");

			fputs(usage_text, help ? stdout : stderr);
			return help ? 0 : 2;
		}
	}
	return -1;
}

static void print_head(const char *name)
{
	const struct machine *m = machine_get();

	if (json)
		printf("{\"rnic\":\"%s\",\"qp_type\":\"RC\",\"uc\":\"not offered\",\"runs\":%d,"
		       "\"kernel\":\"%s\",\"cpu\":\"%s\",\"governor\":\"%s\",\"figures\":[",
		       name, runs, m->kernel, m->cpu, m->governor);
	else
		printf("rnic %s, RC (there is no UC), best of %d runs, one core an end\n"
		       "%s, %s, governor %s\n", name, runs, m->kernel, m->cpu, m->governor);
}

int bench_rnic_main(int argc, char **argv)
{
	bool ok;

	json = false;
	first_row = true;
	runs = 3;
	scale = 1000;
	int r = parse(argc, argv);
	if (r >= 0)
		return r;
	if (!play_init() || !there())
		return 1;
	print_head(bench_device_name ? bench_device_name : bench_device->name);
	ok = bench_pingpong() && bench_stream() && bench_depth() && bench_signal() && bench_slab();
	if (json)
		printf("\n]}\n");
	return ok ? 0 : 1;
}
