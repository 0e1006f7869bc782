/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * end.c - the last close of a conn that was ever attached
 *
 * The program's close() is over as soon as a private dup of the kernel socket
 * exists and FIN is on the link (end_tell()), which is all that the peer's
 * program waits for.  The background thread, when it next comes by, ends the
 * sending direction (RESUME, kept bytes, the kernel's FIN), swallows what comes
 * the other way, records included, and closes the dup when rule LAST allows it:
 * a kernel socket closed over unread bytes would answer RST and throw away
 * what it had still to send.
 *
 * While a child may hold the socket (kin.h), all this would be felt there.  So
 * both directions go back to the kernel, with whatever is unread, and the dup
 * is closed as the program's number was: FIN is left to the last close.
 *
 * How long the dup lives: until the peer has said QUIET (it says so at once,
 * whatever its program does); where it does not, because it is frozen, until
 * the FIN is acked, or LAST_S.  With many dups waiting, or the process waiting
 * to exit, that is cut short: what is left to the kernel then is safe unless
 * the peer was frozen between deciding on a record and sending it.  Bytes that
 * the kernel has not taken are another matter (STUCK_S): make_room() is there
 * so that it takes them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/back.h"
#include "sock/bind.h"
#include "sock/kin.h"

#define LAST_S	20		/* T_last */
#define HASTE_MS 2000		/* ... when there is haste */
#define STUCK_S	600		/* the kernel takes no more: the peer's does not read */
#define QUIET_MS 100		/* how long QUIET, or the kernel's FIN, is worth waiting for */
#define CROWD	128		/* dups beyond that are too many */
#define LINGER_MIN_NS (50 * NS_PER_US)
#define LINGER_MAX_NS (4 * NS_PER_MS)

uint32_t end_pending;		/* conns between close() and here's end */
static int exiting;		/* the thread that ends the process */
static uint32_t waiters;		/* threads in end_wait() */

static void linger(int fd, bool reset)
{
	struct linger lg = { .l_onoff = reset, .l_linger = 0 };

	sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
}

/* ring bytes of ours in the epoch */
static uint64_t ring_queued(const struct conn *c)
{
	uint64_t P = slot_p_count(ld_acq(&c->rx_words->p));	/* pairs with slot_publish() */

	return P > c->rx.C ? P - c->rx.C : 0;
}

/* Does the program leave bytes unread that are here already? */
static bool unread(const struct conn *c, int fd)
{
	int queued = 0;

	if (c->rx.eof || c->rx.state == PRX_ENDED)
		return false;
	if (prx_in_epoch(&c->rx) && c->rx_words && ring_queued(c))
		return true;
	if (conn_still_to_come(c))
		return true;
	if (c->rx.state == PRX_READY || c->rx.state == PRX_ON)
		return false;		/* nothing but records */
	sys_ioctl(fd, SIOCINQ, &queued);
	if (!queued)		/* which ends before an urgent byte */
		sys_ioctl(fd, SIOCATMARK, &queued);
	return (uint64_t)queued > c->rx.drop;
}

enum end_how end_take_over(struct conn *c, int fd)
{
	bool tx_raw = !conn_tx_on_ring(c) && !c->tx_stuck;
	/* the peer may have switched again since: that is refused, and no end of those who go on */
	bool shared = kin_shared(c) || c->passed;
	/* resent bytes that are still to come are the program's: unread, which the kernel cannot see yet */
	bool rx_raw = c->rx.state == PRX_ENDED ||
		      (c->rx.state == PRX_RAW && !c->rx.drop && (shared || !conn_still_to_come(c)));

	if (!ld_rlx(&c->ever_ring) || !c->link || (tx_raw && rx_raw))
		return END_PLAIN;
	c->end_kin = shared;
	if (shared)
		return END_ORDERLY;
	bool reset = ld_rlx(&c->linger0) || unread(c, fd);
	/* the peer cannot tell yet what is its own in the ring: a RST behind it would be all it hears */
	if (reset && c->tx.state == PTX_SWITCHING)
		tx_retreat(c, REASON_CLOSE);
	if (ld_rlx(&c->linger0))
		return END_PLAIN;
	if (reset) {
		linger(fd, true);
		return END_RESET;
	}
	if (ld_rlx(&c->linger_ns))
		linger(fd, false);	/* or the last close would hold up the background thread */
	return END_ORDERLY;
}

bool end_tell(struct conn *c)
{
	if (c->end_kin || c->tx_stuck)
		return false;
	if (c->tx.state == PTX_RAW)
		tx_act(c, ptx_shutdown(&c->tx));
	else if (!c->tx_wanted || conn_ring_writable(c))	/* else it is far from its end */
		tx_act(c, ptx_tell_end(&c->tx));
	st_rlx(&c->tx_shut, true);
	/* an attach that is not over may leave bytes where the peer has not looked yet */
	return c->tx.state != PTX_SWITCHING;
}

static bool fin_acked(const struct conn *c)
{
	int state = conn_kernel_state(c);

	/* LAST_ACK is not acked yet */
	return state == TCP_FIN_WAIT2 || state == TCP_TIME_WAIT || state == TCP_CLOSE;
}

/* Has the peer's program sent what nobody will read?  TCP answers that by RST. */
static bool earned_reset(const struct conn *c)
{
	if (c->end_reset)
		return true;
	if (c->rx.quiet && c->rx.pos + c->rx.have > c->rx.qcount)
		return true;
	return prx_in_epoch(&c->rx) && c->rx_words && !c->rx.eof && ring_queued(c);
}

/* Both locks held.  Return: what is to be closed without them, for that may block; -1: nothing. */
static int take_dup(struct conn *c)
{
	int fd = c->fd;

	if (c->watch.fd >= 0) {
		bg_unwatch(&c->watch);
		st_rlx(&c->watch.fd, -1);
		conn_put(c);
	}
	st_rlx(&c->fd, -1);
	return privfd_is(fd) ? fd : -1;
}

/* No lock held. */
static void close_dup(int fd)
{
	const struct engine_dev *d;

	privfd_close(fd);
	engine_for_each(i, d)
		privfd_reserve(d->channel->fd);
}

/*
 * The last sleeper has left a conn that the program closed meanwhile.  waits: its call
 * is over, and lasts as long as the last close would.  Return: what is still to be
 * waited for.
 */
static struct lingering end_deferred(struct conn *c, bool waits)
{
	struct lingering l = { c, ld_rlx(&c->gen), 0 };
	bool put = false;
	int fd = -1;

	lock_take(&c->rxl);
	if (c->rx_inside == 0)
		rx_pull(c);
	lock_take(&c->txl);
	if (c->deferred && !ld_acq(&c->sleepers)) {
		st_rlx(&c->deferred, false);
		st_rlx(&c->closing, true);
		add_rlx(&end_pending, 1);
		enum end_how how = end_take_over(c, c->fd);
		put = how != END_ORDERLY;
		if (put && how == END_PLAIN && !waits && ld_rlx(&c->linger_ns))
			linger(c->fd, false);
		if (put)
			fd = take_dup(c);
		else if (waits)
			l.ns = ld_rlx(&c->linger_ns);
		c->lingers = l.ns != 0;
		conn_todo(c, JOB_CLOSE);
	}
	conn_unlock_both(c);
	if (fd >= 0)
		close_dup(fd);
	if (put) {
		sub_acqrel(&end_pending, 1);
		conn_put(c);		/* the fd table's reference */
	}
	return l;
}

static void sleeper_out(struct conn *c, bool waits)
{
	struct lingering l = { .ns = 0 };

	if (sub_acqrel(&c->sleepers, 1) == 0 && ld_rlx(&c->deferred))
		l = end_deferred(c, waits);
	conn_put(c);
	end_linger(&l);
}

void conn_sleeper_out(struct conn *c)
{
	sleeper_out(c, false);
}

void conn_sleeper_back(struct conn *c)
{
	sleeper_out(c, true);
}

/*
 * Rule ROOM.  The kept bytes must not wait for the peer's program: what it
 * does not read, the kernel is to hold, as it would hold it on TCP.
 */
static void make_room(struct conn *c)
{
	for (uint64_t more = c->tx.P - c->tx.ps; c->tx_stuck && more < 1u << 30; more *= 2) {
		uint32_t mem[SK_MEMINFO_VARS] = { 0 };
		socklen_t len = sizeof(mem);

		sys_getsockopt(c->fd, SOL_SOCKET, SO_MEMINFO, mem, &len);
		/* the kernel doubles it, for its own headers */
		int bytes = (int)MIN(mem[SK_MEMINFO_WMEM_QUEUED] + more, (uint64_t)INT_MAX / 2);
		int unsent = INT_MAX;
		if (bytes * 2u > mem[SK_MEMINFO_SNDBUF] &&
		    sys_setsockopt(c->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
			sys_setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
		sys_setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
		tx_unstick(c);
	}
}

static bool in_haste(void)
{
	return ld_rlx(&waiters) || ld_rlx(&end_pending) > CROWD;
}

static bool is_late(const struct conn *c, uint64_t age)
{
	if (c->tx_stuck || c->lingers)
		return age >= STUCK_S * NS_PER_S;
	return age >= (in_haste() ? HASTE_MS * NS_PER_MS : LAST_S * NS_PER_S);
}

/* FIN, and what comes is swallowed.  Both locks held. */
static void end_say(struct conn *c)
{
	if (!c->tx_fin_out)
		tx_act(c, ptx_shutdown(&c->tx));
	st_rlx(&c->tx_shut, true);
	tx_retreat(c, REASON_CLOSE);
	if (c->tx_stuck)
		make_room(c);
	rx_act(c, prx_close(&c->rx));
}

/* To the kernel, for those who still hold it.  txl is away for a moment. */
static void end_leave(struct conn *c)
{
	lock_drop(&c->txl);
	rx_act(c, prx_want(&c->rx));	/* first: the request goes in-band too */
	lock_take(&c->txl);
	if (c->meet != MEET_OVER)
		bind_give_up(c, REASON_FORK);
	tx_retreat(c, REASON_FORK);
	if (c->tx_stuck)
		make_room(c);
}

/*
 * Both locks held; txl is away for a moment.  Return: true when it is over; fd: to be closed then.
 * Whether ours is the last, and lingers, only the kernel knows: who is in close() finds that out.
 */
static bool end_left(struct conn *c, int *fd)
{
	lock_drop(&c->txl);
	if (c->rx_inside == 0)
		rx_pull(c);
	lock_take(&c->txl);
	uint64_t age = clock_ns() - c->close_begun_ns;
	bool back = conn_is_back(c, CONN_BOTH) && (age >= QUIET_MS * NS_PER_MS || !conn_end_to_come(c));
	bool late = is_late(c, age);

	if (!back && late)
		conn_abort(c->fd);
	c->linger_last = back && !late && c->lingers;
	if (c->linger_last || !(back || late))
		return false;
	log_debug("fd %d left to children%s", c->fd, back ? "" : ", late");
	if (ld_rlx(&c->linger_ns))
		linger(c->fd, false);	/* nobody waits: nor does the background thread */
	*fd = take_dup(c);
	return true;
}

/* An urgent byte is in no count of ours, and the next read goes past it: RST, as for any. */
static void look_for_urgent(struct conn *c)
{
	struct pollfd p = { c->fd, POLLPRI, 0 };
	struct timespec zero = { 0, 0 };

	if (sys_ppoll(&p, 1, &zero, NULL) > 0 && p.revents & POLLPRI)
		c->end_reset = true;
}

/* The same where nobody else holds it. */
static bool end_over(struct conn *c, int *fd)
{
	lock_drop(&c->txl);
	look_for_urgent(c);
	rx_swallow(c);
	lock_take(&c->txl);
	uint64_t age = clock_ns() - c->close_begun_ns;
	bool late = is_late(c, age);
	/* QUIET is better: a record under way would earn the peer a RST */
	bool patient = c->link && ld_rlx(&c->link->state) == LINK_UP &&
		       age < QUIET_MS * NS_PER_MS && ld_rlx(&end_pending) <= CROWD;
	bool reset = earned_reset(c);
	bool lingers = c->lingers && !fin_acked(c);
	bool last = c->tx_fin_out && !c->tx_stuck && !lingers &&
		    prx_last(&c->rx, &c->tx, !patient && fin_acked(c), late);

	if (!late && !reset && !last)
		return false;
	if (reset)
		linger(c->fd, true);
	prx_on_kfin(&c->rx);	/* at exit other threads may still come: no ring */
	prx_verdict(&c->rx, NULL, false);
	log_debug("fd %d over%s", c->fd, reset ? ", reset" : late ? ", late" : "");
	*fd = take_dup(c);
	return true;
}

static void end_counted(void)
{
	sub_acqrel(&end_pending, 1);
	wait_wake_ready();
}

void end_begin(struct conn *c)
{
	conn_take_both(c);
	if (c->closing && !c->end_begun && c->fd >= 0) {
		c->end_begun = true;
		c->close_begun_ns = clock_ns();
		c->close_wait_ns = NS_PER_MS;
		if (c->end_kin)
			end_leave(c);
		else
			end_say(c);
	}
	conn_unlock_both(c);
	if (!end_step(c)) {
		conn_take_both(c);
		conn_watch_update(c);
		conn_unlock_both(c);
		bind_timer_at(c, clock_ns() + c->close_wait_ns);
	}
}


int end_give_up(struct conn *c)
{
	int fd = c->fd;

	if (!c->closing || !privfd_is(fd))
		return -1;
	if (ld_rlx(&c->linger_ns))
		linger(fd, false);
	st_rlx(&c->fd, -1);
	return fd;
}

bool end_step(struct conn *c)
{
	int fd = -1;

	conn_take_both(c);
	if (!c->closing || !c->end_begun || c->fd < 0) {
		conn_unlock_both(c);
		return c->fd < 0;
	}
	bool over = c->end_kin ? end_left(c, &fd) : end_over(c, &fd);
	c->close_wait_ns = MIN(2 * c->close_wait_ns, 100 * NS_PER_MS);
	conn_unlock_both(c);
	if (over) {
		close_dup(fd);
		bind_release_try(c);
		end_counted();
		conn_put(c);		/* the fd table's reference */
	}
	return over;
}

/* ------------------------------------------------------ who waits for it -- */

struct linger_wait {
	struct wait w;
	const struct lingering *l;
};

static bool linger_over(struct wait *w)
{
	const struct lingering *l = container_of(w, struct linger_wait, w)->l;

	return ld_rlx(&l->c->gen) != l->gen;
}

/*
 * As sk_stream_wait_close(): the FIN is out and acked, or there is nothing left to wait for.
 * fd: the caller's to close, and the kernel waits then if that is the last.
 */
static bool lingered(const struct lingering *l, int *fd)
{
	struct conn *c = l->c;
	bool over = true;

	conn_take_both(c);
	if (ld_rlx(&c->gen) == l->gen && c->fd >= 0 && c->linger_last) {
		*fd = take_dup(c);
	} else if (ld_rlx(&c->gen) == l->gen && c->fd >= 0) {
		int state = c->tx_fin_out ? conn_kernel_state(c) : TCP_FIN_WAIT1;

		over = state != TCP_FIN_WAIT1 && state != TCP_CLOSING && state != TCP_LAST_ACK;
	}
	conn_unlock_both(c);
	return over;
}

/* Nobody waits for c any more: a handler that jumps out of the wait leaves that to STUCK_S. */
static void linger_end(const struct lingering *l)
{
	struct conn *c = l->c;

	conn_take_both(c);
	if (ld_rlx(&c->gen) == l->gen && c->fd >= 0) {
		c->lingers = false;
		conn_todo(c, JOB_CLOSE);
	}
	conn_unlock_both(c);
}

/* No poll tells of an acked FIN: look now and then. */
void end_linger(const struct lingering *l)
{
	uint64_t nap = LINGER_MIN_NS, now;
	int fd = -1;

	if (!l->ns)
		return;
	uint64_t end = clock_ns() + l->ns;
	bg_kick();
	while (!lingered(l, &fd) && (now = clock_ns()) < end) {
		uint64_t until = MIN(end, now + nap);
		struct linger_wait lw = {
			.w = { .ready = linger_over, .no_cancel = true, .deadline_ns = until },
			.l = l,
		};

		if (wait_run(&lw.w) == -EINTR)
			break;
		nap = MIN(2 * nap, LINGER_MAX_NS);
	}
	linger_end(l);
	if (fd >= 0) {
		close_dup(fd);
		end_counted();
		conn_todo(l->c, JOB_CLOSE);	/* its place on the link */
		conn_put(l->c);			/* the fd table's reference */
	}
}

static bool ended(struct wait *w)
{
	return ld_acq(&end_pending) == 0;
}

void end_wait(uint32_t most_s)
{
	struct wait w = { .ready = ended, .deadline_ns = clock_ns() + most_s * NS_PER_S,
			  .no_cancel = true };

	add_rlx(&waiters, 1);
	bg_kick();
	/* also when signals come: what the program has written is to arrive */
	while (ld_acq(&end_pending) && wait_run(&w) == -EINTR)
		;
	sub_acqrel(&waiters, 1);
}

void end_forget(void)
{
	end_pending = waiters = 0;
	exiting = 0;
}

void end_process(void)
{
	struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } ignore = {
		.handler = (void *)SIG_IGN,
	};

	st_rel(&exiting, sys_gettid());
	/* a thread inside a kernel write on what end_begin() shuts down */
	sys4(SYS_rt_sigaction, SIGPIPE, &ignore, NULL, sizeof(ignore.mask));
}

bool end_parked(const struct conn *c)
{
	int by = ld_acq(&exiting);

	return by && c->closing && by != sys_gettid();
}

ssize_t end_park(bool blocking)
{
	while (blocking) {
		struct wait w = { .ready = wait_never, .deadline_ns = WAIT_FOREVER, .no_spin = true };

		wait_run(&w);
	}
	return -EAGAIN;
}
