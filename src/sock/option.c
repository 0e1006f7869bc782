/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * option.c - socket options of a tracked descriptor
 *
 * The kernel has them, and answers; those that change what a read, a write or an
 * end does are noted as well.  What the ring cannot do exactly takes the connection
 * back to the kernel first (kernel_only()).
 */
#define _GNU_SOURCE
#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/section.h"
#include "base/sys.h"
#include "sock/calls.h"
#include "sock/far.h"
#include "sock/fdtab.h"
#include "sock/heir.h"
#include "sock/info.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/sock.h"

static uint64_t timeval_ns(const void *val, socklen_t len)
{
	struct timeval tv;

	if (!val || len < sizeof(tv))
		return 0;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_sec < 0)
		return 1;		/* the kernel waits for no time at all then */
	return (uint64_t)tv.tv_sec * NS_PER_S + (uint64_t)tv.tv_usec * NS_PER_US;
}

static void note_linger(struct conn *c, const void *val, socklen_t len)
{
	struct linger lg = { 0 };

	memcpy(&lg, val, MIN((size_t)len, sizeof(lg)));
	st_rlx(&c->linger0, lg.l_onoff && lg.l_linger == 0);
	/* a negative time is for ever, to the kernel */
	st_rlx(&c->linger_ns, lg.l_onoff ? (uint64_t)(unsigned)lg.l_linger * NS_PER_S : 0);
}

static bool lowat_above_one(const void *val, socklen_t len)
{
	int n = 0;

	if (!io_bad_address(val) && len >= sizeof(n))
		memcpy(&n, val, sizeof(n));
	return n > 1 || n < 0;		/* a negative one is as large as can be */
}

static void note_socket_option(struct conn *c, int name, const void *val, socklen_t len)
{
	switch (name) {
	case SO_RCVTIMEO:
		st_rlx(&c->rcvtimeo_ns, timeval_ns(val, len));
		break;
	case SO_SNDTIMEO:
		st_rlx(&c->sndtimeo_ns, timeval_ns(val, len));
		break;
	case SO_LINGER:
		note_linger(c, val, len);
		break;
	case SO_RCVLOWAT:
		st_rlx(&c->lowat, lowat_above_one(val, len));
		break;
	default:
		break;
	}
}

static void note_tcp_option(struct conn *c, int name, const void *val, socklen_t len)
{
	int on = 0;

	memcpy(&on, val, MIN((size_t)len, sizeof(on)));
	if (name == TCP_NODELAY)
		st_rlx(&c->nodelay, on != 0);
	else if (name == TCP_CORK)
		st_rlx(&c->cork, on != 0);
	else if (name == TCP_INQ)
		st_rlx(&c->inq, on != 0);
}

/* Ancillary data, marks and positions, filters, signatures. */
static bool option_odd(int level, int name, const void *val, socklen_t len)
{
	int on = 0;

	if (!io_bad_address(val))
		memcpy(&on, val, MIN((size_t)len, sizeof(on)));
	if (level == IPPROTO_TCP)
		return name == TCP_REPAIR || name == TCP_MD5SIG || name == TCP_MD5SIG_EXT;
	if (level != SOL_SOCKET)
		return false;
	switch (name) {
	case SO_RCVLOWAT:
		return lowat_above_one(val, len);
	case SO_OOBINLINE:
	case SO_TIMESTAMP_OLD:
	case SO_TIMESTAMPNS_OLD:
	case SO_TIMESTAMPING_OLD:
	case SO_TIMESTAMP_NEW:
	case SO_TIMESTAMPNS_NEW:
	case SO_TIMESTAMPING_NEW:
		return on;
	case SO_PEEK_OFF:
		return on >= 0;
	case SO_ATTACH_FILTER:		/* they see, or drop, what passes */
	case SO_ATTACH_BPF:
		return true;
	default:
		return false;
	}
}

/* What the kernel knows by the route that its last segment took. */
static bool option_of_route(int level, int name)
{
	return (level == IPPROTO_IP && name == IP_MTU) ||
	       (level == IPPROTO_IPV6 && (name == IPV6_MTU || name == IPV6_PATHMTU));
}

/* With some options the kernel forgets it. */
static void route_mark(int fd)
{
	struct conn *c = conn_lock_both(fd);

	if (!c)
		return;
	c->route_mark = c->tx_given + c->rx_given;
	conn_unlock_both(c);
}

/* Would a segment have gone since?  By the ring the kernel does not see it; the way back sends one. */
static bool route_lost(int fd)
{
	struct conn *c = conn_lock_both(fd);

	if (!c)
		return false;
	bool lost = c->ever_ring && c->route_mark != c->tx_given + c->rx_given;
	conn_unlock_both(c);
	return lost;
}

int sock_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	kin_first(fd, CONN_BOTH);
	/* first: with the option the kernel would drop, hold back or miscount what the way back wants */
	if (fdtab_conn(fd) && option_odd(level, name, val, len))
		kernel_only(fd, true, true, REASON_OPTION);
	int r = real_result(section_away(real.setsockopt(fd, level, name, val, len)));
	struct conn *c = fdtab_conn(fd);

	if (r < 0 || !c || !val)
		return r;
	heir_changed(fd);
	if (level != IPPROTO_TCP)	/* those go by no route, and come with each message */
		route_mark(fd);
	if (level == SOL_SOCKET) {
		note_socket_option(c, name, val, len);
		if (name == SO_LINGER)
			conn_far_linger_again(c);
	} else if (level == IPPROTO_TCP) {
		note_tcp_option(c, name, val, len);
		if (name == TCP_ULP)	/* most of the time it is not to be had */
			kernel_only(fd, true, true, REASON_OPTION);
	}
	return r;
}

int sock_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct conn *c = fdtab_conn(fd);

	if (level == SOL_SOCKET && name == SO_ERROR)
		kin_first(fd, CONN_BOTH);
	if (level == SOL_SOCKET && name == SO_ERROR && c && owed_error(&c->owed) && val && len &&
	    *len <= INT_MAX) {
		int err = conn_owed_take(c);

		*len = (socklen_t)MIN((size_t)*len, sizeof(err));	/* a part will do */
		memcpy(val, &err, *len);
		return 0;
	}
	if (level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE && c)	/* it reads */
		kernel_only(fd, true, true, REASON_OPTION);
	int r = real_result(real.getsockopt(fd, level, name, val, len));
	if (r == -ENOTCONN && option_of_route(level, name) && route_lost(fd)) {
		kernel_only(fd, true, true, REASON_OPTION);
		r = real_result(real.getsockopt(fd, level, name, val, len));
	}
	if (level == SOL_SOCKET && name == SO_LINGER && c && r == 0 && ld_rlx(&c->tx.linger) &&
	    *len == sizeof(struct linger))
		*(struct linger *)val = conn_far_linger_shown(c);
	if (level == IPPROTO_TCP && name == TCP_INFO && c && r == 0 && *len && ld_rlx(&c->ever_bound))
		info_true(fd, c, val, *len);
	if (level == SOL_SOCKET && name == SO_ERROR && c && r == 0 && *len == sizeof(int) &&
	    *(int *)val && !owed_by_kernel(&c->owed) && *(int *)val == ECONNRESET)
		*(int *)val = 0;
	return r;
}

/* A filter's length is all that can be asked; one of eBPF refuses that, too. */
static bool filtered(int fd)
{
	socklen_t len = 0;

	return sys_getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) || len;
}

bool option_learn(struct conn *c, int fd)
{
	static const struct { int level, name; } known[] = {
		{ SOL_SOCKET, SO_RCVTIMEO }, { SOL_SOCKET, SO_SNDTIMEO }, { SOL_SOCKET, SO_LINGER },
		{ SOL_SOCKET, SO_RCVLOWAT }, { SOL_SOCKET, SO_OOBINLINE }, { SOL_SOCKET, SO_PEEK_OFF },
		{ SOL_SOCKET, SO_TIMESTAMP_OLD }, { SOL_SOCKET, SO_TIMESTAMPNS_OLD },
		{ SOL_SOCKET, SO_TIMESTAMPING_OLD }, { SOL_SOCKET, SO_TIMESTAMP_NEW },
		{ SOL_SOCKET, SO_TIMESTAMPNS_NEW }, { SOL_SOCKET, SO_TIMESTAMPING_NEW },
		{ IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_TCP, TCP_CORK }, { IPPROTO_TCP, TCP_INQ },
	};
	bool odd = filtered(fd);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct timeval val = { 0 };	/* the largest of them */
		socklen_t len = sizeof(val);

		if (sys_getsockopt(fd, known[i].level, known[i].name, &val, &len))
			continue;		/* an older kernel */
		if (known[i].level == IPPROTO_TCP)
			note_tcp_option(c, known[i].name, &val, len);
		else
			note_socket_option(c, known[i].name, &val, len);
		odd |= option_odd(known[i].level, known[i].name, &val, len);
	}
	return odd;
}
