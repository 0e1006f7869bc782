/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* answer.c - see answer.h */
#include "meet/answer.h"

#include <string.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"

void answer_init(struct answer *a, const struct meet_loop *loop,
		 const struct answer_ops *ops, uint64_t instance)
{
	memset(a, 0, sizeof(*a));
	a->loop = loop;
	a->ops = *ops;
	a->instance = instance;
	a->resume_ns = MEET_NEVER;
	for (unsigned i = 0; i < ANSWER_PORTS; i++)
		a->ports[i].fd = -1;
	for (unsigned i = 0; i < ANSWER_PENDING; i++)
		a->clients[i].fd = -1;
}

/* ---- clients ---- */

/* Take the descriptor out of the client's place. */
static int client_release(struct answer_client *c)
{
	int fd = c->fd;

	c->a->loop->unwatch(c->a->loop->arg, fd);
	c->a->nclients--;
	c->fd = -1;
	return fd;
}

static void client_close(struct answer_client *c)
{
	privfd_close(client_release(c));
}

static void client_drop(struct answer_client *c)
{
	c->a->dropped++;
	client_close(c);
}

static unsigned places_of(const struct answer *a, uid_t uid)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ANSWER_PENDING; i++)
		n += a->clients[i].fd >= 0 && a->clients[i].cred.uid == uid;
	return n;
}

/* All places are taken: the oldest client of the user with most of them. */
static struct answer_client *client_victim(struct answer *a)
{
	struct answer_client *best = NULL;
	unsigned most = 0;

	for (unsigned i = 0; i < ANSWER_PENDING; i++) {
		struct answer_client *c = &a->clients[i];
		unsigned n = c->fd < 0 ? 0 : places_of(a, c->cred.uid);

		if (n > most || (best && n == most && c->since_ns < best->since_ns)) {
			best = c;
			most = n;
		}
	}
	return best;
}

static struct answer_client *client_place(struct answer *a)
{
	if (a->nclients == ANSWER_PENDING)
		client_drop(client_victim(a));
	for (unsigned i = 0; i < ANSWER_PENDING; i++)
		if (a->clients[i].fd < 0)
			return &a->clients[i];
	return NULL;
}

static enum meet_verdict client_judge(struct answer_client *c, const struct meet_msg *m,
				      struct meet_asker *who, enum reason *why)
{
	const struct answer *a = c->a;

	memset(who, 0, sizeof(*who));
	meet_tuple_swap(&who->tuple, &m->ask.tuple);
	who->cred = c->cred;
	who->cred_proves = c->cred_proves;
	who->instance = m->instance;
	/* a question about another port than the name's is no honest one */
	if (who->tuple.family != c->port->family || who->tuple.lport != c->port->port)
		return MEET_NOT_MINE;
	return a->ops.own(a->ops.arg, who, why);
}

static int client_tell(const struct answer_client *c, enum meet_verdict v, enum reason why)
{
	struct meet_msg m;

	meet_msg_init(&m, MEET_ANSWER, c->a->instance);
	m.answer.verdict = (uint8_t)v;
	m.answer.reason = v == MEET_REFUSED ? (uint8_t)why : 0;
	return meet_send(c->fd, &m, NULL, 0);
}

static void client_ask(struct answer_client *c, const struct meet_msg *m)
{
	struct answer *a = c->a;
	enum reason why = REASON_REFUSED;
	struct meet_asker who;
	enum meet_verdict v = client_judge(c, m, &who, &why);

	if (v == MEET_MINE)		/* his HELLO brings descriptors, right after our answer */
		meet_rights(c->fd, true);
	if (client_tell(c, v, why) < 0)
		client_drop(c);
	else if (v == MEET_MINE)
		a->ops.mine(a->ops.arg, client_release(c), &who);
	else
		client_close(c);
}

static void client_event(void *client, uint32_t events)
{
	struct answer_client *c = client;
	struct meet_msg m;
	int fds[MEET_MAX_FDS], ret;
	unsigned nfds;

	if (c->fd < 0)
		return;
	ret = meet_recv(c->fd, &m, fds, &nfds);
	if (ret == -EAGAIN)
		return;
	while (nfds)
		privfd_close(fds[--nfds]);
	if (ret == 1 && m.type == MEET_ASK)
		client_ask(c, &m);
	else
		client_drop(c);
}

static int client_add(struct answer_port *p, int fd)
{
	struct answer *a = p->a;
	struct answer_client *c = client_place(a);
	int ret = -ENOBUFS;

	if (c)
		ret = a->loop->watch(a->loop->arg, fd, EPOLLIN, client_event, c);
	if (ret < 0) {
		privfd_close(fd);
		return ret;
	}
	c->a = a;
	c->port = p;
	c->fd = fd;
	c->since_ns = a->loop->now_ns();
	c->cred_proves = meet_peer_uid(fd, &c->cred.uid, &c->cred.pid) == 0;
	a->nclients++;
	return 0;
}

/* ---- ports ---- */

static void port_event(void *port, uint32_t events);

static void port_pause(struct answer_port *p)
{
	struct answer *a = p->a;

	a->loop->unwatch(a->loop->arg, p->fd);
	p->paused = true;
	a->resume_ns = a->loop->now_ns() + ANSWER_PAUSE_MS * NS_PER_MS;
}

/* 1: took one; 0: nobody there; -errno: no descriptor for him. */
static int port_accept(struct answer_port *p)
{
	int fd = PRIVFD_NEW(sys4(SYS_accept4, p->fd, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd == -EAGAIN || fd == -EINTR || fd == -ECONNABORTED)
		return 0;
	if (fd < 0)
		return fd;
	return client_add(p, fd) < 0 ? -ENOBUFS : 1;
}

static void port_event(void *port, uint32_t events)
{
	struct answer_port *p = port;

	for (int i = 0; i < ANSWER_BURST && p->fd >= 0; i++) {
		int ret = port_accept(p);

		if (ret < 0)		/* the event would come again at once, and for ever */
			port_pause(p);
		if (ret <= 0)
			return;
	}
}

static struct answer_port *port_find(struct answer *a, int family, uint16_t port)
{
	for (unsigned i = 0; i < ANSWER_PORTS; i++) {
		struct answer_port *p = &a->ports[i];

		if (p->fd >= 0 && p->family == family && p->port == port)
			return p;
	}
	return NULL;
}

static struct answer_port *port_free(struct answer *a)
{
	for (unsigned i = 0; i < ANSWER_PORTS; i++)
		if (a->ports[i].fd < 0)
			return &a->ports[i];
	return NULL;
}

int answer_listen(struct answer *a, int family, uint16_t port)
{
	struct answer_port *p = port_find(a, family, port);
	int fd, ret;

	if (p) {
		p->serial = ++a->serial;
		return 0;
	}
	p = port_free(a);
	if (!p)
		return -ENOSPC;
	fd = meet_listen(family, port, &p->index);
	if (fd < 0)
		return fd;
	ret = a->loop->watch(a->loop->arg, fd, EPOLLIN, port_event, p);
	if (ret < 0) {
		privfd_close(fd);
		return ret;
	}
	p->a = a;
	p->fd = fd;
	p->family = (uint16_t)family;
	p->port = port;
	p->paused = false;
	p->serial = ++a->serial;
	return 0;
}

static void port_close(struct answer_port *p)
{
	struct answer *a = p->a;

	for (unsigned i = 0; i < ANSWER_PENDING; i++)
		if (a->clients[i].fd >= 0 && a->clients[i].port == p)
			client_close(&a->clients[i]);
	if (!p->paused)
		a->loop->unwatch(a->loop->arg, p->fd);
	privfd_close(p->fd);
	p->fd = -1;
}

void answer_unlisten(struct answer *a, int family, uint16_t port)
{
	struct answer_port *p = port_find(a, family, port);

	if (p)
		port_close(p);
}

unsigned answer_thin(struct answer *a, bool (*wanted)(const void *arg, uint16_t port),
		     const void *arg)
{
	uint64_t *idle[ANSWER_PORTS];
	unsigned n = 0;

	for (unsigned i = 0; i < ANSWER_PORTS; i++)
		if (a->ports[i].fd >= 0 && !wanted(arg, a->ports[i].port))
			idle[n++] = &a->ports[i].serial;
	n = meet_older_half(idle, n);
	for (unsigned i = 0; i < n; i++)
		port_close(container_of(idle[i], struct answer_port, serial));
	return n;
}

void answer_fini(struct answer *a)
{
	for (unsigned i = 0; i < ANSWER_PORTS; i++)
		if (a->ports[i].fd >= 0)
			port_close(&a->ports[i]);
}

/* ---- time ---- */

uint64_t answer_deadline_ns(const struct answer *a)
{
	uint64_t at = a->resume_ns;

	for (unsigned i = 0; i < ANSWER_PENDING; i++)
		if (a->clients[i].fd >= 0)
			at = MIN(at, a->clients[i].since_ns + ANSWER_SILENCE_MS * NS_PER_MS);
	return at;
}

static void ports_resume(struct answer *a)
{
	a->resume_ns = MEET_NEVER;
	for (unsigned i = 0; i < ANSWER_PORTS; i++) {
		struct answer_port *p = &a->ports[i];

		if (p->fd < 0 || !p->paused)
			continue;
		if (a->loop->watch(a->loop->arg, p->fd, EPOLLIN, port_event, p) == 0)
			p->paused = false;
		else
			a->resume_ns = a->loop->now_ns() + ANSWER_PAUSE_MS * NS_PER_MS;
	}
}

void answer_timeout(struct answer *a, uint64_t now_ns)
{
	for (unsigned i = 0; i < ANSWER_PENDING; i++) {
		struct answer_client *c = &a->clients[i];

		if (c->fd >= 0 && now_ns >= c->since_ns + ANSWER_SILENCE_MS * NS_PER_MS)
			client_drop(c);
	}
	if (now_ns >= a->resume_ns)
		ports_resume(a);
}
