/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * last.c - threads that leave by SYS_exit, past libc
 *
 * A process whose threads leave as libc has it ends by exit(0) in the last of
 * them, since libc does not count ours (tasks_hide()).  One that has left past
 * libc stays on libc's count for ever, and the kernel ends the process, with the
 * status of the last to leave: which would be ours, that never does.
 *
 * So who leaves thus is counted here, too.  When the counts are equal the
 * program is over: seen by the thread itself, when it is the last, or by a look
 * now and then, from the first such leave on, when the last goes by libc's way.
 * Threads that libc never knew are known to the kernel: no end as long as it has
 * more than ours and a main thread that has left.
 *
 * Interleavings: the last to add to left sees all of them, and libc takes a
 * thread off its count when all of the program's code in it is over.  So counts
 * that are equal stay so: nobody is left to make a thread.
 */
#define _GNU_SOURCE
#include "sock/last.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "progress/bg.h"
#include "sock/process.h"

#define LOOK_MS		10
#define LOOK_MAX_MS	160

static uint32_t left;		/* past libc */
static int last_status;
static uint64_t wait_ms;	/* the background thread's */

static void begin(struct bg_work *w);
static void look(struct bg_timer *t);
static struct bg_work work = { .fn = begin };
static struct bg_timer timer = { .fn = look };

static bool counts_equal(void)
{
	int n = tasks_counted();

	return n > 0 && ld_acq(&left) == (uint32_t)n;	/* pairs with process_leaves() */
}

/* Does the kernel know of no others but so many? */
static bool alone_with(int most)
{
	int n = tasks_total();

	return n < 0 || n <= most;
}

bool process_leaves(int status)
{
	bool main = sys_gettid() == sys_getpid();

	add_acqrel(&left, 1);
	if (counts_equal()) {
		st_rlx(&last_status, status);
		if (alone_with(1 + !main + bg_running()))
			return true;
	}
	bg_queue(&work);	/* a thread that does not run yet finds it */
	return false;
}

/* In a thread of its own: the end of the process waits for the background thread. */
static void *end_process_main(void *arg)
{
	_exit(ld_rlx(&last_status));
	return NULL;
}

static void look(struct bg_timer *t)
{
	pthread_t th;

	if (counts_equal() && alone_with(2) &&
	    pthread_create(&th, NULL, end_process_main, NULL) == 0)
		return;
	bg_timer_set(t, clock_ns() + wait_ms * NS_PER_MS);
	wait_ms = MIN(2 * wait_ms, (uint64_t)LOOK_MAX_MS);
}

static void begin(struct bg_work *w)
{
	wait_ms = LOOK_MS;
	look(&timer);
}

void last_forget(void)
{
	left = 0;
	last_status = 0;
	work.queued = 0;
	timer = (struct bg_timer){ .fn = look };
}
