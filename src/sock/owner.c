/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * owner.c - see owner.h
 *
 * sock_diag is opened at the first question.
 */
#define _GNU_SOURCE
#include "sock/owner.h"

#include "base/clock.h"
#include "sock/act.h"
#include "sock/bind.h"

#define MATCH_MS	100

static struct diag diag;
static bool diag_opened;

/* who asked last, for the BIND that follows: /proc is not read twice for it */
static struct matched {
	struct meet_tuple tuple;
	uint32_t uid;
	uint64_t until_ns;
} matched;

int owner_find(const struct meet_tuple *t, struct diag_result *r)
{
	if (!diag_opened) {
		diag_open(&diag);
		diag_opened = true;
	}
	return diag_lookup(&diag, t, clock_ns(), r);
}

int owner_matches(const struct meet_tuple *t, uint32_t uid)
{
	struct diag_result r;
	int err = owner_find(t, &r);

	if (err == -EAGAIN && meet_tuple_equal(t, &matched.tuple) && uid == matched.uid &&
	    clock_ns() < matched.until_ns)
		return 0;
	if (err == -EAGAIN)
		return err;
	if (err || r.uid != uid)
		return -EACCES;
	matched = (struct matched){ *t, uid, clock_ns() + MATCH_MS * NS_PER_MS };
	return 0;
}

bool owner_still_queued(const struct meet_tuple *t)
{
	struct meet_tuple theirs;
	struct diag_result r;

	meet_tuple_swap(&theirs, t);
	return !owner_find(&theirs, &r) && r.inode == 0;
}

bool bind_peer_gone(struct conn *c)
{
	struct diag_result r;

	if (conn_kernel_dead(c))
		return true;
	/* a FIN may be stuck behind bytes that our program does not read */
	if (!c->tuple_known || !diag_opened || c->elsewhere)
		return false;
	int err = diag_lookup(&diag, &c->tuple, clock_ns(), &r);
	return err == -ENOENT || (!err && r.inode == 0);
}

void owner_shut(void)
{
	if (diag_opened)
		diag_close(&diag);
}

void owner_forget(void)
{
	diag_opened = false;
}
