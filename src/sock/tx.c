/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * tx.c - the sending direction
 *
 * A write goes where ptx_where() says at the moment the lock is taken:
 *   kernel  with the lock away (tx_inside counts the threads that are in)
 *   ring    under the lock: copy, publish P, and a notification if the peer
 *           has taken the last one
 *   wait    kept bytes are on their way back to the kernel
 * A blocking write goes round this loop until all is taken.
 *
 * Publishing: P (release), full fence, "has the peer taken my notification?".
 * The peer: takes the completion (its index, release), full fence, reads P.
 * So either the peer sees these bytes, or we see that it needs telling.
 */
#define _GNU_SOURCE
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/fdtab.h"
#include "sock/io.h"

/* flags of send() that make no difference on a ring */
#define TX_FLAGS_OK	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR | MSG_MORE | MSG_DONTROUTE | \
			 MSG_CONFIRM)
#define STALL_MS	100
#define BULK_BYTES	4096		/* a write this large is no message of a dialogue */

static bool tx_blocking(const struct conn *c, const struct io *io)
{
	return !ld_rlx(&c->nonblock) && !(io->flags & MSG_DONTWAIT);
}

static ssize_t broken_pipe(const struct io *io)
{
	if (!(io->flags & MSG_NOSIGNAL))
		sys3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGPIPE);
	return -EPIPE;
}

/* ----------------------------------------------------------- the kernel -- */

/* n bytes went to the kernel from skip on; txl held */
static void account_kernel(struct conn *c, const struct io *io, size_t skip, size_t n, bool alone)
{
	uint64_t pos = c->tx.kc;

	if (c->tx_prefix.state == PREFIX_RAW && alone) {
		struct iovec v[IO_SLICE];
		int k = io_slice(io, skip, n, v);

		for (int i = 0; i < k; i++) {
			prefix_add(&c->tx_prefix, &conn_prefix_pool, v[i].iov_base, v[i].iov_len, pos);
			pos += v[i].iov_len;
		}
	} else if (c->tx_prefix.state == PREFIX_RAW) {
		prefix_fini(&c->tx_prefix, &conn_prefix_pool);	/* order unknown */
	}
	ptx_kernel_wrote(&c->tx, n);
	count(CNT_tcp_tx_bytes, n);
}

static ssize_t kernel_part(int fd, const struct io *io, size_t max)
{
	struct iovec v[IO_SLICE];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)io_slice(io, io->done, max, v) };
	ssize_t n = section_away(real.sendmsg(fd, &m, io->flags));

	return n < 0 ? -errno : n;
}

/* txl held on entry and exit; away during the call.  Return: bytes or -errno. */
static ssize_t tx_kernel(struct conn *c, int fd, struct io *io)
{
	uint32_t gen = ld_rlx(&c->gen);
	bool alone = c->tx_inside++ == 0;
	bool whole = io->done == 0 && (io->total <= CONN_PIECE || !tx_blocking(c, io) || io->msg);

	lock_drop(&c->txl);
	ssize_t n = whole ? io_kernel(fd, io) : kernel_part(fd, io, CONN_PIECE);
	lock_take(&c->txl);
	if (ld_rlx(&c->gen) != gen)
		return n;
	c->tx_inside--;
	if (n == -EAGAIN || (n > 0 && ld_rlx(&c->nonblock) && (size_t)n < io->total - io->done))
		c->tx_blocked = true;	/* as the kernel: OUT is news when there is room */
	if (n > 0)
		account_kernel(c, io, io->done, (size_t)n, alone && c->tx_inside == 0);
	if (c->tx_calls != UINT32_MAX)
		st_rlx(&c->tx_calls, c->tx_calls + 1);
	conn_warm(c);
	return n;
}

bool tx_kernel_begin(struct conn *c)
{
	bool alone = c->tx_inside++ == 0;

	lock_drop(&c->txl);
	return alone;
}

void tx_kernel_end(struct conn *c, uint32_t gen, bool alone, const void *head, size_t nhead,
		   size_t n)
{
	lock_take(&c->txl);
	if (ld_rlx(&c->gen) == gen) {
		c->tx_inside--;
		if (n && c->tx_prefix.state == PREFIX_RAW) {
			if (head && alone && c->tx_inside == 0)
				prefix_add(&c->tx_prefix, &conn_prefix_pool, head, nhead, c->tx.kc);
			else
				prefix_fini(&c->tx_prefix, &conn_prefix_pool);
		}
		ptx_kernel_wrote(&c->tx, n);
		count(CNT_tcp_tx_bytes, n);
		if (c->tx_calls != UINT32_MAX)
			st_rlx(&c->tx_calls, c->tx_calls + 1);
		conn_warm(c);
	}
	lock_drop(&c->txl);
}

/* ------------------------------------------------------------- the ring -- */

static void tx_ask_credit(struct conn *c);
static void tx_want_credit(struct conn *c);

static bool tx_in_ring(const struct conn *c)
{
	return c->tx.state == PTX_SWITCHING || c->tx.state == PTX_ON;
}

void tx_credit(struct conn *c)
{
	uint64_t w = ld_acq(&c->tx_words->credit);	/* pairs with rx_publish_credit() */
	uint64_t K = c->tx.K;

	uint32_t acts = ptx_on_credit(&c->tx, c->tx.link, credit_epoch(w), credit_count(w));

	if (c->tx.K != K)
		st_rlx(&c->tx_progress_ns, 0);
	if (unlikely(acts & ~(uint32_t)PA_WAKE))	/* the last byte before FIN was read */
		tx_act(c, acts);
}

static uint64_t tx_room(struct conn *c)
{
	uint64_t window = 1ull << c->tx_wlog;

	if (c->tx.P - c->tx.K > window / 2 || c->tx_grow)
		tx_credit(c);
	if (c->tx_grow && c->tx.P == c->tx.K) {
		c->tx_grow = false;
		if (2 * window <= c->tx_ring_bytes) {
			st_rlx(&c->tx_wlog, c->tx_wlog + 1);
			window = 1ull << c->tx_wlog;
			ptx_window(&c->tx, window);
		}
	}
	uint64_t used = c->tx.P - c->tx.K;

	return used < window ? window - used : 0;
}

static void tx_tell(struct conn *c)
{
	c->tx_seq = link_tell(c->link, c->peer_slot, c->tx_seq);
}

/* Put what fits; txl held.  Return: bytes, 0 when the ring is full. */
static size_t tx_put(struct conn *c, struct io *io)
{
	size_t n = (size_t)MIN(tx_room(c), (uint64_t)(io->total - io->done));

	if (n < io->total - io->done)
		c->tx_grow = true;
	if (!n)
		return 0;
	io_to_ring(io, io->done, c->tx_ring, (1ull << c->tx_wlog) - 1, c->tx.P, n);
	uint32_t acts = ptx_put(&c->tx, n);
	slot_publish(c->tx_words, c->tx.P, c->tx_wlog);
	tx_tell(c);
	if (unlikely(acts))
		tx_act(c, acts);
	count(CNT_ring_tx_bytes, n);
	count(CNT_ring_tx_msgs, 1);
	/* whoever waits for OUT now was never told EAGAIN: ask before he sleeps */
	if (unlikely(ld_rlx(&c->nonblock) && tx_in_ring(c) && !conn_ring_writable(c)))
		tx_ask_credit(c);
	return n;
}

/* The CREDIT asked for has come: enough, or is the next one to be asked for?  txl held. */
void tx_credit_came(struct conn *c)
{
	c->tx_wanted = false;
	st_rlx(&c->tx_progress_ns, 0);
	if (!c->tx_blocked || !tx_in_ring(c))
		return;
	tx_credit(c);
	if (conn_ring_writable(c))
		c->tx_blocked = false;
	else
		tx_want_credit(c);
}

/* A writer is about to sleep, or was told EAGAIN: the reader's credit shall wake us. */
static void tx_ask_credit(struct conn *c)
{
	c->tx_blocked = true;
	if (!c->tx_wanted) {
		c->tx_wanted = true;
		conn_send(c, WIRE_WANT_CREDIT, c->tx.e, c->tx.K, 0);
	}
}

/* ... and if none comes for long, the reader has stopped. */
static void tx_want_credit(struct conn *c)
{
	tx_ask_credit(c);
	if (!c->tx_progress_ns) {
		st_rlx(&c->tx_progress_ns, clock_ns());
		if (!ld_rlx(&c->timer_armed))
			conn_todo(c, JOB_TIMER);
	}
}

void tx_want_room(struct conn *c)
{
	lock_take(&c->txl);
	if (tx_in_ring(c)) {
		tx_credit(c);
		if (tx_in_ring(c) && !conn_ring_writable(c))
			tx_want_credit(c);
	}
	lock_drop(&c->txl);
}

/* An attach came to nothing: the next one wants more traffic first.  txl held. */
void tx_backoff(struct conn *c)
{
	uint32_t shift = MIN(c->tx_fails, 8u);

	c->tx_fails++;
	c->tx_retry_bytes = c->tx.kc + ((uint64_t)CONN_WINDOW_MIN << shift);
}

/* Background thread, STALL_MS after a writer met a full ring.  txl held. */
bool tx_stalled(struct conn *c, uint64_t now)
{
	if (!conn_tx_on_ring(c) || c->tx.state == PTX_PUMP || !c->tx_progress_ns)
		return false;
	tx_credit(c);
	if (!c->tx_progress_ns)
		return false;
	if (now < c->tx_progress_ns + STALL_MS * NS_PER_MS)
		return true;
	st_rlx(&c->tx_progress_ns, 0);
	c->tx_wanted = false;
	tx_backoff(c);
	tx_retreat(c, REASON_SLOW_READER);
	return false;
}

/* ------------------------------------------------------------ switching -- */

/* The kernel's own count of what this direction has sent; it must stand still. */
static int kernel_count(const struct conn *c, uint64_t *n)
{
	for (int i = 0; i < 4; i++) {
		struct tcp_info a = { 0 }, b = { 0 };
		socklen_t la = sizeof(a), lb = sizeof(b);
		int outq = 0;

		if (sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &a, &la) ||
		    sys_ioctl(c->fd, SIOCOUTQ, &outq) ||
		    sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &b, &lb))
			return -EINVAL;
		if (la < offsetof(struct tcp_info, tcpi_bytes_received))
			return -ENOSYS;
		if (b.tcpi_state != 1 && b.tcpi_state != 8)	/* ESTABLISHED, CLOSE_WAIT */
			return -ENOTCONN;
		if (a.tcpi_bytes_acked != b.tcpi_bytes_acked)
			continue;
		/* the SYN of the active side counts as an acked byte (Linux 6.18) */
		*n = a.tcpi_bytes_acked + (uint64_t)outq - (c->active ? 1 : 0);
		return 0;
	}
	return -EAGAIN;
}

static bool switchable(struct conn *c)
{
	return ld_rlx(&c->meet) == MEET_BOUND && ld_rlx(&c->tx_granted) && c->tx_inside == 0 && !c->tx_stuck &&
	       !c->tx_shut && c->tx.kc >= c->tx_retry_bytes && !ld_rlx(&c->rx.want) &&
	       ld_rlx(&c->link->state) == LINK_UP && ptx_may_switch(&c->tx);
}

bool tx_for_ring(struct conn *c)
{
	return conn_tx_on_ring(c) || switchable(c);
}

static bool may_switch(struct conn *c, const struct io *io)
{
	return io->done < io->total && !io->bad && switchable(c);
}

/*
 * The window of the epoch that begins: larger after one that was too small,
 * and for a program that writes much without waiting (see outgrown()).
 */
static void window_begin(struct conn *c, const struct io *io)
{
	uint64_t window = 1ull << c->tx_wlog;

	if (c->tx_grow)
		window *= 2;
	if (!tx_blocking(c, io) && (c->tx_grow || io->total - io->done >= BULK_BYTES))
		window = MAX(window, (uint64_t)CONN_AHEAD);
	c->tx_grow = false;
	window = MIN(window, c->tx_ring_bytes);
	st_rlx(&c->tx_wlog, (uint8_t)__builtin_ctzll(window));
	ptx_window(&c->tx, window);
}

/* Return: true when writes go to the ring from now on. */
static bool try_switch(struct conn *c, const struct io *io)
{
	uint64_t N = 0;
	int err = kernel_count(c, &N);

	if (err == -EAGAIN)
		return false;
	if (err || N != c->tx.kc) {
		log_info("fd %d counts %llu, kernel %llu, error %d, using kernel tcp", c->fd,
			 (unsigned long long)c->tx.kc, (unsigned long long)N, -err);
		bind_give_up(c, REASON_FOREIGN_IO);
		return false;
	}
	uint8_t b0 = io_byte(io, io->done);

	window_begin(c, io);
	if (!slot_attach(c->tx_words, ptx_next_epoch(&c->tx), N, b0, c->tx_wlog))
		return false;
	uint32_t acts = ptx_switch(&c->tx, N, b0);

	if (acts & PA_ILLEGAL) {
		slot_state_set(c->tx_words, SLOT_RAW);
		return false;
	}
	c->tx_seq = 0;
	st_rlx(&c->tx_progress_ns, 0);
	c->tx_wanted = false;
	if (config.fault.retreat) {
		st_rlx(&c->tx_retreat_ns, clock_ns() + config.fault.retreat * NS_PER_MS);
		conn_todo(c, JOB_TIMER);
	}
	conn_count_ring(c);
	count(CNT_attaches, 1);
	tx_act(c, acts);
	return c->tx.state == PTX_SWITCHING;
}

/* --------------------------------------------------------------- the loop -- */

struct tx_wait {
	struct wait w;
	struct conn *c;
	uint32_t gen;
	size_t want;
};

static bool tx_wait_ready(struct wait *w)
{
	struct tx_wait *t = container_of(w, struct tx_wait, w);
	uint8_t s = ld_rlx(&t->c->tx.state);

	if (ld_rlx(&t->c->gen) != t->gen || s == PTX_RAW || s == PTX_QUIET ||
	    ld_rlx(&t->c->tx_shut) || ld_rlx(&t->c->rx_err))
		return true;
	if (s == PTX_PUMP)
		return false;
	return conn_ring_room(t->c) >= t->want;
}

/* Spinning was in vain: from now on the reader is to tell. */
static void tx_before_sleep(struct wait *w)
{
	struct tx_wait *t = container_of(w, struct tx_wait, w);
	struct conn *c = t->c;

	lock_take(&c->txl);
	if (ld_rlx(&c->gen) == t->gen && tx_in_ring(c)) {
		tx_credit(c);
		if (conn_ring_room(c) < t->want)
			tx_want_credit(c);
	}
	lock_drop(&c->txl);
}

/*
 * A program that does not wait may be as far ahead of its reader as TCP lets
 * it: while the window is small, the kernel takes what does not fit, and the
 * next epoch has twice the window.
 */
static bool outgrown(const struct conn *c, const struct io *io)
{
	return !tx_blocking(c, io) && (1ull << c->tx_wlog) < MIN(CONN_AHEAD, c->tx_ring_bytes);
}

static ssize_t tx_step_ring(struct conn *c, struct io *io)
{
	if (unlikely(io->bad))
		return -EFAULT;
	size_t n = tx_put(c, io);

	if (n || io->total == io->done)
		return (ssize_t)n;
	if (!tx_blocking(c, io))
		tx_want_credit(c);
	return -EAGAIN;
}

/* Urgent or zero-copy data, ancillary data, flags of pwritev2(): the kernel's alone. */
static bool tx_odd(const struct io *io)
{
	return (io->flags & ~TX_FLAGS_OK) || (io->msg && io->msg->msg_controllen) ||
	       (io->rwflags & ~RWF_NOWAIT);
}

/*
 * The reader does not count an urgent byte in the stream, so that no switch
 * would ever meet its count: not again, ring or not yet.  txl held.
 */
static void tx_kernel_for_good(struct conn *c)
{
	if (ld_rlx(&c->meet) != MEET_OVER)
		bind_give_up(c, REASON_OPTION);
	tx_retreat(c, REASON_OPTION);
}

/* One round under the lock.  Return: bytes, -errno; -EAGAIN: nothing moves now. */
static ssize_t tx_step(struct conn *c, int fd, struct io *io)
{
	if (unlikely(ld_rlx(&c->rx_err)) && io->total)
		return -conn_error_take(c);
	if (unlikely(c->tx_shut) && conn_tx_on_ring(c))
		return broken_pipe(io);
	if (unlikely(tx_odd(io)))
		tx_kernel_for_good(c);
	if (likely(tx_in_ring(c))) {
		ssize_t n = tx_step_ring(c, io);

		if (likely(n != -EAGAIN) || !outgrown(c, io))
			return n;
		tx_retreat(c, REASON_SLOW_READER);
		c->tx_retry_bytes = c->tx.kc + CONN_AHEAD;
	}
	switch (ptx_where(&c->tx)) {
	case PTX_TO_KERNEL:
		if (may_switch(c, io) && try_switch(c, io))
			return tx_step_ring(c, io);
		return tx_kernel(c, fd, io);
	case PTX_EPIPE:		/* the peer has closed, or we have: the kernel knows it */
		return tx_kernel(c, fd, io);
	default:
		c->tx_blocked = true;
		return -EAGAIN;
	}
}

static struct conn *tx_again(int fd, struct conn *held)
{
	if (!held)
		return conn_lock_tx(fd);
	lock_take(&held->txl);
	return held;
}

/* *held: the conn, once the call has slept on it; its number may be another's by now. */
static ssize_t tx_loop(int fd, struct io *io, struct conn **held)
{
	uint64_t deadline = 0;

	for (;;) {
		struct conn *c = tx_again(fd, *held);

		if (!c || !c->established) {
			if (c)
				lock_drop(&c->txl);
			return io->done ? (ssize_t)io->done : io_kernel(fd, io);
		}
		bool kernel = !conn_tx_on_ring(c);
		ssize_t n = tx_step(c, *held ? c->fd : fd, io);
		bool blocking = tx_blocking(c, io);
		bool ring = conn_tx_on_ring(c);
		uint64_t want = MIN((uint64_t)(io->total - io->done), (1ull << c->tx_wlog) / 4);
		struct tx_wait t = {
			.w = { .ready = tx_wait_ready, .before_sleep = tx_before_sleep },
			.c = c,
			.gen = ld_rlx(&c->gen),
			.want = (size_t)want,
		};
		if (!deadline)
			deadline = blocking ? wait_deadline_ns(ld_rlx(&c->sndtimeo_ns)) : 1;
		if (n == -EAGAIN && blocking && !*held && (!kernel || ring)) {
			conn_sleeper_in(c);
			*held = c;
		}
		lock_drop(&c->txl);
		if (n > 0)
			io->done += (size_t)n;
		if (n >= 0 && io->done >= io->total)
			return (ssize_t)io->done;
		if (n < 0 && (n != -EAGAIN || !blocking || (kernel && !ring)))
			return io->done ? (ssize_t)io->done : n;
		if (!blocking)
			return (ssize_t)io->done;
		if (n > 0 && kernel && !ring && (size_t)n < CONN_PIECE)
			return (ssize_t)io->done;	/* interrupted or timed out in the kernel */
		if (n > 0)
			continue;
		t.w.deadline_ns = deadline;
		int err = wait_run(&t.w);
		if (err == -EINTR && t.w.restart && !io->done && deadline == WAIT_FOREVER)
			continue;	/* as SA_RESTART has it */
		if (err == -ETIMEDOUT)
			err = -EAGAIN;
		if (err)
			return io->done ? (ssize_t)io->done : err;
	}
}

ssize_t tx_run(int fd, struct io *io)
{
	struct conn *held = NULL;

	section_call();
	if (io_check(io))
		return io_kernel(fd, io);
	ssize_t n = tx_loop(fd, io, &held);
	if (held)
		conn_sleeper_out(held);
	return n;
}
