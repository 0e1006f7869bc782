/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * process.c - start, fork, exec, exit
 *
 * Before a fork every attached conn goes back to the kernel, both ways, and
 * does not attach again (reason fork): afterwards both processes hold an
 * ordinary socket.  Before an exec the same for what the new image inherits,
 * and an orderly end for what it does not.  The child of a fork starts with
 * nothing of the engine; what it inherited never attaches.
 */
#define _GNU_SOURCE
#include "sock/process.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/hello.h"

#define HAND_BACK_MS	3000
#define EXIT_S		25

const struct process_hooks *process_hooks;

void process_start(char *const *envp)
{
	bind_start();
	process_hooks->start();
}

/* ------------------------------------------------------------ hand back -- */

struct back {
	enum reason why;
	bool inherited_only;	/* leave close-on-exec descriptors alone */
};

/* Ask for both directions of c; it does not attach again. */
static void ask_back(struct conn *c, void *arg)
{
	const struct back *b = arg;

	lock_take(&c->rxl);
	bool go = c->fd >= 0 && !c->closing && c->established;
	if (go && b->inherited_only)
		go = !(sys_fcntl(c->fd, F_GETFD, 0) & FD_CLOEXEC);
	if (go && c->link) {
		if (conn_rx_on_ring(c))
			log_debug("fd %d rx wanted back: %s", c->fd, reason_name(b->why));
		/* first: the request goes in-band too, which wakes the peer at once */
		rx_act(c, prx_want(&c->rx));
	}
	lock_take(&c->txl);
	if (go) {
		if (c->meet != MEET_OVER)
			bind_give_up(c, b->why);
		tx_retreat(c, b->why);
	}
	conn_unlock_both(c);
}

static void still_out(struct conn *c, void *arg)
{
	uint32_t *n = arg;

	lock_take(&c->rxl);
	if (!c->closing && c->fd >= 0 && c->rx.want &&
	    (conn_tx_on_ring(c) || conn_rx_on_ring(c) || c->rx.drop))
		++*n;
	lock_drop(&c->rxl);
}

static bool back_ready(struct wait *w)
{
	return false;		/* looked at by the loop below, between short sleeps */
}

/* Until the kernel has all of them again; bounded. */
static void wait_back(void)
{
	uint64_t end = clock_ns() + HAND_BACK_MS * NS_PER_MS;
	uint32_t n;

	do {
		n = 0;
		conn_for_each(still_out, &n);
		if (!n)
			return;
		struct wait w = { .ready = back_ready, .no_cancel = true,
				  .deadline_ns = clock_ns() + NS_PER_MS / 2 };
		wait_run(&w);
	} while (clock_ns() < end);
	log_error("%u connections did not come back in time", n);
}

static void hand_back(enum reason why, bool inherited_only)
{
	struct back b = { why, inherited_only };

	if (!bg_running())
		return;
	conn_for_each(ask_back, &b);
	wait_back();
}

/* ----------------------------------------------------------------- fork -- */

static bool forking;		/* prepare ran: its locks are held */

void process_fork_prepare(void)
{
	hand_back(REASON_FORK, false);
	conn_fork_prepare();
	process_hooks->fork_prepare();
	forking = true;
}

void process_fork_parent(void)
{
	if (!forking)
		return;
	forking = false;
	process_hooks->fork_parent();
	conn_fork_parent();
}

void process_fork_child(void)
{
	engine_forget();
	wait_forget();
	bg_forget();
	link_forget_all();
	privfd_close_all(log_fd(), counters_fd());
	bind_forget_all();
	counters_reset();
	end_pending = 0;
	conn_fork_child();
	process_hooks->fork_child();
	forking = false;
}

void process_spawn_prepare(void)
{
	hand_back(REASON_FORK, true);
}

void process_spawn_done(void)
{
}

/* ----------------------------------------------------------------- exit -- */

/* A conn that the program still holds: end it as close() would. */
static void end_one(struct conn *c, void *arg)
{
	lock_take(&c->rxl);
	if (!c->closing && c->fd >= 0 && ld_rlx(&c->ever_ring) && c->rx_inside == 0)
		rx_pull(c);
	lock_take(&c->txl);
	bool go = !c->closing && c->fd >= 0 && ld_rlx(&c->ever_ring) &&
		  end_take_over(c, c->fd) == END_ORDERLY;
	if (go) {
		conn_get(c);		/* end_step() gives the table's back */
		st_rlx(&c->closing, true);
		add_rlx(&end_pending, 1);
		conn_todo(c, JOB_CLOSE);
	}
	conn_unlock_both(c);
}

static bool ended(struct wait *w)
{
	return ld_acq(&end_pending) == 0;
}

/* Also when signals come: what the program has written is to arrive. */
static void wait_ended(void)
{
	struct wait w = { .ready = ended, .deadline_ns = clock_ns() + EXIT_S * NS_PER_S,
			  .no_cancel = true };

	while (ld_acq(&end_pending) && wait_run(&w) == -EINTR)
		;
}

static void end_all(void)
{
	if (!bg_running())
		return;
	conn_for_each(end_one, NULL);
	wait_ended();
}

static void count_one(struct conn *c, void *arg)
{
	conn_count_final(c);	/* one that is closing too: nobody will come back to it */
}

void process_exit(int status)
{
	end_all();
	conn_for_each(count_one, NULL);
}

/* ----------------------------------------------------------------- exec -- */

static void end_cloexec(struct conn *c, void *arg)
{
	lock_take(&c->rxl);
	bool go = c->fd >= 0 && (sys_fcntl(c->fd, F_GETFD, 0) & FD_CLOEXEC);
	lock_drop(&c->rxl);
	if (go)
		end_one(c, arg);
}

void process_exec_prepare(char *const *argv, char *const *envp)
{
	if (!bg_running())
		return;
	hand_back(REASON_EXEC, true);
	conn_for_each(end_cloexec, NULL);
	wait_ended();
}

void process_exec_failed(int err)
{
}

void process_sandbox(enum reason why)
{
	hand_back(why, false);
	hello_forbid();
	bg_stop();
}
