/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * meeting.c - asking: whose is the other end, and is there a link to him?
 *
 * The side that called connect() starts: whose is the other end (owner.h)?
 * Is there a link to the process we last met at that port?  Then BIND goes out
 * on it at once; else the names of the port are asked (meet/ask.c), a link is
 * made by two HELLOs over the Unix connection, and BIND follows.  One meeting
 * a port at a time; the others wait for it and then find its link.
 *
 * An end that is not on this host is asked for through rdma_cm (hosts.c), if the
 * device leads elsewhere; in the place of the user are the address from which
 * rdma_cm came, and 4 KiB of cold bytes or the key.
 *
 * All in the background thread with no lock held, but for bind_give_up().
 * c->meet is written under both locks of c: MEET_OVER may be set by any thread.
 */
#define _GNU_SOURCE
#include "sock/meeting.h"

#include <netinet/tcp.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "progress/engine.h"
#include "sock/accepted.h"
#include "sock/act.h"
#include "sock/again.h"
#include "sock/bind.h"
#include "sock/binding.h"
#include "sock/hello.h"
#include "sock/hint.h"
#include "sock/hosts.h"
#include "sock/kin.h"
#include "sock/owner.h"
#include "sock/pledge.h"
#include "sock/rule.h"
#include "sock/show.h"
#include "sock/warm.h"

#define RETRY_MS	3
#define RETRY_FAR_MS	20
#define LIVES_MS	1000		/* a link that lived so long was a good one */
#define MAX_TRIES	200

/* --------------------------------------------------- how it goes on -- */

static void set_meet(struct conn *c, enum conn_meet m)
{
	conn_take_both(c);
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

void meeting_give_up(struct conn *c, enum reason why)
{
	conn_take_both(c);
	bind_give_up(c, why);
	conn_unlock_both(c);
}

/*
 * Nobody answered, or not now: the next try wants twice the traffic.  But who
 * asks at once may be faster than the program that accepts, whose names are
 * not there yet, and one that mostly reads little has no more traffic: once,
 * some time is enough.
 */
void meeting_later(struct conn *c, enum reason why)
{
	conn_take_both(c);
	if (c->meet != MEET_OVER) {
		st_rlx(&c->why, why);
		show_both(c);
		st_rlx(&c->meet, MEET_IDLE);
		c->hint_tried = 0;
		st_rlx(&c->meet_calls, MAX(2 * c->tx_calls, WARM_CALLS));
		st_rlx(&c->meet_bytes, MAX(2 * (c->tx.kc + c->rx.pos), (uint64_t)WARM_BYTES));
	}
	conn_unlock_both(c);
	log_trace("fd %d asks again later: %s", c->fd, reason_name(why));
	if (why == REASON_PEER_UNPROVEN && !c->asked_again) {
		c->asked_again = true;
		again_put(c);
	}
}

static void meet_again(struct conn *c, uint32_t after_ms)
{
	if (++c->meet_tries > MAX_TRIES) {
		meeting_later(c, REASON_PEER_UNPROVEN);
		return;
	}
	set_meet(c, MEET_QUEUED);
	bind_timer_at(c, clock_ns() + after_ms * NS_PER_MS);
}

void meeting_soon(struct conn *c)
{
	meet_again(c, c->elsewhere ? RETRY_FAR_MS : RETRY_MS);
}

/*
 * A link has died under c: meet again at once, for traffic goes on; slower
 * and slower where links do not live (a peer that kills what it is given).
 */
void meeting_after_loss(struct conn *c)
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
	meeting_after_loss(c);
}

/* ------------------------------------------------------- one meeting -- */

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

void meeting_try_known(struct conn *c)
{
	uint64_t inst;

	c->bind_asked = false;
	while ((inst = hint_next(c)) != 0) {
		struct link *l = known(c, inst);
		int err = l ? bind_send(c, l) : -ENOSPC;

		if (err == -ENOMEM)	/* and another link would want more of it */
			meeting_later(c, REASON_NO_MEMORY);
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
	conn_take_both(c);
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
	bool yes = c->fd < 0 || conn_kernel_state(c) > TCP_ESTABLISHED;	/* 0: not known */
	lock_drop(&c->rxl);
	return yes;
}

/*
 * The program has asked, and its peer will not be believed before more has passed:
 * the link to it is made by then.
 */
static void meet_ahead(struct conn *c)
{
	uint64_t inst;
	bool have = false;

	while (!have && (inst = hint_next(c)) != 0)
		have = known(c, inst) != NULL;
	c->hint_tried = 0;
	if (have)
		return;
	set_meet(c, MEET_ASKING);
	if (ld_rlx(&c->meet) != MEET_OVER)
		hosts_ask(c, met);
}

/* Not accepted yet, or it takes another reading of /proc to know. */
static void meet_with_owner(struct conn *c)
{
	uint32_t ms = owner_retry_ms();

	c->meet_tries += MIN(ms / RETRY_MS - 1, MAX_TRIES / 2u);	/* no longer than with netlink */
	meet_again(c, ms);
}

/* The other end is not here. */
static void meet_elsewhere(struct conn *c)
{
	if (ended(c)) {
		meeting_give_up(c, REASON_CLOSED_FIRST);
		return;
	}
	/* behind a loopback address there is no other host to look for a device for */
	int none = meet_tuple_loopback(&c->tuple) ? -ENODEV : engine_start_there();
	if (none) {
		meeting_give_up(c, none == -ENODEV ? REASON_OTHER_NETNS_OR_NAT : bind_no_engine(none));
	} else if (rule_forbids(c, engine.there)) {
		meeting_give_up(c, REASON_OTHER_NETNS_OR_NAT);
	} else {
		c->elsewhere = true;
		if (await_bytes(c))
			meeting_try_known(c);
		else if (ld_rlx(&c->asked))
			meet_ahead(c);
	}
}

void bind_meet(struct conn *c)
{
	struct diag_result r = { 0 };

	kin_start();
	lock_take(&kin_lock);
	conn_take_both(c);
	bool go = (c->meet == MEET_IDLE || c->meet == MEET_QUEUED) && c->established &&
		  !c->closing && !c->link;
	bool held = go && bind_held(c);
	int err = go ? conn_tuple_learn(c) : 0;
	if (go && !held) {
		st_rlx(&c->meet, MEET_QUEUED);
		log_trace("fd %d is warm after %llu bytes out, %llu in: looks for its peer", c->fd,
			  (unsigned long long)c->tx.kc, (unsigned long long)c->rx.pos);
	}
	conn_unlock_both(c);
	lock_drop(&kin_lock);
	if (held)
		meeting_later(c, REASON_FORK);
	if (!go || held)
		return;
	int none = err ? 0 : engine_start(&link_sink);
	if (none) {
		meeting_give_up(c, bind_no_engine(none));
		return;
	}
	if (err) {
		meeting_give_up(c, REASON_CLOSED_FIRST);
		return;
	}
	err = owner_find(c, &r);
	if (err == -ENOENT) {
		meet_elsewhere(c);
	} else if (err == -EAGAIN || (!err && r.inode == 0)) {
		meet_with_owner(c);
	} else if (err || !meet_uid_proves(r.uid)) {
		meeting_give_up(c, REASON_OWNER_UNKNOWN);
	} else if (engine.here->rnic->cm_only || rule_forbids(c, engine.here)) {
		meeting_give_up(c, REASON_NO_RNIC);	/* HELLO cannot join QPs of the former */
	} else {
		c->peer_uid = r.uid;
		meeting_try_known(c);
	}
}

/* hello.c: the link to the owner, or why there is none. */
static void met(struct conn *c, struct link *l, enum reason why)
{
	if (!l) {
		if (why == REASON_NONE)
			meeting_soon(c);
		else if (why == REASON_LINK_LOST)
			meet_after_unborn(c);
		else if (why == REASON_SANDBOX || (why == REASON_NO_MEMORY && !c->elsewhere))
			meeting_give_up(c, why);
		else
			meeting_later(c, why);
		return;
	}
	hint_set(&c->tuple, l->peer_instance);
	if (c->elsewhere && !await_bytes(c))
		return;			/* meet_ahead() */
	c->bind_asked = true;
	int err = bind_send(c, l);
	if (err == -ENOSPC) {
		st_rlx(&c->why, REASON_NO_MEMORY);
		meet_again(c, 100);
	} else if (err == -ENOMEM) {
		meeting_later(c, REASON_NO_MEMORY);
	} else if (err && err != -ECANCELED) {
		meeting_give_up(c, REASON_PEER_UNPROVEN);
	}
}
