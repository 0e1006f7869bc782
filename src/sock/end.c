/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * end.c - the last close of a conn that was ever attached
 *
 * The program's close() is over as soon as a private dup of the kernel socket
 * exists.  The background thread then ends the sending direction (FIN on the
 * link, RESUME, kept bytes, the kernel's FIN), swallows what still comes the
 * other way, records included, and closes the dup when rule LAST allows it:
 * a kernel socket closed over unread bytes would answer RST and throw away
 * what it had still to send.
 */
#define _GNU_SOURCE
#include <linux/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"

#define LAST_S	20		/* T_last */

uint32_t end_pending;		/* conns between close() and here's end */

static bool fin_acked(const struct conn *c)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return true;
	/* FIN_WAIT2, TIME_WAIT, CLOSE; LAST_ACK is not acked yet */
	return info.tcpi_state >= 5 && info.tcpi_state <= 7;
}

void end_begin(struct conn *c)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (c->closing && !c->end_begun && c->fd >= 0) {
		c->end_begun = true;
		c->close_deadline_ns = clock_ns() + LAST_S * NS_PER_S;
		c->close_wait_ns = NS_PER_MS;
		if (!c->tx_fin_out)
			tx_act(c, ptx_shutdown(&c->tx));
		c->tx_shut = true;
		tx_retreat(c, REASON_CLOSE);
		rx_act(c, prx_close(&c->rx));
	}
	conn_unlock_both(c);
	if (!end_step(c)) {
		lock_take(&c->rxl);
		lock_take(&c->txl);
		conn_watch_update(c);
		conn_unlock_both(c);
		bind_timer_at(c, clock_ns() + c->close_wait_ns);
	}
}

bool end_step(struct conn *c)
{
	bool over = false;

	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (!c->closing || !c->end_begun || c->fd < 0) {
		conn_unlock_both(c);
		return c->fd < 0;
	}
	lock_drop(&c->txl);
	rx_swallow(c);
	lock_take(&c->txl);
	bool late = clock_ns() >= c->close_deadline_ns;
	if (late || (c->tx_fin_out && !c->tx_stuck &&
		     prx_last(&c->rx, &c->tx, fin_acked(c), late))) {
		over = true;
		if (c->watch.fd >= 0) {
			bg_unwatch(&c->watch);
			c->watch.fd = -1;
			conn_put(c);
		}
		log_debug("fd %d over%s", c->fd, late ? ", late" : "");
		privfd_close(c->fd);
		c->fd = -1;
	}
	c->close_wait_ns = MIN(2 * c->close_wait_ns, 100 * NS_PER_MS);
	conn_unlock_both(c);
	if (over) {
		bind_release_try(c);
		conn_put(c);		/* the fd table's reference */
		sub_acqrel(&end_pending, 1);
		wait_wake_ready();
	}
	return over;
}
