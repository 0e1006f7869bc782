/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bind.c - BIND, and what answers it: the messages that make a binding
 *
 * BIND and BOUND prove both ends (doc/security.md): the user of the Unix
 * connection is the owner of the TCP socket, and an HMAC over the nonces, the
 * counts and the first cold bytes (pledge.h).  Only then may anybody switch.
 *
 * warm.c says when a conn meets, meeting.c whom, listener.c how the other side is
 * found, binding.c what a conn is once it is bound.
 *
 * All functions run in the background thread, with no lock held, unless they say
 * otherwise; messages that arrive in other threads are queued (inbox).
 */
#define _GNU_SOURCE
#include "sock/bind.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "meet/proof.h"
#include "sock/accepted.h"
#include "sock/again.h"
#include "sock/binding.h"
#include "sock/hello.h"
#include "sock/hint.h"
#include "sock/hosts.h"
#include "sock/inbox.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/listener.h"
#include "sock/meeting.h"
#include "sock/msgs.h"
#include "sock/owner.h"
#include "sock/parked.h"
#include "sock/pledge.h"
#include "sock/rule.h"
#include "sock/show.h"
#include "sock/unseen.h"
#include "sock/window.h"

/* ------------------------------------------------- who is never answered -- */

#define ANSWER_S	60	/* longer than an honest peer of another host is likely to be stopped */
#define ANSWER_LOOK_S	10

static struct bg_timer overdue;

static void overdue_look(struct conn *c, void *any)
{
	struct link *l = c->link;

	if (!l || !l->peer_family || !conn_awaits_bound(c))
		return;
	*(bool *)any = true;
	if (clock_ns() - c->bind_ns >= ANSWER_S * NS_PER_S && !ld_acq(&l->dying)) {
		log_info("link %u: no answer to a BIND", l->id);
		link_kill(l);
	}
}

static void overdue_timer(struct bg_timer *t)
{
	t->fn = NULL;
	if (bind_look_overdue()) {
		t->fn = overdue_timer;
		bg_timer_set(t, clock_ns() + ANSWER_LOOK_S * NS_PER_S);
	}
}

bool bind_look_overdue(void)
{
	bool any = false;

	conn_for_each(overdue_look, &any);
	return any;
}

static void answer_awaited(const struct link *l)
{
	if (!l->peer_family || overdue.fn)
		return;
	overdue.fn = overdue_timer;
	bg_timer_set(&overdue, clock_ns() + ANSWER_LOOK_S * NS_PER_S);
}

int bind_send(struct conn *c, struct link *l)
{
	struct wire_msg m = { .type = WIRE_BIND };
	int err = -ENOSPC;

	if (link_slot_room(l))
		return -ENOMEM;
	meet_random(&c->challenge, sizeof(c->challenge));
	meet_random(&c->rec_nonce, sizeof(c->rec_nonce));
	lock_take(&engine.poll_lock);
	conn_take_both(c);
	bool over = c->meet == MEET_OVER;
	uint16_t slot = over || c->link || c->closing ? 0 : link_slot_take(l, c);
	if (over)
		err = -ECANCELED;
	if (slot) {
		m.a = c->tx.kc;
		m.b = c->rx.pos;
		pledge_fill(&m, c, slot);
		link_slot_offer(l, slot, &m.bind);
		err = pledge_digests(c, true, m.a, m.b);
		if (!err)
			pledge_mac(c, true, PROOF_BIND, l, (uint64_t[2]){ c->challenge, 0 },
			       (uint64_t[2]){ c->rec_nonce, 0 }, m.a, m.b, m.bind.mac);
		if (err) {
			link_slot_done(l, slot, 0, false);
		} else {
			conn_get(c);
			c->link = l;
			c->slot = slot;
			st_rlx(&c->meet, MEET_BINDING);
			c->bind_ns = clock_ns();
			c->bind_answered = false;
			link_send(l, &m);
			log_trace("fd %d sends BIND on link %u slot %u", c->fd, l->id, slot);
		}
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (!err)
		answer_awaited(l);
	return err;
}

static void reply(struct link *l, const struct wire_msg *m, enum wire_type type, enum reason why)
{
	struct wire_msg r = { .type = type, .slot = m->bind.slot, .reason = (uint16_t)why };

	r.bind.challenge = m->bind.challenge;
	r.bind.slot = m->bind.slot;
	link_send(l, &r);
	log_debug("link %u: BIND of %llu and %llu bytes, peer slot %u: %s", l->id, (unsigned long long)m->a,
		  (unsigned long long)m->b, m->bind.slot, wire_name(type));
}

/* ----------------------------------------------------- the accepting side -- */

/*
 * kin_lock, poll_lock and both locks held.  Return: 0 bound and m answers; -EAGAIN
 * later; -ENOMEM; -EACCES; -EPROTO: no honest peer says that.
 */
static int accept_bind(struct conn *c, struct link *l, const struct wire_msg *m,
		       struct wire_msg *answer_msg)
{
	uint8_t mac[SHA256_BYTES];
	const uint64_t chal[2] = { m->bind.challenge, 0 }, rec[2] = { m->bind.nonce, 0 };

	if (c->closing || !c->established || c->meet == MEET_OVER)
		return -EACCES;
	if (c->link || m->b > c->tx.kc || bind_held(c))
		return -EAGAIN;
	int err = pledge_digests(c, false, m->a, m->b);
	if (err)
		return err == -EAGAIN ? err : -EACCES;
	pledge_mac(c, false, PROOF_BIND, l, chal, rec, m->a, m->b, mac);
	if (!proof_equal(mac, m->bind.mac))
		return -EACCES;
	uint16_t slot = link_slot_take(l, c);
	if (!slot)
		return l->dev->rnic->shared || !l->nfree ? -EAGAIN : -ENOMEM;
	err = link_slot_peer(l, slot, &m->bind);
	if (err) {
		link_slot_done(l, slot, 0, false);
		return err;
	}
	conn_get(c);
	c->elsewhere = l->peer_family != 0;
	meet_random(&c->challenge, sizeof(c->challenge));
	meet_random(&c->rec_nonce, sizeof(c->rec_nonce));
	*answer_msg = (struct wire_msg){ .type = WIRE_BOUND, .slot = m->bind.slot, .a = m->a, .b = m->b };
	pledge_mac(c, false, PROOF_BOUND, l, (uint64_t[2]){ chal[0], c->challenge },
	       (uint64_t[2]){ rec[0], c->rec_nonce }, m->a, m->b, answer_msg->bind.mac);
	pledge_fill(answer_msg, c, slot);
	link_slot_offer(l, slot, &answer_msg->bind);
	conn_bound(c, l, slot, m->bind.slot, m->bind.nonce);
	return 0;
}

/* Is the peer of l where t's other end is?  Return: as owner_matches(). */
static int peer_matches(const struct link *l, struct conn *c, const struct meet_tuple *t,
			const struct wire_msg *m)
{
	if (!l->peer_family)
		return owner_matches(c, l->peer_uid);
	return l->peer_family == t->family &&
	       memcmp(l->peer_addr, t->raddr, sizeof(t->raddr)) == 0 &&
	       pledge_seen_enough(m->a + m->b) ? 0 : -EACCES;
}

static void on_bind(struct link *l, const struct wire_msg *m, enum parked_for parked)
{
	struct meet_tuple theirs, t;
	struct wire_msg answer_msg;

	pledge_tuple(&theirs, m);
	if (!meet_tuple_sane(&theirs) || m->bind.slot == 0 || m->bind.slot > l->peer_slots) {
		link_kill(l);
		return;
	}
	meet_tuple_swap(&t, &theirs);
	bool coming = accepted_coming();	/* asked first: who has come meanwhile is found */
	struct conn *c = accepted_find(&t);
	if (!c && coming && parked == PARKED_NOT && parked_put(l, m, NULL, false))
		return;
	if (!c) {
		bool later = l->peer_family && owner_still_queued(&t);

		reply(l, m, later ? WIRE_LATER : WIRE_NOT_MINE, REASON_NONE);
		return;
	}
	int err = peer_matches(l, c, &t, m);
	bool whose = err == -EAGAIN;
	if (!err && rule_forbids(c, l->dev)) {
		meeting_give_up(c, REASON_NO_RNIC);
		err = -EACCES;
	}
	if (!err && (link_slot_room(l) || link_source_room(l, &m->bind)))
		err = -ENOMEM;
	if (!err) {
		lock_take(&kin_lock);
		lock_take(&engine.poll_lock);
		conn_take_both(c);
		err = accept_bind(c, l, m, &answer_msg);
		if (!err) {
			link_send(l, &answer_msg);
			conn_watcher->bound(c);
		}
		conn_unlock_both(c);
		lock_drop(&engine.poll_lock);
		lock_drop(&kin_lock);
	}
	if (err == -EAGAIN && parked != PARKED_UNREAD && parked_put(l, m, c, whose)) {
		conn_put(c);
		return;
	}
	if (err == -EAGAIN || err == -ENOMEM)
		reply(l, m, WIRE_LATER, err == -ENOMEM ? REASON_NO_MEMORY : REASON_NONE);
	else if (err == -EPROTO)
		link_kill(l);
	else if (err)
		reply(l, m, WIRE_NOT_MINE, REASON_NONE);
	else
		conn_warm(c);
	if (err == -ENOMEM)
		listener_unanswered(c, &(enum reason){ REASON_NO_MEMORY });
	conn_put(c);
}

/* ---------------------------------------------------- the connecting side -- */

/* Both locks and poll_lock held: is m the true answer to our BIND?  -ENOMEM: it is. */
static int check_bound(struct conn *c, struct link *l, const struct wire_msg *m)
{
	uint8_t mac[SHA256_BYTES];

	if (m->bind.slot == 0 || m->bind.slot > l->peer_slots || m->a > c->tx.kc ||
	    m->b > c->rx.pos)
		return -EPROTO;
	pledge_mac(c, true, PROOF_BOUND, l, (uint64_t[2]){ c->challenge, m->bind.challenge },
	       (uint64_t[2]){ c->rec_nonce, m->bind.nonce }, m->a, m->b, mac);
	return proof_equal(mac, m->bind.mac) ? link_slot_peer(l, c->slot, &m->bind) : -EACCES;
}

static void on_bound(struct link *l, struct conn *c, const struct wire_msg *m)
{
	link_source_room(l, &m->bind);
	lock_take(&engine.poll_lock);
	conn_take_both(c);
	/* one that is bound already, perhaps on its ring, loses nothing by a second BOUND */
	int err = c->link == l && conn_awaits_bound(c) ? check_bound(c, l, m) : -ESTALE;
	bool late = !err && c->meet != MEET_BINDING;
	if (err != -ESTALE)
		c->peer_slot = m->bind.slot;
	if (!err && !late) {
		conn_bound(c, l, c->slot, m->bind.slot, m->bind.nonce);
		conn_watcher->bound(c);
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (!err && !late)
		conn_warm(c);
	else if (err != -ESTALE)
		conn_unbind(c, true);
	if (err == -ENOMEM)
		meeting_later(c, REASON_NO_MEMORY);
	else if (err && err != -ESTALE)
		meeting_give_up(c, REASON_PEER_UNPROVEN);
}

static void on_not_bound(struct link *l, struct conn *c, const struct wire_msg *m)
{
	if (c->link != l || !conn_awaits_bound(c) || m->bind.challenge != c->challenge)
		return;
	bool over = ld_rlx(&c->meet) != MEET_BINDING;
	conn_unbind(c, false);
	if (over)
		return;
	if (m->type == WIRE_LATER && m->reason == REASON_NO_MEMORY) {
		meeting_later(c, REASON_NO_MEMORY);
	} else if (m->type == WIRE_LATER) {
		c->hint_tried = 0;
		meeting_soon(c);
	} else if (!c->bind_asked) {
		meeting_try_known(c);
	} else {
		meeting_later(c, REASON_PEER_UNPROVEN);
	}
}

/* --------------------------------------------------------- what comes in -- */

/* What came, in the background thread. */
static void handle(struct link *l, const struct wire_msg *m)
{
	if (m->type == WIRE_BIND) {
		on_bind(l, m, PARKED_NOT);
		return;
	}
	lock_take(&engine.poll_lock);
	struct conn *c = m->slot <= l->nslots ? l->slots[m->slot].owner : NULL;
	if (c)
		conn_get(c);
	lock_drop(&engine.poll_lock);
	if (!c)
		return;
	if (m->type == WIRE_BOUND)
		on_bound(l, c, m);
	else
		on_not_bound(l, c, m);
	conn_put(c);
}

/*
 * Any thread; poll_lock held.  A BIND is always answered, however late: while
 * it is not, its slot cannot be another's, for the answer would be taken for
 * that one's.  So what there is no room for is told to ask again.
 */
void bind_inbox(struct link *l, struct conn *c, const struct wire_msg *m)
{
	if (m->type == WIRE_BIND) {
		if (!inbox_put(l, m))
			reply(l, m, WIRE_LATER, REASON_NONE);
		return;
	}
	if (!c || c->bind_answered)
		return;			/* nobody has asked that */
	c->bind_answered = true;
	if (!inbox_put(l, m))
		link_kill(l);
}

/* ------------------------------------------------------- start and end -- */

void bind_start(void)
{
	accepted_forget_all();
	inbox_start(handle);
	parked_start(on_bind);
	link_set_user(&msgs_user);
	show_start();
	pledge_start();
}

void bind_shut(void)
{
	hello_shut();
	hosts_shut();
	listener_shut();
	owner_shut();
}

void bind_forget_all(void)
{
	memset(&overdue, 0, sizeof(overdue));
	unseen_forget_all();
	window_forget_all();
	accepted_forget_all();
	inbox_start(handle);
	parked_start(on_bind);
	hint_forget_all();
	again_forget_all();
	owner_forget();
	listener_forget_all();
	hosts_forget();
	hello_forget();
}
