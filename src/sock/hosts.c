/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * hosts.c - see hosts.h
 *
 * A crossing is the way of one link to another host, for as long as that lives.
 * It holds the link on a leash, a Unix socket whose other half the link takes
 * for the one to its peer on the same host: closed by us when rdma_cm says that
 * the peer has gone, by the link when it dies, and then rdma_cm tells the peer.
 *
 *	ASKING	c and the conns that wait for it; a deadline
 *	LINKED	the leash is watched
 *
 * One question an address and port at a time.  It goes to one process behind the
 * other, as on one host, until one says that the connection is his.
 */
#define _GNU_SOURCE
#include <config.h>

#include "sock/hosts.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "sock/bind.h"
#include "sock/hello.h"

#ifdef HAVE_VERBS

#include "meet/cm.h"
#include "meet/silence.h"
#include "rnic/load.h"

#define CROSSINGS	256
#define ASK_MS		5000
#define AGAIN_MS	1000
#define HOLES		2		/* places in a row at which nobody listens any more */

_Static_assert(CROSSINGS < CM_ENDS, "who is one too many is told so");

struct crossing {
	bool used;
	struct cm_end *end;
	struct link *link;		/* not yet up: ours to discard */
	unsigned index, holes;		/* of the process asked */
	bool ours;			/* one of them runs sidestep */
	struct bg_src leash;
	struct bg_timer timer;
	struct conn *c;
	void (*done)(struct conn *c, struct link *l, enum reason why);
	struct list waiting;
};

static struct crossing crossings[CROSSINGS];
static struct silence silence;
static struct bg_timer take_over;	/* runs while we lack a place of cm.h's */
static enum meet_verdict (*owner)(const struct meet_tuple *t, enum reason *why);

static void cm_news(struct cm_end *e, enum cm_news what);

/* Of the first one's kind: the others' ports are other ones. */
static bool device_usable(const char *name)
{
	const struct engine_dev *d = engine_there_by(name);

	return d && d->rnic->cm_only == engine.there->rnic->cm_only;
}

/* Each connection asks; what is not there is not looked for each time. */
static int begin(void)
{
	static uint64_t until_ns;
	static int last;

	const struct rnic *r = engine.there->rnic;

	if (!r->ops->cm_export)
		return -EOPNOTSUPP;
	if (last && clock_ns() < until_ns)
		return last;
	load_begin();
	last = cm_start(hello_loop(), device_usable, r->cm_only, cm_news);
	load_end();
	until_ns = clock_ns() + AGAIN_MS * NS_PER_MS;
	if (last)
		log_info("no meeting with other hosts: error %d, using kernel tcp", -last);
	return last;
}

/* ------------------------------------------------------------- crossings -- */

static struct crossing *crossing_new(struct cm_end *e)
{
	for (int i = 0; i < CROSSINGS; i++) {
		struct crossing *x = &crossings[i];

		if (x->used)
			continue;
		*x = (struct crossing){ .used = true, .end = e, .leash.fd = -1 };
		list_init(&x->waiting);
		return x;
	}
	return NULL;
}

static void leash_drop(struct crossing *x)
{
	if (x->leash.fd < 0)
		return;
	bg_unwatch(&x->leash);
	privfd_close(x->leash.fd);
	x->leash.fd = -1;
}

/* Nobody waits for it any more. */
static void crossing_free(struct crossing *x)
{
	bg_timer_stop(&x->timer);
	leash_drop(x);
	cm_close(x->end);
	if (x->link)
		link_discard(x->link);
	x->link = NULL;
	x->end = NULL;
	x->used = false;
}

/* Tell who has asked.  They may ask again at once. */
static void tell(struct crossing *x, struct link *l, enum reason why)
{
	struct conn *c = x->c;

	x->c = NULL;
	x->done(c, l, why);
	conn_put(c);
	while (!list_empty(&x->waiting)) {
		struct conn *w = list_entry(x->waiting.next, struct conn, waiting);

		list_del(&w->waiting);
		x->done(w, NULL, l ? REASON_NONE : why);
		conn_put(w);
	}
}

static bool is_passing(enum reason why)
{
	return why == REASON_NONE || why == REASON_NO_MEMORY || why == REASON_LINK_LOST;
}

/* ASKING is over, without a link.  x->end is closed here, or is about to be. */
static void asking_fail(struct crossing *x, enum reason why)
{
	if (!is_passing(why))
		silence_note(&silence, &x->c->tuple, why, clock_ns());
	log_info("no link to another host: %s", reason_name(why));
	tell(x, NULL, why);
	crossing_free(x);
}

static void timed_out(struct bg_timer *t)
{
	asking_fail(container_of(t, struct crossing, timer), REASON_PEER_UNPROVEN);
}

/* The link has let go. */
static void leash_event(struct bg_src *s, uint32_t events)
{
	crossing_free(container_of(s, struct crossing, leash));
}

/* Return: the link's half, or -errno. */
static int leash_new(struct crossing *x)
{
	int sv[2] = { -1, -1 }, err;

	privfd_begin();
	err = (int)sys4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv);
	for (int i = 0; i < 2 && !err; i++)
		sv[i] = privfd_adopt(sv[i]);
	privfd_end();
	if (err)
		return err;
	x->leash = (struct bg_src){ .fd = sv[0], .fn = leash_event };
	if (sv[0] >= 0 && sv[1] >= 0 && !bg_watch(&x->leash, EPOLLIN | EPOLLRDHUP))
		return sv[1];
	privfd_close(sv[1]);
	return -ENOMEM;
}

/* ------------------------------------------------------------- the link -- */

static void link_identity(struct link *l, const struct meet_tuple *t)
{
	l->peer_family = t->family;
	memcpy(l->peer_addr, t->raddr, sizeof(l->peer_addr));
	meet_random(l->nonce_mine, sizeof(l->nonce_mine));
}

static int hello_make(struct link *l, const struct meet_tuple *t, struct cm_hello *h)
{
	struct link_hello lh;

	*h = (struct cm_hello){ .lport = t->lport, .rport = t->rport, .instance = hello_instance() };
	int err = link_export_cm(l, &lh, h->rnic);
	if (err)
		return err;
	h->slots = (uint16_t)lh.slots;
	h->ring_bytes = lh.ring_bytes;
	h->part_pages = (uint16_t)(lh.part / CM_PAGE);
	memcpy(h->nonce, lh.nonce, sizeof(h->nonce));
	return 0;
}

/* Both hellos are there: the link comes up, or not (then it is discarded). */
static int link_join(struct crossing *x, struct link *l)
{
	const struct cm_hello *h = &x->end->theirs;
	struct link_hello lh = { .ring_bytes = h->ring_bytes, .slots = h->slots,
				 .ctl_ring = LINK_CTL_RING,
				 .part = (uint64_t)h->part_pages * CM_PAGE };
	struct rnic_params p = { .nbytes = CM_RNIC_BYTES, .cm = x->end->id };

	memcpy(lh.nonce, h->nonce, sizeof(lh.nonce));
	memcpy(p.bytes, h->rnic, CM_RNIC_BYTES);
	l->peer_instance = h->instance;
	int fd = leash_new(x);
	int err = fd < 0 ? fd : link_connect(l, &lh, &p, fd);
	if (err && fd >= 0)
		privfd_close(fd);
	return err;
}

static enum reason why_not(int err)
{
	return hello_want(err) ? REASON_NO_MEMORY :
	       err == -EPROTO ? REASON_PEER_UNPROVEN : REASON_NO_RNIC;
}

/* -------------------------------------------------- the connecting side -- */

static void reached(struct crossing *x)
{
	const char *device = cm_device(x->end);
	struct cm_hello h;
	int err = -ENOMEM;

	if (!device) {
		asking_fail(x, REASON_NO_RNIC);
		return;
	}
	if (!x->link) {
		x->link = link_new(engine_there_by(device), true);
		if (x->link)
			link_identity(x->link, &x->c->tuple);
	}
	struct link *l = x->link;
	if (l)
		err = hello_make(l, &x->c->tuple, &h);
	if (!err)
		err = cm_connect(x->end, &h, l->qp->qp_num);
	if (err)
		asking_fail(x, why_not(err));
}

static void answered(struct crossing *x)
{
	struct link *l = x->link;
	int err = link_join(x, l);

	if (err) {
		asking_fail(x, why_not(err));
		return;
	}
	x->link = NULL;		/* it is up, and lives by itself */
	bg_timer_stop(&x->timer);
	silence_over(&silence, &x->c->tuple);
	if (cm_establish(x->end))
		link_kill(l);
	tell(x, l, REASON_NONE);
}

static struct crossing *same_place(const struct conn *c)
{
	for (int i = 0; i < CROSSINGS; i++) {
		struct crossing *x = &crossings[i];

		if (x->used && x->c && x->c->tuple.rport == c->tuple.rport &&
		    x->c->tuple.family == c->tuple.family && x->c->tuple.scope == c->tuple.scope &&
		    memcmp(x->c->tuple.raddr, c->tuple.raddr, sizeof(c->tuple.raddr)) == 0)
			return x;
	}
	return NULL;
}

void hosts_ask(struct conn *c, void (*done)(struct conn *c, struct link *l, enum reason why))
{
	struct crossing *x = same_place(c);

	if (x && list_empty(&c->waiting)) {
		conn_get(c);
		list_push(&x->waiting, &c->waiting);
		return;
	}
	enum reason why = begin() ? REASON_NO_RNIC : silence_why(&silence, &c->tuple, clock_ns());
	if (why || x) {
		done(c, NULL, why);
		return;
	}
	x = crossing_new(NULL);
	if (!x) {			/* all are links that live */
		done(c, NULL, link_thin_far() ? REASON_NONE : REASON_NO_MEMORY);
		return;
	}
	x->c = c;
	x->done = done;
	conn_get(c);
	int err = cm_ask(&x->end, &c->tuple, 0, x);
	if (err) {
		asking_fail(x, why_not(err));
		return;
	}
	x->timer.fn = timed_out;
	bg_timer_set(&x->timer, clock_ns() + ASK_MS * NS_PER_MS);
}

/* --------------------------------------------------- the accepting side -- */

static int accept_link(struct crossing *x, const char *device)
{
	struct cm_hello h;
	struct link *l = link_new(engine_there_by(device), false);

	if (!l)
		return -ENOMEM;
	link_identity(l, &x->end->tuple);
	/* before the QP is connected: who answers it may be polled already */
	int err = hello_make(l, &x->end->tuple, &h);
	if (!err)
		err = link_join(x, l);
	if (err) {
		link_discard(l);
		return err;
	}
	if (cm_accept(x->end, &h, l->qp->qp_num))
		link_kill(l);
	return 0;
}

static void coming(struct cm_end *e)
{
	static const enum cm_verdict verdicts[] = {
		[MEET_LATER] = CM_LATER, [MEET_NOT_MINE] = CM_NOT_MINE, [MEET_REFUSED] = CM_REFUSED };
	enum reason why = REASON_REFUSED;
	enum meet_verdict v = owner(&e->tuple, &why);
	struct crossing *x = v == MEET_MINE ? crossing_new(e) : NULL;

	if (v == MEET_MINE && !x) {
		v = link_thin_far() ? MEET_LATER : MEET_REFUSED;
		why = REASON_NO_MEMORY;
	}
	if (!x) {
		cm_refuse(e, verdicts[v], v == MEET_REFUSED ? why : REASON_NONE);
		return;
	}
	e->user = x;
	/* not before: who asks for what is not ours makes nobody open a device */
	const char *device = cm_device(e);
	int err = device ? accept_link(x, device) : -ENODEV;
	if (!err)
		return;
	log_info("no link to another host: error %d", -err);
	bind_not_met(&e->tuple, why_not(err));
	x->end = NULL;
	cm_refuse(e, CM_REFUSED, why_not(err));
	crossing_free(x);
}

static void take_over_set(void)
{
	uint64_t at = cm_take_over_ns();

	if (at != MEET_NEVER)
		bg_timer_set(&take_over, at);
}

static void take_over_turn(struct bg_timer *t)
{
	cm_take_over();
	take_over_set();
}

int hosts_listen(int family, uint16_t port,
		 enum meet_verdict (*own)(const struct meet_tuple *t, enum reason *why))
{
	int err = engine_start_there();

	if (!err)
		err = begin();
	if (err)
		return err;
	owner = own;
	err = cm_listen((uint16_t)family, port);
	log_info("rdma port %u: %d", port, err);
	take_over.fn = take_over_turn;
	take_over_set();
	return err;
}

unsigned hosts_thin(bool (*wanted)(const void *arg, uint16_t port), const void *arg)
{
	return cm_thin(wanted, arg);
}

/* ------------------------------------------------------------------ news -- */

/* Not this process: is there another one to be asked? */
static bool next_asked(struct crossing *x, const struct cm_end *e)
{
	if (e->verdict == CM_NOT_MINE) {
		x->ours = true;
		x->holes = 0;
	} else if (e->verdict || !x->ours || e->why != REASON_PEER_UNPROVEN || x->holes++ == HOLES) {
		return false;
	}
	return ++x->index < CM_PORTS && !cm_ask(&x->end, &x->c->tuple, x->index, x);
}

static void failed(struct crossing *x, const struct cm_end *e)
{
	enum reason why = e->verdict == CM_LATER ? REASON_NONE : e->why;

	x->end = NULL;		/* closed behind us */
	if (next_asked(x, e))
		return;
	if (x->ours && why == REASON_PEER_UNPROVEN) {	/* others of that place may be theirs */
		tell(x, NULL, why);
		crossing_free(x);
	} else {
		asking_fail(x, why);
	}
}

static void cm_news(struct cm_end *e, enum cm_news what)
{
	struct crossing *x = e->user;

	switch (what) {
	case CM_COMING:
		coming(e);
		break;
	case CM_REACHED:
		reached(x);
		break;
	case CM_ANSWERED:
		answered(x);
		break;
	case CM_FAILED:
		failed(x, e);
		break;
	case CM_GONE:
		x->end = NULL;
		leash_drop(x);		/* and the link looks after itself */
		if (x->c)
			asking_fail(x, REASON_LINK_LOST);
		else
			crossing_free(x);
		break;
	}
}

void hosts_shut(void)
{
	for (int i = 0; i < CROSSINGS; i++)
		if (crossings[i].used && crossings[i].c) {
			tell(&crossings[i], NULL, hello_forbidden());
			crossing_free(&crossings[i]);
		}
	bg_timer_stop(&take_over);
	cm_shut();
}

void hosts_forget(void)
{
	memset(&take_over, 0, sizeof(take_over));
	memset(crossings, 0, sizeof(crossings));
	memset(&silence, 0, sizeof(silence));
	cm_forget();
}

#else

void hosts_ask(struct conn *c, void (*done)(struct conn *c, struct link *l, enum reason why))
{
	done(c, NULL, REASON_NO_RNIC);
}

int hosts_listen(int family, uint16_t port,
		 enum meet_verdict (*own)(const struct meet_tuple *t, enum reason *why))
{
	return -ENODEV;
}

unsigned hosts_thin(bool (*wanted)(const void *arg, uint16_t port), const void *arg)
{
	return 0;
}

void hosts_shut(void)
{
}

void hosts_forget(void)
{
}

#endif
