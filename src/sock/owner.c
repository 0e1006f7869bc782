/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * owner.c - see owner.h
 *
 * sock_diag is opened at the first question.  What was read of /proc in its place is
 * of use until it is read again; if nobody asks for that any more it is given back.
 */
#define _GNU_SOURCE
#include "sock/owner.h"

#include <string.h>

#include "base/clock.h"
#include "progress/bg.h"
#include "sock/act.h"
#include "sock/bind.h"

#define KEPT_MS		1000
#define RETRY_MS	3

static struct diag diag;
static bool diag_opened;
static struct bg_timer kept;

static void on_kept(struct bg_timer *t)
{
	if (clock_ns() < diag.scan.until_ns)
		bg_timer_set(t, diag.scan.until_ns);
	else
		diag_drop(&diag);
}

static int ask(const struct meet_tuple *t, uint32_t first, struct diag_result *r)
{
	if (!diag_opened) {
		diag_open(&diag);
		diag_opened = true;
	}
	uint32_t before = diag_next(&diag);
	int err = diag_lookup(&diag, t, first, clock_ns(), r);

	if (diag_next(&diag) != before) {
		kept.fn = on_kept;
		bg_timer_set(&kept, clock_ns() + KEPT_MS * NS_PER_MS);
	}
	return err;
}

int owner_find(struct conn *c, struct diag_result *r)
{
	if (!c->owner_first)
		c->owner_first = diag_next(&diag);
	return ask(&c->tuple, c->owner_first, r);
}

int owner_matches(struct conn *c, uint32_t uid)
{
	struct diag_result r;
	int err = owner_find(c, &r);

	if (err == -EAGAIN)
		return err;
	return err || r.uid != uid ? -EACCES : 0;
}

bool owner_ready(const struct conn *c)
{
	return diag_ready(&diag, c->owner_first, clock_ns());
}

uint32_t owner_retry_ms(void)
{
	uint64_t now = clock_ns(), until = diag.scan.until_ns;

	return MAX((uint32_t)RETRY_MS, until > now ? (uint32_t)((until - now) / NS_PER_MS) + 1 : 0);
}

void owner_renew(struct conn *c)
{
	c->owner_first = diag_next(&diag);
}

bool owner_still_queued(const struct meet_tuple *t)
{
	struct meet_tuple theirs;
	struct diag_result r;

	meet_tuple_swap(&theirs, t);
	/* "later" is said in vain at the worst */
	return !ask(&theirs, diag_next(&diag) - 1, &r) && r.inode == 0;
}

bool bind_peer_gone(struct conn *c)
{
	struct diag_result r;

	if (conn_kernel_dead(c))
		return true;
	/* a FIN may be stuck behind bytes that our program does not read */
	if (!c->tuple_known || !diag_opened || c->elsewhere)
		return false;
	int err = ask(&c->tuple, diag_next(&diag), &r);
	if (err == -EAGAIN)		/* who was gone since it was bound is gone */
		err = ask(&c->tuple, c->owner_first, &r);
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
	diag_forget(&diag);
	memset(&kept, 0, sizeof(kept));
}
