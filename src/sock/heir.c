/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * heir.c - see heir.h
 *
 * A server that accepts, forks and closes its copy leaves its child a socket
 * that nobody else holds.  The child may attach it as if it had accepted it
 * itself, once it knows that.  The parent tells, in memory that both map: a
 * will, made for one fork, with a word for each conn that was cold then.
 *
 *	HELD	the parent still has it; what a parent that died leaves
 *	HEIR	the parent has closed its last number, and this child is all
 *	SPOILT	somebody else got it too: never
 *
 * Why HEIR is true.  A socket comes to another process by fork, by exec, or in
 * a message.  The parent makes a will for a conn at its first fork only; the
 * second (heir_over), a child that is to execute, and a message spoil it, each
 * before it happens.  HEIR and SPOILT are stored under both locks of the conn
 * and neither is ever changed, so the first of them holds.  At the close no
 * thread is inside a call on the conn (one in a read would take bytes after
 * it), and the parent has not met the peer meanwhile.  A fork of the child
 * itself, unless it has taken the conn before, makes it give its claim up: it
 * then shares the socket with its own child.  Only the parent writes; a child
 * that writes into it harms its brothers by no more than an attach that the
 * byte counts of the kernel refuse, or their peers.
 *
 * The child's picture of the conn is that of the fork.  What the parent reads
 * or writes after it makes the counts differ, so nothing attaches (evidence,
 * grant.c); an option that it sets spoils the will.  Sets of epoll stay shared
 * after the close: a conn in one has no heir.
 *
 * A will is unmapped with the last conn that it is for, on each side for
 * itself.  There are WILLS at a time; a conn without one stays on the kernel.
 */
#define _GNU_SOURCE
#include "sock/heir.h"

#include <sys/mman.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/bind.h"
#include "sock/show.h"

#define WILLS		64
#define WILL_BYTES	4096

enum heir_word { HELD, HEIR, SPOILT };

struct will {
	uint8_t *words;			/* shared; NULL: a free entry */
	uint32_t refs;			/* conns here that point to it, and who makes it */
	uint32_t used;
};

static struct will wills[WILLS];
static uint32_t nwilled;		/* conns with a will */

static void will_put(struct will *w)
{
	uint8_t *words = w->words;

	if (sub_acqrel(&w->refs, 1) != 0)
		return;
	sys_unmap(words, WILL_BYTES);
	st_rel(&w->words, NULL);	/* pairs with will_new() */
}

/* Both locks of c held. */
static void forget(struct conn *c)
{
	struct will *w = c->will;

	st_rlx(&c->will, NULL);
	sub_acqrel(&nwilled, 1);
	will_put(w);
}

/* Only who made it writes it: for an inherited conn the claim goes. */
static void settle(struct conn *c, enum heir_word word)
{
	if (!c->will)
		return;
	if (!c->inherited)
		st_rel(&c->will->words[c->will_word], word);	/* pairs with heir_alone() */
	forget(c);
}

void heir_spoil(struct conn *c)
{
	c->heir_over = true;
	settle(c, SPOILT);
}

void heir_close(struct conn *c)
{
	bool idle = c->rx_inside == 0 && c->tx_inside == 0 && !ld_acq(&c->sleepers);

	settle(c, idle && !c->link && !c->ever_bound ? HEIR : SPOILT);
}

void heir_changed(int fd)
{
	if (!ld_rlx(&nwilled))
		return;
	struct conn *c = conn_lock_both(fd);
	if (!c)
		return;
	if (!c->inherited)
		heir_spoil(c);
	conn_unlock_both(c);
}

/* ---------------------------------------------------------- the parent -- */

/* With a reference.  One fork prepares at a time (walk_lock); others free entries meanwhile. */
static struct will *will_new(void)
{
	for (int i = 0; i < WILLS; i++) {
		if (ld_acq(&wills[i].words))	/* pairs with forget() */
			continue;
		long p = sys_mmap(WILL_BYTES, MAP_SHARED | MAP_ANONYMOUS, -1);
		if (p < 0 && p > -4096)
			return NULL;
		wills[i].refs = 1;
		wills[i].used = 0;
		wills[i].words = (uint8_t *)p;
		return &wills[i];
	}
	return NULL;
}

static bool cold(const struct conn *c)
{
	return c->established && c->fd >= 0 && !c->closing && !c->inherited && !c->link &&
	       !c->ever_bound && c->meet == MEET_IDLE && c->rx_inside == 0 && c->tx_inside == 0 &&
	       !ld_acq(&c->sleepers) && list_empty(&c->eents);
}

static void bequeath(struct conn *c, void *arg)
{
	struct will **w = arg;

	conn_take_both(c);
	if (c->established && (c->heir_over || c->will || !cold(c))) {
		heir_spoil(c);
	} else if (c->established) {
		if (!*w)
			*w = will_new();
		c->heir_over = true;
		if (*w && (*w)->used < WILL_BYTES) {
			c->will = *w;
			c->will_word = (uint16_t)(*w)->used++;
			add_rlx(&(*w)->refs, 1);
			add_rlx(&nwilled, 1);
		}
	}
	conn_unlock_both(c);
}

void heir_fork_prepare(void)
{
	struct will *w = NULL;

	if (!bind_enabled())
		return;
	conn_for_each(bequeath, &w);
	if (w)
		will_put(w);
}

/* ----------------------------------------------------------- the child -- */

void heir_fork_child(struct conn *c)
{
	/* closed, or in a call, between the will and the fork */
	if (c->will && (!c->nfds || c->closing || c->rx_inside || c->tx_inside || c->link ||
			c->ever_bound))
		forget(c);
}

bool heir_alone(const struct conn *c)
{
	const struct will *w = ld_rlx(&c->will);

	return w && ld_acq(&w->words[c->will_word]) == HEIR;	/* pairs with settle() */
}

bool heir_take(struct conn *c)
{
	if (!c->inherited || c->closing || c->fd < 0 || c->rx_shut_out || !heir_alone(c))
		return false;
	forget(c);
	c->heir_over = false;		/* it may have an heir of its own */
	c->kin_way = 0;			/* nobody to ask: it was cold, and is ours */
	st_rlx(&c->inherited, false);
	st_rlx(&c->why, REASON_NOT_WARM);
	st_rlx(&c->meet, MEET_IDLE);
	show_both(c);
	log_debug("fd %d is this process's alone", c->fd);
	return true;
}
