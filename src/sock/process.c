/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * process.c - start, fork, exec, exit
 *
 * A fork leaves the rings to the parent; kin.c says how the child comes to its
 * connections.  Before an exec all attached conns go back to the kernel, both
 * ways (reason exec): what the new image inherits is an ordinary socket, the
 * rest ends as the kernel ends it, and if the exec fails all is still there.
 * A spawn (vfork, system) hands back what the new image inherits.  The child
 * of a fork starts with nothing of the engine; what it inherited attaches only
 * when nobody else has it any more (heir.c).
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
#include "rnic/load.h"
#include "sock/act.h"
#include "sock/back.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/fdtab.h"
#include "sock/heir.h"
#include "sock/kin.h"
#include "sock/last.h"
#include "sock/rest.h"

#define HAND_BACK_MS	3000
#define EXIT_S		25

const struct process_hooks *process_hooks;

void process_start(char *const *envp)
{
	bind_start();
	process_hooks->start();
}

/* ------------------------------------------------------------ hand back -- */

static void ask_one(struct conn *c, void *arg)
{
	conn_ask_back(c, *(const enum reason *)arg);
}

/* A conn that the program has as fd; rxl held, and dropped here. */
static void ask_number(struct conn *c, bool own, enum reason why)
{
	conn_get(c);
	lock_drop(&c->rxl);
	if (c->kin_way || c->kin)
		kin_pass(c);
	else if (own)
		conn_ask_back(c, why);
	conn_put(c);
}

/*
 * What a new image would get: each number counts, not only the first.  Own
 * conns are asked back, a parent's conns are asked for.
 */
static void ask_inherited(enum reason why)
{
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1)) {
		struct conn *c = fdtab_conn(fd) ? conn_lock_rx(fd) : NULL;

		if (!c)
			continue;
		bool go = !(sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC) && c->established;
		if (go)
			ask_number(c, true, why);
		else
			lock_drop(&c->rxl);
	}
}

/* All that is a parent's: soon nothing can be asked any more. */
static void ask_parents(void)
{
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1)) {
		struct conn *c = fdtab_conn(fd) ? conn_lock_rx(fd) : NULL;

		if (c)
			ask_number(c, false, REASON_NONE);
	}
}

struct out {
	uint32_t n, full;	/* full: but for bytes that the kernel has no room for yet */
};

/* Return: 0 it is back. */
static int is_out(struct conn *c, uint32_t bits)
{
	conn_take_both(c);
	int out = !c->closing && c->fd >= 0 && c->rx.want && !conn_is_back(c, bits);
	conn_unlock_both(c);
	return out;
}

static void still_out(struct conn *c, void *arg)
{
	struct out *o = arg;

	if (!is_out(c, CONN_BOTH))
		return;
	o->n++;
	o->full += !is_out(c, CONN_RX) && ld_rlx(&c->tx_stuck);
}

static bool back_ready(struct wait *w)
{
	return false;		/* looked at by the loop below, between short sleeps */
}

/*
 * Until the kernel has all of them again; bounded.  patient: nobody will be
 * here to see to what is not back, so a peer that does not read gets longer.
 * Return: how many are still out.
 */
static uint32_t wait_back(bool patient)
{
	uint64_t begun = clock_ns(), now;
	struct out o;

	do {
		o = (struct out){ 0 };
		conn_for_each(still_out, &o);
		if (!o.n)
			return 0;
		struct wait w = { .ready = back_ready, .no_cancel = true,
				  .deadline_ns = clock_ns() + NS_PER_MS / 2 };
		wait_run(&w);
		now = clock_ns();
	} while (now < begun + HAND_BACK_MS * NS_PER_MS ||
		 (patient && o.n == o.full && now < begun + EXIT_S * NS_PER_S));
	log_error("%u connections did not come back in time", o.n);
	return o.n;
}

/* Better an end that is seen than a gap, or records read as data. */
static void abort_out(struct conn *c, void *arg)
{
	if (!is_out(c, CONN_BOTH))
		return;
	lock_take(&c->txl);
	conn_abort(c->fd);
	lock_drop(&c->txl);
}

static void hand_back(enum reason why)
{
	if (!bg_running())
		return;
	conn_for_each(ask_one, &why);
	if (wait_back(true))
		conn_for_each(abort_out, NULL);
}

void process_hand_back(enum reason why)
{
	hand_back(why);
}

/* ----------------------------------------------------------------- fork -- */

static bool forking;		/* prepare ran: its locks are held */

void process_fork_prepare(void)
{
	if (!kin_fork_prepare()) {
		hand_back(REASON_FORK);
		kin_fork_blind();
	}
	load_fork_prepare();
	rest_fork_prepare();
	heir_fork_prepare();
	conn_fork_prepare();
	kin_fork_number();
	process_hooks->fork_prepare();
	privfd_fork_prepare();
	forking = true;
}

void process_fork_parent(void)
{
	if (!forking)
		return;
	forking = false;
	privfd_fork_parent();
	process_hooks->fork_parent();
	conn_fork_parent();
	load_fork_parent();
	kin_fork_parent();
}

/* What the child keeps of the parent's private descriptors. */
static bool kept(int fd)
{
	return fd == log_fd() || fd == counters_fd() || kin_is_way(fd) || rest_keeps(fd);
}

void process_fork_child(void)
{
	privfd_fork_child();
	load_fork_child();
	engine_forget();
	wait_forget();
	bg_forget();
	link_forget_all();
	kin_fork_child();
	privfd_close_all(kept);
	bind_forget_all();
	counters_reset();
	end_forget();
	last_forget();
	conn_fork_child();
	process_hooks->fork_child();
	rest_fork_child();
	forking = false;
}

void process_spawn_prepare(void)
{
	ask_inherited(REASON_FORK);
	if (bg_running())
		wait_back(false);
}

void process_spawn_done(void)
{
}

static bool given_back(struct conn *c, uint32_t gen)
{
	conn_take_both(c);
	bool yes = ld_rlx(&c->gen) != gen || (ld_rlx(&c->meet) == MEET_OVER && conn_is_back(c, CONN_BOTH));
	conn_unlock_both(c);
	return yes;
}

/*
 * The child runs on its parent's memory, but its numbers are its own: it may
 * have closed or replaced the one that a record would go to.  So the parent's
 * background thread does it, and the child waits, as its parent's thread does.
 */
void process_vfork_gives(int fd)
{
	uint64_t end = clock_ns() + HAND_BACK_MS * NS_PER_MS;
	struct conn *c = conn_lock_rx(fd);

	if (!c)
		return;
	uint32_t gen = ld_rlx(&c->gen);
	conn_get(c);
	lock_drop(&c->rxl);
	if (c->kin_way || c->kin)
		kin_pass(c);
	else if (!bg_running())
		conn_ask_back(c, REASON_FORK);
	else if (ld_rlx(&c->established))
		conn_todo(c, JOB_BACK);
	while (ld_rlx(&c->established) && !given_back(c, gen) && clock_ns() < end)
		sys_nap(NS_PER_MS / 4);
	conn_put(c);
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

static void end_all(void)
{
	if (!bg_running())
		return;
	end_process();
	conn_for_each(end_one, NULL);
	end_wait(EXIT_S);
}

void process_ends(void)
{
	end_wait(1);
}

static void count_one(struct conn *c, void *arg)
{
	conn_count_final(c);	/* one that is closing too: nobody will come back to it */
}

static void ask_shared(struct conn *c, void *arg)
{
	uint32_t meet = ld_rlx(&c->meet);

	if (kin_shared(c) && (ld_rlx(&c->ever_bound) || (meet != MEET_IDLE && meet != MEET_OVER)))
		conn_ask_back(c, REASON_FORK);
}

/* The children shall not have to ask somebody who is gone.  Blocks, bounded. */
static void leave_kin(void)
{
	if (!kin_any() || !bg_running())
		return;
	conn_for_each(ask_shared, NULL);
	wait_back(true);
	kin_bye();
}

void process_leave_kin(void)
{
	ask_parents();
	leave_kin();
}

void process_count(void)
{
	conn_for_each(count_one, NULL);
}

void process_exit(int status)
{
	end_all();
	leave_kin();
	process_count();
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
	ask_inherited(REASON_EXEC);
	if (!bg_running())
		return;
	hand_back(REASON_EXEC);
	conn_for_each(end_cloexec, NULL);
	end_wait(EXIT_S);
	leave_kin();
}

void process_exec_failed(int err)
{
}
