/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * wait.h - the one way to wait for something on a ring
 *
 * A waiter brings a predicate and, perhaps, kernel descriptors.  It spins on
 * the CQ for an adaptive while, then sleeps: one sleeper leads (it sleeps on
 * the completion channel), the others sleep on a word or descriptor of their
 * own.  Whoever changes the state of a connection calls wait_wake_ready(),
 * which asks each sleeper's predicate and wakes those whose turn it is.
 *
 * No wake-up is lost, because
 *   sleeper:  on the list -> full fence -> predicate -> sleep
 *   changer:  change      -> full fence -> look at the list
 * so that one of the two sees the other; and the leader, besides,
 *   arm -> poll the CQ -> predicate -> sleep on the channel.
 */
#ifndef PROGRESS_WAIT_H
#define PROGRESS_WAIT_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/atomic.h"
#include "base/list.h"

#define WAIT_FOREVER UINT64_MAX

struct wait {
	/*
	 * True when the wait is over.  Called by the waiter and, while it
	 * sleeps, by others: reads only, at most the ready lock, no conn lock.
	 */
	bool (*ready)(struct wait *w);
	uint64_t deadline_ns;		/* clock_ns(); WAIT_FOREVER */
	/*
	 * Called by the waiter when spinning was in vain, before each sleep: what
	 * had been asked for may have come, and somebody else taken it.  May be NULL.
	 */
	void (*before_sleep)(struct wait *w);
	/*
	 * A handler is about to run in the sleep, or the thread ends there: give
	 * back what the call holds, for it may not return.  If it does, it is as
	 * one that begins anew.  In a section, no lock held; may be NULL.
	 */
	void (*gone)(struct wait *w);
	struct pollfd *kfds;		/* kernel descriptors to sleep on as well */
	nfds_t nkfds;
	const sigset_t *mask;		/* during the sleep only; NULL: leave it alone */
	bool no_spin;
	bool no_cancel;			/* of a call that is no cancellation point */

	/* results */
	int kready;			/* how many of kfds have revents */
	bool restart;			/* with -EINTR: every handler that ran had SA_RESTART */

	/* private */
	struct list node;
	uint32_t word;			/* 1: woken */
	int efd;			/* -1: sleeps on word */
	bool poor;			/* no descriptor or memory to be had: looks now and then */
	bool joined, leads;		/* on the list; sleeps on the channel */
	struct timespec left;		/* of the sleep; set to nothing by a handler */
	struct pollfd *many;		/* mapped, when they are too many for the stack */
	size_t many_bytes;
};

/*
 * Context: any application thread, no lock held.  Handlers of the program run
 * here, and a handler or pthread_cancel() may leave for good: nothing that the
 * caller must give back may depend on a return.
 * Return: 0 when ready() holds or kready > 0; -ETIMEDOUT; -EINTR.
 */
int wait_run(struct wait *w);

/* A ready() for who waits for the time, or a signal, alone. */
bool wait_never(struct wait *w);

/* A deadline from a poll-like timeout (NULL: for ever; nothing: 0), or in ns (0: for ever). */
uint64_t wait_deadline(const struct timespec *timeout);
uint64_t wait_deadline_ns(uint64_t timeout_ns);

void wait_wake_slow(void);
extern uint32_t wait_sleepers;

/* After any change that could end somebody's wait.  No poll or conn lock needed. */
static inline void wait_wake_ready(void)
{
	fence_full();	/* pairs with wait_run(): list, fence, predicate */
	if (__builtin_expect(ld_rlx(&wait_sleepers) != 0, 0))
		wait_wake_slow();
}

/* Is a thread asleep on the completion channel? */
bool wait_has_leader(void);

/*
 * The channel's event was taken by somebody else: a leader that sleeps on it
 * may have missed it and must arm again.
 */
void wait_nudge_leader(void);

/* Close event descriptors that nobody sleeps on.  Return: how many. */
int wait_shrink(void);

void wait_forget(void);

#endif
