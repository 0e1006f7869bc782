/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * binding.c - a conn's stay on a slot of a link: made, held until both
 * directions are out of it, given back
 *
 * A binding is made and undone under poll_lock and both locks of the conn, in the
 * background thread.  It holds a reference to the conn.
 */
#define _GNU_SOURCE
#include "sock/binding.h"

#include <netinet/tcp.h>

#include "base/clock.h"
#include "base/log.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/kin.h"
#include "sock/meeting.h"
#include "sock/owner.h"
#include "sock/show.h"
#include "sock/unseen.h"
#include "sock/window.h"

bool bind_held(struct conn *c)
{
	if (ld_rlx(&c->ever_bound) || !kin_shared(c))
		return false;
	st_rlx(&c->why, REASON_FORK);
	return true;
}

void conn_bound(struct conn *c, struct link *l, uint16_t slot, uint16_t peer_slot,
		uint64_t peer_nonce)
{
	uint64_t tx_bytes = link_peer_ring_size(l, slot), rx_bytes = link_ring_size(l, slot);
	uint64_t tx_window = MIN((uint64_t)CONN_WINDOW_MIN, tx_bytes);
	uint64_t rx_window = MIN((uint64_t)CONN_WINDOW_MIN, rx_bytes);
	bool shared = l->dev->rnic->shared;
	int state = conn_kernel_state(c);

	c->link = l;
	c->slot = slot;
	c->peer_slot = peer_slot;
	c->tx_ring_bytes = tx_bytes;
	st_rlx(&c->tx_wlog, (uint8_t)__builtin_ctzll(tx_window));
	c->rx_ring = link_ring(l, slot);
	c->rx_words = link_slot_words(l, slot);
	c->rx_ring_bytes = rx_bytes;
	c->rx_wlog = (uint8_t)__builtin_ctzll(rx_window);
	ptx_bind(&c->tx, l->id, shared, peer_nonce, tx_window);
	prx_bind(&c->rx, l->id, shared, c->rec_nonce, shared ? rx_window : l->ring_bytes);
	if (shared) {
		c->tx_ring = link_peer_ring(l, peer_slot);
		c->tx_words = link_peer_words(l, peer_slot);
	} else {
		conn_far_bound(c);
	}
	/* ours is out, or about to be: a shutdown() while cold tells first */
	if (c->tx_fin_out || (state && state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)) {
		conn_end_say(c, SLOT_END_FIN);
		st_rlx(&c->tx_shut, true);	/* one half of HUP, whose other may come by the ring */
		ptx_shutdown(&c->tx);
		c->tx_fin_out = true;
	}
	st_rlx(&c->meet, MEET_BOUND);
	c->bind_answered = true;
	c->meet_tries = 0;
	c->hint_tried = 0;
	owner_renew(c);
	st_rlx(&c->ever_bound, true);
	fence_full();	/* pairs with ready_poll(): noted as plain, then ever_bound */
	st_rlx(&c->why, REASON_CLOSED_FIRST);
	show_both(c);
	log_info("fd %d bound: link %u slot %u peer %u", c->fd, l->id, slot, peer_slot);
}

void conn_unbind(struct conn *c, bool reset)
{
	lock_take(&engine.poll_lock);
	conn_take_both(c);
	struct link *l = c->link;
	if (l) {
		if (c->meet != MEET_OVER)
			st_rlx(&c->meet, MEET_IDLE);
		st_rlx(&c->tx_granted, false);
		st_rlx(&c->rx_granted, false);
		c->rx_ping = c->tx_ping = 0;
		c->peer_gone = false;
		if (!c->closing)
			conn_end_say(c, SLOT_END_LEFT);
		unseen_forget(c);
		window_forget(c);
		if (1ull << c->rx_wlog > LINK_RING_FIRST)
			link_slot_grown(l, c->slot);
		c->link = NULL;
		c->tx_ring = c->rx_ring = NULL;
		st_rlx(&c->tx_words, NULL);
		st_rlx(&c->rx_words, NULL);
		show_both(c);
		link_slot_done(l, c->slot, c->peer_slot, reset);
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (l)
		conn_put(c);
}

/* Are both directions out of the slot for good (link dead) or the conn over? */
static bool releasable(struct conn *c)
{
	if (!c->link || conn_awaits_bound(c))
		return false;
	if (c->closing)
		return c->fd < 0;
	if (ld_rlx(&c->link->state) != LINK_DEAD)
		return false;
	if (c->tx.state != PTX_RAW && c->tx.state != PTX_QUIET)
		return false;
	if (c->rx.state == PRX_ENDED)
		return !c->tx_stuck && c->rx.C == c->rx.Pb;
	if (c->tx_stuck || c->rx.state != PRX_RAW || c->rx.drop || c->rx.left)
		return false;
	if (conn_rx_far(c))
		return true;
	uint8_t s = slot_state_of(ld_acq(&c->rx_words->state));
	return s == SLOT_RAW || s == SLOT_BARRED;
}

void bind_release_try(struct conn *c)
{
	conn_take_both(c);
	bool dead = c->link && ld_rlx(&c->link->state) == LINK_DEAD;
	bool reset = !conn_awaits_bound(c);
	bool yes = (dead && conn_awaits_bound(c)) || releasable(c);
	bool again = !yes && dead && !c->closing;
	conn_unlock_both(c);
	if (yes) {
		c->release_wait_ns = 0;
		conn_unbind(c, reset);
		if (dead)
			meeting_after_loss(c);
	} else if (again) {
		c->release_wait_ns = MIN(MAX(2 * c->release_wait_ns, NS_PER_MS), 64 * NS_PER_MS);
		bind_timer_at(c, clock_ns() + c->release_wait_ns);
	}
}

void bind_let_go(struct conn *c)
{
	conn_unbind(c, false);	/* the link is dead */
}
