/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * calls.c - libc's calls on a tracked descriptor
 *
 * Those that move bytes become a struct io (io.h); those that control update
 * what we know after the kernel has had its say.  What the ring cannot do
 * exactly takes the connection back to the kernel first (kernel_only()).
 *
 * Longer than others: one short function for each call of libc's, in its order.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "progress/wait.h"
#include "sock/accepted.h"
#include "sock/act.h"
#include "sock/back.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/fdtab.h"
#include "sock/heir.h"
#include "sock/hurry.h"
#include "sock/info.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/process.h"
#include "sock/rule.h"
#include "sock/rwf.h"
#include "sock/show.h"
#include "sock/sock.h"
#include "sock/unread.h"

/* ------------------------------------------------------------- reading -- */

ssize_t sock_read(int fd, void *buf, size_t n)
{
	return rx_one(fd, CALL_read, buf, n, 0);
}

ssize_t sock_recv(int fd, void *buf, size_t n, int flags)
{
	return rx_one(fd, CALL_recv, buf, n, flags);
}

ssize_t sock_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
		      socklen_t *len)
{
	const struct iovec v = { buf, n };

	return rx_run(fd, &(struct io){ .call = CALL_recvfrom, .iov = &v, .cnt = 1, .flags = flags,
					.addr = addr, .addrlen = len });
}

ssize_t sock_readv(int fd, const struct iovec *iov, int cnt)
{
	return rx_run(fd, &(struct io){ .call = CALL_readv, .iov = iov, .cnt = cnt });
}

ssize_t sock_preadv2(int fd, const struct iovec *iov, int cnt, off_t off, int flags)
{
	struct io io = { .call = CALL_preadv2, .iov = iov, .cnt = cnt, .rwflags = flags,
			 .flags = flags & RWF_NOWAIT ? MSG_DONTWAIT : 0 };

	return flags && rwf_refused(CALL_preadv2, flags) ? io_kernel(fd, &io) : rx_run(fd, &io);
}

static int msg_check(const struct msghdr *msg)
{
	if (io_bad_address(msg))
		return -EFAULT;
	return msg->msg_iovlen > IOV_MAX ? -EMSGSIZE : 0;
}

ssize_t sock_recvmsg(int fd, struct msghdr *msg, int flags)
{
	int err = msg_check(msg);

	if (err)
		return err;
	return rx_run(fd, &(struct io){ .call = CALL_recvmsg, .iov = msg->msg_iov,
					.cnt = (int)msg->msg_iovlen, .flags = flags, .msg = msg });
}

/* As in the kernel: recvmmsg() tells the socket's error first, also one that recv() would not. */
static int pending_error(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return sock_getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? 0 : -err;
}

int sock_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	uint64_t end = timeout ? clock_ns() + (uint64_t)timeout->tv_sec * NS_PER_S +
				 (uint64_t)timeout->tv_nsec : 0;
	int err = flags & MSG_ERRQUEUE ? 0 : pending_error(fd);
	unsigned i;

	if (err)
		return err;
	if (n && io_bad_address(msgs))
		return -EFAULT;
	for (i = 0; i < MIN(n, 1024u); i++) {
		int f = flags & ~MSG_WAITFORONE;
		ssize_t got;

		if (i && (flags & MSG_WAITFORONE))
			f |= MSG_DONTWAIT;
		got = sock_recvmsg(fd, &msgs[i].msg_hdr, f);
		if (got < 0)
			return i ? (int)i : (int)got;
		msgs[i].msg_len = (unsigned)got;
		if (timeout && clock_ns() >= end)
			return (int)i + 1;
	}
	return (int)i;
}

/* ------------------------------------------------------------- writing -- */

ssize_t sock_write(int fd, const void *buf, size_t n)
{
	return tx_one(fd, CALL_write, buf, n, 0);
}

ssize_t sock_send(int fd, const void *buf, size_t n, int flags)
{
	return tx_one(fd, CALL_send, buf, n, flags);
}

ssize_t sock_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
		    socklen_t len)
{
	const struct iovec v = { (void *)(uintptr_t)buf, n };

	/* on a connected TCP socket the address is ignored, as the kernel does */
	return tx_run(fd, &(struct io){ .call = CALL_sendto, .iov = &v, .cnt = 1, .flags = flags,
					.addr = (struct sockaddr *)(uintptr_t)addr,
					.salen = len });
}

ssize_t sock_writev(int fd, const struct iovec *iov, int cnt)
{
	return tx_run(fd, &(struct io){ .call = CALL_writev, .iov = iov, .cnt = cnt });
}

ssize_t sock_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off, int flags)
{
	struct io io = { .call = CALL_pwritev2, .iov = iov, .cnt = cnt, .rwflags = flags,
			 .flags = flags & RWF_NOWAIT ? MSG_DONTWAIT : 0 };

	return flags && rwf_refused(CALL_pwritev2, flags) ? io_kernel(fd, &io) : tx_run(fd, &io);
}

ssize_t sock_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	int err = msg_check(msg);

	if (err)
		return err;
	return tx_run(fd, &(struct io){ .call = CALL_sendmsg, .iov = msg->msg_iov,
					.cnt = (int)msg->msg_iovlen, .flags = flags,
					.msg = (struct msghdr *)(uintptr_t)msg });
}

int sock_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	unsigned i;

	if (n && io_bad_address(msgs))
		return -EFAULT;
	for (i = 0; i < MIN(n, 1024u); i++) {
		ssize_t done = sock_sendmsg(fd, &msgs[i].msg_hdr, flags);

		if (done < 0)
			return i ? (int)i : (int)done;
		msgs[i].msg_len = (unsigned)done;
	}
	return (int)i;
}

/* ------------------------------------------- what only the kernel can do -- */

enum { BACK_MS = 50 };

struct raw_wait {
	struct wait w;
	struct conn *c;
	uint32_t gen;
	bool tx, rx;
};

static bool raw_ready(struct wait *w)
{
	struct raw_wait *r = container_of(w, struct raw_wait, w);

	return ld_rlx(&r->c->gen) != r->gen ||
	       ((!r->tx || !conn_tx_on_ring(r->c)) &&
		(!r->rx || (!conn_rx_on_ring(r->c) && !ld_rlx(&r->c->rx.drop))));
}

static void raw_await(struct raw_wait *r)
{
	int err = 0;

	while (!raw_ready(&r->w) && (!err || err == -EINTR))
		err = wait_run(&r->w);
}

/* rxl held: the kernel has all that was sent again; who reads it past us does not tell. */
static bool all_came(struct conn *c)
{
	if (c->rx.state != PRX_RAW || !c->rx.left || c->rx.drop)
		return true;
	if (conn_still_to_come(c))
		return false;
	st_rlx(&c->rx.left, 0);
	return true;
}

static void came_await(struct conn *c)
{
	uint64_t end = clock_ns() + BACK_MS * NS_PER_MS;

	lock_take(&c->rxl);
	while (!all_came(c) && clock_ns() < end) {
		lock_drop(&c->rxl);
		sys_nap(50 * NS_PER_US);
		lock_take(&c->rxl);
	}
	lock_drop(&c->rxl);
}

/* RESUME has come, and the bytes behind it are on their way: here nobody spares the wait. */
static void all_back(struct conn *c)
{
	lock_take(&c->rxl);
	c->rx_settled = 0;
	lock_drop(&c->rxl);
	rx_settle(c);
	came_await(c);
	lock_take(&c->rxl);
	if (c->rx_shut)
		rx_act(c, 0);		/* the kernel's turn to say so */
	lock_drop(&c->rxl);
}

/* c is its parent's, too.  Both locks held, and away during the call. */
static struct conn *pass_on(struct conn *c, int fd)
{
	conn_get(c);
	conn_unlock_both(c);
	kin_pass(c);
	conn_put(c);
	return conn_lock_both(fd);
}

void kernel_only(int fd, bool tx, bool rx, enum reason why)
{
	struct conn *c = conn_lock_both(fd);

	if (c && unlikely(c->kin_way | c->kin))
		c = pass_on(c, fd);

	if (!c)
		return;
	struct raw_wait r = { .w = { .ready = raw_ready, .no_cancel = true,
				     .deadline_ns = clock_ns() + 3 * NS_PER_S },
			      .c = c, .gen = ld_rlx(&c->gen), .tx = tx, .rx = rx };
	conn_get(c);		/* another thread may close it meanwhile */
	heir_spoil(c);
	if (why == REASON_FD_PASSED)
		c->passed = true;
	if (why == REASON_FD_PASSED || why == REASON_FOREIGN_IO)
		c->past_us = true;
	if (c->meet != MEET_OVER)
		bind_give_up(c, why);
	if (tx)
		tx_retreat(c, why);
	lock_drop(&c->txl);
	if (rx)
		conn_rx_back(c);
	lock_drop(&c->rxl);
	raw_await(&r);
	if (rx)
		all_back(c);
	conn_put(c);
}

void sock_keep_on_kernel(struct conn *c, enum reason why)
{
	if (unlikely(ld_rlx(&c->kin) | ld_rlx(&c->kin_way)))
		kin_pass(c);
	conn_take_both(c);
	if (c->meet != MEET_OVER)
		bind_give_up(c, why);
	tx_retreat(c, why);
	lock_drop(&c->txl);
	conn_rx_back(c);
	lock_drop(&c->rxl);
}

void sock_back_until(struct conn *c, uint64_t deadline_ns)
{
	struct raw_wait r = { .w = { .ready = raw_ready, .no_cancel = true, .deadline_ns = deadline_ns },
			      .c = c, .gen = ld_rlx(&c->gen), .rx = true };

	raw_await(&r);
	all_back(c);
}

void sock_foreign(int fd, enum reason why)
{
	if (why == REASON_FD_PASSED)
		conn_watcher->set_passed(fd);
	kernel_only(fd, true, true, why == REASON_NONE ? REASON_FOREIGN_IO : why);
}

/* The error that we keep, for who has a byte to send; 0: none. */
static int splice_error(int pipe, int out, size_t n)
{
	int queued = 0;
	struct conn *c = fdtab_conn(out);

	if (!c || !owed_error(&c->owed) || !n || sys_ioctl(pipe, FIONREAD, &queued) || !queued)
		return 0;
	int err = conn_owed_take(c);
	/* EPIPE has its signal, which the kernel sends: it has no other error any more */
	return err == EPIPE ? 0 : -err;
}

/* Past us, but counted: what is behind our records is the program's. */
static ssize_t splice_by_kernel(int in, off64_t *inoff, int out, off64_t *outoff, size_t n,
				unsigned flags)
{
	struct conn *c = fdtab_tracked(out) ? conn_lock_tx(out) : NULL;

	if (c && !c->established) {
		lock_drop(&c->txl);
		c = NULL;
	}
	uint32_t gen = c ? ld_rlx(&c->gen) : 0;
	bool alone = c && tx_kernel_begin(c);
	ssize_t r = real_result(section_away(real.splice(in, inoff, out, outoff, n, flags)));
	if (c)
		tx_kernel_end(c, gen, alone, NULL, 0, r > 0 ? (size_t)r : 0);
	return r;
}

ssize_t sock_splice(int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags)
{
	if (fdtab_tracked(in))
		kernel_only(in, false, true, REASON_OPTION);
	if (fdtab_tracked(out))
		kernel_only(out, true, false, REASON_OPTION);
	int err = splice_error(in, out, n);
	if (err)
		return err;
	ssize_t r = splice_by_kernel(in, inoff, out, outoff, n, flags);
	if (r > 0 && fdtab_tracked(in))
		rx_spliced(in, (size_t)r);
	return r;
}

ssize_t sock_tee(int in, int out, size_t n, unsigned flags)
{
	return real_result(section_away(real.tee(in, out, n, flags)));
}

ssize_t sock_vmsplice(int fd, const struct iovec *iov, size_t cnt, unsigned flags)
{
	return real_result(section_away(real.vmsplice(fd, iov, cnt, flags)));
}

/* ------------------------------------------------------------- control -- */

int sock_fcntl(int fd, int cmd, long arg)
{
	if (cmd == F_SETFL)
		kin_first(fd, CONN_BOTH);
	int r = real_result(section_away(real.fcntl(fd, cmd, arg)));
	struct conn *c = fdtab_conn(fd);

	if (r < 0 || !c || cmd != F_SETFL)
		return r;
	heir_changed(fd);
	st_rlx(&c->nonblock, (arg & O_NONBLOCK) != 0);
	if (arg & O_ASYNC)
		kernel_only(fd, true, true, REASON_OPTION);
	return r;
}

int sock_ioctl(int fd, unsigned long req, void *arg)
{
	struct conn *c;
	int r, n = 0;

	if (req != FIOCLEX && req != FIONCLEX)
		kin_first(fd, CONN_BOTH);
	switch (req) {
	case SIOCATMARK:		/* what precedes the mark may be ours: records, dropped bytes */
		c = conn_lock_rx(fd);
		if (c && c->ever_bound && !c->rx_inside)
			rx_pull(c);
		if (c)
			lock_drop(&c->rxl);
		break;
	case FIONREAD:
		r = io_bad_address(arg) ? -EFAULT : unread_of(fd);
		if (r < 0)
			break;
		*(int *)arg = r;
		return 0;
	case SIOCOUTQ:
		if (!fdtab_conn(fd) || io_bad_address(arg))
			break;
		r = info_outq(fd, &n);
		if (!r)
			*(int *)arg = n;
		return r;
	default:
		break;
	}
	r = real_result(section_away(real.ioctl(fd, req, arg)));
	c = fdtab_conn(fd);
	if (r >= 0 && c && req == FIONBIO) {
		heir_changed(fd);
		st_rlx(&c->nonblock, *(int *)arg != 0);
	}
	if (r >= 0 && c && req == FIOASYNC && *(int *)arg)
		kernel_only(fd, true, true, REASON_OPTION);
	return r;
}

/* ---------------------------------------------------------------- life -- */

static void establish(struct conn *c, bool active)
{
	st_rlx(&c->established, true);
	st_rlx(&c->active, active);
	owed_untold(&c->owed);	/* of an earlier try, or life */
	if (!xchg_acqrel(&c->counted, true))	/* pairs with conn_count_final(), at exit */
		count(CNT_conns_total, 1);
	log_trace("fd %d %s", c->fd, active ? "connects" : "is accepted");
}

/* Another number of the program's for c, when the first one is closed. */
static int other_number(struct conn *c, int not_this)
{
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1))
		if (fd != not_this && fdtab_has(fd, c))
			return fd;
	return -1;
}

/*
 * connect() to AF_UNSPEC: the socket is a new one, which stays on the kernel.
 * The old connection is gone with a reset, so there is nothing to end.
 */
static int disconnect(int fd, const struct sockaddr *addr, socklen_t len)
{
	kernel_only(fd, true, true, REASON_OPTION);
	int r = real_result(section_away(real.connect(fd, addr, len)));
	struct conn *c = r == 0 ? conn_lock_both(fd) : NULL;
	if (!c)
		return r;
	st_rlx(&c->linger0, true);
	conn_unlock_both(c);
	for (int other; (other = other_number(c, fd)) >= 0;)
		sock_purge(other);
	sock_purge(fd);
	return r;
}

int sock_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (!io_bad_address(addr) && len >= sizeof(addr->sa_family) &&
	    addr->sa_family == AF_UNSPEC)
		return disconnect(fd, addr, len);
	const struct conn *was = fdtab_conn(fd);
	uint32_t gen = was ? ld_rlx(&was->gen) : 0;
	int r = real_result(section_away(real.connect(fd, addr, len)));

	if (r == 0 || r == -EINPROGRESS) {
		struct conn *c = conn_lock_both(fd);

		/* while it blocked, its number may have become another's */
		if (c && c == was && ld_rlx(&c->gen) == gen && !c->established) {
			rule_connected(c, addr, len);
			establish(c, true);
			show_both(c);
			if (unlikely(config.fault.hurry))
				conn_warm(c);
		}
		if (c)
			conn_unlock_both(c);
	}
	if (r == 0)
		hurry(fd, false);
	return r;
}

int sock_listen(int fd, int backlog)
{
	int r = real_result(real.listen(fd, backlog));
	struct conn *c = r == 0 ? conn_lock_both(fd) : NULL;

	if (c) {
		show_listening(c);
		conn_unlock_both(c);
	}
	return r;
}

struct conn *conn_track(int fd, bool nonblock)
{
	struct conn *c = conn_new(fd);

	if (!c)
		return NULL;
	c->tracked = true;
	st_rlx(&c->nonblock, nonblock);
	conn_watcher->tracked();
	if (fdtab_set(fd, c, FDTAB_CONN)) {
		conn_put(c);
		return NULL;
	}
	return c;
}

void sock_created(int fd, int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct conn *c = NULL;

	sock_purge(fd);
	if ((domain == AF_INET || domain == AF_INET6) && kind == SOCK_STREAM &&
	    (protocol == 0 || protocol == IPPROTO_TCP))
		c = conn_track(fd, type & SOCK_NONBLOCK);
	if (c)
		show_new(c);
}

/* Who came before its listener had the option has not got it. */
static bool tells_rest(int fd)
{
	return sys_sockopt_int(fd, IPPROTO_TCP, TCP_INQ) > 0;
}

int sock_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags, bool is_accept4)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t peerlen = sizeof(peer);
	int s;

	do {
		s = real_result(section_away(
			is_accept4 ? real.accept4(fd, (struct sockaddr *)&peer, &peerlen, flags)
				   : real.accept(fd, (struct sockaddr *)&peer, &peerlen)));
	} while (unlikely(s == -EMFILE) && process_make_room());
	if (s < 0)
		return s;
	accepted_comes(true);
	if (unlikely(privfd_moved())) {
		sock_purge(s);		/* while the number is still ours */
		privfd_settle(&s, 1, 0);
	}
	if (addr && len) {
		memcpy(addr, &peer, MIN(*len, peerlen));
		*len = peerlen;
	}
	sock_purge(s);
	struct conn *l = fdtab_conn(fd);
	struct conn *c = l && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)
			 ? conn_track(s, flags & SOCK_NONBLOCK) : NULL;
	if (c) {
		/* options are inherited from the listener */
		st_rlx(&c->nodelay, ld_rlx(&l->nodelay));
		st_rlx(&c->cork, ld_rlx(&l->cork));
		st_rlx(&c->inq, ld_rlx(&l->inq) && tells_rest(s));
		st_rlx(&c->linger0, ld_rlx(&l->linger0));
		st_rlx(&c->linger_ns, ld_rlx(&l->linger_ns));
		st_rlx(&c->rcvtimeo_ns, ld_rlx(&l->rcvtimeo_ns));
		st_rlx(&c->sndtimeo_ns, ld_rlx(&l->sndtimeo_ns));
		if (ld_rlx(&l->meet) == MEET_OVER && ld_rlx(&l->why) == REASON_OPTION)
			bind_give_up(c, REASON_OPTION);
		rule_accepted(l, c, &peer);
		establish(c, false);
		show_new(c);		/* before others can find it */
		bind_accepted(l, c, &peer);
	}
	accepted_comes(false);
	if (c)
		hurry(s, false);
	return s;
}

static void stop_watch(struct conn *c)
{
	if (c->watch.fd < 0)
		return;
	bg_unwatch(&c->watch);
	st_rlx(&c->watch.fd, -1);
	c->watch_events = 0;
	conn_put(c);
}

/*
 * The last number goes: forget the conn or hand it to end.c.  Both locks held,
 * the table entry is gone already.  Return: true when the kernel socket lives
 * on in a private dup.
 */
static bool last_number(struct conn *c, int fd)
{
	bool dup = false;

	stop_watch(c);
	heir_close(c);
	if (ld_acq(&c->sleepers) && (c->fd = privfd_dup_surely(fd)) >= 0) {
		/* as in the kernel: who is in a call stays in it, and the end waits */
		conn_sleeper_in(c);	/* out in number_gone(): the last one sees deferred */
		st_rlx(&c->deferred, true);
		conn_watcher->closed(c);
		accepted_del(c);
		conn_todo(c, JOB_WATCH);
		return true;
	}
	if (end_take_over(c, fd) == END_ORDERLY) {
		int hi = privfd_dup_surely(fd);

		dup = hi >= 0;
		if (!dup && c->end_kin)
			conn_abort(fd);		/* or a child would read what is ours alone */
		if (!dup)
			tx_retreat(c, REASON_CLOSE);
		else
			add_rlx(&end_pending, 1);
		conn_watcher->closed(c);
		log_trace("fd %d is closed, its end is under way on fd %d", fd, hi);
		st_rlx(&c->fd, hi);
	} else {
		conn_watcher->closed(c);
		st_rlx(&c->fd, -1);
	}
	accepted_del(c);
	st_rlx(&c->closing, true);
	if (!dup)
		st_rlx(&c->fd, -1);
	if (dup && !end_tell(c))
		conn_todo(c, JOB_CLOSE);
	else if (c->link)
		conn_todo_soon(c, JOB_CLOSE);
	return dup;
}

/* One number of c goes; both locks held and dropped here. */
static struct number_end number_gone(struct conn *c, int fd)
{
	struct number_end e = { .going = true, .kept = -1 };
	bool dup = false;

	fdtab_leave(fd);
	fence_full();		/* pairs with ready_poll(): noted, then the entry */
	e.inside = c->tx_inside || c->rx_inside || ld_rlx(&c->rx_plain_polls);
	if (--c->nfds == 0) {
		dup = last_number(c, fd);
	} else if (c->fd == fd) {
		stop_watch(c);
		st_rlx(&c->fd, other_number(c, fd));
		conn_todo(c, JOB_WATCH);
	}
	bool last = c->nfds == 0;
	if (!last || dup)
		show_both(c);
	if (dup && c->deferred)
		e.deferred = c;
	uint64_t ns = last ? ld_rlx(&c->linger_ns) : 0;
	e.linger = (struct lingering){ c, ld_rlx(&c->gen), dup && !e.deferred ? ns : 0 };
	c->lingers = e.linger.ns != 0;
	if (last && !dup && ns) {
		e.kept = privfd_dup(fd);
		e.waits = e.kept < 0;
	}
	conn_unlock_both(c);
	if (last && !dup)
		conn_put(c);
	return e;
}

/*
 * A number that is in epoll sets goes while a dup lives, or a child has the
 * socket: the kernel keeps the entries, and nobody can change them any more.  So the conn goes back to the
 * kernel first.  Both locks held on entry and exit; returns the conn of fd.
 */
static struct conn *leave_in_sets(struct conn *c, int fd)
{
	if (!conn_watcher->in_set(c, fd, false))
		return c;
	if (c->ever_bound) {
		conn_unlock_both(c);
		kernel_only(fd, true, true, REASON_OPTION);
		c = conn_lock_both(fd);
	} else if (c->meet != MEET_OVER) {
		bind_give_up(c, REASON_OPTION);
	}
	if (c)
		conn_watcher->in_set(c, fd, true);
	return c;
}

struct number_end number_take(int fd)
{
	const struct number_end nothing = { .kept = -1 };

	if (!fdtab_look(fd))
		return nothing;
	struct conn *c = conn_lock_rx(fd);
	if (!c)
		return (struct number_end){ .kept = -1, .going = conn_watcher->set_gone(fd) };
	if (ld_rlx(&c->ever_ring) && c->nfds == 1) {	/* records are no unread bytes */
		lock_drop(&c->rxl);
		engine_poll_all();
		c = conn_lock_rx(fd);
		if (!c)
			return nothing;
		if (c->rx_inside == 0)
			rx_pull(c);
	}
	lock_take(&c->txl);
	if ((c->nfds > 1 || kin_shared(c)) && !list_empty(&c->eents))
		c = leave_in_sets(c, fd);
	return c ? number_gone(c, fd) : nothing;
}
