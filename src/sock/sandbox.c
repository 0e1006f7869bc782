/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sandbox.c - a program that shuts itself in, or was shut in from the start
 *
 * What a filter, a namespace or Landlock will allow cannot be known, so before
 * one comes the process leaves the ring for good: nobody meets any more, all
 * conns go back to the kernel, links and names are given up, the background
 * thread ends, and calls on what were conns are the program's own again.
 *
 * Order, against other threads in the middle of an attach:
 *  1. hello_forbid(): whoever looks from now on does not begin.  What is under
 *     way ends with 2: it is MEET_OVER under both locks, where BIND is sent,
 *     accepted and answered, and GRANT and SWITCH are decided.
 *  2. Both directions of all conns are asked back; bounded.  So are those that
 *     are a parent's, and children hear that there is nobody to ask any more.
 *  3. The links die, in the background thread: a peer that did not answer hears
 *     of it, retreats, and its RESUME is waited for once more.
 *  4. The thread is joined.  Whatever it was to do is done, or never will be.
 *  5. A conn that is the kernel's in both directions forgets that it was bound.
 *
 * A thread that is asleep in a call on a conn leaves it by the calls that it
 * came by (ppoll, futex, recvmsg); the next one goes straight to libc.
 *
 * The same is done when the program runs out of descriptors: ours stand in its
 * way where they would not on plain TCP.
 *
 * A filter that was there before us is felt for: each call without which a
 * ring could not live is made once, so that its answer can only be one thing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/page.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/fdtab.h"
#include "sock/hello.h"
#include "sock/kin.h"
#include "sock/process.h"

#define DEAD_MS		1000
#define GONE_MS		100

/* ------------------------------------------------------- from the start -- */

/* Memory that is there, or valgrind would find fault with the probes. */
static struct {
	uint32_t word, len;
	struct epoll_event event;
	struct msghdr msg;
	struct timespec none;
	char bytes[64];
} scratch;

#define AT(field) (long)&scratch.field

static const struct probe {
	long nr, a, b, c, d, e, want;
} probes[] = {
	{ SYS_futex, AT(word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 0, 0, 0, 0 },
	{ SYS_ppoll, 0, 0, AT(none), 0, 8, 0 },
	{ SYS_epoll_pwait, -1, AT(event), 1, 0, 0, -EBADF },
	{ SYS_epoll_ctl, -1, EPOLL_CTL_DEL, -1, AT(event), 0, -EBADF },
	{ SYS_read, -1, AT(bytes), 0, 0, 0, -EBADF },
	{ SYS_write, -1, AT(bytes), 0, 0, 0, -EBADF },
	{ SYS_close, -1, 0, 0, 0, 0, -EBADF },
	{ SYS_recvfrom, -1, AT(bytes), 0, 0, 0, -EBADF },
	{ SYS_recvmsg, -1, AT(msg), 0, 0, 0, -EBADF },
	{ SYS_sendto, -1, AT(bytes), 0, 0, 0, -EBADF },
	{ SYS_sendmsg, -1, AT(msg), 0, 0, 0, -EBADF },
	{ SYS_shutdown, -1, SHUT_WR, 0, 0, 0, -EBADF },
	{ SYS_getsockopt, -1, IPPROTO_TCP, TCP_INFO, AT(bytes), AT(len), -EBADF },
	{ SYS_setsockopt, -1, IPPROTO_TCP, TCP_NODELAY, AT(bytes), 4, -EBADF },
	{ SYS_ioctl, -1, SIOCOUTQ, AT(word), 0, 0, -EBADF },
	{ SYS_ioctl, -1, SIOCINQ, AT(word), 0, 0, -EBADF },
	{ SYS_fcntl, -1, F_DUPFD_CLOEXEC, 0, 0, 0, -EBADF },
	{ SYS_fcntl, -1, F_GETFD, 0, 0, 0, -EBADF },
	{ SYS_dup3, -1, 0, O_CLOEXEC, 0, 0, -EBADF },
	{ SYS_fallocate, -1, 0, 0, 1, 0, -EBADF },
	{ SYS_rt_sigprocmask, SIG_BLOCK, 0, 0, 8, 0, 0 },
	{ SYS_tgkill, -1, -1, 0, 0, 0, -EINVAL },
};

bool sandbox_allows(void)
{
	static int verdict;		/* 1: yes, -1: no */

	for (size_t i = 0; !ld_rlx(&verdict) && i < ARRAY_SIZE(probes); i++) {
		const struct probe *p = &probes[i];
		long ret = sys_raw6(p->nr, p->a, p->b, p->c, p->d, p->e, 0);

		if (ret == p->want)
			continue;
		log_info("call %ld is not allowed here (%ld), using kernel tcp", p->nr, ret);
		st_rlx(&verdict, -1);
	}
	if (!ld_rlx(&verdict))
		st_rlx(&verdict, 1);
	return ld_rlx(&verdict) > 0;
}

/* -------------------------------------------------------- from now on -- */

static bool is_shut, all_let_go;		/* the background thread has been there */

static void shut(struct bg_work *w)
{
	bind_shut();
	link_kill_all(NULL);
	st_rel(&is_shut, true);		/* pairs with links_dead() */
	wait_wake_ready();
}

static bool links_dead(struct wait *w)
{
	return ld_acq(&is_shut) && !link_any();
}

static bool links_gone(struct wait *w)
{
	return ld_acq(&all_let_go) && link_count() == 0;
}

static void wait_links(bool (*ready)(struct wait *w), uint64_t most_ms)
{
	struct wait w = { .ready = ready, .no_cancel = true,
			  .deadline_ns = clock_ns() + most_ms * NS_PER_MS };

	while (wait_run(&w) == -EINTR)
		;
}

static bool all_kernel(const struct conn *c)
{
	return (!c->link || ld_rlx(&c->link->state) == LINK_DEAD) && !c->tx_stuck &&
	       (c->tx.state == PTX_RAW || c->tx.state == PTX_QUIET) &&
	       !ld_rlx(&c->kin) && c->rx.state == PRX_RAW && !c->rx.drop && !owed_error(&c->owed) && !c->rx_shut;
}

/* It would hold its dead link until the program has read what was on the way. */
static void let_go(struct conn *c, void *arg)
{
	conn_take_both(c);
	bool go = c->link && !c->closing && all_kernel(c);
	conn_unlock_both(c);
	if (go)
		bind_let_go(c);
}

static void let_all_go(struct bg_work *w)
{
	conn_for_each(let_go, NULL);
	st_rel(&all_let_go, true);	/* pairs with links_gone() */
	wait_wake_ready();
}

static void links_die(void)
{
	static struct bg_work work = { .fn = shut };

	bg_queue(&work);
	wait_links(links_dead, DEAD_MS);
}

static void links_leave(void)
{
	static struct bg_work work = { .fn = let_all_go };

	bg_queue(&work);
	wait_links(links_gone, GONE_MS);
}


static void settle(struct conn *c, void *arg)
{
	conn_take_both(c);
	if (c->meet != MEET_OVER)
		bind_give_up(c, *(enum reason *)arg);
	int rest = end_give_up(c);
	if (c->watch.fd >= 0) {
		bg_unwatch(&c->watch);
		st_rlx(&c->watch.fd, -1);
		c->watch_events = 0;
		conn_put(c);		/* not the last: a walker has one */
	}
	if (c->ever_bound && !c->closing && !all_kernel(c))
		log_info("fd %d stays bound: tx %u rx %u drop %llu", c->fd, c->tx.state,
			  c->rx.state, (unsigned long long)c->rx.drop);
	else if (c->ever_bound && !c->closing) {
		st_rlx(&c->ever_bound, false);
		conn_watcher->unbound(c);
	}
	conn_unlock_both(c);
	privfd_close(rest);
}

void process_sandbox(enum reason why)
{
	hello_forbid(why);
	if (bg_running()) {
		process_hand_back(why);
		process_leave_kin();
		process_ends();
		links_die();
		process_hand_back(why);
		links_leave();
		kin_stop();
		bg_stop();
	} else {
		process_leave_kin();
		kin_stop();
	}
	conn_for_each(settle, &why);
	wait_wake_ready();
}

static bool give_up_all(void)
{
	static uint32_t given;

	if (xchg_acqrel(&given, 1))
		return false;
	process_sandbox(REASON_NO_MEMORY);
	log_info("no free numbers for the program, using kernel tcp");
	return bg_close() + conn_watcher->shut() + wait_shrink() > 0;
}

bool process_make_room(void)
{
	static uint32_t asked;

	if (page_close())	/* nobody's connection is the slower for it */
		return true;
	/* once: sleepers would fill their pool again, and the caller try for ever */
	if (!xchg_acqrel(&asked, 1) && privfd_unreserve() + wait_shrink() > 0)
		return true;
	/* the loop would give up itself, and wait for that */
	return !bg_is_loop() && give_up_all();
}

void process_seal(void)
{
	process_sandbox(REASON_SANDBOX);
	process_count();
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1)) {
		struct conn *c = fdtab_conn(fd);

		if (!c)
			fdtab_set(fd, NULL, FDTAB_EPOLL);
		else if (!ld_rlx(&c->ever_bound) && !ld_rlx(&c->kin))
			fdtab_set(fd, NULL, FDTAB_CONN);
	}
}
