/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rx.c - the receiving direction
 *
 * Unbound: the program's own call goes to the kernel with the lock away
 * (rx_inside), its bytes are counted afterwards.  From binding on every kernel
 * read is non-blocking, under rxl, exact in size and parsed in the same
 * breath; who must wait does so in wait_run(), beside the kernel socket while
 * that is where bytes come from.  So nobody sleeps inside a kernel read while
 * a switch is answered (rule WAKE, in its strictest form: none instead of one).
 *
 * In READY and ON the kernel socket belongs to rx_pull(): the background
 * thread watches it, and readers look when they find nothing.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/fdtab.h"
#include "sock/io.h"

/* flags of recv() that look beside the stream; TCP takes no notice of any unknown */
#define RX_FLAGS_ASIDE	(MSG_OOB | MSG_ERRQUEUE)
#define POLL_EVERY	16

static bool rx_blocking(const struct conn *c, const struct io *io)
{
	return !ld_rlx(&c->nonblock) && !(io->flags & MSG_DONTWAIT);
}

/* ------------------------------------------------------------- the ring -- */

/* Look at the peer's P; rxl held.  false: it told nonsense. */
bool rx_look(struct conn *c)
{
	uint64_t w = ld_acq(&c->rx_words->p);	/* pairs with slot_publish(): bytes before P */
	uint64_t P = slot_p_count(w);
	unsigned wlog = slot_p_window_log2(w);

	if (P == c->rx.Pb)
		return true;
	if (unlikely(wlog >= 48 || (1ull << wlog) > c->rx_ring_bytes || P < c->rx.Pb ||
		     P - c->rx.C > 1ull << wlog)) {
		link_kill(c->link);
		return false;
	}
	c->rx_wlog = (uint8_t)wlog;
	c->rx.window = 1ull << wlog;
	return !(prx_on_data(&c->rx, c->rx.link, P - c->rx.Pb) & (PA_BREAK_LINK | PA_RESET));
}

static void rx_publish_credit(struct conn *c)
{
	/* pairs with tx_credit(): we are done with the bytes before C */
	st_rel(&c->rx_words->credit, credit_pack(c->rx.e, c->rx.C));
}

/* A writer sleeps and enough has been drained to be worth waking it? */
static bool credit_due(const struct conn *c)
{
	return c->rx_wanted && (c->rx.C - c->rx.credited >= c->rx.window / 2 ||
				c->rx.C == c->rx.Pb);
}

static void rx_deliver(struct conn *c, struct io *io, uint64_t from, size_t n)
{
	if (io->flags & MSG_TRUNC)
		return;
	io_from_ring(io, io->done, c->rx_ring, (1ull << c->rx_wlog) - 1, from, n);
}

/* Bytes that are in the ring.  Return: how many were taken (or peeked). */
static size_t rx_take(struct conn *c, struct io *io)
{
	uint64_t from = 0;
	size_t n = (size_t)MIN(prx_avail(&c->rx, &from), (uint64_t)(io->total - io->done));

	if (!n)
		return 0;
	rx_deliver(c, io, from, n);
	if (io->flags & MSG_PEEK)
		return n;
	uint32_t acts = prx_consumed(&c->rx, n);
	st_rlx(&c->rx_given, c->rx_given + n);
	if (c->rx.state == PRX_ON)
		rx_publish_credit(c);
	if (unlikely(c->rx.finP != PROTO_NO_FIN && c->rx.C == c->rx.finP))
		c->rx_wanted = true;	/* the last credit is never saved up */
	acts &= ~(uint32_t)PA_SEND_CREDIT;
	if (credit_due(c))
		acts |= PA_SEND_CREDIT;
	if (unlikely(acts))
		rx_act(c, acts);
	count(CNT_ring_rx_bytes, n);
	count(CNT_ring_rx_msgs, 1);
	return n;
}

/* After the last byte: the error, once, then the end.  Return: 0, -errno, -EAGAIN. */
static ssize_t rx_end(struct conn *c, const struct io *io)
{
	int err = ld_rlx(&c->rx_err);

	if (err && !c->rx.eof)
		return io->flags & MSG_PEEK ? -err : -conn_error_take(c);
	return c->rx.eof || c->rx.state == PRX_ENDED ? 0 : -EAGAIN;
}

static ssize_t rx_ring(struct conn *c, struct io *io)
{
	if (c->rx.state == PRX_ON)
		rx_look(c);	/* where P is nonsense: what had come before */
	bool bad = io->bad && !(io->flags & MSG_TRUNC);
	if (unlikely(bad || io->done == io->total) && prx_avail(&c->rx, &(uint64_t){ 0 }))
		return bad ? -EFAULT : 0;
	size_t n = rx_take(c, io);

	return n ? (ssize_t)n : rx_end(c, io);
}

/* ----------------------------------------------------------- the kernel -- */

static void account_app(struct conn *c, const struct iovec *v, int k, size_t n, bool alone)
{
	uint64_t pos = c->rx.pos;

	if (c->rx_prefix.state != PREFIX_RAW)
		return;
	if (!alone) {
		prefix_fini(&c->rx_prefix, &conn_prefix_pool);
		return;
	}
	for (int i = 0; i < k && n; i++) {
		size_t m = MIN(n, v[i].iov_len);

		prefix_add(&c->rx_prefix, &conn_prefix_pool, v[i].iov_base, m, pos);
		pos += m;
		n -= m;
	}
}

/* Bytes that a kernel read put into v go through the parser; in RAW all are the program's. */
static void parse_raw(struct conn *c, const struct iovec *v, int k, size_t n)
{
	for (int i = 0; i < k && n; i++) {
		const uint8_t *p = v[i].iov_base;
		size_t m = MIN(n, v[i].iov_len);

		n -= m;
		while (m) {
			struct prx_seg seg;
			size_t used = prx_eat(&c->rx, p, m, &seg);

			if (seg.kind == PSEG_APP)
				st_rlx(&c->rx_given, c->rx_given + seg.n);
			rx_act(c, seg.act);
			if (!used)
				break;
			p += used;
			m -= used;
		}
	}
}

/* Unbound: the call itself.  rxl held on entry and exit. */
static ssize_t rx_cold(struct conn *c, int fd, struct io *io)
{
	uint32_t gen = ld_rlx(&c->gen);
	bool alone = c->rx_inside == 0;
	bool keep = !(io->flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE | MSG_TRUNC));

	st_rlx(&c->rx_inside, c->rx_inside + 1);
	lock_drop(&c->rxl);
	ssize_t n = io_kernel(fd, io);
	lock_take(&c->rxl);
	if (ld_rlx(&c->gen) != gen)
		return n;
	st_rlx(&c->rx_inside, c->rx_inside - 1);
	st_rlx(&c->rx_read, true);
	if (n <= 0)
		return n;
	if (io->flags & MSG_TRUNC)
		prefix_fini(&c->rx_prefix, &conn_prefix_pool);
	if (keep)
		account_app(c, io->iov, io->cnt, (size_t)n, alone && c->rx_inside == 0);
	if (!(io->flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))) {
		parse_raw(c, &(struct iovec){ (void *)1, (size_t)n }, 1, (size_t)n);
		count(CNT_tcp_rx_bytes, (uint64_t)n);
		conn_warm(c);		/* one that mostly reads is worth a ring as well */
	}
	return n;
}

/* Bound: non-blocking, exact, parsed at once.  rxl held. */
static ssize_t rx_bound(struct conn *c, struct io *io)
{
	int peek = io->flags & (MSG_PEEK | MSG_TRUNC);
	struct iovec v[IO_SLICE];
	uint64_t limit = prx_next_read(&c->rx);
	int k = io_slice(io, io->done, (size_t)MIN(limit, (uint64_t)(io->total - io->done)), v);
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)k };
	ssize_t n;

	do
		n = sys_recvmsg(c->fd, &m, MSG_DONTWAIT | peek);
	while (n == -EINTR && !rx_blocking(c, io));
	if (n < 0)
		return n;
	if (n == 0 && io->total > io->done) {
		if (!c->rx_shut_out)	/* which alone makes it read 0 */
			rx_kernel_end(c, 0);
		n = rx_ring(c, io);
		return n == -EAGAIN ? 0 : n;
	}
	if (io->flags & MSG_PEEK)
		return n;
	if (c->rx_prefix.state == PREFIX_RAW)
		account_app(c, v, k, (size_t)n, !(io->flags & MSG_TRUNC));
	parse_raw(c, v, k, (size_t)n);
	count(CNT_tcp_rx_bytes, (uint64_t)n);
	if (unlikely(c->link && ld_rlx(&c->link->state) == LINK_DEAD && !c->rx.left))
		conn_todo(c, JOB_WATCH);	/* nothing holds the dead link now */
	return n;
}

static ssize_t rx_bound_end(struct conn *c, struct io *io, ssize_t n)
{
	if (n >= 0 || n == -EAGAIN || n == -EINTR || n == -EFAULT || n == -ENOMEM)
		return n;
	rx_kernel_end(c, (int)-n);
	return rx_ring(c, io);
}

static ssize_t rx_step_bound(struct conn *c, struct io *io)
{
	if (c->rx.drop > 0 || c->rx.state == PRX_READY)
		rx_pull(c);
	if (c->rx.state == PRX_ON || c->rx.state == PRX_ENDED) {
		ssize_t n = rx_ring(c, io);

		if (n != -EAGAIN || c->rx.state == PRX_ON || c->rx.state == PRX_ENDED)
			return n;
	}
	if (c->rx.eof)
		return 0;
	if (c->rx.drop > 0 || c->rx.state == PRX_READY)
		return -EAGAIN;
	return rx_bound_end(c, io, rx_bound(c, io));
}

/* One round under the lock.  Return: bytes, 0 at the end, -errno. */
static ssize_t rx_step(struct conn *c, int fd, struct io *io)
{
	if (!c->ever_bound)
		return rx_cold(c, fd, io);
	st_rlx(&c->rx_read, true);
	ssize_t n = rx_step_bound(c, io);
	if (n == -EAGAIN && ld_rlx(&c->rx_err))
		return rx_end(c, io);
	if (n == -EAGAIN || (n > 0 && (size_t)n < io->total - io->done))
		st_rlx(&c->rx_dries, c->rx_dries + 1);
	/* what is there may be read, what comes later too; nobody waits for it */
	return n == -EAGAIN && c->rx_shut ? 0 : n;
}

/* --------------------------------------------------------------- the loop -- */

struct rx_wait {
	struct wait w;
	struct conn *c;
	uint32_t gen;
	uint8_t state;
	bool kernel;		/* the kernel socket is slept on as well */
};

/* Where bytes may come from while this thread waits. */
static bool kernel_too(const struct conn *c)
{
	uint8_t s = ld_rlx(&c->rx.state);

	return (s == PRX_RAW || s == PRX_NOTED) && ld_rlx(&c->rx.drop) == 0;
}

static bool rx_wait_ready(struct wait *w)
{
	struct rx_wait *t = container_of(w, struct rx_wait, w);
	struct conn *c = t->c;

	return ld_rlx(&c->gen) != t->gen || ld_rlx(&c->rx.state) != t->state ||
	       kernel_too(c) != t->kernel || ld_rlx(&c->rx_shut) || conn_ring_readable(c);
}

static ssize_t finish(struct io *io, ssize_t n)
{
	if (n >= 0 || io->done) {
		if (io->msg) {
			io->msg->msg_flags = 0;
			io->msg->msg_controllen = 0;
			io->msg->msg_namelen = 0;
		}
		if (io->addr && io->addrlen)
			*io->addrlen = 0;
	}
	return io->done ? (ssize_t)io->done : n;
}

static void rx_poll(struct conn *c, size_t n)
{
	/* no lock held; a count lost to another reader is no harm */
	uint32_t polls = ld_rlx(&c->rx_polls) + 1 + (uint32_t)(n / 4096);

	st_rlx(&c->rx_polls, polls < POLL_EVERY ? polls : 0);
	if (polls < POLL_EVERY)
		return;
	engine_poll();
}

/* read() of no bytes returns at once (recv() does not), and odd flags are refused. */
static bool rx_nothing(const struct io *io)
{
	return (io->call == CALL_read || io->call == CALL_readv || io->call == CALL_preadv2) &&
	       (!io->total || (io->rwflags & ~RWF_NOWAIT));
}

static struct conn *rx_again(int fd, struct conn *held)
{
	if (!held)
		return conn_lock_rx(fd);
	lock_take(&held->rxl);
	return held;
}

/* *held: the conn, once the call has slept on it; its number may be another's by now. */
static ssize_t rx_loop(int fd, struct io *io, struct conn **held)
{
	uint64_t deadline = 0;

	for (;;) {
		struct conn *c = rx_again(fd, *held);

		if (!c || !c->established) {
			if (c)
				lock_drop(&c->rxl);
			return io->done ? finish(io, 0) : io_kernel(fd, io);
		}
		bool cold = !c->ever_bound;
		ssize_t n = rx_step(c, *held ? c->fd : fd, io);
		bool blocking = rx_blocking(c, io);
		if (!c->rx_granted && ld_rlx(&c->meet) == MEET_BOUND)
			conn_warm(c);
		struct pollfd p = { c->fd, POLLIN, 0 };
		bool kernel = kernel_too(c);
		struct rx_wait t = {
			.w = { .ready = rx_wait_ready, .kfds = &p, .nkfds = kernel ? 1 : 0 },
			.kernel = kernel,
			.c = c,
			.gen = ld_rlx(&c->gen),
			.state = c->rx.state,
		};
		if (!deadline)
			deadline = blocking ? wait_deadline_ns(ld_rlx(&c->rcvtimeo_ns)) : 1;
		if (n == -EAGAIN && blocking && !*held && !cold) {
			conn_sleeper_in(c);
			*held = c;
		}
		lock_drop(&c->rxl);
		if (cold)
			return n;
		if (n > 0) {
			io->done += (size_t)n;
			rx_poll(c, (size_t)n);
		}
		if (n >= 0 && (n == 0 || !(io->flags & MSG_WAITALL) || (io->flags & MSG_PEEK) ||
			       io->done >= io->total || !blocking))
			return finish(io, n);
		if (n < 0 && (n != -EAGAIN || !blocking))
			return finish(io, n);
		if (n > 0)
			continue;
		t.w.deadline_ns = deadline;
		int err = wait_run(&t.w);
		if (err == -EINTR && t.w.restart && !io->done && deadline == WAIT_FOREVER)
			continue;	/* as SA_RESTART has it */
		if (err == -ETIMEDOUT)
			err = -EAGAIN;
		if (err)
			return finish(io, err);
	}
}

ssize_t rx_run(int fd, struct io *io)
{
	struct conn *held = NULL;

	section_call();
	if (io_check(io) || (io->flags & RX_FLAGS_ASIDE) || rx_nothing(io))
		return io_kernel(fd, io);
	ssize_t n = rx_loop(fd, io, &held);
	if (held)
		conn_sleeper_out(held);
	return n;
}
