/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * grant.c - may the peer write into our ring?
 *
 * Only where all that came on the kernel socket was read through us, and all
 * who wait for it wait through us.
 */
#define _GNU_SOURCE
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/far.h"

#define COUNT_TRIES 8

/* rxl held: has everything that came on the kernel socket been read through us? */
static bool counts_agree(struct conn *c)
{
	/* two calls: in a stream at full speed more comes in between */
	for (int i = 0; i < COUNT_TRIES; i++) {
		struct tcp_info info = { 0 };
		socklen_t len = sizeof(info);
		int queued = 0;

		if (sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) ||
		    len < offsetof(struct tcp_info, tcpi_segs_out) ||
		    sys_ioctl(c->fd, SIOCINQ, &queued))
			return false;
		if (info.tcpi_bytes_received == c->rx.pos + (uint64_t)queued)
			return true;
	}
	return false;
}

bool conn_still_to_come(const struct conn *c)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (!rx_more_to_come(c))
		return false;
	bool way = conn_rx_on_the_way(c) != 0;
	if (!way && !conn_rx_far(c))
		return true;
	uint64_t end = way ? c->rx.pos + c->rx.left : conn_far_unmet(c);
	return !sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       len >= offsetof(struct tcp_info, tcpi_segs_out) &&
	       info.tcpi_bytes_received < end;
}

static bool evidence(struct conn *c)
{
	return ld_rlx(&c->meet) == MEET_BOUND && !c->closing && c->fd >= 0 && c->rx_read &&
	       !c->rx_shut &&
	       c->rx_inside == 0 && ld_rlx(&c->rx_plain_polls) == 0 &&
	       conn_watcher->none_plain(c) && (!ld_rlx(&c->nonblock) || ld_rlx(&c->rx_waited)) &&
	       !c->rx.want;
}

void conn_grant(struct conn *c)
{
	lock_take(&c->rxl);
	if (!c->rx_granted && evidence(c) && counts_agree(c)) {
		st_rlx(&c->rx_granted, true);
		c->rx_ping = 0;
		conn_send(c, WIRE_GRANT, 0, 1, 0);
		log_debug("fd %d grants", c->fd);
	}
	lock_drop(&c->rxl);
}
