/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * accepted.c - what was accepted here, found by its 4-tuple
 *
 * A bucket for some of the peers' ports; who is found is asked again under its
 * own locks, for it may be over by then.
 */
#define _GNU_SOURCE
#include "sock/accepted.h"

#include <string.h>

#include "base/sys.h"

#define BUCKETS 1024

static struct lock accept_lock;			/* leaf: buckets */
static struct list buckets[BUCKETS];

static uint32_t coming;

static struct list *bucket(uint16_t peer_port)
{
	return &buckets[(peer_port * 40503u >> 6) % BUCKETS];
}

void accepted_put(struct conn *c, uint16_t peer_port)
{
	lock_take(&accept_lock);
	c->tuple.rport = peer_port;
	list_push(bucket(peer_port), &c->accepted);
	lock_drop(&accept_lock);
}

void accepted_comes(bool begins)
{
	/* pairs with accepted_coming() */
	if (begins)
		add_acqrel(&coming, 1);
	else
		down_acqrel(&coming);
}

bool accepted_coming(void)
{
	return ld_acq(&coming) != 0;
}

void accepted_del(struct conn *c)
{
	lock_take(&accept_lock);
	list_del(&c->accepted);
	lock_drop(&accept_lock);
}

int conn_tuple_learn(struct conn *c)
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
	conn_take_both(c);
	bool yes = c->established && !c->closing && !c->inherited && conn_tuple_learn(c) == 0 &&
		   meet_tuple_equal(&c->tuple, t);
	conn_unlock_both(c);
	return yes;
}

struct conn *accepted_find(const struct meet_tuple *t)
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

void accepted_forget_all(void)
{
	lock_reset(&accept_lock);
	coming = 0;
	for (int i = 0; i < BUCKETS; i++)
		list_init(&buckets[i]);
}

static void port_note(struct conn *c, void *ports)
{
	uint16_t port = ld_rlx(&c->listen_port);

	if (ld_rlx(&c->listening) && ld_rlx(&c->fd) >= 0)
		((struct ports *)ports)->bits[port / 64] |= 1ull << port % 64;
}

void accepted_ports(struct ports *p)
{
	memset(p, 0, sizeof(*p));
	conn_for_each(port_note, p);
}
