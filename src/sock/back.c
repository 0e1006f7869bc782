/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* back.c - see back.h */
#define _GNU_SOURCE
#include "sock/back.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/heir.h"

void conn_rx_back(struct conn *c)
{
	if (!c->link)
		return;
	/* first: the request goes in-band too, which wakes the peer at once */
	rx_act(c, prx_want(&c->rx));
	if (c->rx_granted)
		conn_send(c, WIRE_GRANT, 0, 0, 0);	/* or it would try again and again */
	st_rlx(&c->rx_granted, false);
}

void conn_ask_back(struct conn *c, enum reason why)
{
	lock_take(&c->rxl);
	bool go = c->fd >= 0 && !c->closing && c->established;
	if (go && c->link && conn_rx_on_ring(c))
		log_debug("fd %d rx wanted back: %s", c->fd, reason_name(why));
	if (go)
		conn_rx_back(c);
	lock_take(&c->txl);
	heir_spoil(c);			/* others get it, or nobody is left to say that they did not */
	if (go) {
		if (c->meet != MEET_OVER)
			bind_give_up(c, why);
		tx_retreat(c, why);
	}
	conn_unlock_both(c);
}

/*
 * What could be read from the ring can be read from the kernel: RESUME is
 * there, but the bytes that follow it may not be yet.  Of many it is enough
 * that there are some, for the receive buffer may be too small for all.
 */
static bool arrived(const struct conn *c)
{
	uint64_t left = ld_rlx(&c->rx.left);
	socklen_t len = sizeof(int);
	int queued = 0, room = 0;

	if (c->rx.state != PRX_RAW || !left || sys_ioctl(c->fd, SIOCINQ, &queued) ||
	    (uint64_t)queued >= left)
		return true;
	if (!sys_getsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &room, &len) && queued >= room / 8)
		return true;
	int state = conn_kernel_state(c);
	return state != TCP_ESTABLISHED && state != TCP_FIN_WAIT1 && state != TCP_FIN_WAIT2;
}

bool conn_is_back(const struct conn *c, uint32_t bits)
{
	if ((bits & CONN_TX) && (conn_tx_on_ring(c) || c->tx_stuck))
		return false;
	if (!(bits & CONN_RX))
		return true;
	/* far: what a child has read is not in our counts any more */
	if (!conn_rx_far(c) && rx_unmet_to_come(c))
		return false;
	return !conn_rx_on_ring(c) && !c->rx.drop && !c->rx.have && arrived(c);
}

bool conn_end_to_come(const struct conn *c)
{
	int state = c->rx.eof && c->rx.state == PRX_RAW ? conn_kernel_state(c) : TCP_CLOSE;

	return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2;
}

void conn_abort(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (fd >= 0)
		sys3(SYS_connect, fd, &none, sizeof(none));	/* sends RST where one is due */
}
