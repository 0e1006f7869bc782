/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * hello.c - see hello.h
 *
 * A meeting is one of a fixed pool: an ask, or an accepted Unix connection
 * whose HELLO is awaited.  Only one ask a port runs at a time; conns that come
 * meanwhile wait for its end and then find the link it made.
 */
#define _GNU_SOURCE
#include "sock/hello.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "sock/bind.h"

#define MEETINGS	48
#define WATCHES		192
#define HELLO_MS	3000

enum meeting_state { FREE, ASKING, AWAITING };

struct meeting {
	enum meeting_state state;
	bool owner;			/* we accepted: their HELLO first, then ours */
	struct ask ask;
	struct conn *c;			/* asker */
	void (*done)(struct conn *c, struct link *l, enum reason why);
	struct link *link;		/* asker, AWAITING */
	struct bg_src src;
	struct meet_cred cred;
	struct meet_tuple tuple;	/* owner: what the asker came for */
	uint64_t peer_instance;
	uint64_t deadline_ns;
	struct list waiting;		/* conns for the same port */
};

static struct meeting meetings[MEETINGS];
static struct bg_timer timer;
static struct answer *answerer;
static uint64_t instance;
static enum reason forbidden;

uint64_t hello_instance(void)
{
	while (!instance)
		meet_random(&instance, sizeof(instance));
	return instance;
}

enum reason hello_forbidden(void)
{
	return ld_rlx(&forbidden);
}

void hello_forbid(enum reason why)
{
	if (cas_acqrel(&forbidden, REASON_NONE, why))
		log_info("no more meetings (%s), using kernel tcp", reason_name(why));
}

/* ------------------------------------------------- the loop meet/ wants -- */

static struct watch {
	struct bg_src src;
	void (*fn)(void *ctx, uint32_t events);
	void *ctx;
} watches[WATCHES];

static void set_timer(void);

static void watch_event(struct bg_src *s, uint32_t events)
{
	struct watch *w = container_of(s, struct watch, src);

	w->fn(w->ctx, events);
	set_timer();
}

static int loop_watch(void *arg, int fd, uint32_t events, void (*fn)(void *, uint32_t), void *ctx)
{
	for (int i = 0; i < WATCHES; i++) {
		struct watch *w = &watches[i];

		if (w->fn)
			continue;
		*w = (struct watch){ { .fd = fd, .fn = watch_event }, fn, ctx };
		int err = bg_watch(&w->src, events);
		if (err)
			w->fn = NULL;
		return err;
	}
	return -ENOSPC;
}

static void loop_unwatch(void *arg, int fd)
{
	for (int i = 0; i < WATCHES; i++) {
		struct watch *w = &watches[i];

		if (w->fn && w->src.fd == fd) {
			bg_unwatch(&w->src);
			w->fn = NULL;
			return;
		}
	}
}

const struct meet_loop *hello_loop(void)
{
	static const struct meet_loop loop = {
		.watch = loop_watch,
		.unwatch = loop_unwatch,
		.now_ns = clock_ns,
	};

	return &loop;
}

void hello_set_answer(struct answer *a)
{
	answerer = a;
}

/* ------------------------------------------------------------- the end -- */

static void meeting_end(struct meeting *m, struct link *l, enum reason why)
{
	struct conn *c = m->c;
	void (*done)(struct conn *, struct link *, enum reason) = m->done;
	struct list waiting = LIST_INIT(waiting);

	while (m->waiting.next && !list_empty(&m->waiting)) {
		struct list *n = m->waiting.next;

		list_del(n);
		list_push(&waiting, n);
	}
	m->state = FREE;
	m->c = NULL;
	if (c) {
		done(c, l, why);
		conn_put(c);
	}
	while (!list_empty(&waiting)) {
		struct conn *w = list_entry(waiting.next, struct conn, waiting);

		list_del(&w->waiting);
		done(w, NULL, l ? REASON_NONE : why);
		conn_put(w);
	}
}

/* AWAITING: close the Unix connection and drop what was prepared. */
static void meeting_fail(struct meeting *m, enum reason why)
{
	bg_unwatch(&m->src);
	privfd_close(m->src.fd);
	m->src.fd = -1;
	if (m->link)
		link_discard(m->link);
	m->link = NULL;
	if (m->owner)
		bind_not_met(&m->tuple, why);
	meeting_end(m, NULL, why);
}

/* --------------------------------------------------------------- HELLO -- */

static void link_identity(struct meeting *m, struct link *l, uint64_t peer_instance)
{
	l->peer_instance = peer_instance;
	l->peer_uid = m->cred.uid;
	l->peer_pid = (uint32_t)m->cred.pid;
	meet_random(l->nonce_mine, sizeof(l->nonce_mine));
}

static int send_hello(struct link *l, int fd)
{
	struct rnic_params p = { 0 };
	struct link_hello h;
	struct meet_msg msg;
	int err = link_export(l, &h, &p);

	if (err)
		return err;
	meet_msg_init(&msg, MEET_HELLO, hello_instance());
	msg.hello.rnic_bytes = p.nbytes;
	msg.hello.slots = h.slots;
	msg.hello.ring_bytes = h.ring_bytes;
	memcpy(msg.hello.rnic, p.bytes, MIN(p.nbytes, (uint32_t)MEET_RNIC_BYTES));
	memcpy(msg.hello.opaque, &h, sizeof(h));
	err = meet_send(fd, &msg, p.fds, p.nfds);
	for (uint32_t i = 0; i < p.nfds; i++)
		privfd_close(p.fds[i]);
	return err;
}

/* The peer's HELLO: the link comes up, or not (then it is discarded). */
static int take_hello(struct meeting *m, struct link *l, const struct meet_msg *msg,
		      const int *fds, unsigned nfds)
{
	struct rnic_params p = { .nbytes = msg->hello.rnic_bytes, .nfds = nfds };
	struct link_hello h;

	if (p.nbytes > RNIC_PARAM_BYTES) {
		for (unsigned i = 0; i < nfds; i++)
			privfd_close(fds[i]);
		return -EPROTO;
	}
	memcpy(p.bytes, msg->hello.rnic, p.nbytes);
	memcpy(p.fds, fds, nfds * sizeof(*fds));
	memcpy(&h, msg->hello.opaque, sizeof(h));
	bg_unwatch(&m->src);
	return link_connect(l, &h, &p, m->src.fd);
}

bool hello_want(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS;
}

static void hello_event(struct bg_src *s, uint32_t events)
{
	struct meeting *m = container_of(s, struct meeting, src);
	int fds[MEET_MAX_FDS];
	unsigned nfds = 0;
	struct meet_msg msg;
	int err = meet_recv(s->fd, &msg, fds, &nfds);

	if (err == -EAGAIN)
		return;
	if (err == 1 && msg.type != MEET_HELLO) {
		for (unsigned i = 0; i < nfds; i++)
			privfd_close(fds[i]);
		err = -EPROTO;
	}
	if (err != 1) {
		meeting_fail(m, hello_want(err) ? REASON_NO_MEMORY : REASON_PEER_UNPROVEN);
		return;
	}
	if (m->owner) {
		m->link = link_new(engine.here, false);
		if (!m->link) {
			for (unsigned i = 0; i < nfds; i++)
				privfd_close(fds[i]);
			meeting_fail(m, REASON_NO_MEMORY);
			return;
		}
		link_identity(m, m->link, msg.instance);
		if (link_guard(m->link, s->fd)) {
			for (unsigned i = 0; i < nfds; i++)
				privfd_close(fds[i]);
			meeting_fail(m, REASON_NO_MEMORY);
			return;
		}
	}
	meet_rights(s->fd, false);
	err = take_hello(m, m->link, &msg, fds, nfds);
	if (!err && m->owner && send_hello(m->link, s->fd)) {
		link_kill(m->link);	/* it owns the descriptor by now */
		err = 0;
	}
	if (err) {
		log_info("no link with pid %d: error %d", m->cred.pid, -err);
		meeting_fail(m, err == -EPROTO ? REASON_PEER_UNPROVEN : REASON_NO_MEMORY);
		return;
	}
	struct link *l = m->link;
	m->link = NULL;
	m->src.fd = -1;
	meeting_end(m, l, REASON_NONE);
	set_timer();
}

/* m->src.fd is a Unix connection to somebody of whom HELLO is expected. */
static int await(struct meeting *m)
{
	m->state = AWAITING;
	m->deadline_ns = clock_ns() + HELLO_MS * NS_PER_MS;
	m->src.fn = hello_event;
	meet_rights(m->src.fd, true);
	return bg_watch(&m->src, EPOLLIN | EPOLLRDHUP);
}

/* ----------------------------------------------------------------- ask -- */

static enum reason why_not(enum ask_result res, const struct ask *a)
{
	switch (res) {
	case ASK_FORBIDDEN:
		hello_forbid(REASON_SANDBOX);
		return REASON_SANDBOX;
	case ASK_REFUSED:
		return a->reason ? a->reason : REASON_PEER_UNPROVEN;
	case ASK_FAILED:
		return REASON_NO_MEMORY;
	default:
		return REASON_PEER_UNPROVEN;
	}
}

static void asked(void *arg, struct ask *a, enum ask_result res)
{
	struct meeting *m = arg;

	if (res != ASK_MINE) {
		meeting_end(m, NULL, why_not(res, a));
		return;
	}
	m->cred = a->cred;
	m->peer_instance = a->owner;
	m->src.fd = ask_take_fd(a);
	lock_take(&engine.poll_lock);
	struct link *l = link_by_instance(m->peer_instance, m->cred.uid);
	lock_drop(&engine.poll_lock);
	if (l) {
		privfd_close(m->src.fd);
		m->src.fd = -1;
		meeting_end(m, l, REASON_NONE);
		return;
	}
	m->link = link_new(engine.here, true);
	if (!m->link) {
		privfd_close(m->src.fd);
		meeting_end(m, NULL, REASON_NO_MEMORY);
		return;
	}
	link_identity(m, m->link, m->peer_instance);
	int err = link_guard(m->link, m->src.fd) || await(m) ? -ENOMEM :
		  send_hello(m->link, m->src.fd);
	if (err)
		meeting_fail(m, err == -EPIPE || err == -ECONNRESET ? REASON_LINK_LOST :
			     REASON_NO_MEMORY);
}

static struct meeting *meeting_new(bool owner)
{
	for (int i = 0; i < MEETINGS; i++) {
		struct meeting *m = &meetings[i];

		if (m->state != FREE)
			continue;
		memset(m, 0, sizeof(*m));
		list_init(&m->waiting);
		m->owner = owner;
		m->src.fd = -1;
		return m;
	}
	return NULL;
}

static struct meeting *same_port(const struct conn *c)
{
	for (int i = 0; i < MEETINGS; i++) {
		struct meeting *m = &meetings[i];

		if (m->state != FREE && m->c && m->c->tuple.rport == c->tuple.rport &&
		    m->c->tuple.family == c->tuple.family)
			return m;
	}
	return NULL;
}

void hello_ask(struct conn *c, uint32_t uid,
	       void (*done)(struct conn *c, struct link *l, enum reason why))
{
	static const uint16_t delays_ms[] = { 1, 3, 10, 30 };
	struct meeting *m = same_port(c);

	if (m && list_empty(&c->waiting)) {
		conn_get(c);
		list_push(&m->waiting, &c->waiting);
		return;
	}
	m = m ? NULL : meeting_new(false);
	if (!m) {
		done(c, NULL, REASON_NONE);
		return;
	}
	conn_get(c);
	m->c = c;
	m->done = done;
	m->state = ASKING;
	enum ask_result res = ask_start(&m->ask, hello_loop(), &(struct ask_params){
		.tuple = c->tuple, .instance = hello_instance(), .owner_uid = uid, .hint = -1,
		.delays_ms = delays_ms, .ndelays = ARRAY_SIZE(delays_ms),
		.done = asked, .arg = m });
	if (res != ASK_PENDING)
		asked(m, &m->ask, res);
	set_timer();
}

void hello_as_owner(void *arg, int fd, const struct meet_asker *who)
{
	struct meeting *m = meeting_new(true);

	if (!m) {
		privfd_close(fd);
		bind_not_met(&who->tuple, REASON_NO_MEMORY);
		return;
	}
	m->src.fd = fd;
	m->cred = who->cred;
	m->tuple = who->tuple;
	m->peer_instance = who->instance;
	if (await(m))
		meeting_fail(m, REASON_NO_MEMORY);
	set_timer();
}

/* -------------------------------------------------------------- timers -- */

static void timer_fired(struct bg_timer *t)
{
	uint64_t now = clock_ns();

	for (int i = 0; i < MEETINGS; i++) {
		struct meeting *m = &meetings[i];

		if (m->state == ASKING && ask_deadline_ns(&m->ask) <= now)
			ask_timeout(&m->ask, now);
		else if (m->state == AWAITING && m->deadline_ns <= now)
			meeting_fail(m, REASON_PEER_UNPROVEN);
	}
	if (answerer && answer_deadline_ns(answerer) <= now)
		answer_timeout(answerer, now);
	set_timer();
}

static void set_timer(void)
{
	uint64_t at = answerer ? answer_deadline_ns(answerer) : MEET_NEVER;

	for (int i = 0; i < MEETINGS; i++) {
		struct meeting *m = &meetings[i];

		if (m->state == ASKING)
			at = MIN(at, ask_deadline_ns(&m->ask));
		else if (m->state == AWAITING)
			at = MIN(at, m->deadline_ns);
	}
	timer.fn = timer_fired;
	if (at == MEET_NEVER)
		bg_timer_stop(&timer);
	else
		bg_timer_set(&timer, at);
}

void hello_shut(void)
{
	for (int i = 0; i < MEETINGS; i++) {
		struct meeting *m = &meetings[i];

		if (m->state == ASKING) {
			ask_stop(&m->ask);
			meeting_end(m, NULL, hello_forbidden());
		} else if (m->state == AWAITING) {
			meeting_fail(m, hello_forbidden());
		}
	}
	answerer = NULL;
	set_timer();
}

void hello_forget(void)
{
	memset(meetings, 0, sizeof(meetings));
	memset(watches, 0, sizeof(watches));
	memset(&timer, 0, sizeof(timer));
	answerer = NULL;
	instance = 0;
}
