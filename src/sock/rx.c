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
 *
 * Longer than others: the long way, the kernel's own and the short one in front of
 * it keep the same account of one direction, and share what does it.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/fdtab.h"
#include "sock/hurry.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/rest.h"
#include "sock/unread.h"

/* flags of recv() that look beside the stream; TCP takes no notice of any unknown */
#define RX_FLAGS_ASIDE	(MSG_OOB | MSG_ERRQUEUE)
/* ... and those that make no difference to a read of the kernel's alone */
#define RX_FLAGS_EASY	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL | MSG_CMSG_CLOEXEC)
#define POLL_EVERY	16
#define NAP_US	500

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
	if (unlikely(c->rx_shut) && rx_shut_cut(c, P))
		return true;
	if (likely(!conn_rx_far(c)))	/* there RESUME may come before WINDOW */
		c->rx.window = 1ull << wlog;
	return !(prx_on_data(&c->rx, c->rx.link, P - c->rx.Pb) & (PA_BREAK_LINK | PA_RESET));
}

static void rx_publish_credit(struct conn *c)
{
	if (unlikely(conn_rx_far(c))) {
		conn_far_credit(c);
		return;
	}
	/* pairs with tx_credit(): we are done with the bytes before C */
	st_rel(&c->rx_words->credit, credit_pack(c->rx.e, c->rx.C));
}

/* A writer sleeps and enough has been drained to be worth waking it? */
static bool credit_due(const struct conn *c)
{
	return c->rx_wanted && (c->rx.C - c->rx.credited >= (1ull << c->rx_wlog) / 2 ||
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

/*
 * The end was judged by a look or by another thread, and is told now: as on TCP an
 * urgent byte before it that nobody has asked for is gone by that; not by a read of
 * no bytes.
 */
static void rx_end_pass(struct conn *c, const struct io *io)
{
	char byte;

	if (c->rx.state != PRX_ENDED || c->rx_end_read || (io->flags & MSG_PEEK) || !io->total)
		return;
	c->rx_end_read = true;
	sys_recvfrom(c->fd, &byte, 1, MSG_DONTWAIT);
}

/* After the last byte: the error, once, then the end.  Return: 0, -errno, -EAGAIN. */
static ssize_t rx_end(struct conn *c, const struct io *io)
{
	int err = owed_error(&c->owed);

	if (unlikely(conn_end_judged_soon(c)) && !c->rx.eof)
		return -EAGAIN;		/* more may come before it */
	if (err && err != EPIPE && !c->rx.eof)	/* EPIPE comes after the end only */
		return io->done ? -err : -conn_owed_take(c);
	rx_end_pass(c, io);
	return c->rx.eof || c->rx.state == PRX_ENDED || ld_rlx(&c->reset) ? 0 : -EAGAIN;
}

static ssize_t rx_ring(struct conn *c, struct io *io)
{
	if (c->rx.state == PRX_ON)
		rx_look(c);	/* where P is nonsense: what had come before */
	bool bad = io->bad && !(io->flags & MSG_TRUNC);
	if (unlikely(bad || io->done == io->total) &&
	    (prx_avail(&c->rx, &(uint64_t){ 0 }) || rest_left(c)))
		return bad ? -EFAULT : 0;
	ssize_t n = (ssize_t)rx_take(c, io);
	if (unlikely(!n && c->rest))
		n = rest_read(c, io);

	return n ? n : rx_end(c, io);
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

void rx_spliced(int fd, size_t n)
{
	struct conn *c = conn_lock_rx(fd);

	if (!c)
		return;
	if (c->rx.state == PRX_RAW) {
		prefix_fini(&c->rx_prefix, &conn_prefix_pool);
		parse_raw(c, &(struct iovec){ (void *)1, n }, 1, n);
	}
	lock_drop(&c->rxl);
}

/*
 * The call itself, which alone brings ancillary data, and knows how much is to
 * come (SO_RCVLOWAT), whether to wait where others may change that: before there was a
 * ring, and when there will be none any more.
 */
static bool rx_is_cold(const struct conn *c, const struct io *io)
{
	if (io->done)
		return false;
	if (!c->ever_bound)
		return true;
	return unlikely(io->msg || ld_rlx(&c->lowat) || c->past_us) && ld_rlx(&c->meet) == MEET_OVER &&
	       c->rx.state == PRX_RAW && !c->rx.drop && !c->rx_shut && !owed_error(&c->owed) &&
	       !ld_rlx(&c->reset) && !rx_behind(c) && !conn_still_to_come(c);
}

/* A cold read is over: n bytes or -errno.  rxl held. */
static ssize_t rx_cold_over(struct conn *c, const struct io *io, ssize_t n, bool alone)
{
	bool keep = !(io->flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE | MSG_TRUNC));

	/* pairs with itself: a reset is told once, by the kernel or by us */
	if (n == -ECONNRESET && !owed_by_kernel(&c->owed))
		n = 0;
	if (n <= 0)
		return n;
	if (io->flags & MSG_TRUNC)
		prefix_fini(&c->rx_prefix, &conn_prefix_pool);
	if (keep)
		account_app(c, io->iov, io->cnt, (size_t)n, alone);
	if (!(io->flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))) {
		parse_raw(c, &(struct iovec){ (void *)1, (size_t)n }, 1, (size_t)n);
		count(CNT_tcp_rx_bytes, (uint64_t)n);
		count(CNT_tcp_rx_msgs, 1);
		conn_warm(c);		/* one that mostly reads is worth a ring as well */
	}
	return n;
}

/* What came of it is counted: pairs with conn_rx_looking().  rxl held. */
static void rx_asked(struct conn *c)
{
	st_rel(&c->rx_asking, c->rx_inside);
}

/* Its thread has ended inside, or jumped out before. */
static void rx_gone(void *obj, uint32_t gen)
{
	struct conn *c = obj;

	lock_take(&c->rxl);
	if (conn_lives(c, gen) && c->rx_inside) {
		st_rlx(&c->rx_inside, c->rx_inside - 1);
		rx_asked(c);
	}
	lock_drop(&c->rxl);
}

/* rxl held.  Return: nobody else is inside. */
static bool rx_go_in(struct conn *c)
{
	section_go_in(rx_gone, c, ld_rlx(&c->gen));
	st_rlx(&c->rx_inside, c->rx_inside + 1);
	st_rlx(&c->rx_asking, c->rx_inside);
	return c->rx_inside == 1;
}

/* rxl held.  c is still what it was. */
static void rx_came_out(struct conn *c, bool counted)
{
	if (likely(counted))
		st_rlx(&c->rx_inside, c->rx_inside - 1);
}

/* The program has got nothing, or less than it asked for. */
static void rx_dry(struct conn *c, bool nothing)
{
	bool between = conn_rx_on_ring(c) || conn_rx_on_the_way(c);

	st_rlx(&c->rx_dries, c->rx_dries + 1);
	if (nothing || (between && !c->rx.eof))
		st_rlx(&c->rx_starved, c->rx_starved + 1);
}

/* Cold: rxl held on entry and exit. */
static ssize_t rx_cold(struct conn *c, int fd, struct io *io)
{
	uint32_t gen = ld_rlx(&c->gen);
	bool alone = rx_go_in(c);

	lock_drop(&c->rxl);
	ssize_t n = io_kernel(fd, io);
	lock_take(&c->rxl);
	bool counted = section_come_out();
	if (!conn_lives(c, gen))
		return n;
	rx_came_out(c, counted);
	st_rlx(&c->rx_read, true);
	n = rx_cold_over(c, io, n, alone && c->rx_inside == 0);
	if (ld_rlx(&c->ever_bound) && (n == -EAGAIN || (n > 0 && (size_t)n < io->total)))
		rx_dry(c, n == -EAGAIN);
	rx_asked(c);
	return n;
}

/* The kernel has all that it will ever have, or nobody waits for more.  rxl held. */
static bool kernel_over(const struct conn *c)
{
	struct pollfd p = { c->fd, POLLRDHUP, 0 };
	struct timespec zero = { 0, 0 };

	return sys_ppoll(&p, 1, &zero, NULL) > 0;
}

/*
 * Behind `seen` bytes, which are all that the kernel has, its end is known: 0, ECONNRESET,
 * or -EAGAIN it is not.
 */
static int end_behind(struct conn *c, size_t seen)
{
	int state = conn_kernel_state(c), queued = 0;

	if (sys_ioctl(c->fd, FIONREAD, &queued) || (size_t)queued != seen)
		return -EAGAIN;
	if (state == TCP_CLOSE)
		return ECONNRESET;
	return conn_fin_came(state) ? 0 : -EAGAIN;
}

/*
 * A look has seen n bytes of the kernel.  A peer that is gone may have left more in
 * the ring, which a read comes to by the kernel's end: as it would judge that, on a
 * copy.  Return: how many were added.
 */
static size_t rx_peek_rest(struct conn *c, struct io *io, size_t n)
{
	size_t room = io->total - io->done - n;
	uint64_t from = 0;

	if (!room || !c->rx_words || conn_rx_far(c) || c->rx_shut_clean ||
	    !(c->rx.state == PRX_NOTED || rx_more_to_come(c)))
		return 0;
	int end = end_behind(c, n);
	if (end < 0)
		return 0;
	struct pslot slot = slot_read(c->rx_words);
	unsigned int wlog = slot_p_window_log2(ld_acq(&c->rx_words->p));
	if (wlog >= 48 || 1ull << wlog > c->rx_ring_bytes)
		return 0;
	struct prx rx = c->rx;
	rx.window = 1ull << wlog;
	rx.pos += n;
	rx.since += n;
	rx.left -= MIN(rx.left, (uint64_t)n);
	rx.krst = end != 0;
	rx.kfin = !end;
	prx_verdict(&rx, &slot, false);
	size_t more = (size_t)MIN(prx_avail(&rx, &from), (uint64_t)room);
	if (!(io->flags & MSG_TRUNC))
		io_from_ring(io, io->done + n, c->rx_ring, (1ull << wlog) - 1, from, more);
	return more;
}

/* What a kernel read found, that put n bytes into v.  rxl held. */
static void rx_bound_got(struct conn *c, const struct io *io, const struct iovec *v, int k, size_t n)
{
	if (c->rx_prefix.state == PREFIX_RAW)
		account_app(c, v, k, n, !(io->flags & MSG_TRUNC));
	parse_raw(c, v, k, n);
	count(CNT_tcp_rx_bytes, n);
	count(CNT_tcp_rx_msgs, 1);
	if (unlikely(c->link && ld_rlx(&c->link->state) == LINK_DEAD && !c->rx.left))
		conn_todo(c, JOB_WATCH);	/* nothing holds the dead link now */
}

static int left_told(struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h))
		if (h->cmsg_level == IPPROTO_TCP && h->cmsg_type == TCP_CM_INQ)
			return *(int *)(void *)CMSG_DATA(h);
	return 0;
}

/* Bound: non-blocking, exact, parsed at once.  rxl held. */
static ssize_t rx_bound(struct conn *c, struct io *io)
{
	int peek = io->flags & (MSG_PEEK | MSG_TRUNC);
	struct iovec few[IO_SLICE], *many = NULL;
	const struct iovec *v = io->iov;
	size_t room = io->total - io->done;
	uint64_t limit = prx_next_read(&c->rx);
	int k = io->cnt;
	ssize_t n;

	if (io->done || limit < room) {
		/* all that there is, in one call: a look cannot go on after a part of it */
		many = k > IO_SLICE ? sys_map((size_t)k * sizeof(*many), 0) : NULL;
		v = many ? many : few;
		k = io_slice(io, io->done, (size_t)MIN(limit, (uint64_t)room), many ? many : few,
			     many ? k : IO_SLICE);
	}
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = (size_t)k,
			    .msg_control = c->inq ? control : NULL,
			    .msg_controllen = c->inq ? sizeof(control) : 0 };

	io->coming = c->rx_words && (rx_behind(c) || rx_more_to_come(c) || rx_taken_back(c));
	do
		n = sys_recvmsg(c->fd, &m, MSG_DONTWAIT | peek);
	while (n == -EINTR && !rx_blocking(c, io));
	io->left = n > 0 ? left_told(&m) : 0;
	if (n > 0 && io->flags & MSG_PEEK)
		n += (ssize_t)rx_peek_rest(c, io, (size_t)n);
	else if (n > 0)
		rx_bound_got(c, io, v, k, (size_t)n);
	if (unlikely(many))
		sys_unmap(many, (size_t)io->cnt * sizeof(*many));
	return n;
}

static ssize_t rx_bound_end(struct conn *c, struct io *io, ssize_t n)
{
	if (n == 0 && io->total > io->done) {
		if (c->rx_shut_out)	/* which alone makes it read 0 */
			return -EAGAIN;
		io->whose_end = conn_far_end_doubt(c);
		if (unlikely(io->whose_end))
			return -EAGAIN;
		c->rx_end_read = !(io->flags & MSG_PEEK);
		rx_kernel_end(c, 0);
		n = rx_ring(c, io);
		return n == -EAGAIN ? 0 : n;
	}
	if (n >= 0 || n == -EAGAIN || n == -EINTR || n == -EFAULT || n == -ENOMEM)
		return n;
	rx_kernel_end(c, (int)-n);
	return rx_ring(c, io);
}

/* SO_RCVLOWAT, and what is missing is still to come by the kernel.  rxl held. */
static bool rx_below(struct conn *c, const struct io *io)
{
	socklen_t len = sizeof(int);
	int least = 1, queued = 0;

	if (!rx_blocking(c, io) || !conn_still_to_come(c) || sys_ioctl(c->fd, FIONREAD, &queued) ||
	    sys_getsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &least, &len))
		return false;
	return (size_t)queued < MIN((size_t)least, io->total - io->done);
}

static ssize_t rx_step_bound(struct conn *c, struct io *io)
{
	if (c->rx.drop > 0 || c->rx.state == PRX_READY || (c->rx.state == PRX_ON && c->rx.want))
		rx_pull(c);
	if (c->rx.state == PRX_ON || c->rx.state == PRX_ENDED) {
		ssize_t n = rx_ring(c, io);

		if (n != -EAGAIN || c->rx.state == PRX_ON || c->rx.state == PRX_ENDED)
			return n;
	}
	if (c->rx.eof)
		return 0;
	if (c->rx.drop > 0 || c->rx.state == PRX_READY || unlikely(ld_rlx(&c->lowat) && rx_below(c, io)))
		return -EAGAIN;
	return rx_bound_end(c, io, rx_bound(c, io));
}

/* One round under the lock.  Return: bytes, 0 at the end, -errno. */
static ssize_t rx_step(struct conn *c, int fd, struct io *io)
{
	if (rx_is_cold(c, io))
		return rx_cold(c, fd, io);
	st_rlx(&c->rx_read, true);
	st_rlx(&c->rx_looking, true);
	ssize_t n = rx_step_bound(c, io);
	bool ended = n == -EAGAIN && (owed_error(&c->owed) || ld_rlx(&c->reset));
	if (!ended && (n == -EAGAIN || (n > 0 && (size_t)n < io->total - io->done)))
		rx_dry(c, n == -EAGAIN);
	st_rel(&c->rx_looking, false);
	return ended ? rx_end(c, io) : n;
}

/* --------------------------------------------------------------- the loop -- */

/* One call of the program's, and what its last round found under the lock. */
struct rx_call {
	int fd;
	struct io *io;
	/* Once the call has slept on it, or has a part; its number may be another's by now. */
	struct conn *held;
	uint64_t deadline_ns;	/* 0: not known yet */
	struct conn *c;
	ssize_t n;		/* bytes, 0 at the end, -errno */
	bool cold;		/* it was the kernel's own call */
	bool blocking;
	bool shut;		/* the program reads no more: nothing is the end */
	bool seam;		/* it has a part, and looks once more for the rest */
	uint64_t given;		/* ... of the stream, which nobody else has read on meanwhile */
	bool again;		/* it has looked at the kernel once more */
	int inq;		/* TCP_INQ of its last round; -1: not wanted */
	int inq_least;		/* ... of which the kernel has told so much */
	bool inq_sure;		/* nothing is between the kernel and a ring */
	/* of a round that found nothing */
	bool kernel;		/* the kernel socket is slept on as well */
	int kfd;
	uint32_t gen;
	uint8_t state;
};

struct rx_wait {
	struct wait w;
	struct rx_call *call;
};

static void rx_wait_gone(struct wait *w)
{
	struct rx_call *t = container_of(w, struct rx_wait, w)->call;
	struct conn *c = t->held;

	t->held = NULL;
	conn_sleeper_out(c);
}

/* Where bytes may come from while this thread waits. */
static bool kernel_too(const struct conn *c)
{
	uint8_t s = ld_rlx(&c->rx.state);

	return (s == PRX_RAW || s == PRX_NOTED) && ld_rlx(&c->rx.drop) == 0;
}

static bool rx_wait_ready(struct wait *w)
{
	const struct rx_call *t = container_of(w, struct rx_wait, w)->call;
	const struct conn *c = t->c;

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

/* As put_cmsg() in the kernel; room: msg_controllen as the program has set it. */
static void put_inq(struct msghdr *m, size_t room, int left)
{
	struct cmsghdr *h = m->msg_control;

	if (!h || room < CMSG_LEN(sizeof(left))) {
		m->msg_flags |= MSG_CTRUNC;
		return;
	}
	*h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(left)), .cmsg_level = IPPROTO_TCP,
			       .cmsg_type = TCP_CM_INQ };
	memcpy(CMSG_DATA(h), &left, sizeof(left));
	m->msg_controllen = MIN(room, CMSG_SPACE(sizeof(left)));
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

/* read() of no bytes returns at once; recv() does not. */
static bool rx_nothing(const struct io *io)
{
	return (io->call == CALL_read || io->call == CALL_readv || io->call == CALL_preadv2) &&
	       !io->total;
}

static struct conn *rx_again(const struct rx_call *t)
{
	if (!t->held)
		return conn_lock_rx(t->fd);
	lock_take(&t->held->rxl);
	return t->held;
}

/*
 * far: what the peer has done is known when the CQ has been looked at.  rxl
 * held, but not meanwhile; a reference is.  Return: true, something was there.
 */
static bool rx_far_look(struct conn *c)
{
	if (!c->rx_words || !conn_rx_far(c))
		return false;
	lock_drop(&c->rxl);
	bool news = engine_poll_all() > 0;
	lock_take(&c->rxl);
	return news;
}

/* -EAGAIN for a program that will not wait: is that the last word?  rxl held; dropped. */
static bool rx_look_again(struct rx_call *t, struct conn *c)
{
	int fd = c->fd, queued = 0;
	bool far = conn_rx_far(c);
	uint8_t before = c->rx.state;

	if (far)
		conn_get(c);
	bool more = far && rx_far_look(c) && conn_ring_readable(c);
	bool left = conn_rx_left(c);
	if (left)
		rx_pull(c);		/* RESUME is there, and what follows it */
	uint8_t s = c->rx.state;
	bool on = s == PRX_ON && !c->rx.want && !conn_end_judged_soon(c);
	/* far: the CQ may have had the end, or a switch */
	bool again = s != before || (!left && on && more);
	bool sure = on || s == PRX_ENDED ||
		    (ld_rlx(&c->meet) != MEET_BOUND && s == PRX_RAW && !rx_more_to_come(c));
	bool settle = !again && !sure;
	bool late = on && !again && bg_catch_up_due();
	if ((settle || late) && !far)
		conn_get(c);
	lock_drop(&c->rxl);
	if (late)		/* its peer may have died */
		again = bg_catch_up() && ld_rlx(&c->rx.state) != s;
	if (settle)		/* or it had moved before we came to look */
		again = rx_settle(c) || ld_rlx(&c->rx.state) != s;
	if (settle && !again && !t->again)	/* a switch refused meanwhile leaves no other trace */
		again = t->again = !sys_ioctl(fd, FIONREAD, &queued) && queued;
	if (settle || late || far)
		conn_put(c);
	return again;
}

/* A read ends before an urgent byte, whatever follows. */
static bool at_mark(const struct conn *c)
{
	int at = 0;

	return !sys_ioctl(c->fd, SIOCATMARK, &at) && at;
}

static uint64_t ring_left(const struct conn *c)
{
	return slot_p_count(ld_acq(&c->rx_words->p)) - c->rx.C;
}

/* Is there more to come by the kernel behind `seen` bytes that it has? */
static bool raw_left(const struct conn *c, size_t seen)
{
	uint64_t unmet = conn_far_unmet(c);

	return unmet && seen ? c->rx.pos + seen < unmet : rx_more_to_come(c);
}

static bool rx_seam(const struct conn *c, size_t seen)
{
	switch (c->rx.state) {
	case PRX_ON: return conn_rx_left(c) || ring_left(c) > seen;
	case PRX_READY: return conn_rx_coming(c);
	case PRX_NOTED: return seen && (rx_behind(c) || rx_taken_back(c) ||
					c->rx.pos + seen < conn_far_unmet(c));
	case PRX_RAW: return (rx_behind(c) && seen) || (raw_left(c, seen) && !at_mark(c));
	default: return false;
	}
}

/*
 * A read that got a part of what it asked for ends where the stream goes from
 * the kernel to the ring or back.  On TCP it would have had what follows too,
 * which is there, or will be in a moment.  One that only looks cannot go on in
 * the ring: what is there then has to come by the kernel, unless its sender is
 * gone (rx_peek_rest()).  rxl held.
 */
static bool rx_at_seam(const struct rx_call *t, const struct conn *c)
{
	size_t seen = t->io->flags & MSG_PEEK ? (size_t)t->n : 0;
	int queued = 0;

	if (!c->rx_words || c->rx.eof)
		return false;
	/* ... or it has come between the read and this */
	if (!rx_seam(c, seen) && !(t->io->coming && !at_mark(c)))
		return false;
	int state = seen && rx_behind(c) ? conn_kernel_state(c) : TCP_ESTABLISHED;
	if (state != TCP_CLOSE && !conn_fin_came(state))
		return true;
	return sys_ioctl(c->fd, FIONREAD, &queued) == 0 && (size_t)queued > seen;
}

/* The peer has all again that it put into the ring, and writes it to the kernel.  No lock held. */
static void rx_decline(struct conn *c)
{
	lock_take(&c->rxl);
	bool noted = c->rx.state == PRX_NOTED;
	if (noted) {
		rx_act(c, prx_decline(&c->rx));
		c->rx_settled = 0;	/* in this epoch nothing was waited for yet */
	}
	lock_drop(&c->rxl);
	if (noted)
		rx_settle(c);
}

/* rxl held; dropped.  Return: true, there is more to be read, or looked at anew. */
static bool rx_over_seam(struct rx_call *t, struct conn *c)
{
	uint64_t given = c->rx_given;

	if (likely(!conn_rx_far(c)) && !rx_at_seam(t, c)) {
		lock_drop(&c->rxl);
		return false;
	}
	conn_get(c);
	rx_far_look(c);
	bool seam = c->rx_given == given && rx_at_seam(t, c);
	if (seam && conn_rx_left(c))
		rx_pull(c);
	lock_drop(&c->rxl);
	if (seam) {
		t->seam = true;
		t->given = given;
		rx_settle(c);		/* the switch is known here */
		if (t->io->flags & MSG_PEEK)
			rx_decline(c);
	}
	conn_put(c);
	return seam;
}

/* Its part is all that it gets: what is next does not follow it.  rxl held. */
static bool rx_seam_cut(const struct rx_call *t, const struct conn *c)
{
	return t->seam && t->io->done && !(t->io->flags & MSG_WAITALL) &&
	       (c != t->c || c->rx_given != t->given);
}

/* A child's, or closed meanwhile.  rxl held; dropped.  Return: true, the call is over with t->n. */
static bool rx_aside(struct rx_call *t, struct conn *c)
{
	bool kin = ld_rlx(&c->kin) & CONN_RX;

	lock_drop(&c->rxl);
	if (kin) {
		int lost = kin_use_fd(t->fd, CONN_RX);
		if (lost)		/* else the call is still to be made, as it is */
			t->n = finish(t->io, lost);
		return lost != 0;
	}
	t->n = end_parked(c) ? end_park(rx_blocking(c, t->io)) : io_kernel(t->fd, t->io);
	return true;
}

/* From now on the call goes on with c, and not with its number.  rxl held. */
static void rx_hold(struct rx_call *t, struct conn *c)
{
	if (t->held)
		return;
	conn_sleeper_in(c);
	t->held = c;
}

/* What a sleep is for.  rxl held. */
static void rx_nothing_yet(struct rx_call *t, struct conn *c)
{
	t->kernel = kernel_too(c);
	t->kfd = c->fd;
	t->gen = ld_rlx(&c->gen);
	t->state = c->rx.state;
	rx_hold(t, c);
}

/* rxl held. */
static void rx_count_rest(struct rx_call *t, struct conn *c)
{
	/* no record among what the kernel has, before one is answered */
	bool all = (c->rx.state == PRX_RAW && !c->rx.drop) || c->rx.state == PRX_NOTED;
	bool raw = c->rx.state == PRX_RAW && !c->rx.drop && !conn_still_to_come(c);

	t->inq_least = all ? t->io->left : 0;
	t->inq = unread_hint(c, t->inq_least);
	t->inq_sure = raw || c->rx.state == PRX_ENDED || (c->rx.state == PRX_ON && !c->rx.want);
}

/* rxl held. */
static void rx_round(struct rx_call *t, struct conn *c)
{
	t->c = c;
	t->cold = rx_is_cold(c, t->io);
	t->n = rx_step(c, t->held ? c->fd : t->fd, t->io);
	/* after SHUT_RD what is there may be read, what comes later too; nobody waits for it */
	t->shut = c->rx_shut;
	t->blocking = rx_blocking(c, t->io) && !t->shut && (!t->seam || t->io->flags & (MSG_WAITALL | MSG_PEEK));
	if (unlikely(ld_rlx(&c->inq)) && (t->n >= 0 || (t->n == -EAGAIN && t->shut)))
		rx_count_rest(t, c);
	if (!c->rx_granted && ld_rlx(&c->meet) == MEET_BOUND)
		conn_warm(c);
	if (t->cold || !t->blocking)
		return;
	if (!t->deadline_ns && (t->n == -EAGAIN || (t->io->flags & MSG_WAITALL)))
		t->deadline_ns = wait_deadline_ns(ld_rlx(&c->rcvtimeo_ns));
	if (t->n == -EAGAIN)
		rx_nothing_yet(t, c);
	else if ((t->io->flags & MSG_WAITALL) && t->n > 0 && t->io->done + (size_t)t->n < t->io->total)
		rx_hold(t, c);		/* the rest is waited for */
}

static bool rx_over(const struct rx_call *t)
{
	const struct io *io = t->io;

	if (t->n < 0)
		return t->n != -EAGAIN || !t->blocking;
	return t->n == 0 || !(io->flags & MSG_WAITALL) || (io->flags & MSG_PEEK) ||
	       io->done >= io->total || !t->blocking;
}

/* Return: true, the call is over with t->n, or what it has. */
static bool rx_sleep(struct rx_call *t)
{
	struct pollfd p = { t->kfd, POLLIN, 0 };
	uint64_t until = t->deadline_ns;

	if (unlikely(ld_rlx(&t->c->lowat)))	/* the kernel would not tell of less */
		until = MIN(until, clock_ns() + NAP_US * NS_PER_US);
	struct rx_wait rw = {
		.w = { .ready = rx_wait_ready, .gone = rx_wait_gone, .kfds = &p,
		       .nkfds = t->kernel ? 1 : 0, .deadline_ns = until },
		.call = t,
	};

	t->n = wait_run(&rw.w);
	if (t->n == -ETIMEDOUT && until != t->deadline_ns && t->held)
		return false;
	if (!t->held && t->io->done)		/* a handler ran */
		return true;
	if (t->n && !t->io->total) {	/* for no bytes the kernel sleeps once, whatever ends it */
		t->n = 0;
		return true;
	}
	if (t->n == -EINTR && rw.w.restart && !t->io->done && t->deadline_ns == WAIT_FOREVER)
		return false;	/* as SA_RESTART has it */
	if (t->n == -ETIMEDOUT)
		t->n = -EAGAIN;
	return t->n != 0;
}

/* More will not come than a look has seen.  rxl held. */
static bool rx_is_all(struct conn *c, size_t seen)
{
	int queued = 0;

	if (c->rx.eof || c->rx.state == PRX_ENDED || prx_fin_known(&c->rx) || owed_error(&c->owed))
		return true;
	/* what the end stands behind may have come since the look */
	return kernel_too(c) && kernel_over(c) && !sys_ioctl(c->fd, FIONREAD, &queued) &&
	       (size_t)queued <= seen;
}

/* A look at all that is asked for, or at nothing.  rxl held. */
static bool rx_peeks_on(const struct rx_call *t, struct conn *c)
{
	int both = MSG_PEEK | MSG_WAITALL;

	return t->n > 0 && !t->cold && t->blocking && (t->io->flags & both) == both &&
	       (size_t)t->n < t->io->total && !rx_is_all(c, (size_t)t->n);
}

/*
 * What is there already keeps every poll from waiting, so this looks again now
 * and then.  rxl held; dropped.  Return: true, the call is over with what there is.
 */
static bool rx_peek_on(struct rx_call *t, struct conn *c)
{
	uint64_t soon = clock_ns() + NAP_US * NS_PER_US, until = MIN(soon, t->deadline_ns);
	struct wait w = { .ready = wait_never, .deadline_ns = until, .no_spin = true };

	conn_get(c);
	lock_drop(&c->rxl);
	rx_decline(c);		/* ring bytes behind it would never show */
	conn_put(c);
	return wait_run(&w) == -EINTR || clock_ns() >= t->deadline_ns;
}

static ssize_t rx_tell(struct rx_call *t)
{
	size_t room = t->io->msg ? t->io->msg->msg_controllen : 0;
	ssize_t n = finish(t->io, t->n);

	if (likely(t->inq < 0) || n < 0 || !t->io->msg)
		return n;
	int settled = t->inq_sure ? -1 : unread_hint_of(t->fd, t->c, t->inq_least);
	put_inq(t->io->msg, room, settled < 0 ? t->inq : settled);
	return n;
}

/* rxl held; dropped. */
static void rx_end_ask(struct rx_call *t, struct conn *c)
{
	t->io->whose_end = false;
	conn_get(c);
	lock_drop(&c->rxl);
	conn_far_end_ask(c);
	conn_put(c);
}

static ssize_t rx_loop(struct rx_call *t)
{
	struct io *io = t->io;

	for (;;) {
		struct conn *c = rx_again(t);

		if (!c || !c->established) {
			if (c)
				lock_drop(&c->rxl);
			return io->done ? finish(io, 0) : io_kernel(t->fd, io);
		}
		if (unlikely((ld_rlx(&c->kin) & CONN_RX) || c->closing)) {
			if (rx_aside(t, c))
				return t->n;
			continue;
		}
		if (unlikely(rx_seam_cut(t, c))) {
			lock_drop(&c->rxl);
			return rx_tell(t);
		}
		rx_round(t, c);
		if (unlikely(io->whose_end)) {
			rx_end_ask(t, c);
			continue;
		}
		if (t->n == -EAGAIN && !t->blocking && !t->cold) {
			if (rx_look_again(t, c))
				continue;
			t->n = t->shut ? 0 : t->n;
			return rx_tell(t);
		}
		if (unlikely(rx_peeks_on(t, c))) {
			if (rx_peek_on(t, c))
				return rx_tell(t);
			continue;
		}
		bool part = t->n > 0 && !t->cold && (size_t)t->n < io->total - io->done &&
			    !(t->seam && io->flags & MSG_PEEK);
		bool seam = part && rx_over_seam(t, c);
		bool parked = t->n <= 0 && unlikely(c->closing) && end_parked(c);
		if (!part)
			lock_drop(&c->rxl);
		if (unlikely(parked))		/* its end is the exit's doing */
			return end_park(t->blocking);
		if (t->cold)
			return t->n;
		if (unlikely(seam) && io->flags & MSG_PEEK)
			continue;
		if (t->n > 0) {
			io->done += (size_t)t->n;
			rx_poll(c, (size_t)t->n);
		}
		if (unlikely(seam))
			continue;
		if (rx_over(t) || (t->n <= 0 && rx_sleep(t)))
			return rx_tell(t);
	}
}

/* far: may the kernel's own call have it?  A switch that waits in the CQ says no. */
static void rx_msg_look(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (c && ld_rlx(&c->ever_bound) && conn_rx_far(c) && ld_rlx(&c->meet) == MEET_OVER)
		engine_poll_all();
}

ssize_t rx_run(int fd, struct io *io)
{
	struct rx_call t = { .fd = fd, .io = io, .inq = -1 };

	section_call();
	if (unlikely(io->msg))
		rx_msg_look(fd);
	if (io_check(io) || (io->flags & RX_FLAGS_ASIDE) || rx_nothing(io)) {
		if (io->flags & RX_FLAGS_ASIDE)
			kin_first(fd, CONN_RX);
		return io_kernel(fd, io);
	}
	ssize_t n = rx_loop(&t);
	if (t.held)
		conn_sleeper_back(t.held);
	hurry(fd, false);
	return n;
}

/* ------------------------------------------------- one buffer, and no ring -- */

/* Never bound, and nothing stands between the program and the kernel.  rxl held. */
static bool rx_is_plain(const struct conn *c)
{
	return c->established && !c->ever_bound && !c->closing && !c->rx_shut &&
	       prx_is_plain(&c->rx) && !ld_rlx(&c->inq) && !(ld_rlx(&c->kin) & CONN_RX);
}

/* rx_cold() where all is as it mostly is.  rxl held; dropped. */
static ssize_t rx_plain(struct conn *c, int fd, enum call_id call, const struct iovec *v, int flags)
{
	uint32_t gen = ld_rlx(&c->gen);
	bool alone = rx_go_in(c);

	lock_drop(&c->rxl);
	ssize_t n = io_kernel_in(fd, call, v, flags);
	lock_take(&c->rxl);
	bool counted = section_come_out();
	/* the end is one that the library makes, at an exit */
	bool parked = n <= 0 && unlikely(c->closing) && end_parked(c);
	if (unlikely(!conn_lives(c, gen) || parked)) {
		lock_drop(&c->rxl);
		return parked ? end_park(!(flags & MSG_DONTWAIT) && !ld_rlx(&c->nonblock)) : n;
	}
	rx_came_out(c, counted);
	st_rlx(&c->rx_read, true);
	alone = alone && c->rx_inside == 0;
	if (likely(n > 0 && alone && rx_is_plain(c))) {
		prefix_add(&c->rx_prefix, &conn_prefix_pool, v->iov_base, (size_t)n, c->rx.pos);
		prx_plain_read(&c->rx, (uint64_t)n);
		st_rlx(&c->rx_given, c->rx_given + (uint64_t)n);
		count(CNT_tcp_rx_bytes, (uint64_t)n);
		count(CNT_tcp_rx_msgs, 1);
		if (ld_rlx(&c->active) || ld_rlx(&c->inherited))
			conn_warm(c);
	} else {
		n = rx_cold_over(c, &(struct io){ .iov = v, .cnt = 1, .flags = flags }, n, alone);
		if (ld_rlx(&c->meet) == MEET_BOUND)
			conn_warm(c);
	}
	rx_asked(c);
	lock_drop(&c->rxl);
	return n;
}

ssize_t rx_one(int fd, enum call_id call, void *buf, size_t n, int flags)
{
	const struct iovec v = { buf, n };
	struct conn *c = fdtab_conn(fd);
	bool easy = io_is_easy(buf, n) && !(flags & ~RX_FLAGS_EASY) && !config.fault.hurry;

	if (easy && c && !ld_rlx(&c->ever_bound)) {	/* a hint: rx_is_plain() looks again */
		section_call();
		c = conn_lock_rx(fd);
		if (likely(c && rx_is_plain(c)))
			return rx_plain(c, fd, call, &v, flags);
		if (c)
			lock_drop(&c->rxl);
	}
	return rx_run(fd, &(struct io){ .call = call, .iov = &v, .cnt = 1, .flags = flags });
}
