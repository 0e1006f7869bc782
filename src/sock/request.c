/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * request.c - see request.h
 *
 * No thread of the program is needed: the background thread answers.  It holds
 * no lock while it waits, and it waits by timer.  The list of requests is its
 * own; given() looks at a conn under both locks.
 */
#define _GNU_SOURCE
#include "sock/request.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "progress/wait.h"
#include "sock/act.h"
#include "sock/back.h"
#include "sock/kin.h"
#include "sock/msgs.h"
#include "sock/rest.h"
#include "sock/slip.h"

#define ANSWER_MS	8000	/* the owner's patience, longer than the death of a link takes */
#define FULL_MS		100	/* how long room in the kernel's buffer, or an end, is waited for */
#define BARRED_MS	1000	/* ... or a peer that may be stopped: it is refused when it goes on */
#define LOOK_MS		1
#define REQUESTS	64

struct request {
	struct list node;
	struct conn *c;
	struct kin_msg m;
	int fd;
	uint64_t full_ns, barred_ns, deadline_ns;
};

static struct list requests = LIST_INIT(requests);
static struct list free_requests = LIST_INIT(free_requests);
static struct bg_timer look_timer;

static struct request *request_new(void)
{
	if (list_empty(&free_requests)) {
		struct request *a = sys_map(REQUESTS * sizeof(*a), 0);

		for (int i = 0; a && i < REQUESTS; i++)
			list_push(&free_requests, &a[i].node);
	}
	if (list_empty(&free_requests))
		return NULL;
	struct list *n = free_requests.next;
	list_del(n);
	return list_entry(n, struct request, node);
}

void request_answer(const struct kin_msg *m, int fd, const struct kin_reply *r,
		    const struct kin_fds *f)
{
	slip_answer(m, r);
	if (fd < 0)
		return;
	kin_reply_send(fd, r, f);
	privfd_close(fd);
}

/* Both locks held.  An own shutdown() is the kernel's to tell of, which knows it. */
static void as_cold(struct conn *c)
{
	st_rlx(&c->ever_bound, false);
	if (!c->rx_shut && !c->tx_shut)
		return;
	st_rlx(&c->rx_shut, false);
	st_rlx(&c->tx_shut, false);
	conn_watcher->moved(c);
	wait_wake_ready();	/* who asks the kernel must ask it anew */
}

/*
 * Where no memory is shared the peer has heard of it when it has answered a PING
 * that was sent later: messages keep their order, both ways.
 */
static bool barred_far(struct conn *c)
{
	struct link *l = c->link;

	if (!l || ld_rlx(&l->state) == LINK_DEAD)
		return true;
	if (!c->rx_ping)
		c->rx_ping = msgs_ping(l);
	return msgs_answered(l, c->rx_ping);
}

/*
 * The peer may not have heard yet that it is not granted any more: it cannot switch
 * now.  One that writes to the kernel what it has kept needs a reader for that.
 */
static bool barred(struct conn *c)
{
	if (c->rx.state != PRX_RAW || !c->rx_words)
		return true;
	if (conn_rx_far(c))
		return barred_far(c);
	return slot_bar(c->rx_words) || !slot_switching(c->rx_words);
}

/*
 * Others read and write the kernel socket from now on, and our counts are no
 * longer the kernel's.  With both ways back the conn is as before its first
 * ring here too: every call is the kernel's own, which knows O_NONBLOCK as
 * the others set it, and of every shutdown().  Both locks held.
 */
static void settle(struct conn *c)
{
	if (conn_is_back(c, CONN_RX) && c->rx.state == PRX_RAW) {
		/* an own SHUT_RD goes by what is still to come: the kernel would reset for that */
		if (!c->rx_shut || c->rx_shut_clean || !rx_shut_waits(c))
			st_rlx(&c->rx.left, 0);
		if (c->rx_shut)
			rx_act(c, 0);		/* the kernel's turn to say so */
	}
	bool shuts_known = (!c->rx_shut || c->rx_shut_out) && (!c->tx_shut || c->tx_fin_out);
	if (conn_is_back(c, CONN_BOTH) && c->tx.state == PTX_RAW && c->rx.state == PRX_RAW &&
	    !c->rx.eof && !owed_error(&c->owed) && !c->closing && c->meet == MEET_OVER &&
	    shuts_known && barred(c))
		as_cold(c);
}

int request_once(struct conn *c, int error)
{
	int sv[2];

	if (error && !c->owed_once && !kin_pair(sv)) {
		/* MSG_DONTWAIT is the reader's own; O_NONBLOCK would be all theirs */
		sys_sendto(sv[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		privfd_close(sv[1]);
		st_rel(&c->owed_once, sv[0] + 1);	/* pairs with conn_owed_take() */
	}
	return error ? c->owed_once - 1 : -1;
}

/* c is given: what only we know of it.  Both locks held. */
static void tell_end(struct conn *c, struct kin_reply *r, struct kin_fds *f)
{
	int error = conn_owed(c);

	r->error = (uint8_t)error;
	f->once = request_once(c, error);
	f->rest = rest_share(c);
	if (f->rest >= 0)
		r->end = c->rx.end_reset ? KIN_END_RESET : KIN_END;
}

/* *r: of an answer that is not KIN_NO; *f: descriptors of ours. */
static enum kin_answer given(struct request *a, uint64_t now, struct kin_reply *r, struct kin_fds *f)
{
	bool patient = now < a->full_ns;
	struct conn *c = a->c;
	enum kin_answer yes = KIN_YES;

	conn_take_both(c);
	if (ld_rlx(&c->gen) == a->m.gen && c->fd >= 0) {
		bool may = !c->closing || c->end_kin;

		if (!may || !conn_is_back(c, a->m.bits & CONN_RX) || (patient && conn_end_to_come(c)) ||
		    (a->m.bits & CONN_RX && !barred(c) && now < a->barred_ns))
			yes = KIN_NO;
		else if (!conn_is_back(c, a->m.bits))
			yes = c->tx_stuck ? KIN_FULL : KIN_NO;
		if (yes != KIN_NO) {
			settle(c);
			tell_end(c, r, f);
		}
	}
	conn_unlock_both(c);
	return yes;
}

/* Return: true if the ask is over. */
static bool request_look(struct request *a, uint64_t now)
{
	struct kin_reply r = { 0 };
	struct kin_fds f = { -1, -1 };
	enum kin_answer yes = given(a, now, &r, &f);	/* a->c has them while we do */

	if ((yes == KIN_NO && now < a->deadline_ns) || (yes == KIN_FULL && now < a->full_ns))
		return false;
	if (yes == KIN_NO)
		log_error("a child's connection did not come back in time");
	r.answer = (uint8_t)yes;
	request_answer(&a->m, a->fd, &r, &f);
	list_del(&a->node);
	list_push(&free_requests, &a->node);
	conn_put(a->c);
	return true;
}

static void look_later(void)
{
	if (!list_empty(&requests))
		bg_timer_set(&look_timer, clock_ns() + LOOK_MS * NS_PER_MS);
}

static void timer_fired(struct bg_timer *t)
{
	uint64_t now = clock_ns();

	list_for_each_safe(n, &requests)
		request_look(list_entry(n, struct request, node), now);
	look_later();
}

void kin_look(struct conn *c)
{
	if (list_empty(&requests))
		return;
	list_for_each_safe(n, &requests)
		if (list_entry(n, struct request, node)->c == c)
			request_look(list_entry(n, struct request, node), 0);
}

void request_take(struct conn *c, const struct kin_msg *m, int fd)
{
	struct request *a = request_new();
	uint64_t now = clock_ns();

	if (!a) {
		request_answer(m, fd, &(struct kin_reply){ .answer = KIN_NO }, NULL);
		conn_put(c);
		return;
	}
	log_debug("fd %d is wanted by a child, ways %u", c->fd, m->bits);
	conn_ask_back(c, REASON_FORK);
	*a = (struct request){ .c = c, .m = *m, .fd = fd,
			   .full_ns = now + FULL_MS * NS_PER_MS,
			   .barred_ns = now + BARRED_MS * NS_PER_MS,
			   .deadline_ns = now + ANSWER_MS * NS_PER_MS };
	list_push(&requests, &a->node);
	if (!request_look(a, 0)) {
		look_timer.fn = timer_fired;
		look_later();
	}
}

void request_forget_all(void)
{
	list_init(&requests);
	list_init(&free_requests);
	memset(&look_timer, 0, sizeof(look_timer));
}
