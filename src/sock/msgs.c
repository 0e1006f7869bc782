/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * msgs.c - control messages, notifications and the death of a link
 *
 * Called with poll_lock held, in the order in which the peer sent; takes the
 * conn's locks one direction at a time.  A message about another link than
 * the conn's present one cannot come here: the slot's owner is NULL then.
 */
#define _GNU_SOURCE
#include "sock/msgs.h"

#include <errno.h>
#include <netinet/tcp.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/io.h"
#include "sock/show.h"
#include "sock/unseen.h"

static bool all_quiet(struct conn *c)
{
	return c->rx_inside == 0 && ld_rlx(&c->rx_plain_polls) == 0 && conn_watcher->none_plain(c);
}

static void to_rx(struct link *l, struct conn *c, const struct wire_msg *m)
{
	uint32_t acts = 0;

	lock_take(&c->rxl);
	switch (m->type) {
	case WIRE_SWITCH:
		if (c->rx_granted)
			conn_count_ring(c);
		if (conn_rx_far(c))
			conn_far_switch(c, m);
		acts = prx_on_switch(&c->rx, l->id, m->epoch, m->a, m->flags,
				     c->rx_granted && !c->closing && !c->rx_shut, all_quiet(c));
		break;
	case WIRE_FIN:
		/* its bytes were published before it was sent */
		if (m->epoch == c->rx.e && prx_in_epoch(&c->rx) && !rx_look(c))
			break;
		acts = prx_on_fin(&c->rx, l->id, m->epoch, m->a) | PA_WAKE;
		break;
	case WIRE_UNBIND:
		acts = prx_on_unbind(&c->rx, l->id, m->epoch);
		break;
	case WIRE_QUIET:
		if (!c->rx_words)
			break;		/* who says so has not proven itself */
		acts = prx_on_quiet(&c->rx, l->id, m->epoch, m->a);
		break;
	case WIRE_WINDOW:
		if (conn_rx_far(c))
			conn_far_windowed(c, m);
		break;
	case WIRE_WANT_RING:
		if (conn_rx_far(c))
			conn_far_asked(c, m);
		break;
	case WIRE_WANT_CREDIT:
		c->rx_wanted = true;
		if (m->epoch == c->rx.e && c->rx.state == PRX_ON && c->rx.C > m->a)
			acts = PA_SEND_CREDIT;
		break;
	default:
		break;
	}
	rx_act(c, acts);
	lock_drop(&c->rxl);
	if (ld_rlx(&c->closing) && (m->type == WIRE_QUIET || m->type == WIRE_SWITCH))
		conn_todo(c, JOB_CLOSE);
}

/*
 * The peer has let go of the slot while we still send into it: it has closed
 * over unread bytes (the kernel says RST), or it knew nothing of our SWITCH.
 */
static void tx_peer_left(struct conn *c)
{
	if (!conn_tx_on_ring(c))
		return;
	if (conn_kernel_dead(c))
		tx_dead(c, false);
	else
		tx_retreat(c, REASON_PEER_CLOSED);
}

/*
 * CLOSING came, and the peer will never read what it left in the ring.  On TCP
 * those bytes would meet a closed socket; one of them does here.  txl held.
 */
static void tx_poke(struct conn *c)
{
	if (c->tx.closeC >= c->tx.P || !c->tx_ring)
		return;
	uint64_t mask = (1ull << c->tx_wlog) - 1;

	ssize_t n = sys_sendto(c->fd, c->tx_ring + (c->tx.closeC & mask), 1,
			       MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n == 1)
		ptx_kernel_wrote(&c->tx, 1);
	else if (n != -EAGAIN)
		conn_error_took(c, (int)-n);	/* the reset was here before */
}

static void to_tx(struct link *l, struct conn *c, const struct wire_msg *m)
{
	uint32_t acts = 0;
	uint8_t before;

	lock_take(&c->txl);
	/* either would have the kernel write */
	if ((m->type == WIRE_SWITCHED || m->type == WIRE_REFUSED) && conn_tx_in_ring(c) && !c->closing)
		tx_reader_look(c);
	before = c->tx.state;
	switch (m->type) {
	case WIRE_GRANT:
		st_rlx(&c->tx_granted, m->a == 1);
		break;
	case WIRE_SWITCHED:
		acts = ptx_on_switched(&c->tx, l->id, m->epoch);
		if (c->tx.state == PTX_ON && before != PTX_ON)
			c->tx_fails = 0;
		break;
	case WIRE_REFUSED:
		acts = ptx_on_refused(&c->tx, l->id, m->epoch);
		if (before == PTX_SWITCHING) {
			tx_backoff(c);
			count(CNT_retreats, 1);
			count_reason(REASON_REFUSED);
			show_retreat(c, REASON_REFUSED);
		}
		break;
	case WIRE_CREDIT:
		acts = ptx_on_credit(&c->tx, l->id, m->epoch, m->a) | PA_WAKE;
		tx_credit_came(c);
		break;
	case WIRE_PLEASE:
		if (m->epoch == c->tx.e)
			tx_retreat(c, REASON_PEER_ASKED);
		break;
	case WIRE_RELEASED:
		acts = ptx_on_released(&c->tx, l->id, m->epoch);
		break;
	case WIRE_CLOSING:
		if (!c->tx_words)
			break;		/* who says so has not proven itself */
		acts = ptx_on_closing(&c->tx, l->id, m->epoch, m->a) | PA_WAKE;
		if (before != PTX_QUIET && (before == PTX_ON || before == PTX_SWITCHING)) {
			count(CNT_retreats, 1);
			count_reason(REASON_PEER_CLOSED);
			show_retreat(c, REASON_PEER_CLOSED);
		}
		break;
	case WIRE_RING:
		if (conn_tx_far(c))
			conn_far_given(c, m);
		break;
	case WIRE_RESET:
		st_rel(&c->peer_gone, true);	/* pairs with rx_end_waits() */
		st_rlx(&c->tx_granted, false);
		tx_peer_left(c);
		break;
	default:
		break;
	}
	if (c->tx.state == PTX_QUIET)
		st_rlx(&c->tx_stuck, false);
	tx_act(c, acts);
	if (m->type == WIRE_CLOSING && c->tx.state == PTX_QUIET && before != PTX_QUIET &&
	    before != PTX_RAW && !c->tx_fin_out)
		tx_poke(c);
	lock_drop(&c->txl);
}

/* The peer sends no more about its slot, and nothing into ours. */
static void peer_left(struct link *l, struct conn *c, const struct wire_msg *m)
{
	to_tx(l, c, m);
	lock_take(&c->rxl);
	rx_end_now(c);
	lock_drop(&c->rxl);
}

static void on_msg(struct link *l, void *owner, const struct wire_msg *m)
{
	struct conn *c = owner;

	log_trace("link %u slot %u got %s epoch %u a %llu", l->id, m->slot, wire_name(m->type),
		  m->epoch, (unsigned long long)m->a);
	switch (m->type) {
	case WIRE_BIND:
	case WIRE_BOUND:
	case WIRE_NOT_MINE:
	case WIRE_LATER:
		bind_inbox(l, c, m);
		return;
	case WIRE_PING:
		link_send(l, &(struct wire_msg){ .type = WIRE_PONG, .a = m->a });
		return;
	case WIRE_SWITCH:
	case WIRE_FIN:
	case WIRE_UNBIND:
	case WIRE_QUIET:
	case WIRE_WANT_CREDIT:
	case WIRE_WINDOW:
	case WIRE_WANT_RING:
		if (c)
			to_rx(l, c, m);
		else if (m->type == WIRE_SWITCH)
			log_debug("link %u: switch for an empty slot %u", l->id, m->slot);
		return;
	case WIRE_RESET:
		if (c)
			peer_left(l, c, m);
		return;
	case WIRE_PONG:
		if (m->a > ld_acq(&l->pings))	/* pairs with msgs_ping() */
			link_kill(l);
		else
			st_rel(&l->pongs, MAX(m->a, ld_rlx(&l->pongs)));
		return;
	case WIRE_HELLO:
		return;
	default:
		if (c)
			to_tx(l, c, m);
	}
}

/*
 * Two threads may send theirs in the other order.  The answer to a later one serves
 * as well: its number was taken, and so it was sent, after this one's was.
 */
uint64_t msgs_ping(struct link *l)
{
	uint64_t n = add_acqrel(&l->pings, 1);

	link_send(l, &(struct wire_msg){ .type = WIRE_PING, .a = n });
	return n;
}

bool msgs_answered(const struct link *l, uint64_t ping)
{
	return ld_acq(&l->pongs) >= ping;	/* pairs with on_msg() */
}

void msgs_data(struct conn *c)
{
	if (unlikely(ld_rlx(&c->closing)))
		conn_todo(c, JOB_CLOSE);
	else if (conn_rx_on_ring(c) || rx_more_to_come(c))
		conn_watcher->event(c, EPOLLIN);
	if (unlikely(ld_rlx(&c->rx_shut))) {	/* they may be unwelcome */
		lock_take(&c->rxl);
		if (c->rx.state == PRX_ON)
			rx_look(c);
		lock_drop(&c->rxl);
	}
	unseen_note(c);
}

static void on_data(struct link *l, void *owner)
{
	msgs_data(owner);
}

static void conn_dead(struct link *l, struct conn *c)
{
	lock_take(&c->rxl);
	/* a peer that was killed: its sockets were closed before its end of the link */
	if (!c->closing && c->fd >= 0 && c->rx_inside == 0)
		rx_pull(c);
	rx_act(c, prx_link_dead(&c->rx, l->id) | PA_WAKE);
	rx_end_now(c);
	lock_take(&c->txl);
	if (conn_tx_on_ring(c) && !c->closing && bind_peer_gone(c))
		tx_dead(c, tx_left_unread(c));
	if (c->tx.state == PTX_SWITCHING || c->tx.state == PTX_ON) {
		tx_credit(c);
		count(CNT_retreats, 1);
		count_reason(REASON_LINK_LOST);
		show_retreat(c, REASON_LINK_LOST);
	}
	st_rlx(&c->tx_granted, false);
	tx_act(c, ptx_link_dead(&c->tx, l->id) | PA_WAKE);
	conn_unlock_both(c);
	conn_todo(c, ld_rlx(&c->closing) ? JOB_CLOSE : JOB_WATCH);
}

static void on_dead(struct link *l)
{
	for (int i = 1; i <= l->nslots; i++)
		if (l->slots[i].owner)
			conn_dead(l, l->slots[i].owner);
}

/* The kernel of a dead process has closed its socket, though a FIN may wait behind bytes. */
static bool conn_ended(struct conn *c)
{
	conn_take_both(c);
	int state = c->closing || c->fd < 0 ? TCP_CLOSE : conn_kernel_state(c);
	bool fin = state != TCP_ESTABLISHED && state != TCP_FIN_WAIT1 && state != TCP_FIN_WAIT2;
	bool half = state != TCP_CLOSE && c->rx_words && rx_half_closed(c);
	bool ended = (fin && !half) || bind_peer_gone(c);
	conn_unlock_both(c);
	return ended;
}

static bool on_ended(struct link *l)
{
	for (int i = 1; i <= l->nslots; i++)
		if (l->slots[i].owner && !conn_ended(l->slots[i].owner))
			return false;
	return true;
}

const struct link_user msgs_user = {
	.msg = on_msg,
	.data = on_data,
	.arrived = conn_far_arrived,
	.sent = conn_far_sent,
	.room = conn_far_room,
	.dead = on_dead,
	.ended = on_ended,
};
