/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * shut.c - shutdown()
 *
 * What the kernel is told, and when: SHUT_WR when the ring is empty (the peer
 * hears of it on the link at once), SHUT_RD when its queue holds nothing of
 * ours any more (act.c, rx_shut_late()).
 */
#define _GNU_SOURCE
#include <errno.h>

#include "base/clock.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/heir.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/sock.h"

/* Nothing of this direction is, or will be, anywhere but in the kernel. */
static int shutdown_rd(struct conn *c, int fd)
{
	bool ring = c->rx.state != PRX_RAW && c->rx.state != PRX_ENDED;

	int err = 0;

	st_rlx(&c->rx_shut, true);
	if (!ring && !c->rx.drop && !rx_shut_waits(c)) {	/* else act.c tells the kernel when RESUME has come */
		st_rlx(&c->rx_shut_out, true);
		err = sys_shutdown(fd, SHUT_RD);
	}
	rx_act(c, PA_WAKE);
	return err;
}

static int shutdown_wr(struct conn *c, int fd)
{
	bool ring = conn_tx_on_ring(c);

	if (ring && !c->tx_shut) {
		st_rlx(&c->tx_shut, true);
		if (c->tx.state == PTX_ON)
			tx_credit(c);
		tx_act(c, ptx_shutdown(&c->tx) | PA_WAKE);
		if (!c->tx_fin_out) {	/* the rest follows once all is read, or soon */
			if (c->tx.state != PTX_PUMP)
				conn_send(c, WIRE_WANT_CREDIT, c->tx.e, c->tx.K, 0);
			st_rlx(&c->tx_progress_ns, clock_ns());
			conn_todo(c, JOB_TIMER);
		}
		return 0;
	}
	if (ring)
		return 0;
	st_rlx(&c->tx_shut, true);
	ptx_shutdown(&c->tx);	/* what it orders is this: */
	c->tx_fin_out = true;
	conn_end_say(c, SLOT_END_FIN);
	return sys_shutdown(fd, SHUT_WR);
}

/*
 * Both ways are over here, and nothing is unread but what the kernel has: TCP
 * answers what still comes by a reset.  So the peer is to write to the kernel;
 * what it has put into the ring meanwhile comes with RESUME (rx_shut_late()), or
 * is refused with its switch, and is not to be read when the reset is here.
 */
static void shutdown_both(struct conn *c)
{
	bool raw = c->rx.state == PRX_RAW && !c->rx.drop && !rx_more_to_come(c);

	if (raw)
		c->rx_shut_clean = true;
	if (!conn_rx_on_ring(c) || c->rx.want)
		return;
	c->rx_shut_clean = true;
	rx_act(c, prx_want(&c->rx));
}

/*
 * ... and the same over bytes that lie in the ring: those can be read, and the peer may
 * go on there.  What it writes behind them is answered when it comes (rx_shut_cut()).
 */
static void shutdown_over(struct conn *c)
{
	if (!prx_in_epoch(&c->rx) || c->rx.want || (c->rx.state == PRX_NOTED && conn_rx_far(c)))
		return;
	c->rx_shut_e = c->rx.e;
	c->rx_shut_P = slot_p_count(ld_acq(&c->rx_words->p));	/* pairs with slot_publish() */
	c->rx_shut_over = true;
}

static bool nothing_unread(struct conn *c)
{
	if (c->rx.state == PRX_READY)
		return !conn_rx_coming(c);
	if (c->rx.state == PRX_NOTED)
		return false;
	return c->rx.state != PRX_ON || (rx_look(c) && c->rx.Pb == c->rx.C);
}

/*
 * The kernel does it alone.  A socket that reads 0 by an own SHUT_RD must not
 * attach: its peer's bytes would be judged by that end.  Both locks held.
 */
static void shut_cold(struct conn *c, int how)
{
	if (how == SHUT_WR || how == SHUT_RDWR)
		c->tx_fin_out = true;
	if (how != SHUT_RD && how != SHUT_RDWR)
		return;
	st_rlx(&c->rx_shut_out, true);
	if (!c->inherited)
		heir_spoil(c);
	if (c->meet != MEET_OVER)
		bind_give_up(c, REASON_OPTION);
}

/* far: what has come before this end is known when the CQ has been looked at. */
static void far_look(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (c && ld_rlx(&c->ever_bound) && conn_rx_far(c))
		engine_poll_all();
}

/*
 * After an own SHUT_RD the kernel queues what comes, but answers it by a reset behind
 * its own FIN: what is between two ways is to be there before.
 */
static void rest_first(int fd)
{
	struct conn *c = conn_lock_rx(fd);

	if (!c)
		return;
	bool late = c->ever_bound && c->rx_shut_out && !ld_rlx(&c->tx_shut) && rx_more_to_come(c);
	if (late)
		conn_get(c);
	lock_drop(&c->rxl);
	if (!late)
		return;
	rx_settle(c);
	conn_put(c);
}

int sock_shutdown(int fd, int how)
{
	int err = kin_first(fd, how == SHUT_RD ? CONN_RX : CONN_BOTH);
	if (err && err != -EAGAIN)
		return err;
	far_look(fd);
	if (!err && how != SHUT_RD)
		rest_first(fd);
	struct conn *c = conn_lock_both(fd);

	if (c && err) {
		kin_shutdown(c);
		conn_unlock_both(c);
		return how == SHUT_WR ? 0 : real_result(section_away(real.shutdown(fd, SHUT_RD)));
	}
	if (!c || !c->ever_bound || how < SHUT_RD || how > SHUT_RDWR) {
		if (c && c->established)
			shut_cold(c, how);
		if (c)
			conn_unlock_both(c);
		return real_result(section_away(real.shutdown(fd, how)));
	}
	bool over = conn_kernel_dead(c);	/* a reset that the loop has not come to, too */
	bool both = (how != SHUT_WR || c->rx_shut) && (how != SHUT_RD || ld_rlx(&c->tx_shut));
	bool clean = !c->rx_shut_over && nothing_unread(c);	/* before the peer hears of an end */
	if (both && !clean && !c->rx_shut_over)
		shutdown_over(c);
	if (how != SHUT_RD)
		err = shutdown_wr(c, fd);
	/* what comes now earns a reset, but only behind the kernel's own FIN */
	if (ld_rlx(&c->tx_shut) && (how != SHUT_WR || c->rx_shut))
		tx_retreat(c, REASON_CLOSE);
	if (how != SHUT_WR) {
		int err2 = shutdown_rd(c, fd);

		/* the FIN may have been acked meanwhile: for one call that is no error */
		if (how == SHUT_RD)
			err = err2;
	}
	conn_watcher->moved(c);
	conn_watcher->event(c, CONN_EDGES);
	lock_drop(&c->txl);
	if (clean && c->rx_shut && ld_rlx(&c->tx_shut))
		shutdown_both(c);
	lock_drop(&c->rxl);
	wait_wake_ready();
	return over && !err ? -ENOTCONN : err;
}
