/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * listener.c - being found: listeners, their names, and who asks for a conn of theirs
 *
 * An accepted conn is noted (accepted.h), and its listener's port gets names on
 * this host and a place with rdma_cm.  Who then asks "do you own this 4-tuple?"
 * must be the user whom the kernel names for its other end (owner.h).
 *
 * bind_accepted() runs in accept(); all else in the background thread, with no
 * lock held.
 */
#define _GNU_SOURCE
#include "sock/listener.h"

#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "meet/answer.h"
#include "progress/engine.h"
#include "sock/accepted.h"
#include "sock/bind.h"
#include "sock/hello.h"
#include "sock/hosts.h"
#include "sock/kin.h"
#include "sock/owner.h"
#include "sock/warm.h"

static struct answer answer;
static bool answer_ready;

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

/* Could it be another host's?  A device is not looked for before one comes that could. */
static bool from_there(const struct sockaddr_storage *peer)
{
	struct meet_tuple t;

	return !meet_tuple_set(&t, peer, peer) && !meet_tuple_loopback(&t);
}

void bind_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer)
{
	if (!bind_enabled() || !sockaddr_port(peer) || ld_rlx(&c->meet) == MEET_OVER)
		return;
	accepted_put(c, sockaddr_port(peer));
	bool there = !ld_rlx(&l->listen_there) && from_there(peer) &&
		     !xchg_acqrel(&l->listen_there, true);
	bool first = !ld_rlx(&l->listening) && !xchg_acqrel(&l->listening, true);
	if (first || there) {
		int err = listener_learn(l) ? bind_begin() : -ENOTSOCK;

		if (!err) {
			conn_todo(l, JOB_LISTEN);
			return;
		}
		if (err != -ENOTSOCK && err != -EINTR)
			st_rlx(&c->why, bind_not_begun());
		st_rlx(&l->listening, false);		/* the next accept() tries again */
	}
}

void listener_unanswered(struct conn *c, void *why)
{
	lock_take(&c->rxl);
	if (c->established && !c->active && c->meet == MEET_IDLE && c->why == REASON_NOT_WARM)
		st_rlx(&c->why, *(enum reason *)why);
	lock_drop(&c->rxl);
}

void bind_not_met(const struct meet_tuple *t, enum reason why)
{
	struct conn *c = accepted_find(t);

	if (!c)
		return;
	listener_unanswered(c, &why);
	conn_put(c);
}

static enum meet_verdict own(void *arg, const struct meet_asker *who, enum reason *why)
{
	struct conn *c = accepted_find(&who->tuple);

	if (!c)
		return MEET_NOT_MINE;
	int err = who->cred_proves ? owner_matches(c, who->cred.uid) : -EACCES;
	if (err == -EACCES) {
		*why = REASON_PEER_UNPROVEN;
		listener_unanswered(c, &(enum reason){ who->cred_proves ? *why : REASON_OWNER_UNKNOWN });
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
	return owner_still_queued(t) ? MEET_LATER : MEET_NOT_MINE;
}

static bool port_wanted(const void *ports, uint16_t port)
{
	return ports_have(ports, port);
}

/* Those at which somebody listens. */
static const struct ports *ports_in_use(void)
{
	static struct ports ports;

	accepted_ports(&ports);
	return &ports;
}

/* Be found at a port; those at which nobody listens any more make room. */
static int port_listen(int family, uint16_t port)
{
	int err = answer_listen(&answer, family, port);

	return err == -ENOSPC && answer_thin(&answer, port_wanted, ports_in_use()) ?
	       answer_listen(&answer, family, port) : err;
}

/* The same for other hosts. */
static int port_listen_there(int family, uint16_t port)
{
	int err = hosts_listen(family, port, own_far);

	return err == -ENOSPC && hosts_thin(port_wanted, ports_in_use()) ?
	       hosts_listen(family, port, own_far) : err;
}

/* What keeps us from the device, or it from us, for a while.  No memory may be a limit that stays. */
static bool may_pass(int err)
{
	return err == -ENETDOWN || err == -EADDRNOTAVAIL || err == -EMFILE || err == -ENFILE;
}

void bind_listen(struct conn *l)
{
	uint16_t port = ld_rlx(&l->listen_port);

	int none = engine_start(&link_sink);
	if (none) {
		conn_for_each(listener_unanswered, &(enum reason){ bind_no_engine(none) });
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

		conn_for_each(listener_unanswered, &why);
		if (hello_want(err))	/* the next accept() tries again */
			st_rlx(&l->listening, false);
	}
	log_debug("names of port %u: %d", port, err);
	if (!ld_rlx(&l->listen_there) && engine.here != engine.there)
		return;
	err = port_listen_there(AF_INET, port);
	if (ld_rlx(&l->listen_family) == AF_INET6 && !may_pass(err))
		err = port_listen_there(AF_INET6, port);
	if (may_pass(err))
		st_rlx(&l->listen_there, false);	/* the next accept() tries again */
}

void listener_shut(void)
{
	if (answer_ready)
		answer_fini(&answer);
}

void listener_forget_all(void)
{
	answer_ready = false;
	memset(&answer, 0, sizeof(answer));
}
