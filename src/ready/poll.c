/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * poll.c - poll and select over kernel descriptors and ring conns
 *
 * Without a bound conn among the descriptors it is the program's own call
 * (counted, so that a peer's switch waits until nobody sleeps there).  Else
 * the descriptors are copied, with the bits taken out that the ring answers.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

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

#define FEW		64
#define KCHECK_US	50
#define LOWEST_POINTER	65536	/* below that nothing is ever mapped: EFAULT */
#define IN_BITS		(POLLIN | POLLRDNORM | POLLRDBAND | POLLRDHUP)
#define OUT_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND)

uint32_t poll_plain_many;	/* threads in plain waits over more conns than were noted */

struct noted {
	struct conn *c[FEW];
	uint32_t gen[FEW];
	uint32_t n;
	bool many;
	bool taken;
};

/* Of a thread's outermost plain wait: it may end there, when its stack is gone. */
static __thread struct noted outermost __attribute__((tls_model("initial-exec")));

static bool timeout_sane(const struct timespec *timeout)
{
	return !timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
			    timeout->tv_nsec < (long)NS_PER_S);
}

/* ------------------------------------------------------- plain sleepers -- */

static void note(struct noted *t, int fd)
{
	struct conn *c = fdtab_conn(fd);

	if (!c || !ld_rlx(&c->established))
		return;
	st_rlx(&c->rx_waited, true);
	if (t->n == FEW) {
		if (!t->many)
			add_acqrel(&poll_plain_many, 1);
		t->many = true;
		return;
	}
	add_acqrel(&c->rx_plain_polls, 1);
	t->c[t->n] = c;
	t->gen[t->n++] = ld_rlx(&c->gen);
}

static void noted_gone(void *t, uint32_t gen);

/* Where this wait notes its conns: own, if it is in another's handler, or behind a jump. */
static struct noted *noted_begin(struct noted *own)
{
	struct noted *t = outermost.taken ? own : &outermost;

	t->n = 0;
	t->many = false;
	if (t != own) {
		t->taken = true;
		section_go_in(noted_gone, t, 0);
	}
	return t;
}

static void unnote(struct noted *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (ld_rlx(&t->c[i]->gen) == t->gen[i])
			sub_acqrel(&t->c[i]->rx_plain_polls, 1);
	if (t->many)
		down_acqrel(&poll_plain_many);
}

static void noted_gone(void *arg, uint32_t gen)
{
	struct noted *t = arg;

	unnote(t);
	t->taken = false;
}

static void noted_end(struct noted *t)
{
	bool counted = t != &outermost || section_come_out();

	if (counted)
		unnote(t);
	t->taken = false;
}

/* Is fd a conn that is or was bound?  A set of epoll is from now on the kernel's. */
static bool bound(int fd)
{
	fdtab_look(fd);
	struct conn *c = fdtab_conn(fd);

	kin_first(fd, CONN_RX);	/* lost: the kernel says so */
	if (c)
		return ld_acq(&c->ever_bound);
	struct eset *s = fdtab_eset(fd);
	if (unlikely(s) && !ld_rlx(&s->foreign))
		eset_foreign(s, true);
	return false;
}

static bool any_bound(const struct pollfd *fds, nfds_t n)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++)		/* all of them: sets among them are told */
		any |= fds[i].fd >= 0 && bound(fds[i].fd);
	return any;
}

static int plain_poll(enum call_id call, struct pollfd *fds, nfds_t n,
		      const struct timespec *timeout, const sigset_t *mask)
{
	int ms = -1;

	if (call == CALL_ppoll || call == CALL___ppoll_chk)
		return real_result(section_away(real.ppoll(fds, n, timeout, mask)));
	if (timeout)
		ms = (int)MIN((int64_t)timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000,
			      (int64_t)INT_MAX);
	return real_result(section_away(real.poll(fds, n, ms)));
}

/* ------------------------------------------------------------- the ring -- */

struct poll_waiter {
	struct wait w;
	bool sel;			/* for select(): see told() */
	const struct pollfd *fds;
	const struct pollfd *k;		/* what the kernel is asked */
	nfds_t n;
};

/* What of the bits r is told to who asks for events.  select() has no bits of its own for an end. */
static short told(short r, short events, bool sel)
{
	short m = (short)(events | POLLERR | POLLHUP | POLLNVAL);

	if (sel)
		m = (short)(events | POLLNVAL | (events & POLLIN ? POLLHUP | POLLERR : 0) |
			    (events & POLLOUT ? POLLERR : 0));
	return (short)(r & m);
}

static short ring_revents(const struct pollfd *p, bool sel)
{
	struct conn *c = p->fd >= 0 ? fdtab_conn(p->fd) : NULL;

	if (!c || !ld_rlx(&c->ever_bound))
		return 0;
	return told((short)conn_ring_events(c), p->events, sel);
}

/* The bits of p that the kernel answers. */
static short kernel_part(const struct pollfd *p, const struct conn *c)
{
	short ev = p->events;

	if (c && conn_rx_hidden(c))
		ev &= (short)~IN_BITS;
	if (c && conn_tx_on_ring(c))
		ev &= (short)~OUT_BITS;
	if (c && (conn_hup_by_kernel(c) || conn_rx_on_ring(c)))
		ev |= POLLRDHUP;	/* on a ring: a death, see look_at_ends() */
	return ev;
}

static bool any_ready(const struct pollfd *fds, nfds_t n, bool sel)
{
	bool any = false;

	guard_enter();
	for (nfds_t i = 0; i < n && !any; i++)
		any = ring_revents(&fds[i], sel) != 0;
	guard_exit();
	return any;
}

/* A conn went to the ring or came back: the kernel was asked for the wrong bits. */
static bool view_stale(const struct pollfd *k, const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct conn *c = fds[i].fd >= 0 ? fdtab_conn(fds[i].fd) : NULL;

		if (c && k[i].events != kernel_part(&fds[i], c))
			return true;
	}
	return false;
}

static bool poll_ready(struct wait *w)
{
	struct poll_waiter *pw = container_of(w, struct poll_waiter, w);

	return any_ready(pw->fds, pw->n, pw->sel) || view_stale(pw->k, pw->fds, pw->n);
}

/*
 * What the kernel is asked about: the same numbers, less the ring's bits.
 * Return: true if it has a say in any of them.
 */
static bool kernel_view(struct pollfd *k, const struct pollfd *fds, nfds_t n)
{
	bool say = false;

	for (nfds_t i = 0; i < n; i++) {
		struct conn *c = fds[i].fd >= 0 ? fdtab_conn(fds[i].fd) : NULL;

		if (c && ld_rlx(&c->ever_bound) && !ld_rlx(&c->rx_waited))
			st_rlx(&c->rx_waited, true);
		k[i] = (struct pollfd){ fds[i].fd, kernel_part(&fds[i], c), 0 };
		say |= k[i].fd >= 0 && (!c || k[i].events & ~POLLRDHUP || !conn_rx_on_ring(c));
	}
	return say;
}

/* Both answers together; what was asked on our own account is not told. */
static short one_report(const struct pollfd *p, const struct pollfd *k, bool sel)
{
	struct conn *c = p->fd >= 0 ? fdtab_conn(p->fd) : NULL;
	short own = c && conn_rx_hidden(c) ? POLLRDHUP : 0;
	short r = (short)(ring_revents(p, sel) | (k->revents & ~own));

	if (!c)
		return sel ? told(r, p->events, sel) : r;
	if (k->revents & POLLRDHUP && conn_hup_by_kernel(c))
		r |= POLLHUP;
	/* both ways are over: the bits that were not asked for go with it */
	if (k->revents & POLLHUP && k->events != p->events)
		r |= p->events & (IN_BITS | OUT_BITS) & ~(POLLRDBAND | POLLWRBAND);
	return told(r, p->events, sel);
}

static int report(struct pollfd *fds, const struct pollfd *k, nfds_t n, bool sel)
{
	int count = 0;

	guard_enter();
	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = one_report(&fds[i], &k[i], sel);
		count += fds[i].revents != 0;
	}
	guard_exit();
	return count;
}

static bool kernel_due(void)
{
	static uint64_t checked;
	uint64_t now = clock_ticks();

	if (now - ld_rlx(&checked) < KCHECK_US * clock_ticks_per_us)
		return false;
	st_rlx(&checked, now);
	return true;
}

/* Who waits for room does not write: the readers are to tell of it. */
static void want_room(struct wait *w)
{
	struct poll_waiter *pw = container_of(w, struct poll_waiter, w);

	for (nfds_t i = 0; i < pw->n; i++) {
		const struct pollfd *p = &pw->fds[i];
		struct conn *c = p->fd >= 0 && p->events & OUT_BITS ? fdtab_conn(p->fd) : NULL;

		if (c && conn_tx_on_ring(c))
			tx_want_room(c);
	}
}

static bool unsettled(const struct conn *c, bool sleeps)
{
	uint8_t s = ld_rlx(&c->rx.state);

	if (s == PRX_READY || ld_rlx(&c->rx.drop))
		return true;
	if (sleeps || (s != PRX_ON && s != PRX_RAW))
		return false;
	guard_enter();
	bool yes = s == PRX_ON ? conn_rx_left(c) : rx_more_to_come(c);
	guard_exit();
	return yes;
}

/*
 * Between two ways the next byte on the kernel socket decides where a conn's
 * bytes are; the background thread looks, but a program that does not wait may
 * be here first.
 */
static void settle(const struct pollfd *fds, nfds_t n, bool sleeps)
{
	for (nfds_t i = 0; i < n; i++) {
		struct conn *c = fds[i].fd >= 0 ? fdtab_conn(fds[i].fd) : NULL;

		if (c && unlikely(ld_rlx(&c->tx.state) == PTX_PUMP) && fds[i].events & OUT_BITS)
			tx_settle(c);
		if (likely(!c || !unsettled(c, sleeps)))
			continue;
		c = conn_lock_rx(fds[i].fd);
		if (!c)
			continue;
		if (c->rx_inside == 0 && !c->closing)
			rx_pull(c);
		conn_get(c);
		lock_drop(&c->rxl);
		if (!sleeps)
			rx_settle(c);
		conn_put(c);
	}
}

/* Something is told now, but of a conn that is between two ways less than TCP would tell. */
static bool told_short(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		bool asked = fds[i].fd >= 0 && fds[i].events & IN_BITS && !(fds[i].revents & POLLIN);
		struct conn *c = asked ? fdtab_conn(fds[i].fd) : NULL;

		if (c && ld_rlx(&c->ever_bound) && unlikely(unsettled(c, false)))
			return true;
	}
	return false;
}

/*
 * The kernel tells of an end where the ring has a part in the conn: what TCP
 * would say depends on what was left in the ring.  Return: true if it moved.
 */
static bool look_at_ends(const struct pollfd *k, nfds_t n)
{
	bool moved = false;

	for (nfds_t i = 0; i < n; i++) {
		struct conn *c = k[i].fd >= 0 && k[i].revents & ~OUT_BITS ? fdtab_conn(k[i].fd) : NULL;

		if (likely(!c || !(conn_rx_on_ring(c) || conn_tx_on_ring(c))))
			continue;
		c = conn_lock_rx(k[i].fd);
		if (c)
			moved |= conn_end_judge(c);
	}
	return moved;
}

/* No sleep: what there is now.  Return: as poll(). */
static int ask_kernel(struct pollfd *k, nfds_t n, bool ready, const sigset_t *mask)
{
	struct timespec zero = { 0, 0 };
	/* a pending signal counts only where there is nothing else to tell */
	int r = sys_ppoll(k, n, &zero, ready ? NULL : mask);

	return r < 0 && ready ? 0 : r;
}

/* The kernel says HUP, which select() was not asked for, and would say so at once again. */
static int nap(uint64_t deadline, const sigset_t *mask)
{
	uint64_t until = MIN(deadline, clock_ns() + NS_PER_MS);
	struct wait w = { .ready = wait_never, .deadline_ns = until, .mask = mask, .no_spin = true };
	int err = wait_run(&w);

	return err == -ETIMEDOUT && until < deadline ? 0 : err;
}

static int ring_poll(struct pollfd *fds, struct pollfd *k, nfds_t n, uint64_t deadline,
		     const sigset_t *mask, bool sel)
{
	bool sleeps = deadline != 0;

	for (;;) {
		struct poll_waiter pw = {
			.w = { .ready = poll_ready, .before_sleep = want_room,
			       .deadline_ns = deadline, .kfds = k, .nkfds = n, .mask = mask },
			.sel = sel,
			.fds = fds,
			.k = k,
			.n = n,
		};
		int err = 0;

		if (deadline == 0)
			engine_poll_all();	/* what another thread has in hand was there before */
		else
			engine_poll();
		settle(fds, n, sleeps);
		bool say = kernel_view(k, fds, n);
		bool ready = any_ready(fds, n, sel);
		if (deadline == 0 || (ready && (say || kernel_due())))
			err = ask_kernel(k, n, ready, mask);
		else if (!ready)
			err = wait_run(&pw.w);
		if (err < 0 && err != -ETIMEDOUT)
			return err;
		if (err != -ETIMEDOUT && look_at_ends(k, n))
			continue;
		if (view_stale(k, fds, n))
			continue;
		if (!err && !ready && deadline != 0 && !pw.w.kready)
			continue;	/* the ring: now the kernel is asked as well */
		int count = report(fds, k, n, sel);
		if (count && sleeps && told_short(fds, n)) {
			sleeps = false;
			continue;
		}
		if (count || deadline == 0 || err == -ETIMEDOUT)
			return count;
		if (sel && pw.w.kready && (err = nap(deadline, mask)) < 0)
			return err == -ETIMEDOUT ? 0 : err;
	}
}

/* No memory for our kind of wait: the kernel's will do once it has them all. */
static void back_for_want(int fd)
{
	struct conn *c = fd >= 0 ? fdtab_conn(fd) : NULL;

	if (c && ld_rlx(&c->ever_bound))
		sock_foreign(fd, REASON_NO_MEMORY);
}

int ready_poll(enum call_id call, struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	       const sigset_t *mask)
{
	struct pollfd few[FEW], *k = few;
	if (n > INT_MAX / sizeof(*fds) || (n && (uintptr_t)fds < LOWEST_POINTER) ||
	    !timeout_sane(timeout))
		return plain_poll(call, fds, n, timeout, mask);
	if (!any_bound(fds, n)) {
		struct noted own, *t = noted_begin(&own);

		for (nfds_t i = 0; i < n; i++)
			if (fds[i].fd >= 0)
				note(t, fds[i].fd);
		/* pairs with none_plain() and number_gone(): noted, then look at ever_bound, and the entry */
		fence_full();
		int r = any_bound(fds, n) ? -EINPROGRESS
			: plain_poll(call, fds, n, timeout, mask);
		noted_end(t);
		if (r != -EINPROGRESS)
			return r;
	}
	uint64_t deadline = wait_deadline(timeout);
	if (n > FEW) {
		k = sys_map(n * sizeof(*k), 0);
		if (!k) {
			for (nfds_t i = 0; i < n; i++)
				back_for_want(fds[i].fd);
			return plain_poll(call, fds, n, timeout, mask);
		}
	}
	int r = ring_poll(fds, k, n, deadline, mask, false);
	if (k != few)
		sys_unmap(k, n * sizeof(*k));
	return r;
}

/* ---------------------------------------------------------------- select -- */

static bool bad_set(const fd_set *s)
{
	return s && (uintptr_t)s < LOWEST_POINTER;
}

static bool in(const fd_set *s, int fd)
{
	return s && ((const uint8_t *)s)[fd / 8] >> (fd % 8) & 1;
}

static void put(fd_set *s, int fd, bool on)
{
	uint8_t *p = (uint8_t *)s;

	if (on)
		p[fd / 8] = (uint8_t)(p[fd / 8] | 1u << (fd % 8));
	else
		p[fd / 8] = (uint8_t)(p[fd / 8] & ~(1u << (fd % 8)));
}

static nfds_t to_poll(struct pollfd *p, int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	nfds_t k = 0;

	for (int fd = 0; fd < n; fd++) {
		short ev = (short)((in(r, fd) ? POLLIN : 0) | (in(w, fd) ? POLLOUT : 0) |
				   (in(e, fd) ? POLLPRI : 0));

		if (ev)
			p[k++] = (struct pollfd){ fd, ev, 0 };
	}
	return k;
}

static int one_set(fd_set *s, const struct pollfd *p, short bits)
{
	bool want = in(s, p->fd);

	if (!want)
		return 0;
	bool on = p->revents & bits;
	put(s, p->fd, on);
	return on;
}

static int from_poll(const struct pollfd *p, nfds_t k, fd_set *r, fd_set *w, fd_set *e)
{
	int count = 0;

	for (nfds_t i = 0; i < k; i++)
		if (p[i].revents & POLLNVAL)
			return -EBADF;
	for (nfds_t i = 0; i < k; i++) {
		count += one_set(r, &p[i], POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR);
		count += one_set(w, &p[i], POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR);
		count += one_set(e, &p[i], POLLPRI);
	}
	return count;
}

static bool select_bound(int n, const fd_set *r, const fd_set *w, const fd_set *e,
			 struct noted *t)
{
	bool any = false;

	for (int fd = 0; fd < n; fd++) {
		if (!in(r, fd) && !in(w, fd) && !in(e, fd))
			continue;
		any |= bound(fd);
		if (t)
			note(t, fd);
	}
	return any;
}

static int plain_select(enum call_id call, int n, fd_set *r, fd_set *w, fd_set *e,
			struct timespec *timeout, const sigset_t *mask)
{
	if (call == CALL_pselect)
		return real_result(section_away(real.pselect(n, r, w, e, timeout, mask)));
	struct timeval tv;
	if (timeout) {
		tv.tv_sec = timeout->tv_sec;
		tv.tv_usec = timeout->tv_nsec / 1000;
	}
	int ret = real_result(section_away(real.select(n, r, w, e, timeout ? &tv : NULL)));
	if (timeout) {
		timeout->tv_sec = tv.tv_sec;
		timeout->tv_nsec = tv.tv_usec * 1000;
	}
	return ret;
}

static void time_left(struct timespec *timeout, uint64_t deadline)
{
	uint64_t now = clock_ns();
	uint64_t left = deadline > now ? deadline - now : 0;

	timeout->tv_sec = (time_t)(left / NS_PER_S);
	timeout->tv_nsec = (long)(left % NS_PER_S);
}

int ready_select(enum call_id call, int n, fd_set *r, fd_set *w, fd_set *e,
		 struct timespec *timeout, const sigset_t *mask)
{
	if (n < 0 || n > FDTAB_MAX || !timeout_sane(timeout) || bad_set(r) || bad_set(w) || bad_set(e))
		return plain_select(call, n, r, w, e, timeout, mask);
	if (!select_bound(n, r, w, e, NULL)) {
		struct noted own, *t = noted_begin(&own);

		select_bound(n, r, w, e, t);
		fence_full();	/* pairs with none_plain() */
		int ret = select_bound(n, r, w, e, NULL) ? -EINPROGRESS
			: plain_select(call, n, r, w, e, timeout, mask);
		noted_end(t);
		if (ret != -EINPROGRESS)
			return ret;
	}
	struct pollfd few[2 * (FEW + 1)], *p = few;
	size_t bytes = ((size_t)n + 1) * 2 * sizeof(struct pollfd);
	if (n > FEW)
		p = sys_map(bytes, 0);
	if (!p) {
		for (int fd = 0; fd < n; fd++)
			if (in(r, fd) || in(w, fd) || in(e, fd))
				back_for_want(fd);
		return plain_select(call, n, r, w, e, timeout, mask);
	}
	nfds_t k = to_poll(p, n, r, w, e);
	uint64_t deadline = wait_deadline(timeout);
	int ret = ring_poll(p, p + n + 1, k, deadline, mask, true);
	if (ret >= 0)
		ret = from_poll(p, k, r, w, e);
	if (timeout && (ret >= 0 || ret == -EINTR))
		time_left(timeout, deadline);
	if (p != few)
		sys_unmap(p, bytes);
	return ret;
}
