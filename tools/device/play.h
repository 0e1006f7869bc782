/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * play.h - a case of sidestep-bench rnic: two processes, one on each of the
 * first two allowed cores, which make their objects, run, and take them down
 *
 *   ping-pong	a write each way; the receiver copies the payload out.  With an
 *		immediate it takes a completion, without it looks at the last byte
 *   stream	WRITE_WITH_IMM through a window of the peer's slab; the receiver
 *		returns a count by RDMA WRITE when a quarter is used up, and copies
 *		out as well; sources lie in the sender's cache
 *   write	WRITE, of which the other end learns nothing; one in so many is
 *		signalled, and no more than depth are under way
 */
#ifndef TOOLS_RNIC_PLAY_H
#define TOOLS_RNIC_PLAY_H

#include <stdbool.h>
#include <stdint.h>

enum play_kind { PLAY_PINGPONG, PLAY_STREAM, PLAY_WRITE };

struct bench_case {
	const char *test;
	enum play_kind kind;
	bool imm;			/* ping-pong: WRITE_WITH_IMM */
	bool event;			/* sleep for completions, else spin */
	uint32_t bytes;
	uint32_t batch;			/* work requests a post */
	uint32_t depth;			/* messages under way at most; 0: what the window holds */
	uint32_t signal;		/* PLAY_WRITE: signal one in so many */
	uint64_t count;
};

struct result {
	double p50_us, p99_us, msgs_per_s, gb_per_s;
};

/* Before the first case: two cores, a clock. */
bool play_init(void);

/* The best of a few runs: the machine's noise only ever adds. */
bool play_best(const struct bench_case *c, int runs, struct result *best);

/* How many messages of a stream are under way at most. */
uint32_t play_window(const struct bench_case *c);

#endif
