/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rest.c - see rest.h
 *
 * A peer that dies leaves bytes in the ring, and an end behind them.  On TCP they
 * are in the socket, for a parent and its children, whoever comes first.  A ring is
 * the parent's alone, and nobody is left to send it again.  So they go to a file in
 * memory: its descriptor has one position for all who have it, and a read moves that
 * on by what it takes.  The error behind them is one message in a socket
 * (request_once()).
 *
 * Of an end that is known at a fork the child has both descriptors by that and asks
 * nobody, whatever becomes of its parent.  There are ENDS at a time; of others, and of
 * one that comes later, both go with the answer to its ask.  Where there is no
 * descriptor or memory for it the ring stays the parent's.
 *
 * c->rest: rxl.  ends: kin_lock, and the child before it has threads.
 */
#define _GNU_SOURCE
#include "sock/rest.h"

#include <linux/memfd.h>
#include <sys/ioctl.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "ring/ring.h"
#include "sock/bind.h"
#include "sock/request.h"

#define ENDS	64

static struct conn *ends[ENDS];
static uint32_t nends;

/* ------------------------------------------------------------- reading -- */

size_t rest_left(const struct conn *c)
{
	int n = 0;

	return c->rest && !sys_ioctl(c->rest - 1, FIONREAD, &n) && n > 0 ? (size_t)n : 0;
}

/* What a read throws away.  Others may read meanwhile. */
static ssize_t skip(int fd, size_t n)
{
	char buf[512];
	size_t got = 0;
	ssize_t r = 1;

	while (got < n && r > 0) {
		r = sys_read(fd, buf, MIN(n - got, sizeof(buf)));
		got += r > 0 ? (size_t)r : 0;
	}
	return (ssize_t)got;
}

static ssize_t copy(int fd, const struct io *io, size_t n)
{
	bool peek = io->flags & MSG_PEEK;
	long at = peek ? sys3(SYS_lseek, fd, 0, SEEK_CUR) : 0, r = 0;
	size_t got = 0;

	while (got < n) {
		struct iovec v[IO_SLICE];
		int k = io_slice(io, io->done + got, n - got, v, IO_SLICE);

		r = peek ? sys5(SYS_preadv, fd, v, k, at + (long)got, 0) : sys3(SYS_readv, fd, v, k);
		if (r <= 0)
			break;
		got += (size_t)r;
	}
	return got ? (ssize_t)got : r;
}

ssize_t rest_read(struct conn *c, const struct io *io)
{
	size_t n = MIN(rest_left(c), io->total - io->done);
	ssize_t got = (ssize_t)n;

	if (!n)
		return 0;
	if (!(io->flags & MSG_TRUNC))
		got = copy(c->rest - 1, io, n);
	else if (!(io->flags & MSG_PEEK))
		got = skip(c->rest - 1, n);
	if (got <= 0 || io->flags & MSG_PEEK)
		return got;
	st_rlx(&c->rx_given, c->rx_given + (uint64_t)got);
	st_rlx(&c->rest_bytes, c->rest_bytes - MIN(c->rest_bytes, (uint64_t)got));
	count(CNT_ring_rx_bytes, (uint64_t)got);
	count(CNT_ring_rx_msgs, 1);
	return got;
}

void rest_drop(struct conn *c)
{
	privfd_close(xchg_acqrel(&c->rest, 0) - 1);
}

/* ---------------------------------------------------------------- fork -- */

/* Return: false, no file has them. */
static bool fill(int fd, const struct conn *c)
{
	uint64_t mask = (1ull << c->rx_wlog) - 1;

	for (uint64_t at = c->rx.C; at < c->rx.Pb;) {
		size_t run = ring_run(mask, at, c->rx.Pb - at);

		if (privfd_write(fd, c->rx_ring + (at & mask), run) != (ssize_t)run)
			return false;
		at += run;
	}
	return sys3(SYS_lseek, fd, 0, SEEK_SET) == 0;
}

/* What is in the ring goes to a file.  Both locks held.  Return: false, it does not. */
static bool move(struct conn *c)
{
	if (c->rx.state != PRX_ENDED || !c->ever_bound || c->fd < 0 || c->closing || c->rx_shut)
		return false;
	if (c->rx.C == c->rx.Pb)
		return c->rest != 0;
	int fd = PRIVFD_NEW(sys2(SYS_memfd_create, "sidestep-rest", MFD_CLOEXEC));
	if (fd < 0)
		return false;
	if (c->rest || !fill(fd, c)) {
		privfd_close(fd);
		return false;
	}
	st_rlx(&c->rest_bytes, c->rx.Pb - c->rx.C);
	st_rlx(&c->rest, fd + 1);
	prx_moved(&c->rx);
	return true;
}

static void share(struct conn *c, void *arg)
{
	if (ld_rlx(&c->rx.state) != PRX_ENDED || nends == ENDS)
		return;
	conn_take_both(c);
	int err = conn_owed(c);
	if (move(c) && (!err || request_once(c, err) >= 0))
		ends[nends++] = c;
	conn_unlock_both(c);
}

int rest_share(struct conn *c)
{
	return move(c) ? c->rest - 1 : -1;
}

void rest_take_over(struct conn *c, int fd, bool reset)
{
	int n = 0;

	st_rlx(&c->rest, fd + 1);
	st_rlx(&c->rest_bytes, sys_ioctl(fd, FIONREAD, &n) || n < 0 ? 0 : (uint64_t)n);
	prx_over(&c->rx, reset);
}

void rest_fork_prepare(void)
{
	nends = 0;
	if (bind_enabled() || bg_running())
		conn_for_each(share, NULL);
}

bool rest_keeps(int fd)
{
	for (uint32_t i = 0; i < nends; i++)
		if (ends[i]->rest == fd + 1 || ends[i]->owed_once == fd + 1)
			return true;
	return false;
}

bool rest_goes_on(const struct conn *c)
{
	for (uint32_t i = 0; i < nends; i++)
		if (ends[i] == c)	/* no other thread has closed it meanwhile */
			return c->rest && c->nfds && !c->closing;
	return false;
}

void rest_fork_child(void)
{
	for (uint32_t i = 0; i < nends; i++)
		if (rest_goes_on(ends[i]))
			conn_watcher->bound(ends[i]);
}
