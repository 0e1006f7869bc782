/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The actor: plays one end of a random sequence, call by call, from a script.
 *
 * A script line is "INDEX OWNER [&]NAME NUMBER...".  OWNER says who makes the
 * call: s and c, the two ends; x and y, a child of either; *, both ends.  With
 * & the call is made by a thread of its own, and told of at the line "join".
 * All processes read the same script, and meet after each line, so that the
 * calls have one order.  Descriptors are places in a table, never numbers.
 */
#ifndef TESTS_RANDOM_ACTOR_H
#define TESTS_RANDOM_ACTOR_H

#include "tests/conformance/conform.h"

#include <pthread.h>

enum { ARGS_MAX = 64, FDS = 48, LOG_MAX = 4096, SETTLE_MS = 5000 };

struct op {
	int index;
	char owner;
	bool threaded;
	char name[24];
	long a[ARGS_MAX];
	int argc;
};

/* One end: what its calls work on. */
struct end {
	int fd[FDS];		/* -1: none */
	struct role *r;
	long flooded;		/* bytes that the last flood wrote */
	pid_t child;
	int wire[2];		/* to the child; the child's own */
	int hand[2];		/* the same, for descriptors */
	pthread_t thread;
	struct op thread_op;
	pid_t tid;
	char log[LOG_MAX];	/* what the thread has to tell */
	int log_len;
};

struct call {
	const char *name;
	void (*run)(struct end *e, const struct op *o);
};

extern const struct call data_calls[], wait_calls[], fd_calls[], process_calls[];

/* actor.c */
__attribute__((format(printf, 3, 4)))
void say(struct end *e, const struct op *o, const char *fmt, ...);
void say_result(struct end *e, const struct op *o, long value, const char *more);
int fd_at(const struct end *e, long place);	/* -1 if there is none */
void fd_put(struct end *e, long place, int fd);
void mark(void);				/* errno has a known value before a call */
void signals_install(void);

/* data.c */
uint32_t digest(const unsigned char *p, size_t n);
void pattern_fill(unsigned char *p, size_t n, long pattern, size_t from);

#endif
