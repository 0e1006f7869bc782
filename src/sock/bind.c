/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bind.c - from "warm" to "bound", in the background thread
 *
 * Longer than most: both sides of one exchange stand here, message by message.
 *
 * The side that called connect() starts: whose is the other end (sock_diag)?
 * Is there a link to the process we last met at that port?  Then BIND goes out
 * on it at once; else the names of the port are asked (meet/ask.c), a link is
 * made by two HELLOs over the Unix connection, and BIND follows.  One meeting
 * a port at a time; the others wait for it and then find its link.
 *
 * BIND and BOUND prove both ends (doc/security.md): the user of the Unix
 * connection is the owner of the TCP socket, and an HMAC over the nonces, the
 * counts and the first cold bytes (pledge.h).  Only then may anybody switch.
 *
 * An end that is not on this host is asked for through rdma_cm (hosts.c), if the
 * device leads elsewhere; in the place of the user are the address from which
 * rdma_cm came, and 4 KiB of cold bytes or the key.
 *
 * All functions run in the background thread unless they say otherwise;
 * messages that arrive in other threads are queued (inbox).
 */
#define _GNU_SOURCE
#include "sock/bind.h"

#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "meet/answer.h"
#include "progress/wait.h"
#include "sock/accepted.h"
#include "sock/act.h"
#include "sock/again.h"
#include "sock/far.h"
#include "sock/heir.h"
#include "sock/hello.h"
#include "sock/hint.h"
#include "sock/hosts.h"
#include "sock/inbox.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/msgs.h"
#include "sock/pledge.h"
#include "sock/process.h"
#include "sock/show.h"
#include "sock/unseen.h"
#include "sock/window.h"

#define WARM_CALLS	4u
#define WARM_BYTES	(32u * 1024)
#define EAGER_CALLS	1u
#define HEIR_TIMES	16u		/* a link for one connection, not one of many, must pay */
#define RETRY_MS	3
#define RETRY_FAR_MS	20
#define LIVES_MS	1000		/* a link that lived so long was a good one */
#define MAX_TRIES	200
#define GRANT_EVERY_US	200
#define MATCH_MS	100
/* tcpi_state */
#define TCP_STATE_ESTABLISHED 1
#define TCP_STATE_CLOSE	7
#define TCP_STATE_CLOSE_WAIT 8

static struct diag diag;
static bool diag_opened;
static struct answer answer;
static bool answer_ready;

/* who asked last, for the BIND that follows: /proc is not read twice for it */
static struct matched {
	struct meet_tuple tuple;
	uint32_t uid;
	uint64_t until_ns;
} matched;

bool bind_enabled(void)
{
	return config.enabled && config.attach != ATTACH_NEVER && !config.fault.mute_meeting &&
	       config.rnic.choice != RNIC_NONE && !hello_forbidden();
}

/* Why engine_start() has failed. */
static enum reason no_engine(int err)
{
	return hello_want(err) ? REASON_NO_MEMORY : REASON_NO_RNIC;
}

/* Start the background thread, where that is allowed. */
static int begin(void)
{
	if (bg_running())
		return 0;
	if (!sandbox_allows()) {
		hello_forbid(REASON_SANDBOX);
		return -EPERM;
	}
	return bg_start();
}

static enum reason not_begun(void)
{
	return hello_forbidden() ? hello_forbidden() : REASON_NO_MEMORY;
}

/* --------------------------------------------------------- accepted conns -- */

static uint16_t sockaddr_port(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)sa)->sin_port);
	if (sa->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)sa)->sin6_port);
	return 0;
}

/* In accept(): later the program may have closed it, as FTP's servers do at once. */
static bool listener_learn(struct conn *l)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (sys_getsockname(ld_rlx(&l->fd), (struct sockaddr *)&sa, &len))
		return false;
	st_rlx(&l->listen_family, sa.ss_family);
	st_rlx(&l->listen_port, sockaddr_port(&sa));
	return true;
}

/* Any thread. */
void bind_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer)
{
	if (!bind_enabled() || !sockaddr_port(peer) || ld_rlx(&c->meet) == MEET_OVER)
		return;
	accepted_put(c, sockaddr_port(peer));
	if (!ld_rlx(&l->listening) && !xchg_acqrel(&l->listening, true)) {
		if (!listener_learn(l)) {
			st_rlx(&l->listening, false);
		} else if (begin() == 0) {
			conn_todo(l, JOB_LISTEN);
		} else {		/* the next accept() tries again */
			st_rlx(&c->why, not_begun());
			st_rlx(&l->listening, false);
		}
	}
}

/* ---------------------------------------------------------------- binding -- */

static void meet_again(struct conn *c, uint32_t after_ms);
static void unbind(struct conn *c, bool reset);

static void set_meet(struct conn *c, enum conn_meet m)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (c->meet != MEET_OVER)
		st_rlx(&c->meet, m);
	conn_unlock_both(c);
}

void bind_give_up(struct conn *c, enum reason why)
{
	st_rlx(&c->meet, MEET_OVER);
	st_rlx(&c->tx_granted, false);
	st_rlx(&c->why, why);
	show_why(c);
	log_info("fd %d stays on kernel tcp: %s", c->fd, reason_name(why));
}

static void give_up(struct conn *c, enum reason why)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bind_give_up(c, why);
	conn_unlock_both(c);
}

/*
 * Nobody answered, or not now: the next try wants twice the traffic.  But who
 * asks at once may be faster than the program that accepts, whose names are
 * not there yet, and one that mostly reads little has no more traffic: once,
 * some time is enough.
 */
static void meet_later(struct conn *c, enum reason why)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (c->meet != MEET_OVER) {
		st_rlx(&c->why, why);
		show_both(c);
		st_rlx(&c->meet, MEET_IDLE);
		c->hint_tried = 0;
		st_rlx(&c->meet_calls, MAX(2 * c->tx_calls, WARM_CALLS));
		st_rlx(&c->meet_bytes, MAX(2 * (c->tx.kc + c->rx.pos), (uint64_t)WARM_BYTES));
	}
	conn_unlock_both(c);
	if (why == REASON_PEER_UNPROVEN && !c->asked_again) {
		c->asked_again = true;
		again_put(c);
	}
}

static void meet_again(struct conn *c, uint32_t after_ms)
{
	if (++c->meet_tries > MAX_TRIES) {
		meet_later(c, REASON_PEER_UNPROVEN);
		return;
	}
	set_meet(c, MEET_QUEUED);
	bind_timer_at(c, clock_ns() + after_ms * NS_PER_MS);
}

/* Is a BIND out that nobody has answered?  It may have been given up meanwhile. */
static bool awaits(const struct conn *c)
{
	return c->link && !c->rx_words;
}

/* Forget the binding; poll_lock not held.  reset: the peer has a slot for us, which goes back. */
static void unbind(struct conn *c, bool reset)
{
	lock_take(&engine.poll_lock);
	lock_take(&c->rxl);
	lock_take(&c->txl);
	struct link *l = c->link;
	if (l) {
		if (c->meet != MEET_OVER)
			st_rlx(&c->meet, MEET_IDLE);
		st_rlx(&c->tx_granted, false);
		st_rlx(&c->rx_granted, false);
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
	if (!c->link || awaits(c))
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

/*
 * A link has died under c: meet again at once, for traffic goes on; slower
 * and slower where links do not live (a peer that kills what it is given).
 */
static void meet_after_loss(struct conn *c)
{
	uint64_t now = clock_ns();

	if (!c->active || ld_rlx(&c->closing) || ld_rlx(&c->meet) != MEET_IDLE)
		return;
	if (config.fault.kill_link || now - c->bind_ns > LIVES_MS * NS_PER_MS)
		c->losses = 0;
	uint32_t after_ms = c->losses ? 1u << MIN(c->losses, 12u) : 0;
	c->losses++;
	if (after_ms) {
		meet_again(c, after_ms);
	} else {
		set_meet(c, MEET_QUEUED);
		conn_todo(c, JOB_MEET);
	}
}

/* ... or before it was one: who was to answer HELLO has let go of it. */
static void meet_after_unborn(struct conn *c)
{
	set_meet(c, MEET_IDLE);
	st_rlx(&c->why, REASON_LINK_LOST);
	c->bind_ns = clock_ns();
	meet_after_loss(c);
}

void bind_release_try(struct conn *c)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bool dead = c->link && ld_rlx(&c->link->state) == LINK_DEAD;
	bool reset = !awaits(c);
	bool yes = (dead && awaits(c)) || releasable(c);
	bool again = !yes && dead && !c->closing;
	conn_unlock_both(c);
	if (yes) {
		c->release_wait_ns = 0;
		unbind(c, reset);
		if (dead)
			meet_after_loss(c);
	} else if (again) {
		c->release_wait_ns = MIN(MAX(2 * c->release_wait_ns, NS_PER_MS), 64 * NS_PER_MS);
		bind_timer_at(c, clock_ns() + c->release_wait_ns);
	}
}

/* Both locks held: rings and protocol are ready on this slot. */
static void bound(struct conn *c, struct link *l, uint16_t slot, uint16_t peer_slot,
		  uint64_t peer_nonce)
{
	uint64_t tx_bytes = link_peer_ring_size(l, slot), rx_bytes = link_ring_size(l, slot);
	uint64_t tx_window = MIN((uint64_t)CONN_WINDOW_MIN, tx_bytes);
	uint64_t rx_window = MIN((uint64_t)CONN_WINDOW_MIN, rx_bytes);
	bool shared = engine.rnic->shared;
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
	if (c->tx_fin_out ||
	    (state && state != TCP_STATE_ESTABLISHED && state != TCP_STATE_CLOSE_WAIT))
		conn_end_say(c, SLOT_END_FIN);
	st_rlx(&c->meet, MEET_BOUND);
	c->bind_answered = true;
	c->meet_tries = 0;
	c->hint_tried = 0;
	st_rlx(&c->ever_bound, true);
	fence_full();	/* pairs with ready_poll(): noted as plain, then ever_bound */
	st_rlx(&c->why, REASON_CLOSED_FIRST);
	show_both(c);
	log_info("fd %d bound: link %u slot %u peer %u", c->fd, l->id, slot, peer_slot);
}

/*
 * BIND on an existing link.  Return: 0, -ENOSPC no slot, -ENOMEM, -ECANCELED the
 * program wants something else by now, other: no proof to give.
 */
static int send_bind(struct conn *c, struct link *l)
{
	struct wire_msg m = { .type = WIRE_BIND };
	int err = -ENOSPC;

	if (link_slot_room(l))
		return -ENOMEM;
	meet_random(&c->challenge, sizeof(c->challenge));
	meet_random(&c->rec_nonce, sizeof(c->rec_nonce));
	lock_take(&engine.poll_lock);
	lock_take(&c->rxl);
	lock_take(&c->txl);
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
		}
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	return err;
}

static void reply(struct link *l, const struct wire_msg *m, enum wire_type type, enum reason why)
{
	struct wire_msg r = { .type = type, .slot = m->bind.slot, .reason = (uint16_t)why };

	r.bind.challenge = m->bind.challenge;
	r.bind.slot = m->bind.slot;
	link_send(l, &r);
}

/* ----------------------------------------------------- the accepting side -- */

/* An accepted conn that nobody could ask about. */
static void unanswered(struct conn *c, void *why)
{
	lock_take(&c->rxl);
	if (c->established && !c->active && c->meet == MEET_IDLE && c->why == REASON_NOT_WARM)
		st_rlx(&c->why, *(enum reason *)why);
	lock_drop(&c->rxl);
}

static int diag_find(const struct meet_tuple *t, struct diag_result *r)
{
	if (!diag_opened) {
		diag_open(&diag);
		diag_opened = true;
	}
	return diag_lookup(&diag, t, clock_ns(), r);
}

/* Return: 0; -EACCES; -EAGAIN: not to be told now. */
static int owner_matches(const struct meet_tuple *t, uint32_t uid)
{
	struct diag_result r;
	int err = diag_find(t, &r);

	if (err == -EAGAIN && meet_tuple_equal(t, &matched.tuple) && uid == matched.uid &&
	    clock_ns() < matched.until_ns)
		return 0;
	if (err == -EAGAIN)
		return err;
	if (err || r.uid != uid)
		return -EACCES;
	matched = (struct matched){ *t, uid, clock_ns() + MATCH_MS * NS_PER_MS };
	return 0;
}

bool bind_peer_gone(struct conn *c)
{
	struct diag_result r;
	int state = conn_kernel_state(c);

	if (state == TCP_STATE_CLOSE)
		return true;
	/* a FIN may be stuck behind bytes that our program does not read */
	if (!c->tuple_known || !diag_opened || c->elsewhere)
		return false;
	int err = diag_lookup(&diag, &c->tuple, clock_ns(), &r);
	return err == -ENOENT || (!err && r.inode == 0);
}

/*
 * A child takes it for cold: not before that one is gone.  kin_lock and a lock
 * of c held.
 */
static bool bind_held(struct conn *c)
{
	if (ld_rlx(&c->ever_bound) || !kin_shared(c))
		return false;
	st_rlx(&c->why, REASON_FORK);
	return true;
}

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
		return engine.rnic->shared || !l->nfree ? -EAGAIN : -ENOMEM;
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
	bound(c, l, slot, m->bind.slot, m->bind.nonce);
	return 0;
}

/* Is the peer of l where t's other end is?  Return: as owner_matches(). */
static int peer_matches(const struct link *l, const struct meet_tuple *t, const struct wire_msg *m)
{
	if (!l->peer_family)
		return owner_matches(t, l->peer_uid);
	return l->peer_family == t->family &&
	       memcmp(l->peer_addr, t->raddr, sizeof(t->raddr)) == 0 &&
	       pledge_seen_enough(m->a + m->b) ? 0 : -EACCES;
}

/* Has nobody accepted it yet?  For who asks from another host, whose kernel cannot tell. */
static bool still_queued(const struct meet_tuple *t)
{
	struct meet_tuple theirs;
	struct diag_result r;

	meet_tuple_swap(&theirs, t);
	return !diag_find(&theirs, &r) && r.inode == 0;
}

static void on_bind(struct link *l, const struct wire_msg *m)
{
	struct meet_tuple theirs, t;
	struct wire_msg answer_msg;

	pledge_tuple(&theirs, m);
	if (!meet_tuple_sane(&theirs) || m->bind.slot == 0 || m->bind.slot > l->peer_slots) {
		link_kill(l);
		return;
	}
	meet_tuple_swap(&t, &theirs);
	struct conn *c = accepted_find(&t);
	if (!c) {
		bool later = l->peer_family && still_queued(&t);

		reply(l, m, later ? WIRE_LATER : WIRE_NOT_MINE, REASON_NONE);
		return;
	}
	int err = peer_matches(l, &t, m);
	if (!err && (link_slot_room(l) || link_source_room(l, &m->bind)))
		err = -ENOMEM;
	if (!err) {
		lock_take(&kin_lock);
		lock_take(&engine.poll_lock);
		lock_take(&c->rxl);
		lock_take(&c->txl);
		err = accept_bind(c, l, m, &answer_msg);
		if (!err) {
			link_send(l, &answer_msg);
			conn_watcher->bound(c);
		}
		conn_unlock_both(c);
		lock_drop(&engine.poll_lock);
		lock_drop(&kin_lock);
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
		unanswered(c, &(enum reason){ REASON_NO_MEMORY });
	conn_put(c);
}

void bind_not_met(const struct meet_tuple *t, enum reason why)
{
	struct conn *c = accepted_find(t);

	if (!c)
		return;
	unanswered(c, &why);
	conn_put(c);
}

static enum meet_verdict own(void *arg, const struct meet_asker *who, enum reason *why)
{
	struct conn *c = accepted_find(&who->tuple);

	if (!c)
		return MEET_NOT_MINE;
	int err = who->cred_proves ? owner_matches(&who->tuple, who->cred.uid) : -EACCES;
	if (err == -EACCES) {
		*why = REASON_PEER_UNPROVEN;
		unanswered(c, &(enum reason){ who->cred_proves ? *why : REASON_OWNER_UNKNOWN });
	}
	conn_put(c);
	return !err ? MEET_MINE : err == -EAGAIN ? MEET_LATER : MEET_REFUSED;
}

/* The same for who asks from another host. */
static enum meet_verdict own_far(const struct meet_tuple *t, enum reason *why)
{
	struct conn *c = accepted_find(t);

	if (c) {
		bool over = ld_rlx(&c->meet) == MEET_OVER;

		*why = ld_rlx(&c->why);
		conn_put(c);
		return over ? MEET_REFUSED : MEET_MINE;
	}
	return still_queued(t) ? MEET_LATER : MEET_NOT_MINE;
}

static bool port_wanted(const void *ports, uint16_t port)
{
	return ports_have(ports, port);
}

/* Be found at a port; those at which nobody listens any more make room. */
static int port_listen(int family, uint16_t port)
{
	static struct ports ports;
	int err = answer_listen(&answer, family, port);

	if (err != -ENOSPC)
		return err;
	accepted_ports(&ports);
	return answer_thin(&answer, port_wanted, &ports) ?
	       answer_listen(&answer, family, port) : err;
}

void bind_listen(struct conn *l)
{
	uint16_t port = ld_rlx(&l->listen_port);

	int none = engine_start(&link_sink);
	if (none) {
		conn_for_each(unanswered, &(enum reason){ no_engine(none) });
		st_rlx(&l->listening, false);	/* the next accept() tries again */
	}
	if (!engine_up())
		return;
	kin_start();
	if (!answer_ready) {
		answer_init(&answer, hello_loop(),
			    &(struct answer_ops){ .own = own, .mine = hello_as_owner },
			    hello_instance());
		hello_set_answer(&answer);
		answer_ready = true;
	}
	int err = port_listen(AF_INET, port);
	if (!err && ld_rlx(&l->listen_family) == AF_INET6)
		err = port_listen(AF_INET6, port);
	if (meet_forbidden(err))
		hello_forbid(REASON_SANDBOX);
	if (err) {
		enum reason why = meet_forbidden(err) ? REASON_SANDBOX : REASON_NO_MEMORY;

		conn_for_each(unanswered, &why);
		if (hello_want(err))	/* the next accept() tries again */
			st_rlx(&l->listening, false);
	}
	log_debug("names of port %u: %d", port, err);
	hosts_listen(AF_INET, port, own_far);
	if (ld_rlx(&l->listen_family) == AF_INET6)
		hosts_listen(AF_INET6, port, own_far);
}

/* ---------------------------------------------------- the connecting side -- */

static void met(struct conn *c, struct link *l, enum reason why);

/* A link to that process, if it may be the owner of c's other end. */
static struct link *known(const struct conn *c, uint64_t instance)
{
	lock_take(&engine.poll_lock);
	struct link *l = c->elsewhere ?
		link_by_host(instance, c->tuple.family, c->tuple.raddr) :
		link_by_instance(instance, c->peer_uid);
	lock_drop(&engine.poll_lock);
	return l;
}

/* BIND on a link to somebody met at this port before; else ask whose c is. */
static void try_known(struct conn *c)
{
	uint64_t inst;

	c->bind_asked = false;
	while ((inst = hint_next(c)) != 0) {
		struct link *l = known(c, inst);
		int err = l ? send_bind(c, l) : -ENOSPC;

		if (err == -ENOMEM)	/* and another link would want more of it */
			meet_later(c, REASON_NO_MEMORY);
		if (!err || err == -ENOMEM)
			return;
	}
	set_meet(c, MEET_ASKING);
	if (ld_rlx(&c->meet) == MEET_OVER)
		return;
	if (c->elsewhere)
		hosts_ask(c, met);
	else
		hello_ask(c, c->peer_uid, met);
}

/* Have enough cold bytes passed?  If not, they are waited for. */
static bool await_bytes(struct conn *c)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bool enough = pledge_seen_enough(c->tx.kc + c->rx.pos);
	if (!enough && c->meet != MEET_OVER) {
		st_rlx(&c->meet_calls, UINT32_MAX);
		st_rlx(&c->meet_bytes, (uint64_t)PREFIX_BYTES);
		st_rlx(&c->meet, MEET_IDLE);
	}
	conn_unlock_both(c);
	return enough;
}

/* Has the kernel heard of an end? */
static bool ended(struct conn *c)
{
	lock_take(&c->rxl);
	bool yes = c->fd < 0 || conn_kernel_state(c) > 1;	/* ESTABLISHED; 0: not known */
	lock_drop(&c->rxl);
	return yes;
}

void bind_let_go(struct conn *c)
{
	unbind(c, false);	/* the link is dead */
}

void bind_shut(void)
{
	hello_shut();
	hosts_shut();
	if (answer_ready)
		answer_fini(&answer);
	if (diag_opened)
		diag_close(&diag);
}

/* The other end is not here. */
static void meet_elsewhere(struct conn *c)
{
	if (ended(c)) {
		give_up(c, REASON_CLOSED_FIRST);
	} else if (!engine.rnic->hardware) {
		give_up(c, REASON_OTHER_NETNS_OR_NAT);
	} else if (await_bytes(c)) {
		c->elsewhere = true;
		try_known(c);
	}
}

void bind_meet(struct conn *c)
{
	struct diag_result r = { 0 };

	kin_start();
	lock_take(&kin_lock);
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bool go = (c->meet == MEET_IDLE || c->meet == MEET_QUEUED) && c->established &&
		  !c->closing && !c->link;
	bool held = go && bind_held(c);
	int err = go ? conn_tuple_learn(c) : 0;
	if (go && !held)
		st_rlx(&c->meet, MEET_QUEUED);
	conn_unlock_both(c);
	lock_drop(&kin_lock);
	if (held)
		meet_later(c, REASON_FORK);
	if (!go || held)
		return;
	int none = err ? 0 : engine_start(&link_sink);
	if (none) {
		give_up(c, no_engine(none));
		return;
	}
	if (err) {
		give_up(c, REASON_CLOSED_FIRST);
		return;
	}
	err = diag_find(&c->tuple, &r);
	if (err == -ENOENT) {
		meet_elsewhere(c);
	} else if (err == -EAGAIN || (!err && r.inode == 0)) {
		meet_again(c, RETRY_MS);
	} else if (err || !meet_uid_proves(r.uid)) {
		give_up(c, REASON_OWNER_UNKNOWN);
	} else {
		c->peer_uid = r.uid;
		try_known(c);
	}
}

/* hello.c: the link to the owner, or why there is none. */
static void met(struct conn *c, struct link *l, enum reason why)
{
	if (!l) {
		if (why == REASON_NONE)
			meet_again(c, c->elsewhere ? RETRY_FAR_MS : RETRY_MS);
		else if (why == REASON_LINK_LOST)
			meet_after_unborn(c);
		else if (why == REASON_SANDBOX || why == REASON_NO_MEMORY)
			give_up(c, why);
		else
			meet_later(c, why);
		return;
	}
	hint_set(&c->tuple, l->peer_instance);
	c->bind_asked = true;
	int err = send_bind(c, l);
	if (err == -ENOSPC) {
		st_rlx(&c->why, REASON_NO_MEMORY);
		meet_again(c, 100);
	} else if (err == -ENOMEM) {
		meet_later(c, REASON_NO_MEMORY);
	} else if (err && err != -ECANCELED) {
		give_up(c, REASON_PEER_UNPROVEN);
	}
}

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
	lock_take(&c->rxl);
	lock_take(&c->txl);
	/* one that is bound already, perhaps on its ring, loses nothing by a second BOUND */
	int err = c->link == l && awaits(c) ? check_bound(c, l, m) : -ESTALE;
	bool late = !err && c->meet != MEET_BINDING;
	if (err != -ESTALE)
		c->peer_slot = m->bind.slot;
	if (!err && !late) {
		bound(c, l, c->slot, m->bind.slot, m->bind.nonce);
		conn_watcher->bound(c);
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (!err && !late)
		conn_warm(c);
	else if (err != -ESTALE)
		unbind(c, true);
	if (err == -ENOMEM)
		meet_later(c, REASON_NO_MEMORY);
	else if (err && err != -ESTALE)
		give_up(c, REASON_PEER_UNPROVEN);
}

static void on_not_bound(struct link *l, struct conn *c, const struct wire_msg *m)
{
	if (c->link != l || !awaits(c) || m->bind.challenge != c->challenge)
		return;
	bool over = ld_rlx(&c->meet) != MEET_BINDING;
	unbind(c, false);
	if (over)
		return;
	if (m->type == WIRE_LATER && m->reason == REASON_NO_MEMORY) {
		meet_later(c, REASON_NO_MEMORY);
	} else if (m->type == WIRE_LATER) {
		c->hint_tried = 0;
		meet_again(c, c->elsewhere ? RETRY_FAR_MS : RETRY_MS);
	} else if (!c->bind_asked) {
		try_known(c);
	} else {
		meet_later(c, REASON_PEER_UNPROVEN);
	}
}

/* --------------------------------------------------------- what comes in -- */

/* What came, in the background thread. */
static void handle(struct link *l, const struct wire_msg *m)
{
	if (m->type == WIRE_BIND) {
		on_bind(l, m);
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

/* Any thread, a lock of c held (or none, in the background). */
void conn_warm(struct conn *c)
{
	if (ld_rlx(&c->meet) == MEET_BOUND) {
		uint64_t now = clock_ticks();

		/* a hint: grant() looks again, under rxl */
		if (!ld_rlx(&c->rx_granted) && ld_rlx(&c->rx_read) &&
		    ld_rlx(&c->rx_inside) == 0 && now >= ld_rlx(&c->grant_ticks)) {
			st_rlx(&c->grant_ticks, now + GRANT_EVERY_US * clock_ticks_per_us);
			conn_todo(c, JOB_GRANT);
		}
		return;
	}
	bool heir = ld_rlx(&c->inherited);

	if (heir ? !heir_alone(c) : ld_rlx(&c->meet) != MEET_IDLE || !ld_rlx(&c->active) || c->link)
		return;
	if (!ld_rlx(&c->established))
		return;
	if (!bind_enabled()) {
		st_rlx(&c->meet, MEET_OVER);
		st_rlx(&c->why, hello_forbidden() ? hello_forbidden() : REASON_CONFIG);
		show_why(c);
		return;
	}
	uint32_t calls = ld_rlx(&c->tx_calls), least = ld_rlx(&c->meet_calls);
	uint64_t bytes = ld_rlx(&c->tx.kc) + ld_rlx(&c->rx.pos), least_bytes = ld_rlx(&c->meet_bytes);
	uint32_t times = heir ? HEIR_TIMES : 1;
	bool warm;
	if (unlikely(config.fault.hurry))
		warm = true;
	else if (config.attach == ATTACH_EAGER || ld_rlx(&c->asked))
		warm = calls >= MAX(least, EAGER_CALLS) || bytes >= MAX(least_bytes, (uint64_t)1);
	else if (config.attach == ATTACH_AUTO)
		warm = calls >= MAX(least, times * WARM_CALLS) ||
		       bytes >= MAX(least_bytes, (uint64_t)times * WARM_BYTES);
	else
		warm = bytes >= MAX(least_bytes, (uint64_t)config.attach);
	if (!warm)
		return;
	if (begin() == 0)
		conn_todo(c, heir ? JOB_HEIR : JOB_MEET);
	else
		bind_give_up(c, not_begun());
}

void bind_start(void)
{
	accepted_forget_all();
	inbox_start(handle);
	link_set_user(&msgs_user);
	show_start();
	pledge_start();
}

void bind_forget_all(void)
{
	unseen_forget_all();
	window_forget_all();
	accepted_forget_all();
	inbox_start(handle);
	hint_forget_all();
	again_forget_all();
	diag_opened = false;
	answer_ready = false;
	memset(&answer, 0, sizeof(answer));
	hosts_forget();
	hello_forget();
}
