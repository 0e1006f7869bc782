/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bg.h - the background thread and its event loop
 *
 * One per process, started at the first meeting, all signals blocked.  It
 * owns an epoll set of private descriptors; everything registered here runs
 * in it, one call at a time, so its users need no locks among themselves.
 *
 * Ticks: while the CQ is disarmed and the engine was active since the last
 * look, it polls the CQ every BG_TICK_MS.  When nothing moved for BG_IDLE_TICKS
 * it arms the CQ and sleeps on the channel itself, if no thread of the program
 * leads ("parked"); at once when it is the only one to take completions.  bg_unpark() is called by a leader that has slept: one
 * event fd write if the thread is parked, nothing otherwise.
 */
#ifndef PROGRESS_BG_H
#define PROGRESS_BG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/atomic.h"
#include "base/list.h"

/* A descriptor watched by the loop.  Embedded in its owner. */
struct bg_src {
	int fd;
	uint32_t watched;
	void (*fn)(struct bg_src *s, uint32_t events);
};

/* Work for the loop; queued at most once at a time, from any thread. */
struct bg_work {
	struct bg_work *next;
	uint32_t queued;
	uint32_t soon;			/* ... by bg_queue_soon() */
	void (*fn)(struct bg_work *w);
};

/* A timer of the loop; only used from within it. */
struct bg_timer {
	struct list node;
	uint64_t at_ns;
	void (*fn)(struct bg_timer *t);
};

/* Start the thread if it is not there.  Any thread.  Return: 0 or -errno. */
int bg_start(void);
bool bg_running(void);

/* Stop and join it (sandboxes); nothing runs in it afterwards. */
void bg_stop(void);

/*
 * After bg_stop(), for good: its descriptors and the channel are closed, once
 * nobody can be using their numbers.  Return: how many.
 */
int bg_close(void);

/*
 * Any thread.  Unwatched from within the loop a source is not called again;
 * from another thread one late call may still come.
 */
int bg_watch(struct bg_src *s, uint32_t events);
int bg_modify(struct bg_src *s, uint32_t events);
void bg_unwatch(struct bg_src *s);

void bg_queue(struct bg_work *w);
/* The same; true if it was not queued already. */
bool bg_queue_once(struct bg_work *w);
/* The same, without haste: within a tick, and the thread is not woken beside the caller. */
bool bg_queue_soon(struct bg_work *w);
/* It is queued, and now there is haste. */
void bg_hurry(struct bg_work *w);

void bg_timer_set(struct bg_timer *t, uint64_t at_ns);
void bg_timer_stop(struct bg_timer *t);

extern uint32_t bg_parked;
void bg_kick(void);
static inline void bg_unpark(void)
{
	fence_full();	/* pairs with park(): flag, fence, leader */
	if (ld_rlx(&bg_parked))
		bg_kick();
}

/*
 * The caller is about to send what will be answered, and may not look at the
 * CQ for long: the answer shall raise an event instead of waiting for a tick.
 * Any thread, conn locks held or not.
 */
void bg_expect(void);

/* The loop itself, of a device that has gone: its channel is not watched any more. */
struct engine_dev;
void bg_channel_gone(const struct engine_dev *d);
/* Is this the loop? */
bool bg_is_loop(void);

/*
 * Of a death the kernel tells the loop first.  A caller that has found nothing, and will
 * not wait, lets the loop come to what it has been told by now.  No lock held.  Return:
 * true, there was something, so that it is worth another look.
 */
bool bg_catch_up(void);
/* The same for what is done often: is the last time long ago? */
bool bg_catch_up_due(void);

void bg_forget(void);

#endif
