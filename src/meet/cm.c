/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * cm.c - see cm.h
 *
 * An event is copied and acknowledged before it is acted upon: an id cannot be
 * destroyed while one of its events is not.  Ends and listeners are found by
 * their id, so an event of one that is closed finds nobody.
 *
 * Take-over.  Who asks begins at place 0 (cm_port()) and goes on to the others only
 * from one who answers, over few that do not.  When the holder of a place dies, or
 * loses it, nobody is told, and rdma_cm has no queue of those who wait.  So a process
 * at place p tries the places below, lowest first, every p seconds, and moves to the
 * first that is free; who has found no place at all does so every CM_PORTS.
 *
 * - The next in line is there within a second, and the lowest that lives, whoever
 *   dies, within its own p.  Holes close, as behind old workers that end after
 *   new ones have begun; and who is at place 0 has nothing to do.
 * - No two that wait are at the same place, so they do not come at once, and the more
 *   they are, the less each of them does: a hundred wake up 9 times a second
 *   together, for a try each.  A try is three calls, and holds nothing.
 * - The new id listens before the old one goes.  A request that comes to the old
 *   place just then is refused without a word, and is asked again as others are.
 * - Askers whom nobody has answered meanwhile wait at most as long again as
 *   that has lasted, since what they wait doubles (silence.h).
 * - Not allowed (by a security module, say): never tried again.
 */
#include "meet/cm.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"
#include "rnic/load.h"
#include "rnic/verbs_lib.h"

#define ADDR_MS		1000
#define ROUTE_MS	1000
#define BACKLOG		64
#define EVENTS_A_TURN	64		/* others may ask without end: other work comes between */
#define RETRIES		6		/* as verbs_qp.c has it */
#define RNR_FOR_EVER	7
#define EVENT_BYTES	196		/* of an answer on InfiniBand, the most there is */
#define PRIVILEGED	1024
#define TURN_NS		(1000 * NS_PER_MS)	/* of take-over, a place */

static const struct meet_loop *loop;
static void (*news)(struct cm_end *e, enum cm_news what);
static struct rdma_event_channel *channel;
static bool (*device_usable)(const char *name);
static bool cm_only;			/* of the devices: see rnic.h */
static bool used;			/* the library, by this process */
static struct cm_end ends[CM_ENDS];
static struct listener {
	struct rdma_cm_id *id;		/* NULL: free, or without a place */
	uint16_t family, port;		/* of TCP; port 0: free */
	unsigned place;			/* CM_PORTS: none */
	uint64_t again_ns;		/* then those below it are tried */
	uint64_t serial;		/* the higher, the later was it asked for */
} listeners[CM_LISTENERS];
static uint64_t listener_serial;

struct event {
	struct rdma_cm_id *id, *listen_id;
	enum rdma_cm_event_type type;
	int status;
	uint8_t data[EVENT_BYTES];
	size_t len;
};

static int lib_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

static struct listener *listener_of(const struct rdma_cm_id *id)
{
	for (int i = 0; i < CM_LISTENERS; i++)
		if (listeners[i].id == id)
			return &listeners[i];
	return NULL;
}

/* ------------------------------------------------------------- addresses -- */

static void sockaddr_fill(struct sockaddr_storage *sa, const struct meet_tuple *t,
			  const uint8_t addr[16], uint16_t port)
{
	struct sockaddr_in6 *six = (void *)sa;
	struct sockaddr_in *four = (void *)sa;

	memset(sa, 0, sizeof(*sa));
	sa->ss_family = t->family;
	if (t->family == AF_INET) {
		four->sin_port = htons(port);
		memcpy(&four->sin_addr, addr, sizeof(four->sin_addr));
	} else {
		six->sin6_port = htons(port);
		six->sin6_scope_id = t->scope;
		memcpy(&six->sin6_addr, addr, sizeof(six->sin6_addr));
	}
}

/*
 * The TCP connection that a request is about: addresses are rdma_cm's, the port is
 * that of who was asked, and its own port the asker's word.  -ENOENT: meant for another.
 */
static int tuple_of(struct meet_tuple *t, const struct event *ev, const struct cm_hello *theirs)
{
	const struct rdma_addr *a = &ev->id->route.addr;
	const struct listener *l = listener_of(ev->listen_id);
	int err = meet_tuple_set(t, &a->src_storage, &a->dst_storage);

	if (err)
		return err;
	if (!l)
		return -EPROTO;
	if (l->port != theirs->rport)
		return -ENOENT;		/* places of several ports may have one number */
	t->lport = l->port;
	t->rport = theirs->lport;
	return meet_tuple_sane(t) ? 0 : -EPROTO;
}

/* ------------------------------------------------------------------ ends -- */

static struct cm_end *end_of(const struct rdma_cm_id *id)
{
	for (int i = 0; i < CM_ENDS; i++)
		if (ends[i].id == id)
			return &ends[i];
	return NULL;
}

static struct cm_end *end_new(void)
{
	return end_of(NULL);
}

void cm_close(struct cm_end *e)
{
	if (!e || !e->id)
		return;
	cm->destroy_id(e->id);
	memset(e, 0, sizeof(*e));
}

static void fail(struct cm_end *e, enum reason why)
{
	e->why = why;
	news(e, CM_FAILED);
	cm_close(e);
}

/* Its device's descriptors are librdmacm's own.  Are there QPs of ours to be had on it? */
static bool device_is_ours(struct rdma_cm_id *id)
{
	return id->verbs && !verbs_context_hide(id->verbs) && device_usable(id->verbs->device->name);
}

const char *cm_device(const struct cm_end *e)
{
	return device_is_ours(e->id) ? e->id->verbs->device->name : NULL;
}

/*
 * Where the ports are TCP's own, the first of them is what the program itself listens
 * at; and one below 1024 is root's, which those who accept seldom are.
 */
static uint16_t port_of(uint16_t tcp_port, unsigned i)
{
	return cm_port(tcp_port, i + (cm_only || tcp_port < PRIVILEGED));
}

/* The library opens devices when it first meets them, here or in an event. */
static int resolve(struct rdma_cm_id **id, struct sockaddr *from, struct sockaddr *to)
{
	int err = 0;

	load_begin();
	errno = 0;
	if (cm->create_id(channel, id, NULL, RDMA_PS_TCP)) {
		err = lib_errno();
	} else if (cm->resolve_addr(*id, from, to, ADDR_MS)) {
		err = lib_errno();
		cm->destroy_id(*id);
	} else if ((*id)->verbs) {
		verbs_context_hide((*id)->verbs);
	}
	load_end();
	return err;
}

int cm_ask(struct cm_end **out, const struct meet_tuple *t, unsigned i, void *user)
{
	struct sockaddr_storage from, to;
	struct cm_end *e = end_new();
	struct rdma_cm_id *id;

	if (!channel || !e)
		return channel ? -ENOSPC : -ENODEV;
	sockaddr_fill(&from, t, t->laddr, 0);
	sockaddr_fill(&to, t, t->raddr, port_of(t->rport, i));
	int err = resolve(&id, (struct sockaddr *)&from, (struct sockaddr *)&to);
	if (err)
		return err;
	*e = (struct cm_end){ .id = id, .user = user, .asker = true, .tuple = *t };
	*out = e;
	return 0;
}

/* call: cm->connect or cm->accept. */
static int hello_send(struct cm_end *e, const struct cm_hello *ours, uint32_t qp_num,
		      int (*call)(struct rdma_cm_id *, struct rdma_conn_param *))
{
	uint8_t data[CM_HELLO_BYTES];
	struct rdma_conn_param p = {
		.private_data = data, .private_data_len = CM_HELLO_BYTES,
		.responder_resources = 1, .initiator_depth = 1, .flow_control = 1,
		.retry_count = RETRIES, .rnr_retry_count = RNR_FOR_EVER, .qp_num = qp_num,
	};

	cm_hello_put(data, ours);
	errno = 0;
	return call(e->id, &p) ? lib_errno() : 0;
}

int cm_connect(struct cm_end *e, const struct cm_hello *ours, uint32_t qp_num)
{
	int err = hello_send(e, ours, qp_num, cm->connect);

	if (err != -ECONNREFUSED)
		return err;
	fail(e, REASON_PEER_UNPROVEN);	/* iWARP finds out while it is called */
	return 0;
}

int cm_establish(struct cm_end *e)
{
	if (cm_only)		/* the answer was not told before it was */
		return 0;
	errno = 0;
	return cm->establish(e->id) ? lib_errno() : 0;
}

int cm_accept(struct cm_end *e, const struct cm_hello *ours, uint32_t qp_num)
{
	int err = hello_send(e, ours, qp_num, cm->accept);

	if (!err)
		e->up = true;
	return err;
}

static void refuse(struct rdma_cm_id *id, enum cm_verdict verdict, enum reason why)
{
	uint8_t data[CM_REFUSAL_BYTES];

	cm_refusal_put(data, &(struct cm_refusal){ .verdict = (uint8_t)verdict,
						   .reason = (uint8_t)why });
	cm->reject(id, data, sizeof(data));
}

void cm_refuse(struct cm_end *e, enum cm_verdict verdict, enum reason why)
{
	refuse(e->id, verdict, why);
	cm_close(e);
}

/* ------------------------------------------------------------- listening -- */

/* 0 and 0: a free one. */
static struct listener *listener_at(uint16_t family, uint16_t port)
{
	for (int i = 0; i < CM_LISTENERS; i++)
		if (listeners[i].family == family && listeners[i].port == port)
			return &listeners[i];
	return NULL;
}

static int listener_bind(struct rdma_cm_id *id, uint16_t family, uint16_t port)
{
	struct meet_tuple any = { .family = family };
	struct sockaddr_storage sa;
	int only = 1;

	sockaddr_fill(&sa, &any, any.laddr, port);
	errno = 0;
	if ((family == AF_INET6 && cm->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
						  &only, sizeof(only))) ||
	    cm->bind_addr(id, (struct sockaddr *)&sa) || cm->listen(id, BACKLOG))
		return lib_errno();
	return 0;
}

/* One id a try: one that is bound to a port that another listens at stays so. */
static int listener_try(struct listener *l, unsigned place)
{
	struct rdma_cm_id *id;

	errno = 0;
	if (cm->create_id(channel, &id, NULL, RDMA_PS_TCP))
		return lib_errno();
	int err = listener_bind(id, l->family, port_of(l->port, place));
	if (err) {
		cm->destroy_id(id);
		return err == -EADDRNOTAVAIL ? -EADDRINUSE : err;	/* of one at every address */
	}
	if (l->id)
		cm->destroy_id(l->id);
	l->id = id;
	l->place = place;
	return 0;
}

/* The lowest place that is free, below the one that it has. */
static int listener_move(struct listener *l)
{
	int err = -EADDRINUSE;

	for (unsigned i = 0; i < l->place && err == -EADDRINUSE; i++)
		err = listener_try(l, i);
	l->again_ns = meet_forbidden(err) ? MEET_NEVER : loop->now_ns() + l->place * TURN_NS;
	return err;
}

int cm_listen(uint16_t family, uint16_t port)
{
	struct listener *l = listener_at(family, port);
	int err;

	if (l)
		return l->id ? 0 : -EADDRINUSE;
	l = listener_at(0, 0);
	if (!channel || !l)
		return channel ? -ENOSPC : -ENODEV;
	*l = (struct listener){ .family = family, .port = port, .place = CM_PORTS,
				.serial = ++listener_serial };
	err = listener_move(l);
	if (err && (err != -EADDRINUSE || cm_only))
		*l = (struct listener){ 0 };
	return err;
}

static void listener_end(struct listener *l)
{
	if (l->id)
		cm->destroy_id(l->id);
	*l = (struct listener){ 0 };
}

unsigned cm_thin(bool (*wanted)(const void *arg, uint16_t port), const void *arg)
{
	uint64_t *idle[CM_LISTENERS];
	unsigned n = 0;

	for (int i = 0; i < CM_LISTENERS; i++)
		if (listeners[i].port && !wanted(arg, listeners[i].port))
			idle[n++] = &listeners[i].serial;
	n = meet_older_half(idle, n);
	for (unsigned i = 0; i < n; i++)
		listener_end(container_of(idle[i], struct listener, serial));
	return n;
}

/* On iWARP a try would be one at ports of TCP, which are others', too. */
static bool listener_waits(const struct listener *l)
{
	return l->port && l->place && !cm_only;
}

uint64_t cm_take_over_ns(void)
{
	uint64_t at = MEET_NEVER;

	for (int i = 0; i < CM_LISTENERS; i++)
		if (listener_waits(&listeners[i]))
			at = MIN(at, listeners[i].again_ns);
	return at;
}

void cm_take_over(void)
{
	/* all of the next second, so that there is but one turn in it */
	uint64_t until = channel ? loop->now_ns() + TURN_NS : 0;

	for (int i = 0; i < CM_LISTENERS; i++) {
		struct listener *l = &listeners[i];

		if (!listener_waits(l) || l->again_ns >= until)
			continue;
		int err = listener_move(l);
		if (!err)
			log_info("rdma port %u: place %u taken over", l->port, l->place);
		else if (err != -EADDRINUSE)
			log_debug("rdma port %u: not taken over: %d", l->port, err);
	}
}

/* ---------------------------------------------------------------- events -- */

static void coming(const struct event *ev)
{
	struct cm_end *e = end_new();
	struct cm_hello theirs;
	struct meet_tuple t;
	int err = cm_hello_get(&theirs, ev->data, ev->len);

	if (!err)
		err = tuple_of(&t, ev, &theirs);
	if (err || !e) {
		log_info("cm: a request refused: %d", err);
		refuse(ev->id, err == -ENOENT ? CM_NOT_MINE : CM_REFUSED,
		       err == -ENOENT ? REASON_NONE : e ? REASON_PEER_UNPROVEN : REASON_NO_MEMORY);
		cm->destroy_id(ev->id);
		return;
	}
	*e = (struct cm_end){ .id = ev->id, .tuple = t, .theirs = theirs };
	news(e, CM_COMING);
}

static void answered(struct cm_end *e, const struct event *ev)
{
	int err = cm_hello_get(&e->theirs, ev->data, ev->len);

	/* about this very connection */
	if (err || e->theirs.lport != e->tuple.rport || e->theirs.rport != e->tuple.lport) {
		fail(e, REASON_PEER_UNPROVEN);
		return;
	}
	e->up = true;
	news(e, CM_ANSWERED);
}

static void refused(struct cm_end *e, const struct event *ev)
{
	struct cm_refusal r = { 0 };

	if (cm_refusal_get(&r, ev->data, ev->len))
		r = (struct cm_refusal){ 0 };	/* nobody listens there, or somebody else */
	e->verdict = r.verdict;
	fail(e, r.verdict == CM_REFUSED && r.reason ? (enum reason)r.reason : REASON_PEER_UNPROVEN);
}

static void over(struct cm_end *e, enum reason why)
{
	if (e->asker && !e->up) {
		fail(e, why);
		return;
	}
	news(e, CM_GONE);
	cm_close(e);
}

static void end_event(struct cm_end *e, const struct event *ev)
{
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!device_is_ours(e->id) || cm->resolve_route(e->id, ROUTE_MS))
			fail(e, REASON_NO_RNIC);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		news(e, CM_REACHED);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		answered(e, ev);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (e->asker && !e->up)		/* iWARP; else the QP says so itself */
			answered(e, ev);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (e->asker && !e->up)
			refused(e, ev);
		else
			over(e, REASON_LINK_LOST);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		over(e, REASON_NO_RNIC);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		over(e, REASON_PEER_UNPROVEN);
		break;
	default:
		break;
	}
}

static void act(const struct event *ev)
{
	struct cm_end *e;

	if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		coming(ev);
		return;
	}
	e = end_of(ev->id);
	if (e) {
		end_event(e, ev);
		return;
	}
	struct listener *l = listener_of(ev->id);
	if (l && ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		listener_end(l);
}

static int event_take(struct event *ev)
{
	struct rdma_cm_event *raw;

	load_begin();
	errno = 0;
	int err = cm->get_cm_event(channel, &raw) ? lib_errno() : 0;
	/* of an id that is closed there may be an event yet, and nothing else */
	if (!err && (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST || end_of(raw->id)) &&
	    raw->id->verbs)
		verbs_context_hide(raw->id->verbs);
	load_end();
	if (err)
		return err;
	*ev = (struct event){ .id = raw->id, .listen_id = raw->listen_id, .type = raw->event,
			      .status = raw->status };
	switch (raw->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		if (!raw->param.conn.private_data)
			break;
		ev->len = MIN((size_t)raw->param.conn.private_data_len, sizeof(ev->data));
		memcpy(ev->data, raw->param.conn.private_data, ev->len);
		break;
	default:
		break;
	}
	cm->ack_cm_event(raw);
	log_debug("cm: event %d, status %d", (int)ev->type, ev->status);
	return 0;
}

static void channel_event(void *ctx, uint32_t events)
{
	struct event ev;
	int err = 0;

	for (int i = 0; i < EVENTS_A_TURN && channel && (err = event_take(&ev)) == 0; i++)
		act(&ev);
	if (!channel || !err || err == -EAGAIN || err == -EINTR)
		return;
	/* it would stay readable for ever */
	log_info("cm: no more events: %d", err);
	cm_shut();
}

/* --------------------------------------------------------- start and end -- */

static int channel_open(void)
{
	struct rdma_event_channel *ch;
	int err;

	used = true;
	errno = 0;
	ch = cm->create_event_channel();
	if (!ch)
		return lib_errno();
	err = verbs_fd_hide(&ch->fd, true);
	if (!err)
		err = loop->watch(loop->arg, ch->fd, EPOLLIN, channel_event, NULL);
	if (!err)
		channel = ch;
	else if (privfd_is(ch->fd))
		privfd_close(ch->fd);
	else
		sys_close(ch->fd);
	return err;	/* on failure librdmacm keeps a few bytes */
}

int cm_start(const struct meet_loop *l, bool (*usable)(const char *name), bool only,
	     void (*fn)(struct cm_end *e, enum cm_news what))
{
	int err;

	if (channel)
		return 0;
	err = cm_load();
	if (err)
		return err;
	loop = l;
	device_usable = usable;
	cm_only = only;
	news = fn;
	return channel_open();
}

/* The channel itself stays with the library: its destructor would close a number of ours. */
void cm_shut(void)
{
	if (!channel)
		return;
	for (int i = 0; i < CM_ENDS; i++) {
		if (!ends[i].id)
			continue;
		ends[i].why = REASON_NO_RNIC;
		news(&ends[i], ends[i].asker && !ends[i].up ? CM_FAILED : CM_GONE);
		cm_close(&ends[i]);
	}
	for (int i = 0; i < CM_LISTENERS; i++)
		listener_end(&listeners[i]);
	loop->unwatch(loop->arg, channel->fd);
	privfd_close(channel->fd);
	channel = NULL;
}

void cm_forget(void)
{
	if (used)
		cm_lib_forget();
	used = false;
	channel = NULL;
	memset(ends, 0, sizeof(ends));
	memset(listeners, 0, sizeof(listeners));
}
