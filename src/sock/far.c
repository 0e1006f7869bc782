/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* far.c - see far.h */
#define _GNU_SOURCE
#include "sock/far.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "ring/ring.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/msgs.h"
#include "sock/unseen.h"
#include "sock/window.h"

#define WRITE_MOST	65536u		/* doc/wire.md */
#define FLIGHT_BYTES	((uint64_t)16384)	/* so many go at once, as does a quarter of the window */
#define FLIGHT_MOST	2u		/* smaller ones under way; then bytes are appended */
#define NOTE_BITS	12		/* of a note: bytes consumed; above them bits of the epoch */
#define NOTE_MOST	((1u << NOTE_BITS) - 1)
#define RING_TIMES	4u		/* a larger ring is so many times as large */
#define RING_AGAIN_MS	1000u		/* after one that was refused */
#define END_ASK_MS	100u		/* a link whose other end was killed has died, or it is stopped */
#define END_NAP_US	20u

void conn_far_bound(struct conn *c)
{
	c->tx_ring = link_source_ring(c->link, c->slot);
	c->tx_words = link_slot_words(c->link, c->slot);
	st_rlx(&c->tx_words->p, slot_p_pack(0, c->rx_wlog));
	c->tx_posted = 0;
	c->tx_told = 0;
	st_rlx(&c->tx_heard, 0);
	c->rx_told = c->rx_ticked = 0;
	st_rlx(&c->rx_credit, 0);
	st_rlx(&c->rx_switch_N, FAR_NO_SWITCH);
	c->tx_fin_due = false;
	c->tx_flight = 0;
	c->tx_expects = c->tx_more = false;
	c->tx_more_ns = c->rx_more = 0;
	c->tx_last_e = 0;
	c->tx_last_P = 0;
}

/* ------------------------------------------------------------- sending -- */

/* txl held. */
static bool end_in_doubt(struct conn *c)
{
	if (!c->link || !c->tx.link_up || c->closing || c->fd < 0 || !tx_left_unread(c) ||
	    !conn_fin_came(conn_kernel_state(c)))
		return false;
	if (!c->tx_ping) {
		c->tx_ping = msgs_ping(c->link);
		c->tx_ping_ns = clock_ns() + END_ASK_MS * NS_PER_MS;
	}
	return !msgs_answered(c->link, c->tx_ping) && clock_ns() < c->tx_ping_ns;
}

bool conn_far_end_doubt(struct conn *c)
{
	if (likely(!conn_tx_far(c)) || !conn_tx_on_ring(c))
		return false;
	lock_take(&c->txl);
	bool doubt = end_in_doubt(c);
	lock_drop(&c->txl);
	return doubt;
}

bool conn_far_end_ask(struct conn *c)
{
	uint8_t before = ld_rlx(&c->tx.state);

	while (conn_far_end_doubt(c))
		if (!engine_poll())
			sys_nap(END_NAP_US * NS_PER_US);
	return ld_rlx(&c->tx.state) != before;
}

/* A few bytes are to go: is it for conn_far_sent() to send them? */
static bool appended(struct conn *c)
{
	if (c->tx_flight < FLIGHT_MOST)
		return false;
	if (!c->tx_expects) {
		c->tx_expects = true;
		bg_expect();	/* this thread may not look at the CQ for long */
	}
	return true;
}

static uint64_t count_in(uint64_t credit, uint16_t e)
{
	return credit_epoch(credit) == e ? credit_count(credit) : 0;
}

/* What has been read here since it was told, to go along with bytes; 0 of nothing. */
static uint16_t note(const struct conn *c, uint64_t *told)
{
	uint64_t w = ld_rlx(&c->rx_credit);
	uint16_t e = credit_epoch(w);
	uint64_t C = count_in(c->tx_told, e), n = MIN(credit_count(w) - C, (uint64_t)NOTE_MOST);

	*told = credit_pack(e, C + n);
	return (uint16_t)(e << NOTE_BITS | n);
}

static void send_fin(struct conn *c)
{
	c->tx_fin_due = false;
	if (c->tx.link_up)
		conn_send(c, WIRE_FIN, c->tx.e, c->tx.P, 0);
}

void conn_far_post(struct conn *c)
{
	uint64_t mask = (1ull << c->tx_wlog) - 1;
	bool small = c->tx.P - c->tx_posted < MIN(FLIGHT_BYTES, (mask + 1) / 4);

	while (conn_tx_in_ring(c) && c->tx_posted < c->tx.P) {
		uint64_t run = ring_run(mask, c->tx_posted, c->tx.P - c->tx_posted);
		uint32_t n = (uint32_t)MIN(run, (uint64_t)WRITE_MOST);
		uint64_t told;

		if (small && appended(c))
			return;
		/* refused: conn_far_room() goes on, or the link is breaking */
		if (link_write(c->link, c->slot, c->tx_posted & mask, n, note(c, &told), small))
			return;
		st_rlx(&c->tx_told, told);
		c->tx_flight += small;
		c->tx_posted += n;
	}
	if (unlikely(c->tx_fin_due))
		send_fin(c);
}

void conn_far_begin(struct conn *c)
{
	c->tx_posted = 0;
	c->tx_fin_due = false;
	/* pairs with heard(): what comes for the last epoch is no news of this one */
	st_rel(&c->tx_heard, credit_pack(ptx_next_epoch(&c->tx), 0));
}

void conn_far_window(struct conn *c)
{
	conn_send(c, WIRE_WINDOW, c->tx.e, 1ull << c->tx_wlog, 0);
}

bool conn_far_fin(struct conn *c)
{
	c->tx_fin_due = conn_tx_in_ring(c) && c->tx_posted < c->tx.P;
	return !c->tx_fin_due;
}

void conn_far_room(struct link *l)
{
	lock_take(&engine.poll_lock);
	for (int i = 1; i <= l->nslots; i++) {
		struct conn *c = l->slots[i].owner;

		if (!c)
			continue;
		lock_take(&c->txl);
		if (c->link == l && c->tx_words)
			conn_far_post(c);
		lock_drop(&c->txl);
	}
	lock_drop(&engine.poll_lock);
}

void conn_far_sent(struct link *l, void *owner)
{
	struct conn *c = owner;

	lock_take(&c->txl);
	if (c->link == l && c->tx_words) {
		c->tx_flight -= c->tx_flight > 0;	/* the slot's last conn has had some, too */
		c->tx_expects = false;
		conn_far_post(c);
	}
	lock_drop(&c->txl);
}

/* --------------------------------------------------------------- rings -- */

/* n bytes that stand at `at` modulo each window */
static void copy_across(uint8_t *to, uint64_t to_window, const uint8_t *from, uint64_t from_window,
			uint64_t at, uint64_t n)
{
	while (n) {
		size_t run = ring_run(from_window - 1, at, n);

		ring_put(to, to_window - 1, at, from + (at & (from_window - 1)), run);
		at += run;
		n -= run;
	}
}

void conn_far_want(struct conn *c)
{
	if (c->tx_more || c->tx_ring_bytes >= c->link->peer_ring_bytes || clock_ns() < c->tx_more_ns)
		return;
	c->tx_more = true;
	conn_todo(c, JOB_RING);
}

static void not_now(struct conn *c, uint32_t ms)
{
	c->tx_more = false;
	c->tx_more_ns = clock_ns() + ms * NS_PER_MS;
}

/* poll_lock and txl held.  Return: false, bytes are still on their way from the last ring. */
static bool last_is_free(struct conn *c)
{
	if (c->tx.e == c->tx_last_e && c->tx.K < c->tx_last_P && !c->tx.rel)
		return false;
	link_ring_last_free(c->link, c->slot);
	return true;
}

static void ring_ask(struct conn *c, struct link *l, uint32_t bytes)
{
	int err = link_ring_more(l, c->slot, c, false, bytes);

	lock_take(&c->txl);
	if (!err)
		conn_send(c, WIRE_WANT_RING, c->tx.e, bytes, 0);
	else if (err == -ENOMEM)
		not_now(c, RING_AGAIN_MS);
	lock_drop(&c->txl);
}

static void ring_give(struct conn *c, struct link *l, uint32_t bytes)
{
	struct wire_msg m = { .type = WIRE_RING, .slot = c->peer_slot };
	int err = link_ring_more(l, c->slot, c, true, bytes);

	lock_take(&engine.poll_lock);
	if (!err)
		m.b = link_ring_next(l, c->slot, &m.a);
	if (!err || err == -ENOMEM)
		link_send(l, &m);
	lock_drop(&engine.poll_lock);
}

/* Nobody but this thread binds or unbinds. */
void conn_far_rings(struct conn *c)
{
	uint64_t ask = 0, give = 0;

	lock_take(&engine.poll_lock);
	conn_take_both(c);
	struct link *l = c->rx_words && !c->closing ? c->link : NULL;
	if (l && c->tx_more && !last_is_free(c))
		not_now(c, 1);
	if (l && c->tx_more)
		ask = MIN(RING_TIMES * c->tx_ring_bytes, l->peer_ring_bytes);
	if (l)
		give = c->rx_more;
	c->rx_more = 0;
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (ask)
		ring_ask(c, l, (uint32_t)ask);
	if (give)
		ring_give(c, l, (uint32_t)give);
}

/* Go on in the larger ring. */
static void tx_move(struct conn *c)
{
	uint64_t window = 1ull << c->tx_wlog, kept = MIN(c->tx.P - c->tx.K, window);
	uint8_t *to = link_ring_next_at(c->link, c->slot, false);

	if (!link_ring_move(c->link, c->slot, false)) {
		link_kill(c->link);
		return;
	}
	c->tx_ring_bytes = link_peer_ring_size(c->link, c->slot);
	copy_across(to, c->tx_ring_bytes, c->tx_ring, window, c->tx.P - kept, kept);
	c->tx_ring = to;
	c->tx_last_e = c->tx.e;
	c->tx_last_P = c->tx_posted;
	last_is_free(c);
	st_rlx(&c->tx_wlog, (uint8_t)__builtin_ctzll(c->tx_ring_bytes));
	ptx_window(&c->tx, c->tx_ring_bytes);
	conn_send(c, WIRE_WINDOW, c->tx.e, c->tx_ring_bytes, 1);
	not_now(c, 0);
	log_debug("fd %d goes on in a ring of %llu bytes", c->fd,
		  (unsigned long long)c->tx_ring_bytes);
}

void conn_far_given(struct conn *c, const struct wire_msg *m)
{
	if (!c->tx_words)
		return;
	int err = link_peer_ring_next(c->link, c->slot, m->b, m->a);
	if (err == -EPROTO)
		link_kill(c->link);
	else if (err)
		not_now(c, RING_AGAIN_MS);
	else
		tx_move(c);
	if (err || !c->tx_blocked || !conn_tx_in_ring(c) || !conn_ring_writable(c))
		return;
	c->tx_blocked = false;
	unseen_offer(c);
	conn_watcher->event(c, EPOLLOUT);
}

/* -------------------------------------------------------------- linger -- */

static void set_linger(struct conn *c, bool on, int seconds)
{
	struct linger lg = { .l_onoff = on, .l_linger = seconds };

	sys_setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
}

void conn_far_linger_arm(struct conn *c)
{
	if (!ld_rlx(&c->linger0))
		set_linger(c, true, 0);
}

/* One that is closing is ours: the background thread does not wait in close(). */
void conn_far_linger_restore(struct conn *c)
{
	uint64_t ns = ld_rlx(&c->closing) ? 0 : ld_rlx(&c->linger_ns);

	if (!ld_rlx(&c->linger0))
		set_linger(c, ns != 0, (int)(ns / NS_PER_S));
}

void conn_far_linger_again(struct conn *c)
{
	lock_take(&c->txl);
	if (c->tx.linger && c->fd >= 0)
		conn_far_linger_arm(c);
	lock_drop(&c->txl);
}

struct linger conn_far_linger_shown(const struct conn *c)
{
	uint64_t ns = ld_rlx(&c->linger_ns);

	return (struct linger){ .l_onoff = ld_rlx(&c->linger0) || ns,
				.l_linger = (int)(ns / NS_PER_S) };
}

/* ----------------------------------------------------------- receiving -- */

/* The peer's note.  More than was sent is found by who looks: tx_credit(). */
static void heard(struct conn *c, uint16_t what)
{
	uint64_t w;

	do {
		w = ld_acq(&c->tx_heard);	/* pairs with conn_far_begin() */
		if ((credit_epoch(w) ^ what >> NOTE_BITS) & (0xffff >> NOTE_BITS))
			return;
	} while (!cas_acqrel(&c->tx_heard, w, credit_pack(credit_epoch(w), credit_count(w) +
							  (what & NOTE_MOST))));
}

void conn_far_arrived(struct link *l, void *owner, uint32_t len, uint16_t what)
{
	struct conn *c = owner;
	uint64_t w, P;

	if (!c->rx_words)
		return;
	if (what & NOTE_MOST)
		heard(c, what);
	w = ld_rlx(&c->rx_words->p);
	P = slot_p_count(w) + len;
	if (P > PROTO_COUNT_MAX) {
		link_kill(l);
		return;
	}
	/* pairs with rx_look(): the bytes before P, which the completion has shown */
	st_rel(&c->rx_words->p, slot_p_pack(P, slot_p_window_log2(w)));
	msgs_data(c);
}

void conn_far_switch(struct conn *c, const struct wire_msg *m)
{
	if (!c->rx_words || prx_in_epoch(&c->rx))
		return;			/* in an epoch there is none: it is refused */
	st_rlx(&c->rx_words->p, slot_p_pack(0, c->rx_wlog));
	st_rlx(&c->rx_switch_N, m->a);
	c->rx_told = 0;
}

uint64_t conn_far_unmet(const struct conn *c)
{
	const struct slot_shm *w = ld_rlx(&c->rx_words);
	uint64_t N = ld_rlx(&c->rx_switch_N);

	if (!w || !conn_rx_far(c) || N == FAR_NO_SWITCH || ld_rlx(&c->rx.sw_e) == ld_rlx(&c->rx.met))
		return 0;
	return N + slot_p_count(ld_acq(&w->p));	/* pairs with conn_far_arrived() */
}

void conn_far_forget(struct conn *c)
{
	st_rlx(&c->rx_switch_N, FAR_NO_SWITCH);
}

void conn_far_asked(struct conn *c, const struct wire_msg *m)
{
	if (!c->rx_words)
		return;
	if (m->a <= c->rx_ring_bytes || m->a > c->link->ring_bytes || (m->a & (m->a - 1))) {
		link_kill(c->link);
		return;
	}
	c->rx_more = m->a;
	conn_todo(c, JOB_RING);
}

/* The sender goes on in the larger ring: what is not read yet is to be there, too. */
static void rx_move(struct conn *c, uint64_t bytes)
{
	uint64_t window = 1ull << c->rx_wlog, size, P = slot_p_count(ld_rlx(&c->rx_words->p));
	uint64_t left = prx_in_epoch(&c->rx) ? P - c->rx.C : 0;

	if (!link_ring_next(c->link, c->slot, &size) || size != bytes || left > window) {
		link_kill(c->link);
		return;
	}
	copy_across(link_ring_next_at(c->link, c->slot, true), size, c->rx_ring, window, P - left,
		    left);
	link_ring_move(c->link, c->slot, true);
	c->rx_ring = link_ring(c->link, c->slot);
	c->rx_ring_bytes = size;
	c->rx_wlog = (uint8_t)__builtin_ctzll(size);
	st_rlx(&c->rx_words->p, slot_p_pack(P, c->rx_wlog));
}

void conn_far_windowed(struct conn *c, const struct wire_msg *m)
{
	uint64_t window = 1ull << c->rx_wlog, w;

	if (!c->rx_words || c->rx.state == PRX_ENDED)
		return;
	if (m->flags) {
		rx_move(c, m->a);
		return;
	}
	w = ld_rlx(&c->rx_words->p);
	if (m->a < window || m->a > c->rx_ring_bytes || (m->a & (m->a - 1)) ||
	    (prx_in_epoch(&c->rx) && m->a > window && (m->a > 2 * window ||
				      !window_may_double(c->rx.C, slot_p_count(w), window)))) {
		link_kill(c->link);
		return;
	}
	c->rx_wlog = (uint8_t)__builtin_ctzll(m->a);
	st_rlx(&c->rx_words->p, slot_p_pack(slot_p_count(w), c->rx_wlog));
}

static void tell_credit(struct conn *c, uint64_t C)
{
	c->rx_told = C;
	if (link_put_word(c->link, c->slot, offsetof(struct slot_shm, credit),
			  credit_pack(c->rx.e, C)) == -ENOMEM)
		conn_send(c, WIRE_CREDIT, c->rx.e, C, 0);
}

/* Of the epoch, what the peer has been told, one way or the other. */
static uint64_t credit_told(const struct conn *c)
{
	return MAX(c->rx_told, count_in(ld_rlx(&c->tx_told), c->rx.e));
}

/*
 * A writer that waits is woken by CREDIT; the word is for one that writes on,
 * and for what it makes of our death: unread, or all read.  What empties the
 * ring is most often answered: it goes along with the answer, or, where none
 * comes, with the next tick of the background thread.
 */
void conn_far_credit(struct conn *c)
{
	uint64_t C = c->rx.C;
	bool all = C == slot_p_count(ld_rlx(&c->rx_words->p));

	st_rlx(&c->rx_credit, credit_pack(c->rx.e, C));
	if (C - credit_told(c) >= (1ull << c->rx_wlog) / 4 || C == c->rx.finP ||
	    (all && ld_rlx(&bg_parked)))
		tell_credit(c, C);
	else if (all && !(ld_rlx(&c->todo) & JOB_CREDIT))
		conn_todo_soon(c, JOB_CREDIT);
}

static bool credit_untold(const struct conn *c)
{
	return c->rx.state == PRX_ON && c->rx_words && credit_told(c) < c->rx.C;
}

/* One that reads on may write yet, or has read enough for a write of its own before long. */
void conn_far_credit_tick(struct conn *c)
{
	if (!credit_untold(c))
		return;
	if (c->rx_ticked == c->rx.C) {
		tell_credit(c, c->rx.C);
	} else {
		c->rx_ticked = c->rx.C;
		conn_todo_soon(c, JOB_CREDIT);
	}
}

void conn_far_credit_all(struct conn *c)
{
	if (credit_untold(c))
		tell_credit(c, c->rx.C);
}
