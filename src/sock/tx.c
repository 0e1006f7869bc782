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
 *
 * Longer than others, as rx.c is and for the same reason.
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
#include "base/probe.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/fdtab.h"
#include "sock/hello.h"
#include "sock/hurry.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/unseen.h"
#include "sock/window.h"

/* flags of send() that make no difference on a ring */
#define TX_FLAGS_OK	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR | MSG_MORE | MSG_DONTROUTE | \
			 MSG_CONFIRM)
#define STALL_MS	100
/* between hosts: a RoCE device sends again after 67 ms, and gives up after half a second;
 * until then it is not the reader who is slow */
#define STALL_HOSTS_MS	500
#define DOUBT_MS	50
#define DOUBT_NAP_US	20
#define OWNER_MS	1000		/* a half-done write that stands still so long is passed by */

static bool tx_blocking(const struct conn *c, const struct io *io)
{
	return !ld_rlx(&c->nonblock) && !(io->flags & MSG_DONTWAIT);
}

/* What has gone already is what the call returns; the next one has the signal. */
static ssize_t broken_pipe(const struct io *io)
{
	siginfo_t si = { .si_signo = SIGPIPE, .si_code = SI_USER };

	if ((io->flags & MSG_NOSIGNAL) || io->done)
		return -EPIPE;
	si.si_pid = sys_getpid();
	si.si_uid = (uid_t)sys0(SYS_getuid);
	if (sys4(SYS_rt_tgsigqueueinfo, si.si_pid, sys_gettid(), SIGPIPE, &si) < 0)
		sys3(SYS_tgkill, si.si_pid, sys_gettid(), SIGPIPE);
	return -EPIPE;
}

/* ----------------------------------------------------------- the kernel -- */

/* OUT is news when there is room again.  txl held. */
static void tx_dry(struct conn *c)
{
	c->tx_blocked = true;
	st_rlx(&c->tx_dries, c->tx_dries + 1);
}

/* n bytes went to the kernel from skip on; txl held */
static void account_kernel(struct conn *c, const struct io *io, size_t skip, size_t n, bool alone)
{
	uint64_t pos = c->tx.kc;

	if (c->tx_prefix.state == PREFIX_RAW && alone) {
		struct iovec v[IO_SLICE];

		while (pos < c->tx.kc + n) {
			size_t at = (size_t)(pos - c->tx.kc);
			int k = io_slice(io, skip + at, n - at, v, IO_SLICE);

			for (int i = 0; i < k; i++) {
				prefix_add(&c->tx_prefix, &conn_prefix_pool, v[i].iov_base,
					   v[i].iov_len, pos);
				pos += v[i].iov_len;
			}
		}
	} else if (c->tx_prefix.state == PREFIX_RAW) {
		prefix_fini(&c->tx_prefix, &conn_prefix_pool);	/* order unknown */
	}
	ptx_kernel_wrote(&c->tx, n);
	st_rlx(&c->tx_given, c->tx_given + n);
	count(CNT_tcp_tx_bytes, n);
	count(CNT_tcp_tx_msgs, 1);
}

/* No SIGPIPE: a write() becomes a sendmsg(), but for a program that is shut in. */
static void part_silent(struct io *part, struct msghdr *m)
{
	bool file = part->call == CALL_write || part->call == CALL_writev;

	if (file && hello_forbidden())
		return;
	if (file) {
		part->call = CALL_sendmsg;
		part->msg = m;
	}
	part->flags |= MSG_NOSIGNAL;
}

/* By the program's own kind of call: a filter may know no other. */
static ssize_t kernel_part(int fd, struct io *io, size_t max)
{
	struct iovec v[IO_SLICE];
	struct msghdr m = { .msg_iov = v };
	struct io part = *io;

	part.iov = v;
	part.cnt = io_slice(io, io->done, max, v, IO_SLICE);
	if (io->done)
		part.flags |= MSG_NOSIGNAL;	/* a part is no failure */
	m.msg_iovlen = (size_t)part.cnt;
	if (io->msg)
		part.msg = &m;
	else if (part.cnt > 1 && io->cnt == 1)
		part.cnt = 1;
	if (io->done)		/* as in broken_pipe() */
		part_silent(&part, &m);
	io->asked = 0;
	for (int i = 0; i < part.cnt; i++)
		io->asked += v[i].iov_len;
	return io_kernel(fd, &part);
}

static void tx_counted(struct conn *c)
{
	if (c->tx_calls != UINT32_MAX)
		st_rlx(&c->tx_calls, c->tx_calls + 1);
	conn_warm(c);
}

/* A kernel write is over: n bytes or -errno, of which the call returns what comes back.  txl held. */
static ssize_t tx_kernel_over(struct conn *c, const struct io *io, ssize_t n, bool alone)
{
	/* pairs with itself: a reset is told once, by the kernel or by us */
	if (unlikely(n == -ECONNRESET && !io->done) && !owed_by_kernel(&c->owed))
		n = broken_pipe(io);
	if (n == -EAGAIN || (n > 0 && !tx_blocking(c, io) && (size_t)n < io->total - io->done))
		tx_dry(c);
	if (n > 0)
		account_kernel(c, io, io->done, (size_t)n, alone);
	else if (n < 0 && n != -EAGAIN && n != -EINTR && io->done)
		conn_error_took(c, (int)-n);	/* this call returns a part: the next one tells */
	tx_counted(c);
	return n;
}

/* What came of it is counted: pairs with eset_out_old().  txl held. */
static void tx_asked(struct conn *c)
{
	st_rel(&c->tx_asking, c->tx_inside);
}

/* Its thread has ended inside, or jumped out before.  What went by then only the kernel knows. */
static void tx_gone(void *obj, uint32_t gen)
{
	struct conn *c = obj;

	lock_take(&c->txl);
	if (conn_lives(c, gen) && c->tx_inside) {
		c->tx_inside--;
		tx_asked(c);
	}
	lock_drop(&c->txl);
}

/* txl held.  Return: nobody else is inside. */
static bool tx_go_in(struct conn *c)
{
	section_go_in(tx_gone, c, ld_rlx(&c->gen));
	st_rlx(&c->tx_asking, c->tx_inside + 1);
	return c->tx_inside++ == 0;
}

/* txl held.  Return: c is still what it was. */
static bool tx_come_out(struct conn *c, uint32_t gen)
{
	bool counted = section_come_out();

	if (unlikely(!conn_lives(c, gen)))
		return false;
	c->tx_inside -= counted;
	return true;
}

/* txl held on entry and exit; away during the call.  Return: bytes or -errno. */
static ssize_t tx_kernel(struct conn *c, int fd, struct io *io)
{
	uint32_t gen = ld_rlx(&c->gen);
	bool alone = tx_go_in(c);
	bool whole = io->done == 0 && (io->total <= CONN_PIECE || !tx_blocking(c, io) || io->msg);

	lock_drop(&c->txl);
	io->asked = io->total - io->done;
	ssize_t n = whole ? io_kernel(fd, io) : kernel_part(fd, io, CONN_PIECE);
	lock_take(&c->txl);
	if (!tx_come_out(c, gen))
		return n;
	n = tx_kernel_over(c, io, n, alone && c->tx_inside == 0);
	tx_asked(c);
	return n;
}

bool tx_kernel_begin(struct conn *c)
{
	bool alone = tx_go_in(c);

	lock_drop(&c->txl);
	return alone;
}

void tx_kernel_end(struct conn *c, uint32_t gen, bool alone, const void *head, size_t nhead,
		   size_t n)
{
	lock_take(&c->txl);
	if (tx_come_out(c, gen)) {
		if (n && c->tx_prefix.state == PREFIX_RAW) {
			if (head && alone && c->tx_inside == 0)
				prefix_add(&c->tx_prefix, &conn_prefix_pool, head, nhead, c->tx.kc);
			else
				prefix_fini(&c->tx_prefix, &conn_prefix_pool);
		}
		ptx_kernel_wrote(&c->tx, n);
		st_rlx(&c->tx_given, c->tx_given + n);
		st_rlx(&c->tx_dries, c->tx_dries + 1);	/* it may have ended for want of room */
		count(CNT_tcp_tx_bytes, n);
		count(CNT_tcp_tx_msgs, 1);
		tx_counted(c);
		tx_asked(c);
	}
	lock_drop(&c->txl);
}

/* ------------------------------------------------------------- the ring -- */

static void tx_ask_credit(struct conn *c);
static void tx_want_credit(struct conn *c);

void tx_credit(struct conn *c)
{
	uint64_t K = c->tx.K;
	uint32_t acts = ptx_on_credit(&c->tx, c->tx.link, c->tx.e,
				      conn_consumed(c, c->tx_words));

	if (c->tx.K != K && c->tx_progress_ns)
		st_rlx(&c->tx_progress_ns, clock_ns());
	if (unlikely(acts & ~(uint32_t)PA_WAKE))	/* the last byte before FIN was read */
		tx_act(c, acts);
}

/* The peer learns of P. */
static void tx_publish(struct conn *c)
{
	if (unlikely(conn_tx_far(c))) {
		conn_far_post(c);
		return;
	}
	slot_publish(c->tx_words, c->tx.P, c->tx_wlog);
	c->tx_seq = link_tell(c->link, c->peer_slot, c->tx_seq);
}

/* Put what fits; txl held.  Return: bytes, 0 when the ring is full. */
static size_t tx_put(struct conn *c, struct io *io)
{
	size_t n = (size_t)MIN(tx_room(c), (uint64_t)(io->total - io->done));
	bool part = n < io->total - io->done;

	if (part)
		c->tx_grow = true;
	if (!n)
		return 0;
	window_put(c, io, n);
	uint32_t acts = ptx_put(&c->tx, n);
	st_rlx(&c->tx_given, c->tx_given + n);
	tx_publish(c);
	if (unlikely(acts))
		tx_act(c, acts);
	count(CNT_ring_tx_bytes, n);
	count(CNT_ring_tx_msgs, 1);
	/* whoever waits for OUT now was never told EAGAIN: ask before he sleeps; a part is as good */
	if (unlikely(!tx_blocking(c, io) && conn_tx_in_ring(c) && (part || !conn_ring_writable(c))))
		tx_ask_credit(c);
	return n;
}

/* The CREDIT asked for has come: enough, or is the next one to be asked for?  txl held. */
void tx_credit_came(struct conn *c)
{
	c->tx_wanted = false;
	st_rlx(&c->tx_progress_ns, 0);
	if (!c->tx_blocked || !conn_tx_in_ring(c))
		return;
	tx_credit(c);
	if (conn_ring_writable(c)) {
		c->tx_blocked = false;
		unseen_offer(c);
	} else {
		tx_want_credit(c);
	}
}

/* A writer is about to sleep, or was told EAGAIN: the reader's credit shall wake us. */
static void tx_ask_credit(struct conn *c)
{
	tx_dry(c);
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
			conn_todo_soon(c, JOB_TIMER);
	}
}

/* Out of the ring into the kernel is one step under the lock, but where the kernel is full. */
void tx_settle(struct conn *c)
{
	lock_take(&c->txl);
	lock_drop(&c->txl);
}

void tx_want_room(struct conn *c)
{
	lock_take(&c->txl);
	if (conn_tx_in_ring(c)) {
		tx_credit(c);
		if (conn_tx_in_ring(c) && !conn_ring_writable(c))
			tx_want_credit(c);
	}
	lock_drop(&c->txl);
}

/*
 * An attach came to nothing: the next one wants more traffic first, and what
 * goes back to the kernel from the ring is none.  txl held, after the retreat.
 */
void tx_backoff(struct conn *c)
{
	uint64_t kept = c->tx.state == PTX_PUMP ? c->tx.P - c->tx.ps : 0;
	uint32_t shift = MIN(c->tx_fails, 8u);

	c->tx_fails++;
	c->tx_retry_bytes = c->tx.kc + kept + ((uint64_t)CONN_WINDOW_MIN << shift);
}

static uint64_t stall_ns(const struct conn *c)
{
	return (c->link->dev->rnic->hardware ? STALL_HOSTS_MS : STALL_MS) * NS_PER_MS;
}

/*
 * Background thread, STALL_MS after a writer met a full ring, and again.  A reader that
 * stops before a credit is due has made room all the same, of which the writer
 * is told here; if that is too little, the watch begins anew.  txl held.
 */
void tx_stalled(struct conn *c, uint64_t now)
{
	if (!conn_tx_in_ring(c))
		st_rlx(&c->tx_progress_ns, 0);	/* no deadline: nobody waits for a reader */
	if (!c->tx_progress_ns)
		return;
	tx_credit(c);
	if (!conn_tx_in_ring(c))
		return;
	c->tx_looked_ns = now;
	if (conn_ring_writable(c) && !c->tx_shut) {
		st_rlx(&c->tx_progress_ns, 0);
		if (c->tx_blocked) {
			c->tx_blocked = false;
			unseen_offer(c);
			conn_watcher->event(c, EPOLLOUT);
		}
		wait_wake_ready();
	} else if (now >= c->tx_progress_ns + stall_ns(c)) {
		st_rlx(&c->tx_progress_ns, 0);
		c->tx_wanted = false;
		tx_retreat(c, REASON_SLOW_READER);
		tx_backoff(c);
	}
}

/* ------------------------------------------------------------ switching -- */

/* The kernel's own count of what this direction has sent; it must stand still.  txl held. */
static int kernel_count(struct conn *c, uint64_t *n, bool *unsent)
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
		if (b.tcpi_state == 8 && !rx_half_closed(c))
			return -EAGAIN;		/* nobody reads there any more */
		if (a.tcpi_bytes_acked != b.tcpi_bytes_acked)
			continue;
		/* the SYN of the active side counts as an acked byte (Linux 6.18) */
		*n = a.tcpi_bytes_acked + (uint64_t)outq - (c->active ? 1 : 0);
		*unsent = b.tcpi_notsent_bytes != 0;
		if (b.tcpi_state == 8)
			st_rlx(&c->tx_doubt, true);
		return 0;
	}
	return -EAGAIN;
}

/* Who does not wait, and is not seen to wait elsewhere, may write past us when we say EAGAIN. */
static bool switchable(struct conn *c)
{
	return ld_rlx(&c->meet) == MEET_BOUND && ld_rlx(&c->tx_granted) && c->tx_inside == 0 && !c->tx_stuck &&
	       !c->tx_shut && c->tx.kc >= c->tx_retry_bytes && !ld_rlx(&c->rx.want) &&
	       ld_rlx(&c->link->state) == LINK_UP && ptx_may_switch(&c->tx) &&
	       (!ld_rlx(&c->nonblock) || ld_rlx(&c->rx_waited));
}

bool tx_for_ring(struct conn *c)
{
	return conn_tx_on_ring(c) || switchable(c);
}

static bool may_switch(struct conn *c, const struct io *io)
{
	return io->done < io->total && !io->bad && switchable(c);
}

/* Return: true when writes go to the ring from now on. */
static bool try_switch(struct conn *c, const struct io *io)
{
	uint64_t N = 0;
	bool unsent = false;
	int err = kernel_count(c, &N, &unsent);

	if (err == -EAGAIN)
		return false;
	if (err || N != c->tx.kc) {
		log_info("fd %d counts %llu, kernel %llu, error %d, using kernel tcp", c->fd,
			 (unsigned long long)c->tx.kc, (unsigned long long)N, -err);
		bind_give_up(c, REASON_FOREIGN_IO);
		return false;
	}
	uint8_t b0 = io_byte(io, io->done);

	if (unsent)
		conn_push(c);
	window_begin(c, tx_blocking(c, io), io->total - io->done);
	if (conn_tx_far(c))
		conn_far_begin(c);
	else if (!slot_attach(c->tx_words, ptx_next_epoch(&c->tx), N, b0, c->tx_wlog))
		return false;
	uint32_t acts = ptx_switch(&c->tx, N, b0);

	if (acts & PA_ILLEGAL) {
		if (!conn_tx_far(c))
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
	probe_3(attach, c->fd, c->tx.e, N);
	log_debug("fd %d tx attach: epoch %u after %llu kernel bytes", c->fd, c->tx.e,
		  (unsigned long long)N);
	tx_act(c, acts);
	return c->tx.state == PTX_SWITCHING;
}

/* --------------------------------------------------------------- the loop -- */

/* One call of the program's, and what its last round found under the lock. */
struct tx_call {
	int fd;
	struct io *io;
	/* Once the call has slept on it, or owns it; its number may be another's by now. */
	struct conn *held;
	uint64_t deadline_ns;	/* 0: not known yet; 1: there is no waiting */
	struct conn *c;
	ssize_t n;		/* bytes, -errno; at last what the call returns */
	uint32_t gen;
	size_t want;
	bool blocking;
	bool raw;		/* the kernel's before the round, and after it */
	bool busy;		/* another write goes first */
	bool part;		/* the program's call has had some taken before */
	bool gone;		/* c was closed while the kernel had the call */
};

struct tx_wait {
	struct wait w;
	struct tx_call *call;
};

/*
 * A socket's buffer takes megabytes before writes of several threads come out
 * mixed; a ring is full much sooner.  So a blocking write of which a part is in
 * the ring is the owner of the direction until it is over.  One that does not
 * get on is passed by: its thread may have been cancelled, or have jumped out
 * of it, and where the kernel is full as well, TCP would mix them too.
 */
static bool tx_busy(struct conn *c, const struct io *io)
{
	if (likely(!c->tx_owner) || c->tx_owner == io)
		return false;
	if (clock_ns() - c->tx_owner_ns < OWNER_MS * NS_PER_MS)
		return true;
	st_rlx(&c->tx_owner, NULL);
	return false;
}

static void tx_own(struct conn *c, const struct io *io)
{
	st_rlx(&c->tx_owner, io);
	c->tx_owner_ns = clock_ns();
}

static void tx_own_no_more(struct conn *c, const struct io *io)
{
	lock_take(&c->txl);
	bool mine = c->tx_owner == io;
	if (mine) {
		st_rlx(&c->tx_owner, NULL);
		conn_watcher->event(c, EPOLLOUT);
	}
	lock_drop(&c->txl);
	if (mine)
		wait_wake_ready();
}

/* The call is over, or may be: out is conn_sleeper_back() or conn_sleeper_out(). */
static void tx_leave(struct tx_call *t, void (*out)(struct conn *c))
{
	struct conn *c = t->held;

	t->held = NULL;
	if (unlikely(ld_rlx(&c->tx_owner) == t->io))
		tx_own_no_more(c, t->io);
	out(c);
}

static void tx_wait_gone(struct wait *w)
{
	tx_leave(container_of(w, struct tx_wait, w)->call, conn_sleeper_out);
}

static bool tx_wait_ready(struct wait *w)
{
	const struct tx_call *t = container_of(w, struct tx_wait, w)->call;
	uint8_t s = ld_rlx(&t->c->tx.state);

	if (ld_rlx(&t->c->gen) != t->gen || ld_rlx(&t->c->tx_shut) || owed_error(&t->c->owed))
		return true;
	if (t->busy)
		return !ld_rlx(&t->c->tx_owner);
	if (s == PTX_RAW || s == PTX_QUIET)
		return true;
	if (s == PTX_PUMP)
		return false;
	return conn_ring_room(t->c) >= t->want;
}

/* Spinning was in vain: from now on the reader is to tell. */
static void tx_before_sleep(struct wait *w)
{
	const struct tx_call *t = container_of(w, struct tx_wait, w)->call;
	struct conn *c = t->c;

	lock_take(&c->txl);
	if (ld_rlx(&c->gen) == t->gen && conn_tx_in_ring(c)) {
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
	count(CNT_stalls, 1);
	if (!tx_blocking(c, io))
		tx_want_credit(c);
	return -EAGAIN;
}

/* Urgent or zero-copy data, ancillary data: the kernel's alone. */
static bool tx_odd(const struct io *io)
{
	return (io->flags & ~TX_FLAGS_OK) || (io->msg && io->msg->msg_controllen);
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
	if (unlikely(owed_error(&c->owed))) {	/* a write of no bytes tells it, too */
		if (io->done)
			return -EPIPE;	/* who had some keeps it for later */
		int err = conn_owed_take(c);

		return !err || err == EPIPE ? broken_pipe(io) : -err;
	}
	if (unlikely(c->tx_shut) && conn_tx_on_ring(c))
		return broken_pipe(io);
	if (unlikely(tx_odd(io)))
		tx_kernel_for_good(c);
	if (likely(conn_tx_in_ring(c))) {
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
		tx_dry(c);
		return -EAGAIN;
	}
}

static void tx_deadline(struct tx_call *t, const struct conn *c)
{
	if (!t->deadline_ns)
		t->deadline_ns = tx_blocking(c, t->io)
				 ? wait_deadline_ns(ld_rlx(&c->sndtimeo_ns)) : 1;
}

/* As SA_RESTART has it. */
static bool tx_restarts(const struct tx_call *t, const struct wait *w)
{
	return w->restart && !t->io->done && !t->part && t->deadline_ns == WAIT_FOREVER;
}

/*
 * In a child: its parent may have written more than the kernel takes now, and
 * that goes first.  Return: 0 go round again, or -errno.
 */
static int tx_kin(const struct tx_call *t)
{
	int err = kin_use_fd(t->fd, CONN_TX);

	if (err != -EAGAIN || t->deadline_ns == 1)
		return err;
	uint64_t soon = clock_ns() + 10 * NS_PER_MS, until = MIN(soon, t->deadline_ns);
	struct wait w = { .ready = wait_never, .deadline_ns = until };
	if (wait_run(&w) == -EINTR && !tx_restarts(t, &w))
		return -EINTR;
	return clock_ns() >= t->deadline_ns ? -EAGAIN : 0;
}

static struct conn *tx_again(const struct tx_call *t)
{
	if (!t->held)
		return conn_lock_tx(t->fd);
	lock_take(&t->held->txl);
	return t->held;
}

/* The call returns what has gone, or else n. */
static bool tx_ends(struct tx_call *t, ssize_t n)
{
	t->n = t->io->done ? (ssize_t)t->io->done : n;
	return true;
}

/* A child's, or closed meanwhile.  txl held; dropped.  Return: true, the call is over. */
static bool tx_aside(struct tx_call *t, struct conn *c)
{
	if (ld_rlx(&c->kin) & CONN_TX) {
		tx_deadline(t, c);
		lock_drop(&c->txl);
		int lost = tx_kin(t);
		return lost ? tx_ends(t, lost) : false;
	}
	lock_drop(&c->txl);
	t->n = end_parked(c) ? end_park(tx_blocking(c, t->io)) : io_kernel(t->fd, t->io);
	return true;
}

/* A handler is about to run inside the kernel's write, or the thread ends there. */
static void tx_big_gone(void *arg)
{
	struct tx_call *t = arg;

	if (t->held)
		tx_leave(t, conn_sleeper_out);
}

/*
 * One of the pieces of a large write: it goes on with the connection when another
 * thread closes the number, as the kernel's own does.  txl held; away in between.
 */
static __attribute__((noinline)) ssize_t tx_step_big(struct tx_call *t, struct conn *c)
{
	ssize_t n;

	if (!t->held) {
		conn_sleeper_in(c);
		t->held = c;
	}
	section_away_push(tx_big_gone, t);
	n = tx_step(c, fdtab_has(t->fd, c) ? t->fd : c->fd, t->io);
	section_away_pop();
	return n;
}

/* txl held. */
static void tx_round(struct tx_call *t, struct conn *c)
{
	struct io *io = t->io;
	bool was_raw = !conn_tx_on_ring(c);
	uint32_t gen = ld_rlx(&c->gen);

	t->c = c;
	t->busy = tx_busy(c, io);
	bool big = io->total > CONN_PIECE && was_raw && tx_blocking(c, io) && !tx_odd(io);
	t->n = t->busy ? -EAGAIN : unlikely(big) ? tx_step_big(t, c) :
	       tx_step(c, t->held ? c->fd : t->fd, io);
	t->gone = !conn_lives(c, gen);
	if (unlikely(t->gone)) {
		t->blocking = tx_blocking(c, io);
		return;
	}
	if (likely(t->n >= 0 && io->done + (size_t)t->n >= io->total))
		return;
	t->blocking = tx_blocking(c, io);
	t->raw = was_raw && !conn_tx_on_ring(c);
	t->gen = ld_rlx(&c->gen);
	t->want = (size_t)MIN((uint64_t)(io->total - io->done), (1ull << c->tx_wlog) / 4);
	bool owns = t->n > 0 && t->blocking &&
		    (!was_raw || io->total <= CONN_PIECE || c->tx_owner == io);
	bool sleeps = t->n == -EAGAIN && t->blocking && (t->busy || !t->raw);
	if (owns)
		tx_own(c, io);
	tx_deadline(t, c);
	if ((sleeps || owns) && !t->held) {
		conn_sleeper_in(c);
		t->held = c;
	}
	if (t->busy && !t->blocking)
		tx_dry(c);
}

/* Return: true, the call is over with t->n. */
static bool tx_over(struct tx_call *t)
{
	ssize_t n = t->n;

	if (n > 0)
		t->io->done += (size_t)n;
	if (n >= 0 && t->io->done >= t->io->total)
		return tx_ends(t, 0);
	if (unlikely(t->gone))
		return tx_ends(t, n);
	if (n < 0 && (n != -EAGAIN || !t->blocking || (t->raw && !t->busy)))
		return tx_ends(t, n);
	if (!t->blocking)
		return tx_ends(t, 0);
	if (n > 0 && t->raw && (size_t)n < t->io->asked)
		return tx_ends(t, 0);	/* interrupted or timed out in the kernel */
	return false;
}

/* Return: true, the call is over with t->n. */
static bool tx_sleep(struct tx_call *t)
{
	uint64_t until = t->busy ? MIN(t->deadline_ns, clock_ns() + OWNER_MS * NS_PER_MS)
				 : t->deadline_ns;
	struct tx_wait tw = {
		.w = { .ready = tx_wait_ready, .before_sleep = tx_before_sleep,
		       .gone = tx_wait_gone, .deadline_ns = until },
		.call = t,
	};
	int err = wait_run(&tw.w);

	if (!t->held && (t->io->done || t->part))	/* a handler ran */
		return tx_ends(t, -EINTR);
	if (!err || (err == -ETIMEDOUT && until < t->deadline_ns) ||
	    (err == -EINTR && tx_restarts(t, &tw.w)))
		return false;
	return tx_ends(t, err == -ETIMEDOUT ? -EAGAIN : err);
}

/*
 * A peer that has half-closed and dies tells nothing more by the kernel: what is
 * written then earns a RST on TCP, and the next write EPIPE.  Is its process gone?
 * Looked at now and then.  txl held; if so dropped, and what follows from it is done.
 */
static bool tx_doubts(struct conn *c)
{
	uint64_t end;

	if (!conn_tx_in_ring(c) || !bg_catch_up_due() || !link_hung_up(c->link))
		return false;
	conn_get(c);
	lock_drop(&c->txl);
	end = clock_ns() + DOUBT_MS * NS_PER_MS;
	while (conn_tx_in_ring(c) && clock_ns() < end)
		sys_nap(DOUBT_NAP_US * NS_PER_US);
	conn_put(c);
	return true;
}

/* Between two pieces of one write its number has become another connection's.  txl held. */
static bool tx_is_another(const struct tx_call *t, const struct conn *c)
{
	return unlikely(t->io->done) && (c != t->c || ld_rlx(&c->gen) != t->gen);
}

static ssize_t tx_loop(struct tx_call *t)
{
	for (;;) {
		struct conn *c = tx_again(t);

		if (!c || !c->established || tx_is_another(t, c)) {
			if (c)
				lock_drop(&c->txl);
			return t->io->done ? (ssize_t)t->io->done : io_kernel(t->fd, t->io);
		}
		if (unlikely((ld_rlx(&c->kin) & CONN_TX) || c->closing)) {
			if (tx_aside(t, c))
				return t->n;
			continue;
		}
		if (unlikely(ld_rlx(&c->tx_doubt)) && tx_doubts(c))
			continue;
		tx_round(t, c);
		bool parked = unlikely(c->closing) && t->n < 0 && end_parked(c);
		lock_drop(&c->txl);
		if (unlikely(parked))		/* it was inside the kernel */
			return end_park(t->blocking);
		if (tx_over(t) || (t->n <= 0 && tx_sleep(t)))
			return t->n;
	}
}

/* writev() of no bytes ends before it comes to the socket; send() and write() do not. */
static bool tx_nothing(const struct io *io)
{
	return !io->total && (io->call == CALL_writev || io->call == CALL_pwritev2);
}

ssize_t tx_run(int fd, struct io *io)
{
	struct tx_call t = { .fd = fd, .io = io };

	section_call();
	if (io_check(io) || tx_nothing(io))
		return io_kernel(fd, io);
	hurry(fd, true);
	ssize_t n = tx_loop(&t);
	if (t.held)
		tx_leave(&t, conn_sleeper_back);
	return n;
}

ssize_t tx_run_on(struct conn **held, int fd, struct io *io, bool part)
{
	struct conn *c = *held;
	struct tx_call t = { .fd = fd, .io = io, .held = c, .c = c, .part = part };
	ssize_t n = tx_loop(&t);
	if (t.held && ld_rlx(&c->tx_owner) == io)
		tx_own_no_more(c, io);
	*held = t.held;
	return n;
}

/* ------------------------------------------------- one buffer, and no ring -- */

/* Never bound, nothing owed, and nobody before us: the call is the kernel's.  txl held. */
static bool tx_is_plain(const struct conn *c)
{
	return c->established && !c->ever_bound && !c->closing && !c->tx_owner && !c->tx.fin &&
	       c->tx.state == PTX_RAW && !owed_error(&c->owed) && !(ld_rlx(&c->kin) & CONN_TX);
}

/* tx_kernel() where all is as it mostly is.  txl held; dropped. */
static ssize_t tx_plain(struct conn *c, int fd, enum call_id call, const struct iovec *v, int flags)
{
	const struct io io = { .call = call, .iov = v, .cnt = 1, .flags = flags, .total = v->iov_len };
	uint32_t gen = ld_rlx(&c->gen);
	bool alone = tx_go_in(c);

	lock_drop(&c->txl);
	ssize_t n = io_kernel_out(fd, call, v, flags);
	lock_take(&c->txl);
	bool lives = tx_come_out(c, gen);
	alone = alone && c->tx_inside == 0;
	if (likely(lives && alone && n == (ssize_t)v->iov_len)) {
		prefix_add(&c->tx_prefix, &conn_prefix_pool, v->iov_base, (size_t)n, c->tx.kc);
		ptx_kernel_wrote(&c->tx, (uint64_t)n);
		st_rlx(&c->tx_given, c->tx_given + (uint64_t)n);
		count(CNT_tcp_tx_bytes, (uint64_t)n);
		count(CNT_tcp_tx_msgs, 1);
		tx_counted(c);
	} else if (lives) {
		n = tx_kernel_over(c, &io, n, alone);
	}
	if (likely(lives))
		tx_asked(c);
	bool parked = unlikely(c->closing) && n < 0 && end_parked(c);
	bool blocking = tx_blocking(c, &io);
	lock_drop(&c->txl);
	return unlikely(parked) ? end_park(blocking) : n;
}

ssize_t tx_one(int fd, enum call_id call, const void *buf, size_t n, int flags)
{
	const struct iovec v = { (void *)(uintptr_t)buf, n };
	struct conn *c = fdtab_conn(fd);
	bool easy = io_is_easy(buf, n) && n <= CONN_PIECE && !(flags & ~TX_FLAGS_OK) &&
		    !config.fault.hurry;

	if (easy && c && !ld_rlx(&c->ever_bound)) {	/* a hint: tx_is_plain() looks again */
		section_call();
		c = conn_lock_tx(fd);
		if (likely(c && tx_is_plain(c)))
			return tx_plain(c, fd, call, &v, flags);
		if (c)
			lock_drop(&c->txl);
	}
	return tx_run(fd, &(struct io){ .call = call, .iov = &v, .cnt = 1, .flags = flags });
}
