/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ask.c - see ask.h
 *
 * Connecting to a Unix name is done or has failed when the call returns, and
 * the first datagram of a new connection always has room, so the only thing
 * ever waited for is an answer.
 */
#include "meet/ask.h"

#include <string.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "meet/msg.h"

static uint64_t now_ns(const struct ask *a)
{
	return a->loop->now_ns();
}

static void drop_fd(struct ask *a)
{
	if (a->fd < 0)
		return;
	if (a->state == ASK_CONNECTED)
		a->loop->unwatch(a->loop->arg, a->fd);
	privfd_close(a->fd);
	a->fd = -1;
}

static enum ask_result finish(struct ask *a, enum ask_result res)
{
	drop_fd(a);
	a->state = ASK_DONE;
	a->deadline_ns = MEET_NEVER;
	return res;
}

static enum ask_result fail(struct ask *a, int err)
{
	a->err = err;
	return finish(a, meet_forbidden(err) ? ASK_FORBIDDEN : ASK_FAILED);
}

static void walk_begin(struct ask *a)
{
	a->step = a->p.hint < 0 ? 1 : 0;
	a->holes = 0;
	a->later = false;
	a->refused = false;
	a->walk_end_ns = now_ns(a) + ASK_TOTAL_MS * NS_PER_MS;
}

static enum ask_result walk_over(struct ask *a)
{
	unsigned n = a->walks++;

	if (a->later && n < a->p.ndelays) {
		drop_fd(a);
		a->state = ASK_PAUSED;
		a->deadline_ns = now_ns(a) + a->p.delays_ms[n] * NS_PER_MS;
		return ASK_PENDING;
	}
	if (a->refused)
		return finish(a, ASK_REFUSED);
	return finish(a, a->later ? ASK_LATER : ASK_NOBODY);
}

/* The next index of the walk: hint, 0, 1, ... without the hint. */
static bool walk_index(struct ask *a)
{
	int i = (int)a->step++ - 1;

	if (i >= 0 && i == a->p.hint)
		i = (int)a->step++ - 1;
	a->index = i < 0 ? (unsigned)a->p.hint : (unsigned)i;
	return a->index < MEET_NAMES && a->holes < ASK_HOLES && now_ns(a) < a->walk_end_ns;
}

static int send_question(struct ask *a)
{
	struct meet_msg m;

	meet_msg_init(&m, MEET_ASK, a->p.instance);
	m.ask.tuple = a->p.tuple;
	m.ask.pid = (uint32_t)sys_getpid();
	return meet_send(a->fd, &m, NULL, 0);
}

/* Connected: is he worth the question?  False: on to the next. */
static bool holder_asked(struct ask *a)
{
	int ret = meet_peer_uid(a->fd, &a->cred.uid, &a->cred.pid);

	a->cred_proves = ret == 0;
	if (a->p.owner_uid != ASK_ANY_UID && (ret < 0 || a->cred.uid != a->p.owner_uid)) {
		a->strangers++;
		return false;
	}
	return send_question(a) == 0;
}

static enum ask_result holder_wait(struct ask *a)
{
	int ret = a->loop->watch(a->loop->arg, a->fd, EPOLLIN, ask_event, a);

	if (ret < 0)
		return fail(a, ret);
	a->state = ASK_CONNECTED;
	a->deadline_ns = now_ns(a) + ASK_SILENCE_MS * NS_PER_MS;
	return ASK_PENDING;
}

/* One name.  ASK_PENDING with a->state CONNECTED: asked; with IDLE: on to the next. */
static enum ask_result try_index(struct ask *a)
{
	int ret;

	if (a->fd < 0)
		a->fd = meet_socket();
	if (a->fd < 0)
		return fail(a, a->fd);
	ret = meet_connect_fd(a->fd, a->p.tuple.family, a->p.tuple.rport, a->index);
	if (ret == 0) {
		a->holes = 0;
		if (holder_asked(a))
			return holder_wait(a);
		drop_fd(a);
	} else if (ret == -EAGAIN) {
		a->holes = 0;
		a->later = true;
	} else if (meet_forbidden(ret)) {
		return fail(a, ret);
	} else {
		a->holes++;
	}
	return ASK_PENDING;
}

static enum ask_result walk(struct ask *a)
{
	a->state = ASK_IDLE;
	while (walk_index(a)) {
		enum ask_result res = try_index(a);

		if (res != ASK_PENDING || a->state == ASK_CONNECTED)
			return res;
	}
	return walk_over(a);
}

enum ask_result ask_start(struct ask *a, const struct meet_loop *loop,
			  const struct ask_params *p)
{
	memset(a, 0, sizeof(*a));
	a->loop = loop;
	a->p = *p;
	a->fd = -1;
	walk_begin(a);
	return walk(a);
}

/* This holder is done with; a descriptor that was connected cannot be used again. */
static enum ask_result pass(struct ask *a)
{
	drop_fd(a);
	return walk(a);
}

enum ask_result ask_next(struct ask *a)
{
	a->walk_end_ns = now_ns(a) + ASK_TOTAL_MS * NS_PER_MS;
	return pass(a);
}

int ask_take_fd(struct ask *a)
{
	int fd = a->fd;

	if (fd >= 0)
		meet_rights(fd, true);
	a->fd = -1;
	return fd;
}

void ask_stop(struct ask *a)
{
	finish(a, ASK_FAILED);
}

static enum ask_result is_mine(struct ask *a, uint64_t owner)
{
	a->loop->unwatch(a->loop->arg, a->fd);
	a->state = ASK_DONE;
	a->deadline_ns = MEET_NEVER;
	a->owner = owner;
	return ASK_MINE;
}

static enum ask_result answered(struct ask *a, const struct meet_msg *m)
{
	switch (m->answer.verdict) {
	case MEET_MINE:
		return is_mine(a, m->instance);
	case MEET_LATER:
		a->later = true;
		break;
	case MEET_REFUSED:
		a->refused = true;
		a->reason = m->answer.reason < REASON_COUNT ? m->answer.reason : REASON_REFUSED;
		break;
	}
	return pass(a);
}

static void report(struct ask *a, enum ask_result res)
{
	if (res != ASK_PENDING)
		a->p.done(a->p.arg, a, res);
}

void ask_event(void *ask, uint32_t events)
{
	struct ask *a = ask;
	struct meet_msg m;
	int fds[MEET_MAX_FDS], ret;
	unsigned nfds;

	if (a->state != ASK_CONNECTED)
		return;
	ret = meet_recv(a->fd, &m, fds, &nfds);
	if (ret == -EAGAIN)
		return;
	while (nfds)			/* none belong here, not even with a HELLO */
		privfd_close(fds[--nfds]);
	report(a, ret == 1 && m.type == MEET_ANSWER ? answered(a, &m) : pass(a));
}

uint64_t ask_deadline_ns(const struct ask *a)
{
	return a->state == ASK_CONNECTED || a->state == ASK_PAUSED ? a->deadline_ns : MEET_NEVER;
}

void ask_timeout(struct ask *a, uint64_t now)
{
	if (now < ask_deadline_ns(a))
		return;
	if (a->state == ASK_PAUSED) {
		walk_begin(a);
		report(a, walk(a));
	} else if (a->state == ASK_CONNECTED) {
		a->later = true;
		report(a, pass(a));
	}
}
