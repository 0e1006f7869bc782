/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* inbox.c - see inbox.h */
#define _GNU_SOURCE
#include "sock/inbox.h"

#include <string.h>

#include "progress/bg.h"

#define INBOX		4096
#define INBOX_BINDS	2048		/* two full links ask at once; the rest is for answers, one for a slot */
#define TURN		64		/* a peer may ask without end: other work comes between */

static struct {
	struct lock lock;
	struct bg_work work;
	uint32_t head, tail, binds;
	struct {
		struct link *link;
		struct wire_msg m;
	} q[INBOX];
} inbox;

static inbox_fn *handle;

static void inbox_work(struct bg_work *w)
{
	for (int i = 0; i < TURN; i++) {
		lock_take(&inbox.lock);
		bool any = inbox.head != inbox.tail;
		struct link *l = inbox.q[inbox.head % INBOX].link;
		struct wire_msg m = inbox.q[inbox.head % INBOX].m;
		inbox.head += any;
		inbox.binds -= any && m.type == WIRE_BIND;
		lock_drop(&inbox.lock);
		if (!any)
			return;
		handle(l, &m);
		link_drop(l);
	}
	bg_queue(w);
}

bool inbox_put(struct link *l, const struct wire_msg *m)
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

void inbox_start(inbox_fn *fn)
{
	memset(&inbox, 0, sizeof(inbox));
	inbox.work.fn = inbox_work;
	handle = fn;
}
