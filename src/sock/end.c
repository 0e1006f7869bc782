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
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"

#define LAST_S	20		/* T_last */
#define QUIET_MS 100		/* how long QUIET is worth waiting for */

uint32_t end_pending;		/* conns between close() and here's end */

static void linger(int fd, bool reset)
{
	struct linger lg = { .l_onoff = reset, .l_linger = 0 };

	sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
}

/* ring bytes of ours in the epoch */
static uint64_t ring_queued(const struct conn *c)
{
	uint64_t P = slot_p_count(ld_acq(&c->rx_words->p));	/* pairs with slot_publish() */

	return P > c->rx.C ? P - c->rx.C : 0;
}

/* Does the program leave bytes unread that are here already? */
static bool unread(const struct conn *c, int fd)
{
	int queued = 0;

	if (c->rx.eof || c->rx.state == PRX_ENDED || c->rx_shut_out)
		return false;
	if (prx_in_epoch(&c->rx) && c->rx_words && ring_queued(c))
		return true;
	if (c->rx.state == PRX_READY || c->rx.state == PRX_ON)
		return false;		/* nothing but records */
	sys_ioctl(fd, SIOCINQ, &queued);
	return (uint64_t)queued > c->rx.drop;
}

enum end_how end_take_over(struct conn *c, int fd)
{
	bool tx_raw = !conn_tx_on_ring(c) && !c->tx_stuck;
	/* resent bytes that are still to come are the program's: unread, as the kernel sees it */
	bool rx_raw = c->rx.state == PRX_ENDED || (c->rx.state == PRX_RAW && !c->rx.drop);

	if (!ld_rlx(&c->ever_ring) || !c->link || ld_rlx(&c->linger0) || (tx_raw && rx_raw))
		return END_PLAIN;
	if (unread(c, fd)) {
		linger(fd, true);
		return END_RESET;
	}
	linger(fd, false);	/* or the last close would hold up the background thread */
	return END_ORDERLY;
}

static bool fin_acked(const struct conn *c)
{
	int state = conn_kernel_state(c);

	/* LAST_ACK is not acked yet */
	return state == TCP_FIN_WAIT2 || state == TCP_TIME_WAIT || state == TCP_CLOSE;
}

/* Has the peer's program sent what nobody will read?  TCP answers that by RST. */
static bool earned_reset(const struct conn *c)
{
	if (c->end_reset)
		return true;
	if (c->rx.quiet && c->rx.pos + c->rx.have > c->rx.qcount)
		return true;
	return prx_in_epoch(&c->rx) && c->rx_words && !c->rx.eof && ring_queued(c);
}

/* Both locks held. */
static void close_dup(struct conn *c)
{
	if (c->watch.fd >= 0) {
		bg_unwatch(&c->watch);
		c->watch.fd = -1;
		conn_put(c);
	}
	if (privfd_is(c->fd))
		privfd_close(c->fd);
	c->fd = -1;
}

/* The last sleeper has left a conn that the program closed meanwhile. */
static void end_deferred(struct conn *c)
{
	bool put = false;

	lock_take(&c->rxl);
	if (c->rx_inside == 0)
		rx_pull(c);
	lock_take(&c->txl);
	if (c->deferred && !ld_acq(&c->sleepers)) {
		st_rlx(&c->deferred, false);
		st_rlx(&c->closing, true);
		add_rlx(&end_pending, 1);
		put = end_take_over(c, c->fd) != END_ORDERLY;
		if (put)
			close_dup(c);
		conn_todo(c, JOB_CLOSE);
	}
	conn_unlock_both(c);
	if (put) {
		sub_acqrel(&end_pending, 1);
		conn_put(c);		/* the fd table's reference */
	}
}

void conn_sleeper_out(struct conn *c)
{
	if (sub_acqrel(&c->sleepers, 1) == 0 && ld_rlx(&c->deferred))
		end_deferred(c);
	conn_put(c);
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
		st_rlx(&c->tx_shut, true);
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
	uint64_t now = clock_ns();
	bool late = now >= c->close_deadline_ns;
	/* QUIET is better: a record under way would earn the peer a RST */
	bool patient = c->link && ld_rlx(&c->link->state) == LINK_UP &&
		       now < c->close_deadline_ns - (LAST_S * NS_PER_S - QUIET_MS * NS_PER_MS);
	bool reset = earned_reset(c);
	if (late || reset || (c->tx_fin_out && !c->tx_stuck &&
			      prx_last(&c->rx, &c->tx, !patient && fin_acked(c), late))) {
		over = true;
		if (reset)
			linger(c->fd, true);
		log_debug("fd %d over%s", c->fd, reset ? ", reset" : late ? ", late" : "");
		close_dup(c);
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
