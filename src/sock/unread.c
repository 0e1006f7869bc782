/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* unread.c - see unread.h */
#define _GNU_SOURCE
#include "sock/unread.h"

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "base/sys.h"
#include "progress/engine.h"
#include "sock/act.h"
#include "sock/far.h"
#include "sock/fdtab.h"
#include "sock/rest.h"

static int ring_queued(struct conn *c)
{
	uint64_t from;

	/* the peer's word: who reads finds out whether it is nonsense */
	if (c->rx.state == PRX_ON)
		return (int)MIN(slot_p_count(ld_acq(&c->rx_words->p)) - c->rx.C, c->rx_ring_bytes);
	return (int)(prx_avail(&c->rx, &from) + rest_left(c));
}

int unread_now(struct conn *c)
{
	uint64_t most = INT_MAX, before, behind;
	int queued = 0;

	if (conn_rx_on_ring(c) || c->rx.state == PRX_ENDED)
		return ring_queued(c);
	do {
		before = rx_behind(c);
		if (sys_ioctl(c->fd, FIONREAD, &queued))
			return -EINVAL;
		behind = rx_behind(c);
	} while (behind < before);	/* they have gone to the kernel meanwhile */
	/* first comes what had been read before a retreat */
	queued -= (int)MIN((uint64_t)queued, c->rx.drop);
	/* what could be read before does not stop being readable while it is on its way */
	uint64_t unmet = conn_far_unmet(c), coming = conn_rx_on_the_way(c);
	if (unmet > c->rx.pos)
		coming = MIN(unmet - c->rx.pos, (uint64_t)queued + c->rx_ring_bytes);
	return (int)MIN(most, MAX((uint64_t)queued + before, coming));
}

int unread_hint(struct conn *c, int told)
{
	int n = MAX(unread_now(c), 0);
	bool fin = c->rx.eof || c->rx.fin_seen;

	if (c->rx.state == PRX_ENDED)
		fin |= !ld_rlx(&c->rx.end_reset);
	else if (!fin && !conn_rx_on_ring(c))
		fin = conn_fin_came(conn_kernel_state(c));
	if (told)	/* FIONREAD ends before an urgent byte */
		told += (int)MIN(rx_behind(c), (uint64_t)(INT_MAX - told));
	return MAX(n < INT_MAX ? n + fin : n, told);
}

/* The conn of fd, where the kernel and the ring have said what there is; rxl taken. */
static struct conn *lock_settled(int fd)
{
	struct conn *c = fdtab_conn(fd);

	if (c && ld_rlx(&c->ever_bound) && conn_rx_far(c))
		engine_poll_all();
	c = conn_lock_rx(fd);
	if (!c || !c->ever_bound || c->rx_inside || c->closing)
		return c;
	rx_pull(c);
	if (c->rx.state == PRX_ENDED || (c->rx.state == PRX_ON && !c->rx.want))
		return c;
	conn_get(c);
	lock_drop(&c->rxl);
	rx_settle(c);
	conn_put(c);
	return conn_lock_rx(fd);
}

int unread_of(int fd)
{
	struct conn *c = lock_settled(fd);

	if (!c)
		return -ENOSYS;
	int n = c->ever_bound ? unread_now(c) : -ENOSYS;
	lock_drop(&c->rxl);
	return n;
}

int unread_hint_of(int fd, const struct conn *c, int told)
{
	struct conn *now = lock_settled(fd);

	if (!now)
		return -ENOENT;
	int n = now == c && now->ever_bound ? unread_hint(now, told) : -ENOENT;
	lock_drop(&now->rxl);
	return n;
}
