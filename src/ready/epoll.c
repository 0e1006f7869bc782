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
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/fdtab.h"
#include "sock/kin.h"
#include "sock/sock.h"
#include "sock/unseen.h"

#define KCHECK_MIN_US	32
#define KCHECK_MAX_US	1024
#define LOWEST_POINTER	65536	/* below that nothing is ever mapped: EFAULT */
#define WANTS		16
#define MISSED_MS	4
#define IN_BITS	 (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLRDHUP)
#define OUT_BITS (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)
#define EXCLUSIVE_BITS ((uint32_t)(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE))

void ready_epoll_created(int ep)
{
	if (eset_number_gone(ep))
		fdtab_done(ep);
	eset_new(ep);
	st_rlx(&ready_in_use, 1);
}

/* ---------------------------------------------------------------- ctl -- */

/* Of one with EPOLLEXCLUSIVE only the kernel knows, which lets nobody change it (EINVAL, else ENOENT). */
static bool exclusive_there(const struct eset *s, int fd, struct epoll_event *ev)
{
	return !ld_rlx(&s->theirs) && sys_epoll_ctl(s->fd, EPOLL_CTL_MOD, fd, ev) == -EINVAL;
}

static int ctl_add(struct eset *s, int ep, struct conn *c, int fd, struct epoll_event *ev)
{
	struct eent *e = eset_find(s, c, fd);

	if (e)
		return eset_add_again(e, ev);
	e = eset_add(s, c, fd);
	if (!e)
		return -ENOBUFS;	/* ours, not the kernel's */
	e->events = ev->events;
	eset_data(e, ev->data.u64);
	int err = eset_sync(e, true);
	if (!err && !e->in_kernel && ld_rlx(&c->rx.state) == PRX_ENDED && exclusive_there(s, fd, ev))
		err = -EEXIST;
	if (err)
		eset_remove(e);
	else if (c->ever_bound)
		eset_push(e, NEWS_ALL);
	return err;
}

static int ctl_mod(struct eset *s, int ep, struct conn *c, int fd, struct epoll_event *ev)
{
	struct eent *e = eset_find(s, c, fd);

	if (!e)
		return sys_epoll_ctl_asked(ep, EPOLL_CTL_MOD, fd, ev);
	struct eent old = *e;
	e->events = ev->events;
	eset_data(e, ev->data.u64);
	e->disabled = false;
	eset_untold(e);
	int err = eset_sync(e, true);
	if (err) {
		e->events = old.events;
		eset_data(e, old.data);
		e->disabled = old.disabled;
		if (err == -ENOENT)
			eset_remove(e);		/* another process has taken it out */
		return err;
	}
	if (c->ever_bound)
		eset_push(e, NEWS_ALL);
	return 0;
}

static int ctl_del(struct eset *s, int ep, struct conn *c, int fd, struct epoll_event *ev)
{
	struct eent *e = eset_find(s, c, fd);
	int err = e && !e->in_kernel ? 0 : sys_epoll_ctl(ep, EPOLL_CTL_DEL, fd, ev);

	if (e && (!err || err == -ENOENT))
		eset_remove(e);
	return err;
}

/* Modes and sets that we do not follow: the conn must be the kernel's first. */
static void ctl_prepare(struct eset *s, int op, int fd, const struct epoll_event *ev)
{
	struct conn *c = fdtab_conn(fd);

	if (!c || op != EPOLL_CTL_ADD || !ev || (s && !(ev->events & EPOLLEXCLUSIVE)))
		return;
	sock_foreign(fd, REASON_OPTION);
}

/* EPOLLEXCLUSIVE for an entry that the kernel need not have: as it would refuse it.  ready_lock held. */
static int ctl_exclusive(struct eset *s, int op, int fd, struct conn *c, const struct epoll_event *ev)
{
	if (op == EPOLL_CTL_DEL || !ev || !(ev->events & EPOLLEXCLUSIVE) || !eset_find(s, c, fd))
		return 0;
	return op == EPOLL_CTL_ADD && !(ev->events & ~EXCLUSIVE_BITS) ? -EEXIST : -EINVAL;
}

/* ready_lock held, as both locks of c. */
static int ctl_entry(struct eset *s, int ep, int op, int fd, struct conn *c, struct epoll_event *ev)
{
	int err = ctl_exclusive(s, op, fd, c, ev);

	if (err)
		return err;
	if (op == EPOLL_CTL_ADD && ev && !(ev->events & EPOLLEXCLUSIVE))
		return ctl_add(s, ep, c, fd, ev);
	if (op == EPOLL_CTL_MOD && ev)
		return ctl_mod(s, ep, c, fd, ev);
	if (op == EPOLL_CTL_DEL)
		return ctl_del(s, ep, c, fd, ev);
	return sys_epoll_ctl_asked(ep, op, fd, ev);
}

/* Both locks of c held. */
static int ctl(struct eset *s, int ep, int op, int fd, struct conn *c, struct epoll_event *ev)
{
	lock_take(&ready_lock);
	int err = ctl_entry(s, ep, op, fd, c, ev);
	lock_drop(&ready_lock);
	if (!err && ev && ev->events & OUT_BITS && op != EPOLL_CTL_DEL && conn_tx_on_ring(c))
		unseen_offer(c);
	return err;
}

/* One set in another: the kernel asks the inner one. */
static int ctl_other(int ep, int op, int fd, struct epoll_event *ev)
{
	struct eset *inner = fdtab_eset(fd);
	int err = real_result(real.epoll_ctl(ep, op, fd, ev));

	if (!err && inner && op == EPOLL_CTL_ADD)
		eset_foreign(inner, true);
	return err;
}

/* Of a set that has gone or come over a fork: does the other side live? */
static bool used_by_others(struct eset *s)
{
	if (likely(!ld_rlx(&s->theirs)))
		return false;
	st_rlx(&s->theirs, kin_others() || kin_any());
	return ld_rlx(&s->theirs);
}

int ready_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	fdtab_look(ep);
	fdtab_look(fd);
	struct eset *s = fdtab_eset(ep);

	kin_first(fd, CONN_RX);
	if (s && unlikely(ld_rlx(&s->kin)))
		eset_kin(s);
	if (!fdtab_conn(fd) || (ev && (uintptr_t)ev < LOWEST_POINTER))
		return ctl_other(ep, op, fd, ev);
	ctl_prepare(s, op, fd, ev);
	struct conn *c = conn_lock_both(fd);
	if (!c || !s) {
		if (c)
			conn_unlock_both(c);
		return ctl_other(ep, op, fd, ev);
	}
	int err = ctl(s, ep, op, fd, c, ev);
	if (unlikely(err == -ENOBUFS)) {
		conn_unlock_both(c);
		sock_foreign(fd, REASON_NO_MEMORY);
		return ctl_other(ep, op, fd, ev);
	}
	bool keep = !err && op == EPOLL_CTL_ADD && (ld_rlx(&s->foreign) || used_by_others(s));
	if (keep)
		conn_get(c);
	conn_unlock_both(c);
	if (keep) {
		sock_keep_on_kernel(c, REASON_OPTION);
		sock_back_until(c, clock_ns() + ESET_BACK_MS * NS_PER_MS);
		conn_put(c);
	}
	if (ld_rlx(&s->nready))
		wait_wake_ready();
	return err;
}

/* --------------------------------------------------------------- wait -- */

/* Conns that something is to be done for when the lock is away. */
struct wants {
	struct conn *c[WANTS];
	int n;
};

static void want(struct wants *w, struct conn *c)
{
	conn_get(c);
	w->c[w->n++] = c;
}

/* What the ring has to report of the entry. */
static uint32_t ring_part(const struct eent *e)
{
	return conn_ring_events(e->conn) & (e->events | EPOLLERR | EPOLLHUP);
}

/* Bytes for it are between two ways. */
static bool rx_between(const struct conn *c)
{
	return conn_rx_coming(c) || rx_more_to_come(c);
}

static bool between(const struct conn *c)
{
	return rx_between(c) || ld_rlx(&c->tx.state) == PTX_PUMP;
}

/*
 * For a caller that will not wait, or need not, what has come, but for its
 * record, shall be there.  Guard and ready_lock held, and away meanwhile.
 */
static void settle(struct eset *s, int max, bool sleeps)
{
	struct wants w = { .n = 0 };
	bool told = !sleeps;

	list_for_each(n, &s->ready) {
		struct eent *e = list_entry(n, struct eent, in_ready);

		if (max-- <= 0 || w.n == WANTS)
			break;
		told = told || (!e->disabled && ring_part(e));
		if (unlikely(between(e->conn)))
			want(&w, e->conn);
	}
	if (likely(!w.n))
		return;
	lock_drop(&ready_lock);
	guard_exit();
	for (int i = 0; i < w.n; i++) {
		if (told) {
			tx_settle(w.c[i]);
			rx_settle(w.c[i]);
		}
		conn_put(w.c[i]);
	}
	guard_enter();
	lock_take(&ready_lock);
}

/* Both ways are over: the bits that the kernel was not asked for go with it. */
static uint32_t with_hup(const struct eent *e, uint32_t m)
{
	if (!(m & EPOLLHUP) || e->kevents == e->events)
		return m;
	return m | (e->events & (IN_BITS | OUT_BITS) & ~(uint32_t)(EPOLLRDBAND | EPOLLWRBAND));
}

/*
 * What the kernel has to say of an entry that both sides answer: tcp_poll() now.
 * Where all its bits are the ring's, the other half of an end may be the kernel's.
 * No ring carries an urgent byte.  Guard held.
 */
static uint32_t kernel_share(struct eent *e, bool end)
{
	bool urgent = ld_rlx(&e->conn->rx.state) != PRX_ON || conn_rx_left(e->conn);
	uint32_t bits = IN_BITS | OUT_BITS | (urgent ? EPOLLPRI : 0);
	struct pollfd p = { e->fd, (short)(e->kevents & bits), 0 };
	struct timespec zero = { 0, 0 };

	if (!e->in_kernel || e->orphan || (!p.events && !end))
		return 0;
	if (sys_ppoll(&p, 1, &zero, NULL) <= 0)
		return 0;
	uint32_t m = (uint16_t)p.revents & (e->events | EPOLLERR | EPOLLHUP);
	if (p.revents & POLLRDHUP && conn_hup_by_kernel(e->conn))
		m |= EPOLLHUP;
	if (m & EPOLLHUP)
		eset_hup(e);	/* so that the kernel's own event of it is no news */
	return with_hup(e, m);
}

/*
 * In a set that others wait on past us, an edge or a single shot may have been
 * theirs: of an entry of which the kernel has all bits it alone knows, as of one
 * that has no number any more.
 */
static bool fired_elsewhere(const struct eent *e)
{
	bool elsewhere = ld_rlx(&e->set->foreign) && e->events & (EPOLLET | EPOLLONESHOT);

	return unlikely(elsewhere || e->orphan) && e->in_kernel && !(e->events & ~e->kevents & (IN_BITS | OUT_BITS));
}

/* One entry that has left the ready list; ready_lock held. */
static uint32_t look(struct eent *e, struct wants *w)
{
	struct conn *c = e->conn;
	uint32_t all = conn_ring_events(c), m = all & (e->events | EPOLLERR | EPOLLHUP);

	if ((e->events & OUT_BITS) && !(m & OUT_BITS) && conn_tx_on_ring(c))
		want(w, c);
	if (fired_elsewhere(e))
		return 0;
	m = eset_report(e, m);
	return m ? m | kernel_share(e, all & EPOLLRDHUP) : 0;
}

/* Report from the ready list; what has nothing to say any more leaves it. */
static int collect(struct eset *s, struct epoll_event *ev, int max, bool sleeps)
{
	struct wants w = { .n = 0 };
	int n = 0;

	guard_enter();
	lock_take(&ready_lock);
	settle(s, max, sleeps);
	for (uint32_t left = s->nready; left && n < max && w.n < WANTS; left--) {
		struct eent *e = list_entry(s->ready.next, struct eent, in_ready);

		eset_pop(e);
		uint32_t m = look(e, &w);
		if (!m)
			continue;
		ev[n++] = (struct epoll_event){ .events = m, .data.u64 = e->data };
		if (e->events & EPOLLONESHOT) {
			e->disabled = true;
			eset_sync(e, false);
		} else if (!(e->events & EPOLLET)) {
			eset_push(e, EPOLLIN | EPOLLOUT);
		}
	}
	lock_drop(&ready_lock);
	guard_exit();
	for (int i = 0; i < w.n; i++) {
		tx_want_room(w.c[i]);
		conn_put(w.c[i]);
	}
	return n;
}

/* What has come in, where the kernel has it all, as conn_arrivals(); 0: not known, or not all. */
static uint64_t kernel_arrivals(struct conn *c, int fd)
{
	uint64_t drop = ld_rlx(&c->rx.drop), way = conn_rx_on_the_way(c);
	int queued = 0;

	if (ld_rlx(&c->rx.state) != PRX_RAW || ld_rlx(&c->rx_shut) || ld_rlx(&c->rx.eof) ||
	    ld_rlx(&c->lowat) || sys_ioctl(fd, FIONREAD, &queued) || (uint64_t)queued < drop)
		return 0;
	return (ld_rlx(&c->rx_given) + MAX((uint64_t)queued - drop, way)) << 3;
}

/* Bytes and room only: no end, no urgent byte, no error. */
static bool nothing_else(int fd)
{
	struct pollfd p = { fd, POLLRDHUP | POLLPRI, 0 };
	struct timespec zero = { 0, 0 };

	return sys_ppoll(&p, 1, &zero, NULL) == 0;
}

/*
 * An edge of the kernel's on a conn that has come back to it, or the bytes of which
 * do: is it one that the program knows of?  It has been told of these bytes and has
 * not found their end since; it has been told of room, and not written since.  What
 * others use as well is told again, for an edge that is not told is a program that
 * sleeps for ever.
 */
static bool old_edge(struct eent *e, uint32_t m, bool late)
{
	struct conn *c = e->conn;
	bool ours = (e->rearmed || conn_rx_on_the_way(c)) && !late, old = true;
	bool alone = !ld_rlx(&e->set->foreign) && !ld_rlx(&e->set->theirs) && !c->inherited &&
		     !kin_shared(c);
	uint64_t arrived = 0;
	bool looking = conn_rx_looking(c);

	e->rearmed = false;
	if (e->orphan || m & ~(uint32_t)(EPOLLIN | EPOLLRDNORM | OUT_BITS))
		return false;
	if (m & IN_BITS) {
		arrived = alone && (ours || ld_rlx(&c->meet) == MEET_BOUND) ? kernel_arrivals(c, e->fd) : 0;
		old = arrived && arrived == e->told && e->dries == ld_rlx(&c->rx_dries) && !looking;
	}
	old = old && ours && alone && (!(m & OUT_BITS) || eset_out_old(e)) && nothing_else(e->fd);
	if (!old && m & OUT_BITS)
		eset_out_told(e);
	if (!old && m & IN_BITS) {
		e->told = arrived;
		e->dries = ld_rlx(&c->rx_dries);
	}
	return old;
}

/*
 * An event of the kernel's own: what is left of it.  A one-shot entry fires on
 * one side only.
 */
static uint32_t kernel_event(struct eset *s, uint32_t m, uint64_t data, bool late)
{
	lock_take(&ready_lock);
	struct eent *e = eset_by_data(s, data);
	if (e && e->kevents & EPOLLRDHUP & ~e->events)
		m = (m & EPOLLRDHUP ? m | EPOLLHUP : m) & (e->events | EPOLLERR | EPOLLHUP);
	else if (e && m & EPOLLRDHUP && conn_hup_by_kernel(e->conn))
		m |= EPOLLHUP;
	if (e)
		m = with_hup(e, m);
	bool edge = e && e->events & EPOLLET && ld_rlx(&e->conn->ever_bound);
	if (edge && m & EPOLLHUP) {
		if (!eset_hup(e) && (!(m & EPOLLERR) || e->told & 1))
			m = 0;		/* of our own doing: it has been told */
		else
			eset_told_end(e, m);
	} else if (edge && !(e->events & EPOLLONESHOT) && old_edge(e, m, late)) {
		m = 0;
	}
	if (e && e->events & EPOLLONESHOT) {
		if (e->disabled && !e->spent)
			m = 0;
		else	/* also once more: another process has armed it */
			e->disabled = e->spent = true;
	}
	lock_drop(&ready_lock);
	return m;
}

/* A reset of which the kernel may have a FIN only.  Guard held, or ready_lock. */
static bool reset_known(struct conn *c)
{
	return conn_owed(c) || ld_rlx(&c->reset);
}

/*
 * An event of the kernel's on a conn that writes to a ring and reads from the
 * kernel may be its end: what TCP would say depends on what was left in the ring.
 */
static void judge_end(struct eset *s, struct epoll_event *ev)
{
	struct conn *c = NULL;
	bool moved = false;

	guard_enter();
	lock_take(&ready_lock);
	struct eent *e = eset_by_data(s, ev->data.u64);
	if (e && conn_tx_on_ring(e->conn) && !conn_rx_hidden(e->conn)) {
		c = e->conn;
		conn_get(c);
	} else if (e && !e->orphan && ld_rlx(&e->conn->ever_bound) && reset_known(e->conn)) {
		ev->events |= ring_part(e);	/* judged since the kernel was asked */
	}
	lock_drop(&ready_lock);
	guard_exit();
	if (!c)
		return;
	lock_take(&c->rxl);
	moved = conn_end_judge(c);
	guard_enter();
	lock_take(&ready_lock);
	e = moved ? eset_by_data(s, ev->data.u64) : NULL;
	if (e && e->conn == c) {
		ev->events |= ring_part(e);
		eset_told(e);
		e->hup_at = 0;		/* this is the telling */
	}
	lock_drop(&ready_lock);
	guard_exit();
	conn_put(c);
}

/* The entry's conn, held, if its bytes are between two ways. */
static struct conn *late(const struct eent *e)
{
	if (!e || !(e->events & EPOLLIN) || !ld_rlx(&e->conn->ever_bound))
		return NULL;
	guard_enter();
	bool yes = rx_between(e->conn);
	guard_exit();
	if (yes)
		conn_get(e->conn);
	return yes ? e->conn : NULL;
}

/*
 * The kernel tells of room, but of bytes that are between two ways it does not know.
 * Return: true, ev tells them now, and they count as told.
 */
static bool tell_late(struct eset *s, struct epoll_event *ev)
{
	bool tells = false;

	lock_take(&ready_lock);
	struct conn *c = late(eset_by_data(s, ev->data.u64));
	lock_drop(&ready_lock);
	if (likely(!c))
		return false;
	rx_settle(c);
	guard_enter();
	lock_take(&ready_lock);
	struct eent *e = eset_by_data(s, ev->data.u64);
	if (e && e->conn == c && !e->disabled) {
		ev->events |= ring_part(e) | kernel_share(e, false);
		tells = ev->events & EPOLLIN;
		if (tells)
			eset_told(e);
	}
	lock_drop(&ready_lock);
	guard_exit();
	conn_put(c);
	return tells;
}

/* Of what the kernel reported: our own momentary entry goes, the rest is looked at. */
static int filter(struct eset *s, struct epoll_event *ev, int n)
{
	int k = 0;

	for (int i = 0; i < n; i++) {
		bool late = false;

		if (ld_rlx(&s->nbound) && ev[i].data.ptr != &eset_kick_mark) {
			if (ev[i].events & ~(uint32_t)OUT_BITS)
				judge_end(s, &ev[i]);
			else
				late = tell_late(s, &ev[i]);
		}
		uint32_t m = ev[i].events;

		if (ev[i].data.ptr != &eset_kick_mark && (m & EPOLLHUP || ld_rlx(&s->edgy)))
			m = kernel_event(s, m, ev[i].data.u64, late);
		else if (ev[i].data.ptr == &eset_kick_mark)
			m = 0;
		if (m)
			ev[k++] = (struct epoll_event){ .events = m, .data = ev[i].data };
	}
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
	uint64_t interval = ld_rlx(&s->kinterval), least = KCHECK_MIN_US * clock_ticks_per_us;
	int n = sys_epoll_wait(ep, ev, max, 0);

	/* several threads may wait on one set: hints, both */
	st_rlx(&s->kchecked, clock_ticks());
	if (n > 0) {
		st_rlx(&s->kinterval, least);
		n = filter(s, ev, n);
	} else if (interval < KCHECK_MAX_US * clock_ticks_per_us) {
		st_rlx(&s->kinterval, MAX(2 * interval, least));
	}
	return n;
}

struct epoll_waiter {
	struct wait w;
	struct eset *s;
	bool missed;		/* the sleep is short already */
	bool *stays;
};

static bool epoll_ready(struct wait *w)
{
	struct epoll_waiter *ew = container_of(w, struct epoll_waiter, w);

	return ld_rlx(&ew->s->nready) != 0 || (ld_rlx(&ew->s->missed) && !ew->missed);
}

static bool timeout_sane(const struct timespec *timeout)
{
	return !timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
			    timeout->tv_nsec < (long)NS_PER_S);
}

/*
 * The kernel has told of an entry before the ring was asked: the ring's part of it.
 * An edge may be told once more by the ring, which is left as it is.
 */
static void ring_too(struct eset *s, struct epoll_event *ev)
{
	lock_take(&ready_lock);
	const struct eent *e = eset_by_data(s, ev->data.u64);

	if (e && e->conn && !e->orphan && ld_rlx(&e->conn->ever_bound))
		ev->events |= ring_part(e);
	lock_drop(&ready_lock);
}

/* Rings would take all the room again: one place is the kernel's.  Return: as gather(). */
static int kernels_turn(struct eset *s, int ep, struct epoll_event *ev, int max, bool sleeps)
{
	int n = max > 1 && ld_rlx(&s->nready) ? collect(s, ev, max - 1, sleeps) : 0;

	st_rlx(&s->kturn, false);
	guard_enter();
	lock_take(&ready_lock);
	settle(s, max, sleeps);
	lock_drop(&ready_lock);
	guard_exit();
	int k = ask_kernel(s, ep, ev + n, max - n);
	guard_enter();
	for (int i = n; i < n + k; i++)
		ring_too(s, &ev[i]);
	guard_exit();
	if (k < 0 && !n)
		return k;
	if (k > 0)
		n = merge(ev, n, k);
	return n ? n : collect(s, ev, max, sleeps);
}

/*
 * What is there now.  Rings come first, for they cost no system call; where they
 * take all the room that the caller has, the kernel's descriptors have a place
 * the next time.  Return: events, or -errno.
 */
static int gather(struct eset *s, int ep, struct epoll_event *ev, int max, bool ask, bool sleeps)
{
	if (unlikely(ld_rlx(&s->kturn)))
		return kernels_turn(s, ep, ev, max, sleeps);
	int n = ld_rlx(&s->nready) ? collect(s, ev, max, sleeps) : 0;
	uint64_t interval = ld_rlx(&s->kinterval);
	bool due = clock_ticks() - ld_rlx(&s->kchecked) >= interval;

	if (n == max && (due || interval <= KCHECK_MIN_US * clock_ticks_per_us))
		st_rlx(&s->kturn, true);
	if (n == max || !(due || (ask && !n)))
		return n;
	int k = ask_kernel(s, ep, ev + n, max - n);
	if (k < 0 && !n)
		return k;
	return k > 0 ? merge(ev, n, k) : n;
}

/* A handler is about to run, or the thread ends: the call may not come back. */
static void epoll_gone(struct wait *w)
{
	struct epoll_waiter *ew = container_of(w, struct epoll_waiter, w);

	if (*ew->stays)
		eset_left(ew->s);
	*ew->stays = false;
}

/* *stays: the set is held for us, and has the number s->fd if not ep. */
static int wait_held(struct eset *s, int ep, struct epoll_event *ev, int max, uint64_t deadline,
		     const sigset_t *mask, bool *stays)
{
	bool ask = deadline == 0;

	for (;;) {
		if (*stays)
			ep = ld_rlx(&s->fd);
		if (deadline == 0)
			engine_poll_all();	/* what another thread has in hand was there before */
		else
			engine_poll();
		int n = gather(s, ep, ev, max, ask, deadline != 0);

		if (!n && deadline == 0 && unlikely(bg_catch_up()))
			n = gather(s, ep, ev, max, true, false);
		if (n < 0)
			return n;
		if (unlikely(ld_rlx(&s->missed)) && !n)
			n = eset_missed(s, ev, max);
		if (n > 0 || deadline == 0)
			return n;
		if (!*stays && !(*stays = eset_stays(s, ep)))
			return -EBADF;
		uint64_t until = deadline;
		if (unlikely(ld_rlx(&s->missed)))
			until = MIN(until, clock_ns() + MISSED_MS * NS_PER_MS);
		struct pollfd p = { ep, POLLIN, 0 };
		struct epoll_waiter ew = {
			.w = { .ready = epoll_ready, .deadline_ns = until, .kfds = &p,
			       .nkfds = 1, .mask = mask, .gone = epoll_gone },
			.s = s,
			.missed = ld_rlx(&s->missed) != 0,
			.stays = stays,
		};
		int err = wait_run(&ew.w);
		if (unlikely(err == -ETIMEDOUT && until != deadline && clock_ns() < deadline))
			continue;
		if (err == -ETIMEDOUT)
			return 0;
		if (err)
			return err;
		ask = ew.w.kready > 0;
		if (ask) {
			st_rlx(&s->kchecked, 0);
			st_rlx(&s->kinterval, 0);
		}
	}
}

static int wait_ring(struct eset *s, int ep, struct epoll_event *ev, int max, uint64_t deadline,
		     const sigset_t *mask)
{
	bool stays = false;
	int n = wait_held(s, ep, ev, max, deadline, mask, &stays);

	if (stays)
		eset_left(s);
	return n;
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
		return real_result(section_away(real.epoll_pwait(ep, ev, max, ms, mask)));
	case CALL_epoll_pwait2:
		return real_result(section_away(real.epoll_pwait2(ep, ev, max, timeout, mask)));
	default:
		return real_result(section_away(real.epoll_wait(ep, ev, max, ms)));
	}
}

/* The thread has ended in plain_call(), or jumped out before. */
static void plain_gone(void *s, uint32_t gen)
{
	eset_plain_left(s, gen);
}

static void plain_left(struct eset *s, uint32_t gen)
{
	if (section_come_out())
		eset_plain_left(s, gen);
}

int ready_epoll_wait(enum call_id call, int ep, struct epoll_event *ev, int max,
		     const struct timespec *timeout, const sigset_t *mask)
{
	fdtab_look(ep);
	struct eset *s = fdtab_eset(ep);

	if (!s || max <= 0 || (uintptr_t)ev < LOWEST_POINTER || !timeout_sane(timeout))
		return plain_call(call, ep, ev, max, timeout, mask);
	uint64_t deadline = wait_deadline(timeout);
	if (unlikely(ld_rlx(&s->kin)))
		eset_kin(s);
	if (unlikely(!ld_rlx(&s->waited)))
		eset_waited(s);
	if (!ld_rlx(&s->nbound)) {
		uint32_t gen = ld_rlx(&s->gen);

		section_go_in(plain_gone, s, gen);
		add_acqrel(&s->plain, 1);
		if (!ld_acq(&s->nbound)) {
			int n = plain_call(call, ep, ev, max, timeout, mask);
			int kept = n > 0 ? filter(s, ev, n) : n;

			plain_left(s, gen);
			if (kept > 0 || n <= 0)
				return kept;
		} else {
			plain_left(s, gen);
		}
	}
	return wait_ring(s, ep, ev, max, deadline, mask);
}
