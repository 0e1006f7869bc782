/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * epoll.c - epoll_ctl and epoll_wait
 *
 * A set without bound conns is waited on by the program's own call.  Else:
 * look at the CQ, report from the ready list, ask the kernel when the list is
 * empty and a look is due, and sleep in wait_run() on the set's descriptor
 * beside the completion channel.  While the ring is busy the kernel is asked
 * at intervals that double as long as it has nothing (KCHECK_MIN_US to
 * KCHECK_MAX_US), so kernel descriptors do not starve and cost little.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "progress/wait.h"
#include "ready/eset.h"
#include "ready/ready.h"
#include "sock/bind.h"
#include "sock/fdtab.h"

#define KCHECK_MIN_US	32
#define KCHECK_MAX_US	4096

void ready_epoll_created(int ep)
{
	eset_number_gone(ep);
	eset_new(ep);
	st_rlx(&ready_in_use, 1);
}

static int result(int n)
{
	return n < 0 ? -errno : n;
}

/* ---------------------------------------------------------------- ctl -- */

static int ctl_add(struct eset *s, int ep, struct conn *c, int fd, struct epoll_event *ev)
{
	struct eent *e = eset_find(s, c, fd);

	if (e)
		return -EEXIST;
	e = eset_add(s, c, fd);
	if (!e)
		return -ENOMEM;
	e->events = ev->events;
	e->data = ev->data.u64;
	int err = eset_sync(e, true);
	if (err)
		eset_remove(e);
	else if (c->ever_bound)
		eset_push(e);
	return err;
}

static int ctl_mod(struct eset *s, int ep, struct conn *c, int fd, struct epoll_event *ev)
{
	struct eent *e = eset_find(s, c, fd);

	if (!e)
		return sys_epoll_ctl(ep, EPOLL_CTL_MOD, fd, ev);
	struct eent old = *e;
	e->events = ev->events;
	e->data = ev->data.u64;
	e->disabled = false;
	int err = eset_sync(e, true);
	if (err) {
		e->events = old.events;
		e->data = old.data;
		e->disabled = old.disabled;
		return err;
	}
	if (c->ever_bound)
		eset_push(e);
	return 0;
}

static int ctl_del(struct eset *s, int ep, struct conn *c, int fd, struct epoll_event *ev)
{
	struct eent *e = eset_find(s, c, fd);
	int err = e && !e->in_kernel ? 0 : sys_epoll_ctl(ep, EPOLL_CTL_DEL, fd, ev);

	if (!err && e)
		eset_remove(e);
	return err;
}

int ready_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	struct conn *c = conn_lock_both(fd);
	struct eset *s = fdtab_eset(ep);
	int err;

	if (!c)
		return result(real.epoll_ctl(ep, op, fd, ev));
	if (!s || (ev && op == EPOLL_CTL_ADD && (ev->events & EPOLLEXCLUSIVE))) {
		/* a set, or a mode, that we do not follow: it must stay on the kernel */
		bind_give_up(c, REASON_OPTION);
		conn_unlock_both(c);
		return result(real.epoll_ctl(ep, op, fd, ev));
	}
	lock_take(&ready_lock);
	if (op == EPOLL_CTL_ADD && ev)
		err = ctl_add(s, ep, c, fd, ev);
	else if (op == EPOLL_CTL_MOD && ev)
		err = ctl_mod(s, ep, c, fd, ev);
	else if (op == EPOLL_CTL_DEL)
		err = ctl_del(s, ep, c, fd, ev);
	else
		err = sys_epoll_ctl(ep, op, fd, ev);
	bool news = s->nready;
	lock_drop(&ready_lock);
	conn_unlock_both(c);
	if (news)
		wait_wake_ready();
	return err;
}

/* --------------------------------------------------------------- wait -- */

/* Report from the ready list; what has nothing to say any more leaves it. */
static int collect(struct eset *s, struct epoll_event *ev, int max)
{
	int n = 0;

	guard_enter();
	lock_take(&ready_lock);
	for (uint32_t left = s->nready; left && n < max; left--) {
		struct eent *e = list_entry(s->ready.next, struct eent, in_ready);
		uint32_t m = conn_ring_events(e->conn) & (e->events | EPOLLERR | EPOLLHUP);

		eset_pop(e);
		if (e->events & EPOLLOUT && !(m & EPOLLOUT) && !e->disabled)
			conn_out_awaited(e->conn);
		if (!m || e->disabled)
			continue;
		ev[n++] = (struct epoll_event){ .events = m, .data.u64 = e->data };
		if (e->events & EPOLLONESHOT)
			e->disabled = true;
		else if (!(e->events & EPOLLET))
			eset_push(e);
	}
	lock_drop(&ready_lock);
	guard_exit();
	return n;
}

/* Take our own momentary entry out of what the kernel reported. */
static int filter(struct epoll_event *ev, int n)
{
	int k = 0;

	for (int i = 0; i < n; i++)
		if (ev[i].data.ptr != &eset_kick_mark)
			ev[k++] = ev[i];
	return k;
}

/* The same descriptor from both sides is one event. */
static int merge(struct epoll_event *ev, int n, int k)
{
	int out = n;

	for (int i = n; i < n + k; i++) {
		int j;

		for (j = 0; j < n; j++)
			if (ev[j].data.u64 == ev[i].data.u64)
				break;
		if (j < n)
			ev[j].events |= ev[i].events;
		else
			ev[out++] = ev[i];
	}
	return out;
}

static int ask_kernel(struct eset *s, int ep, struct epoll_event *ev, int max)
{
	int n = sys_epoll_wait(ep, ev, max, 0);

	s->kchecked = clock_ticks();
	if (n > 0) {
		s->kinterval = KCHECK_MIN_US * clock_ticks_per_us;
		n = filter(ev, n);
	} else if (s->kinterval < KCHECK_MAX_US * clock_ticks_per_us) {
		s->kinterval = MAX(2 * s->kinterval, KCHECK_MIN_US * clock_ticks_per_us);
	}
	return n;
}

struct epoll_waiter {
	struct wait w;
	struct eset *s;
};

static bool epoll_ready(struct wait *w)
{
	return ld_rlx(&container_of(w, struct epoll_waiter, w)->s->nready) != 0;
}

static uint64_t deadline_of(const struct timespec *timeout)
{
	if (!timeout)
		return WAIT_FOREVER;
	if (timeout->tv_sec == 0 && timeout->tv_nsec == 0)
		return 0;
	return clock_ns() + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
}

static int wait_ring(struct eset *s, int ep, struct epoll_event *ev, int max, uint64_t deadline,
		     const sigset_t *mask)
{
	bool ask = deadline == 0;

	s->waited = true;
	for (;;) {
		engine_poll();
		int n = ld_rlx(&s->nready) ? collect(s, ev, max) : 0;
		bool due = clock_ticks() - s->kchecked >= s->kinterval;

		if (n < max && (due || (ask && !n))) {
			int k = ask_kernel(s, ep, ev + n, max - n);

			if (k < 0 && !n)
				return k;
			if (k > 0)
				n = merge(ev, n, k);
		}
		if (n > 0 || deadline == 0)
			return n;
		struct pollfd p = { ep, POLLIN, 0 };
		struct epoll_waiter ew = {
			.w = { .ready = epoll_ready, .deadline_ns = deadline, .kfds = &p,
			       .nkfds = 1, .mask = mask },
			.s = s,
		};
		int err = wait_run(&ew.w);
		if (err == -ETIMEDOUT)
			return 0;
		if (err)
			return err;
		ask = ew.w.kready > 0;
		if (ask)
			s->kchecked = 0, s->kinterval = 0;
	}
}

static int plain_call(enum call_id call, int ep, struct epoll_event *ev, int max,
		      const struct timespec *timeout, const sigset_t *mask)
{
	int ms = -1;

	if (timeout)
		ms = (int)MIN((int64_t)timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000,
			      (int64_t)INT32_MAX);
	switch (call) {
	case CALL_epoll_pwait:
		return result(section_away(real.epoll_pwait(ep, ev, max, ms, mask)));
	case CALL_epoll_pwait2:
		return result(section_away(real.epoll_pwait2(ep, ev, max, timeout, mask)));
	default:
		return result(section_away(real.epoll_wait(ep, ev, max, ms)));
	}
}

int ready_epoll_wait(enum call_id call, int ep, struct epoll_event *ev, int max,
		     const struct timespec *timeout, const sigset_t *mask)
{
	struct eset *s = fdtab_eset(ep);

	if (!s || max <= 0)
		return plain_call(call, ep, ev, max, timeout, mask);
	uint64_t deadline = deadline_of(timeout);
	if (!ld_rlx(&s->nbound)) {
		s->waited = true;
		add_acqrel(&s->plain, 1);
		if (!ld_acq(&s->nbound)) {
			int n = plain_call(call, ep, ev, max, timeout, mask);
			int kept = n > 0 ? filter(ev, n) : n;

			eset_plain_left(s);
			if (kept > 0 || n <= 0)
				return kept;
		} else {
			eset_plain_left(s);
		}
	}
	return wait_ring(s, ep, ev, max, deadline, mask);
}
