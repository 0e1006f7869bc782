/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_util.h - TCP pairs, a poll loop, and counting descriptors */
#ifndef TEST_MEET_UTIL_H
#define TEST_MEET_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "meet/meet.h"

/* A connection over loopback: both ends, the listener and its port. */
struct tcp_pair {
	int listener, client, server;
	uint16_t port;
	struct meet_tuple tuple;	/* as the client sees it */
};

enum tcp_kind { TCP_V4, TCP_V6, TCP_MAPPED };	/* MAPPED: IPv4 client, dual-stack server */

void tcp_listen(struct tcp_pair *p, enum tcp_kind kind);
void tcp_connect(struct tcp_pair *p);	/* server stays -1: not accepted */
void tcp_accept(struct tcp_pair *p);
void tcp_open(struct tcp_pair *p, enum tcp_kind kind);
void tcp_close(struct tcp_pair *p);
void fd_tuple(int fd, struct meet_tuple *t);

unsigned open_fds(void);

/* A struct meet_loop over poll(), with a clock that the test moves. */
#define LOOP_FDS 512
struct poll_loop {
	struct meet_loop ops;
	unsigned n;
	struct {
		int fd;
		uint32_t events;
		void (*fn)(void *ctx, uint32_t events);
		void *ctx;
	} w[LOOP_FDS];
};

extern uint64_t test_now_ns;		/* what ops.now_ns returns */
void poll_loop_init(struct poll_loop *l);
/* One poll of at most ms; returns how many callbacks ran. */
unsigned poll_loop_once(struct poll_loop *l, int ms);

#endif
