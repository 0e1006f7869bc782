/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bind.c - from "warm" to "bound", in the background thread
 *
 * Longer than most: both sides of one exchange stand here, message by message,
 * with what the background thread does for a conn before and after it.
 *
 * The side that called connect() starts: whose is the other end (sock_diag)?
 * Is there a link to the process we last met at that port?  Then BIND goes out
 * on it at once; else the names of the port are asked (meet/ask.c), a link is
 * made by two HELLOs over the Unix connection, and BIND follows.  One meeting
 * a port at a time; the others wait for it and then find its link.
 *
 * BIND and BOUND prove both ends (doc/security.md): the user of the Unix
 * connection is the owner of the TCP socket, and an HMAC over the nonces, the
 * counts and the first cold bytes.  Only then may anybody switch.
 *
 * All functions run in the background thread unless they say otherwise;
 * messages that arrive in other threads are queued (inbox).
 */
#define _GNU_SOURCE
#include "sock/bind.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "meet/answer.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/hello.h"
#include "sock/io.h"
#include "sock/msgs.h"

#define WARM_CALLS	4u
#define WARM_BYTES	(32u * 1024)
#define EAGER_CALLS	1u
#define RETRY_MS	3
#define LIVES_MS	1000		/* a link that lived so long was a good one */
#define MAX_TRIES	200
#define GRANT_EVERY_US	200
#define COUNT_TRIES	8
#define BUCKETS		1024
#define HINTS		64
#define INBOX		2048
#define INBOX_BINDS	512		/* the rest is for answers, one for a slot */
/* tcpi_state */
#define TCP_STATE_CLOSE	7
#define TCP_STATE_CLOSE_WAIT 8

static struct lock accept_lock;			/* leaf: buckets */
static struct list buckets[BUCKETS];
static struct diag diag;
static bool diag_opened;
static struct answer answer;
static bool answer_ready;
static uint8_t key[PROOF_KEY_BYTES];
static size_t keylen;

/* processes met at a port, in the order of serial; several share a listener */
static struct hint {
	uint16_t family, port;
	uint32_t serial;
	uint64_t instance;
} hints[HINTS];

static struct {
	struct lock lock;
	struct bg_work work;
	uint32_t head, tail, binds;
	struct {
		struct link *link;
		struct wire_msg m;
	} q[INBOX];
} inbox;

bool bind_enabled(void)
{
	return config.enabled && config.attach != ATTACH_NEVER && !config.fault.mute_meeting &&
	       (config.rnic.choice == RNIC_AUTO || config.rnic.choice == RNIC_SOFT) &&
	       !hello_forbidden();
}

/* --------------------------------------------------------- accepted conns -- */

static struct list *bucket(uint16_t peer_port)
{
	return &buckets[(peer_port * 40503u >> 6) % BUCKETS];
}

static uint16_t sockaddr_port(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)sa)->sin_port);
	if (sa->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)sa)->sin6_port);
	return 0;
}

/* Any thread. */
void bind_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer)
{
	if (!bind_enabled() || !sockaddr_port(peer))
		return;
	lock_take(&accept_lock);
	c->tuple.rport = sockaddr_port(peer);
	list_push(bucket(c->tuple.rport), &c->accepted);
	lock_drop(&accept_lock);
	if (!ld_rlx(&l->listening) && !xchg_acqrel(&l->listening, true)) {
		if (bg_start() == 0)
			conn_todo(l, JOB_LISTEN);
	}
}

/* Any thread, both locks held. */
void bind_forget(struct conn *c)
{
	lock_take(&accept_lock);
	list_del(&c->accepted);
	lock_drop(&accept_lock);
}

/* Both locks held. */
static int tuple_learn(struct conn *c)
{
	struct sockaddr_storage local, remote;
	socklen_t ll = sizeof(local), rl = sizeof(remote);

	if (c->tuple_known)
		return 0;
	if (c->fd < 0 || sys_getsockname(c->fd, (struct sockaddr *)&local, &ll) ||
	    sys_getpeername(c->fd, (struct sockaddr *)&remote, &rl))
		return -ENOTCONN;
	int err = meet_tuple_set(&c->tuple, &local, &remote);
	c->tuple_known = !err;
	return err;
}

static bool is_it(struct conn *c, const struct meet_tuple *t)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bool yes = c->established && !c->closing && !c->inherited && tuple_learn(c) == 0 &&
		   meet_tuple_equal(&c->tuple, t);
	conn_unlock_both(c);
	return yes;
}

/* With a reference, or NULL. */
static struct conn *find(const struct meet_tuple *t)
{
	struct conn *seen[16];
	int n = 0;

	lock_take(&accept_lock);
	list_for_each(p, bucket(t->rport)) {
		struct conn *c = list_entry(p, struct conn, accepted);

		if (c->tuple.rport == t->rport && n < (int)ARRAY_SIZE(seen)) {
			conn_get(c);
			seen[n++] = c;
		}
	}
	lock_drop(&accept_lock);
	struct conn *found = NULL;
	for (int i = 0; i < n; i++) {
		if (!found && is_it(seen[i], t))
			found = seen[i];
		else
			conn_put(seen[i]);
	}
	return found;
}

/* ----------------------------------------------------------------- timers -- */

void bind_timer_at(struct conn *c, uint64_t at_ns)
{
	bool pending = c->timer.node.next && !list_empty(&c->timer.node);

	if (pending && c->timer.at_ns <= at_ns)
		return;
	if (!pending)
		conn_get(c);
	st_rlx(&c->timer_armed, true);
	bg_timer_set(&c->timer, at_ns);
}

static uint64_t next_deadline(struct conn *c)
{
	uint64_t at = UINT64_MAX;

	if (ld_rlx(&c->tx_progress_ns))
		at = MIN(at, ld_rlx(&c->tx_progress_ns) + 101 * NS_PER_MS);
	if (conn_tx_on_ring(c) && ld_rlx(&c->tx_retreat_ns))
		at = MIN(at, ld_rlx(&c->tx_retreat_ns));
	return at;
}

static void check_deadlines(struct conn *c, uint64_t now)
{
	lock_take(&c->txl);
	if (c->tx_progress_ns)
		tx_stalled(c, now);
	if (c->tx_retreat_ns && now >= c->tx_retreat_ns) {
		st_rlx(&c->tx_retreat_ns, 0);
		tx_retreat(c, REASON_FAULT);
	}
	lock_drop(&c->txl);
}

static void meet_again(struct conn *c, uint32_t after_ms);
static void unbind(struct conn *c);

static void conn_timer(struct bg_timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);
	uint64_t now = clock_ns(), at;

	if (ld_rlx(&c->closing)) {
		if (!end_step(c))
			bind_timer_at(c, now + c->close_wait_ns);
		conn_put(c);
		return;
	}
	st_rlx(&c->timer_armed, false);
	fence_full();	/* pairs with who sets a deadline and then looks at timer_armed */
	check_deadlines(c, now);
	if (ld_rlx(&c->meet) == MEET_QUEUED)
		conn_todo(c, JOB_MEET);
	bind_release_try(c);
	at = next_deadline(c);
	if (at != UINT64_MAX)
		bind_timer_at(c, MAX(at, now + NS_PER_MS));
	conn_put(c);
}

/* ---------------------------------------------------------------- binding -- */

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
	log_info("fd %d stays on kernel tcp: %s", c->fd, reason_name(why));
}

static void give_up(struct conn *c, enum reason why)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bind_give_up(c, why);
	conn_unlock_both(c);
}

/* Nobody answered, or not now: the next try wants twice the traffic. */
static void meet_later(struct conn *c, enum reason why)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (c->meet != MEET_OVER) {
		st_rlx(&c->why, why);
		st_rlx(&c->meet, MEET_IDLE);
		c->hint_tried = 0;
		st_rlx(&c->meet_calls, MAX(2 * c->tx_calls, WARM_CALLS));
		st_rlx(&c->meet_bytes, MAX(2 * (c->tx.kc + c->rx.pos), (uint64_t)WARM_BYTES));
	}
	conn_unlock_both(c);
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

/* Forget the binding; poll_lock not held.  The slot goes back by RESET. */
static void unbind(struct conn *c)
{
	lock_take(&engine.poll_lock);
	lock_take(&c->rxl);
	lock_take(&c->txl);
	struct link *l = c->link;
	bool bound = c->meet != MEET_BINDING;
	if (l) {
		if (c->meet != MEET_OVER)
			st_rlx(&c->meet, MEET_IDLE);
		st_rlx(&c->tx_granted, false);
		st_rlx(&c->rx_granted, false);
		c->peer_gone = false;
		c->link = NULL;
		c->tx_ring = c->rx_ring = NULL;
		st_rlx(&c->tx_words, NULL);
		st_rlx(&c->rx_words, NULL);
		link_slot_done(l, c->slot, c->peer_slot, bound);
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (l)
		conn_put(c);
}

/* Are both directions out of the slot for good (link dead) or the conn over? */
static bool releasable(struct conn *c)
{
	if (!c->link || c->meet == MEET_BINDING)
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

void bind_release_try(struct conn *c)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
	bool dead = c->link && ld_rlx(&c->link->state) == LINK_DEAD;
	bool binding = dead && c->meet == MEET_BINDING;
	bool yes = binding || releasable(c);
	bool again = !yes && dead && !c->closing;
	conn_unlock_both(c);
	if (yes) {
		c->release_wait_ns = 0;
		unbind(c);
		if (dead)
			meet_after_loss(c);
	} else if (again) {
		c->release_wait_ns = MIN(MAX(2 * c->release_wait_ns, NS_PER_MS), 64 * NS_PER_MS);
		bind_timer_at(c, clock_ns() + c->release_wait_ns);
	}
}

static void fill_nonce(uint8_t out[PROOF_NONCE_BYTES], const uint8_t link_nonce[LINK_NONCE],
		       uint64_t challenge, uint64_t rec_nonce)
{
	uint64_t w[2];

	memcpy(w, link_nonce, sizeof(w));
	w[0] ^= challenge;
	w[1] ^= rec_nonce;
	memcpy(out, w, sizeof(w));
}

/*
 * Digests of the cold bytes that a BIND with these counts is about.
 * Return: 0; -EAGAIN: not all seen yet, or too many by now (a later BIND will
 * do); -ENODATA: not kept.  Both locks of c held.
 */
static int digests_of(struct conn *c, bool we_are_a, uint64_t count_ab, uint64_t count_ba)
{
	const struct prefix *p[2] = { we_are_a ? &c->tx_prefix : &c->rx_prefix,
				      we_are_a ? &c->rx_prefix : &c->tx_prefix };
	const uint64_t n[2] = { count_ab, count_ba };

	for (int i = 0; i < 2; i++) {
		int err = prefix_digest(p[i], (size_t)MIN(n[i], (uint64_t)PREFIX_BYTES),
					c->bind_digest[i]);

		if (err == -ENODATA && p[i]->state == PREFIX_FULL && n[i] < PREFIX_BYTES)
			err = -EAGAIN;
		if (err)
			return err;
	}
	return 0;
}

/* The MAC over what digests_of() has found.  Both locks of c held. */
static void mac_of(struct conn *c, bool we_are_a, enum proof_role role, struct link *l,
		   const uint64_t chal[2], const uint64_t rec[2], uint64_t count_ab,
		   uint64_t count_ba, uint8_t mac[SHA256_BYTES])
{
	struct proof_input in = { .role = role, .count_ab = count_ab, .count_ba = count_ba };

	memcpy(in.digest_ab, c->bind_digest[0], SHA256_BYTES);
	memcpy(in.digest_ba, c->bind_digest[1], SHA256_BYTES);
	fill_nonce(in.nonce_a, we_are_a ? l->nonce_mine : l->nonce_peer, chal[0], rec[0]);
	fill_nonce(in.nonce_b, we_are_a ? l->nonce_peer : l->nonce_mine, chal[1], rec[1]);
	if (we_are_a)
		in.tuple = c->tuple;
	else
		meet_tuple_swap(&in.tuple, &c->tuple);
	proof_make(key, keylen, &in, mac);
}

static void bind_fill(struct wire_msg *m, struct conn *c, uint16_t slot)
{
	const struct meet_tuple *t = &c->tuple;
	struct wire_bind *b = &m->bind;

	memcpy(b->addr_tx, t->laddr, 16);
	memcpy(b->addr_rx, t->raddr, 16);
	b->port_tx = t->lport;
	b->port_rx = t->rport;
	b->family = t->family == AF_INET ? 4 : 6;
	b->slot = slot;
	b->nonce = c->rec_nonce;
	b->challenge = c->challenge;
}

static void bind_tuple(struct meet_tuple *t, const struct wire_msg *m)
{
	const struct wire_bind *b = &m->bind;

	memset(t, 0, sizeof(*t));
	t->family = b->family == 4 ? AF_INET : AF_INET6;
	t->lport = b->port_tx;
	t->rport = b->port_rx;
	memcpy(t->laddr, b->addr_tx, 16);
	memcpy(t->raddr, b->addr_rx, 16);
}

/* Both locks held: rings and protocol are ready on this slot. */
static void bound(struct conn *c, struct link *l, uint16_t slot, uint16_t peer_slot,
		  uint64_t peer_nonce)
{
	uint64_t tx_window = MIN((uint64_t)CONN_WINDOW_MIN, l->peer_ring_bytes);
	uint64_t rx_window = MIN((uint64_t)CONN_WINDOW_MIN, l->ring_bytes);

	c->link = l;
	c->slot = slot;
	c->peer_slot = peer_slot;
	c->tx_ring = link_peer_ring(l, peer_slot);
	c->tx_words = link_peer_words(l, peer_slot);
	c->tx_ring_bytes = l->peer_ring_bytes;
	st_rlx(&c->tx_wlog, (uint8_t)__builtin_ctzll(tx_window));
	c->rx_ring = link_ring(l, slot);
	c->rx_words = link_slot_words(l, slot);
	c->rx_ring_bytes = l->ring_bytes;
	c->rx_wlog = (uint8_t)__builtin_ctzll(rx_window);
	ptx_bind(&c->tx, l->id, true, peer_nonce, tx_window);
	prx_bind(&c->rx, l->id, true, c->rec_nonce, rx_window);
	st_rlx(&c->meet, MEET_BOUND);
	c->bind_answered = true;
	c->meet_tries = 0;
	c->hint_tried = 0;
	st_rlx(&c->ever_bound, true);
	fence_full();	/* pairs with ready_poll(): noted as plain, then ever_bound */
	st_rlx(&c->why, REASON_CLOSED_FIRST);
	log_info("fd %d bound: link %u slot %u peer %u", c->fd, l->id, slot, peer_slot);
}

static void hint_set(const struct meet_tuple *t, uint64_t instance)
{
	static unsigned next;
	static uint32_t serial;

	for (int i = 0; i < HINTS; i++)
		if (hints[i].family == t->family && hints[i].port == t->rport &&
		    hints[i].instance == instance)
			return;
	hints[next++ % HINTS] = (struct hint){ t->family, t->rport, ++serial, instance };
}

/* The next one that c has not tried: the oldest first.  0: none. */
static uint64_t hint_next(struct conn *c)
{
	const struct hint *best = NULL;

	for (int i = 0; i < HINTS; i++) {
		const struct hint *h = &hints[i];

		if (h->family == c->tuple.family && h->port == c->tuple.rport &&
		    h->serial > c->hint_tried && (!best || h->serial < best->serial))
			best = h;
	}
	if (!best)
		return 0;
	c->hint_tried = best->serial;
	return best->instance;
}

/* BIND on an existing link.  Return: 0, -ENOSPC no slot, other: no proof to give. */
static int send_bind(struct conn *c, struct link *l)
{
	struct wire_msg m = { .type = WIRE_BIND };
	int err = -ENOSPC;

	meet_random(&c->challenge, sizeof(c->challenge));
	meet_random(&c->rec_nonce, sizeof(c->rec_nonce));
	lock_take(&engine.poll_lock);
	lock_take(&c->rxl);
	lock_take(&c->txl);
	uint16_t slot = c->link || c->closing ? 0 : link_slot_take(l, c);
	if (slot) {
		m.a = c->tx.kc;
		m.b = c->rx.pos;
		bind_fill(&m, c, slot);
		err = digests_of(c, true, m.a, m.b);
		if (!err)
			mac_of(c, true, PROOF_BIND, l, (uint64_t[2]){ c->challenge, 0 },
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

static void reply(struct link *l, const struct wire_msg *m, enum wire_type type)
{
	struct wire_msg r = { .type = type, .slot = m->bind.slot };

	r.bind.challenge = m->bind.challenge;
	r.bind.slot = m->bind.slot;
	link_send(l, &r);
}

/* ----------------------------------------------------- the accepting side -- */

static bool owner_matches(const struct meet_tuple *t, uint32_t uid)
{
	struct diag_result r;

	if (!diag_opened) {
		diag_open(&diag);
		diag_opened = true;
	}
	return diag_lookup(&diag, t, clock_ns(), &r) == 0 && r.uid == uid;
}

bool bind_peer_gone(struct conn *c)
{
	struct diag_result r;
	int state = conn_kernel_state(c);

	if (state == TCP_STATE_CLOSE)
		return true;
	if (state != TCP_STATE_CLOSE_WAIT || !c->tuple_known || !diag_opened)
		return false;
	int err = diag_lookup(&diag, &c->tuple, clock_ns(), &r);
	return err == -ENOENT || (!err && r.inode == 0);
}

/* Both locks and poll_lock held.  Return: 0 bound and m answers; -EAGAIN later; -EACCES. */
static int accept_bind(struct conn *c, struct link *l, const struct wire_msg *m,
		       struct wire_msg *answer_msg)
{
	uint8_t mac[SHA256_BYTES];
	const uint64_t chal[2] = { m->bind.challenge, 0 }, rec[2] = { m->bind.nonce, 0 };

	if (c->closing || !c->established || c->meet == MEET_OVER)
		return -EACCES;
	if (c->link || m->b > c->tx.kc)
		return -EAGAIN;
	int err = digests_of(c, false, m->a, m->b);
	if (err)
		return err == -EAGAIN ? err : -EACCES;
	mac_of(c, false, PROOF_BIND, l, chal, rec, m->a, m->b, mac);
	if (!proof_equal(mac, m->bind.mac))
		return -EACCES;
	uint16_t slot = link_slot_take(l, c);
	if (!slot)
		return -EAGAIN;
	conn_get(c);
	meet_random(&c->challenge, sizeof(c->challenge));
	meet_random(&c->rec_nonce, sizeof(c->rec_nonce));
	*answer_msg = (struct wire_msg){ .type = WIRE_BOUND, .slot = m->bind.slot, .a = m->a, .b = m->b };
	mac_of(c, false, PROOF_BOUND, l, (uint64_t[2]){ chal[0], c->challenge },
	       (uint64_t[2]){ rec[0], c->rec_nonce }, m->a, m->b, answer_msg->bind.mac);
	bind_fill(answer_msg, c, slot);
	bound(c, l, slot, m->bind.slot, m->bind.nonce);
	return 0;
}

static void on_bind(struct link *l, const struct wire_msg *m)
{
	struct meet_tuple theirs, t;
	struct wire_msg answer_msg;

	bind_tuple(&theirs, m);
	if (!meet_tuple_sane(&theirs) || m->bind.slot == 0 || m->bind.slot > LINK_SLOTS) {
		link_kill(l);
		return;
	}
	meet_tuple_swap(&t, &theirs);
	struct conn *c = find(&t);
	if (!c) {
		reply(l, m, WIRE_NOT_MINE);
		return;
	}
	int err = owner_matches(&t, l->peer_uid) ? 0 : -EACCES;
	if (!err) {
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
	}
	if (err == -EAGAIN)
		reply(l, m, WIRE_LATER);
	else if (err)
		reply(l, m, WIRE_NOT_MINE);
	else
		conn_warm(c);
	conn_put(c);
}

static enum meet_verdict own(void *arg, const struct meet_asker *who, enum reason *why)
{
	struct conn *c = find(&who->tuple);

	if (!c)
		return MEET_NOT_MINE;
	conn_put(c);
	if (!who->cred_proves || !owner_matches(&who->tuple, who->cred.uid)) {
		*why = REASON_PEER_UNPROVEN;
		return MEET_REFUSED;
	}
	return MEET_MINE;
}

static void listen_for(struct conn *l)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	lock_take(&l->rxl);
	int fd = l->fd;
	int err = fd < 0 ? -EBADF : sys_getsockname(fd, (struct sockaddr *)&sa, &len);
	lock_drop(&l->rxl);
	if (err || engine_start(&link_sink))
		return;
	if (!answer_ready) {
		answer_init(&answer, hello_loop(),
			    &(struct answer_ops){ .own = own, .mine = hello_as_owner },
			    hello_instance());
		hello_set_answer(&answer);
		answer_ready = true;
	}
	uint16_t port = sockaddr_port(&sa);
	err = answer_listen(&answer, AF_INET, port);
	if (!err && sa.ss_family == AF_INET6)
		err = answer_listen(&answer, AF_INET6, port);
	if (meet_forbidden(err))
		hello_forbid();
	log_debug("names of port %u: %d", port, err);
}

/* ---------------------------------------------------- the connecting side -- */

static void met(struct conn *c, struct link *l, enum reason why);

/* BIND on a link to somebody met at this port before; else ask whose c is. */
static void try_known(struct conn *c)
{
	uint64_t inst;

	c->bind_asked = false;
	while ((inst = hint_next(c)) != 0) {
		lock_take(&engine.poll_lock);
		struct link *l = link_by_instance(inst, true);
		lock_drop(&engine.poll_lock);
		if (l && l->peer_uid == c->peer_uid && send_bind(c, l) == 0)
			return;
	}
	set_meet(c, MEET_ASKING);
	hello_ask(c, c->peer_uid, met);
}

static void meet_begin(struct conn *c)
{
	struct diag_result r = { 0 };

	lock_take(&c->rxl);
	lock_take(&c->txl);
	bool go = (c->meet == MEET_IDLE || c->meet == MEET_QUEUED) && c->established &&
		  !c->closing && !c->link;
	int err = go ? tuple_learn(c) : 0;
	if (go)
		st_rlx(&c->meet, MEET_QUEUED);
	conn_unlock_both(c);
	if (!go)
		return;
	if (err || engine_start(&link_sink)) {
		give_up(c, REASON_NO_RNIC);
		return;
	}
	if (!diag_opened) {
		diag_open(&diag);
		diag_opened = true;
	}
	err = diag_lookup(&diag, &c->tuple, clock_ns(), &r);
	if (err == -ENOENT) {
		give_up(c, REASON_OTHER_NETNS_OR_NAT);
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
			meet_again(c, RETRY_MS);
		else if (why == REASON_SANDBOX || why == REASON_NO_MEMORY)
			give_up(c, why);
		else
			meet_later(c, why);
		return;
	}
	hint_set(&c->tuple, l->peer_instance);
	c->bind_asked = true;
	int err = send_bind(c, l);
	if (err == -ENOSPC)
		meet_again(c, 100);
	else if (err)
		give_up(c, REASON_PEER_UNPROVEN);
}

/* Both locks and poll_lock held: is m the true answer to our BIND? */
static int check_bound(struct conn *c, struct link *l, const struct wire_msg *m)
{
	uint8_t mac[SHA256_BYTES];

	if (m->bind.slot == 0 || m->bind.slot > LINK_SLOTS || m->a > c->tx.kc ||
	    m->b > c->rx.pos)
		return -EPROTO;
	mac_of(c, true, PROOF_BOUND, l, (uint64_t[2]){ c->challenge, m->bind.challenge },
	       (uint64_t[2]){ c->rec_nonce, m->bind.nonce }, m->a, m->b, mac);
	return proof_equal(mac, m->bind.mac) ? 0 : -EACCES;
}

static void on_bound(struct link *l, struct conn *c, const struct wire_msg *m)
{
	lock_take(&engine.poll_lock);
	lock_take(&c->rxl);
	lock_take(&c->txl);
	/* one that is bound already, perhaps on its ring, loses nothing by a second BOUND */
	int err = c->link == l && c->meet == MEET_BINDING ? check_bound(c, l, m) : -ESTALE;
	if (!err) {
		bound(c, l, c->slot, m->bind.slot, m->bind.nonce);
		conn_watcher->bound(c);
	}
	conn_unlock_both(c);
	lock_drop(&engine.poll_lock);
	if (!err)
		conn_warm(c);
	else if (err != -ESTALE) {
		c->peer_slot = m->bind.slot;
		set_meet(c, MEET_BOUND);	/* the peer has a slot for us: RESET frees it */
		unbind(c);
		give_up(c, REASON_PEER_UNPROVEN);
	}
}

static void on_not_bound(struct link *l, struct conn *c, const struct wire_msg *m)
{
	if (c->link != l || ld_rlx(&c->meet) != MEET_BINDING || m->bind.challenge != c->challenge)
		return;
	unbind(c);
	if (m->type == WIRE_LATER) {
		c->hint_tried = 0;
		meet_again(c, RETRY_MS);
	} else if (!c->bind_asked) {
		try_known(c);
	} else {
		meet_later(c, REASON_PEER_UNPROVEN);
	}
}

/* ---------------------------------------------------------------- inbox -- */

static void inbox_work(struct bg_work *w)
{
	for (;;) {
		lock_take(&inbox.lock);
		bool any = inbox.head != inbox.tail;
		struct link *l = inbox.q[inbox.head % INBOX].link;
		struct wire_msg m = inbox.q[inbox.head % INBOX].m;
		inbox.head += any;
		inbox.binds -= any && m.type == WIRE_BIND;
		lock_drop(&inbox.lock);
		if (!any)
			return;
		if (m.type == WIRE_BIND) {
			on_bind(l, &m);
		} else {
			lock_take(&engine.poll_lock);
			struct conn *c = m.slot <= LINK_SLOTS ? l->slots[m.slot].owner : NULL;
			if (c)
				conn_get(c);
			lock_drop(&engine.poll_lock);
			if (c && m.type == WIRE_BOUND)
				on_bound(l, c, &m);
			else if (c)
				on_not_bound(l, c, &m);
			if (c)
				conn_put(c);
		}
		link_drop(l);
	}
}

static bool inbox_put(struct link *l, const struct wire_msg *m)
{
	bool bind = m->type == WIRE_BIND;

	lock_take(&inbox.lock);
	bool room = inbox.tail - inbox.head < INBOX && (!bind || inbox.binds < INBOX_BINDS);
	if (room) {
		link_hold(l);
		inbox.q[inbox.tail % INBOX].link = l;
		inbox.q[inbox.tail++ % INBOX].m = *m;
		inbox.binds += bind;
	}
	lock_drop(&inbox.lock);
	if (room)
		bg_queue(&inbox.work);
	return room;
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
			reply(l, m, WIRE_LATER);
		return;
	}
	if (!c || c->bind_answered)
		return;			/* nobody has asked that */
	c->bind_answered = true;
	if (!inbox_put(l, m))
		link_kill(l);
}

/* ---------------------------------------------------------------- GRANT -- */

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

static bool evidence(struct conn *c)
{
	return ld_rlx(&c->meet) == MEET_BOUND && !c->closing && c->fd >= 0 && c->rx_read &&
	       !c->rx_shut &&
	       c->rx_inside == 0 && ld_rlx(&c->rx_plain_polls) == 0 &&
	       conn_watcher->none_plain(c) && (!ld_rlx(&c->nonblock) || ld_rlx(&c->rx_waited)) &&
	       !c->rx.want;
}

static void grant(struct conn *c)
{
	lock_take(&c->rxl);
	if (!c->rx_granted && evidence(c) && counts_agree(c)) {
		st_rlx(&c->rx_granted, true);
		conn_send(c, WIRE_GRANT, 0, 1, 0);
		log_debug("fd %d grants", c->fd);
	}
	lock_drop(&c->rxl);
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
	if (ld_rlx(&c->meet) != MEET_IDLE || !ld_rlx(&c->active) || !ld_rlx(&c->established) ||
	    c->inherited || c->link)
		return;
	if (!bind_enabled()) {
		st_rlx(&c->meet, MEET_OVER);
		st_rlx(&c->why, hello_forbidden() ? REASON_SANDBOX : REASON_CONFIG);
		return;
	}
	uint32_t calls = ld_rlx(&c->tx_calls), least = ld_rlx(&c->meet_calls);
	uint64_t bytes = ld_rlx(&c->tx.kc) + ld_rlx(&c->rx.pos), least_bytes = ld_rlx(&c->meet_bytes);
	bool warm;
	if (config.attach == ATTACH_AUTO)
		warm = calls >= MAX(least, WARM_CALLS) || bytes >= MAX(least_bytes, (uint64_t)WARM_BYTES);
	else if (config.attach == ATTACH_EAGER)
		warm = calls >= MAX(least, EAGER_CALLS);
	else
		warm = bytes >= MAX(least_bytes, (uint64_t)config.attach);
	if (warm && bg_start() == 0)
		conn_todo(c, JOB_MEET);
}

/* ------------------------------------------------------- background work -- */

static void watch_event(struct bg_src *s, uint32_t events)
{
	struct conn *c = container_of(s, struct conn, watch);

	conn_get(c);
	lock_take(&c->rxl);
	if (c->watch.fd >= 0 && c->fd == c->watch.fd) {
		if (!c->closing && c->rx_inside == 0)
			rx_pull(c);
		lock_take(&c->txl);
		if ((events & (EPOLLERR | EPOLLHUP)) && !c->closing && conn_tx_on_ring(c) &&
		    conn_kernel_dead(c))
			tx_dead(c, false);
		if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			tx_unstick(c);
		lock_drop(&c->txl);
	}
	lock_drop(&c->rxl);
	if (ld_rlx(&c->closing))
		end_step(c);
	lock_take(&c->rxl);
	lock_take(&c->txl);
	conn_watch_update(c);
	conn_unlock_both(c);
	conn_put(c);
}

static void conn_work(struct bg_work *w)
{
	struct conn *c = container_of(w, struct conn, work);
	uint32_t todo = xchg_acqrel(&c->todo, 0);

	if (todo & JOB_LISTEN)
		listen_for(c);
	if (todo & JOB_MEET)
		meet_begin(c);
	if (todo & JOB_GRANT)
		grant(c);
	if (todo & JOB_CLOSE)
		end_begin(c);
	if (todo & JOB_WATCH) {
		lock_take(&c->rxl);
		lock_take(&c->txl);
		conn_watch_update(c);
		conn_unlock_both(c);
	}
	if (todo & JOB_TIMER) {
		uint64_t at = next_deadline(c);

		if (at != UINT64_MAX)
			bind_timer_at(c, at);
	}
	bind_release_try(c);
	conn_put(c);
}

void bind_conn_init(struct conn *c)
{
	c->work.fn = conn_work;
	c->watch.fn = watch_event;
	c->timer.fn = conn_timer;
}

void bind_start(void)
{
	for (int i = 0; i < BUCKETS; i++)
		list_init(&buckets[i]);
	inbox.work.fn = inbox_work;
	link_set_user(&msgs_user);
	if (config.key_file[0])
		proof_load_key(config.key_file, key, &keylen);
}

void bind_forget_all(void)
{
	lock_reset(&accept_lock);
	for (int i = 0; i < BUCKETS; i++)
		list_init(&buckets[i]);
	memset(&inbox, 0, sizeof(inbox));
	inbox.work.fn = inbox_work;
	memset(hints, 0, sizeof(hints));
	diag_opened = false;
	answer_ready = false;
	memset(&answer, 0, sizeof(answer));
	hello_forget();
}
