/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * conn.c - see conn.h
 *
 * conns_lock protects the free list and the list of all, and refs going to 0;
 * it is a leaf.  walk_lock is taken before any other lock.
 */
#define _GNU_SOURCE
#include "sock/conn.h"

#include <string.h>
#include <sys/mman.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/section.h"
#include "base/sys.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/fdtab.h"
#include "sock/heir.h"
#include "sock/kin.h"
#include "sock/rest.h"
#include "sock/show.h"

#define SLAB_CONNS	64
#define SLABS		16384

static struct lock walk_lock;
static struct lock conns_lock;
static struct list free_conns = LIST_INIT(free_conns);
static struct list all_conns = LIST_INIT(all_conns);
static struct conn *slabs[SLABS];	/* untouched pages cost nothing */
static uint32_t nslabs;

/* conns_lock held */
static bool grow(void)
{
	struct conn *c = nslabs < SLABS ? sys_map(SLAB_CONNS * sizeof(*c), 0) : NULL;

	if (!c)
		return false;
	for (uint32_t i = 0; i < SLAB_CONNS; i++) {
		c[i].id = nslabs * SLAB_CONNS + i;
		list_push(&free_conns, &c[i].all);
	}
	slabs[nslabs++] = c;
	return true;
}

/*
 * Under its locks: who came out of a call on what this memory was before, and
 * still found its gen, is done with it then.  The locks stay as they are.
 */
static void conn_clear(struct conn *c, int fd)
{
	uint32_t gen = c->gen, id = c->id;

	conn_take_both(c);
	struct prefix tx = c->tx_prefix, rx = c->rx_prefix;
	memset(&c->tx_inside, 0, (char *)&c->rxl - (char *)&c->tx_inside);
	memset(&c->rx_inside, 0, (char *)(c + 1) - (char *)&c->rx_inside);
	st_rlx(&c->gen, gen);
	c->id = id;
	c->tx_prefix = tx;		/* empty, see conn_put() */
	c->rx_prefix = rx;
	c->fd = fd;
	c->nfds = 1;
	c->refs = 1;
	c->why = REASON_NOT_WARM;
	st_rlx(&c->watch.fd, -1);
	list_init(&c->all);
	list_init(&c->accepted);
	list_init(&c->waiting);
	list_init(&c->eents);
	ptx_init(&c->tx, 0);
	prx_init(&c->rx, 0);
	bind_conn_init(c);
	conn_unlock_both(c);
}

struct conn *conn_new(int fd)
{
	struct conn *c = NULL;

	lock_take(&conns_lock);
	if (!list_empty(&free_conns) || grow()) {
		struct list *n = free_conns.next;

		list_del(n);
		c = list_entry(n, struct conn, all);
	}
	lock_drop(&conns_lock);
	if (!c)
		return NULL;
	conn_clear(c, fd);
	lock_take(&conns_lock);
	st_rlx(&c->kin_born, kin_serial);
	list_push(&all_conns, &c->all);
	lock_drop(&conns_lock);
	return c;
}

void conn_get(struct conn *c)
{
	add_rlx(&c->refs, 1);
}

void conn_put(struct conn *c)
{
	if (sub_acqrel(&c->refs, 1) != 0)
		return;
	/* a walker may have taken it up again: then the last put is his */
	lock_take(&conns_lock);
	bool last = ld_acq(&c->refs) == 0 && !list_empty(&c->all);
	if (last)
		list_del(&c->all);
	lock_drop(&conns_lock);
	if (!last)
		return;
	conn_count_final(c);
	show_gone(c);
	prefix_keep(&c->tx_prefix, &conn_prefix_pool);
	prefix_keep(&c->rx_prefix, &conn_prefix_pool);
	privfd_close(xchg_acqrel(&c->owed_once, 0) - 1);
	rest_drop(c);
	lock_take(&conns_lock);
	st_rlx(&c->gen, c->gen + 1);
	list_insert(&free_conns, &c->all);
	lock_drop(&conns_lock);
}

void conn_count_ring(struct conn *c)
{
	/* one direction under txl, the other under rxl: pairs with itself */
	if (!ld_rlx(&c->ever_ring) && !xchg_acqrel(&c->ever_ring, true))
		count(c->link->dev->rnic->hardware ? CNT_conns_ring_verbs : CNT_conns_ring_soft, 1);
}

void conn_count_final(struct conn *c)
{
	/* pairs with establish(): at exit other threads still run */
	if (!xchg_acqrel(&c->counted, false) || ld_rlx(&c->ever_ring))
		return;
	count(CNT_conns_tcp, 1);
	count_reason(ld_rlx(&c->why));
}

struct conn *conn_lock_tx(int fd)
{
	for (;;) {
		struct conn *c = fdtab_conn(fd);

		if (unlikely(!c)) {
			if (fdtab_look_tracked(fd))
				continue;	/* it was going */
			return NULL;
		}
		lock_take(&c->txl);
		if (likely(fdtab_has(fd, c)))
			return c;
		lock_drop(&c->txl);
	}
}

struct conn *conn_lock_rx(int fd)
{
	for (;;) {
		struct conn *c = fdtab_conn(fd);

		if (unlikely(!c)) {
			if (fdtab_look_tracked(fd))
				continue;	/* it was going */
			return NULL;
		}
		lock_take(&c->rxl);
		if (likely(fdtab_has(fd, c)))
			return c;
		lock_drop(&c->rxl);
	}
}

struct conn *conn_lock_both(int fd)
{
	struct conn *c = conn_lock_rx(fd);

	if (c)
		lock_take(&c->txl);
	return c;
}

void conn_for_each(void (*fn)(struct conn *c, void *arg), void *arg)
{
	struct list mark;

	/* one walker at a time; its marker keeps the place while the lock is away */
	lock_take(&walk_lock);
	lock_take(&conns_lock);
	list_insert(&all_conns, &mark);
	while (mark.next != &all_conns) {
		struct list *n = mark.next;
		struct conn *c = list_entry(n, struct conn, all);

		list_del(&mark);
		list_insert(n, &mark);
		if (ld_rlx(&c->refs) == 0)	/* on its way out */
			continue;
		conn_get(c);
		lock_drop(&conns_lock);
		fn(c, arg);
		conn_put(c);
		lock_take(&conns_lock);
	}
	list_del(&mark);
	lock_drop(&conns_lock);
	lock_drop(&walk_lock);
}

void conn_show_all(struct page *p, void (*fn)(struct page *p, struct conn *c))
{
	lock_take(&conns_lock);
	for (uint32_t i = 0; i < nslabs * SLAB_CONNS; i++) {
		struct conn *c = &slabs[i / SLAB_CONNS][i % SLAB_CONNS];

		if (ld_rlx(&c->refs))
			fn(p, c);
	}
	lock_drop(&conns_lock);
}

struct conn *conn_find(uint32_t id, uint32_t gen)
{
	struct conn *c = NULL;

	lock_take(&conns_lock);
	if (id / SLAB_CONNS < nslabs)
		c = &slabs[id / SLAB_CONNS][id % SLAB_CONNS];
	if (c && (ld_rlx(&c->gen) != gen || ld_rlx(&c->refs) == 0))
		c = NULL;
	if (c)
		conn_get(c);
	lock_drop(&conns_lock);
	return c;
}

bool conn_any_to_share(void)
{
	bool any = false;

	lock_take(&conns_lock);
	list_for_each(n, &all_conns) {
		const struct conn *c = list_entry(n, struct conn, all);

		if (ld_rlx(&c->established) && !ld_rlx(&c->kin_way) &&
		    (ld_rlx(&c->meet) != MEET_OVER || ld_rlx(&c->ever_bound))) {
			any = true;
			break;
		}
	}
	lock_drop(&conns_lock);
	return any;
}

static void todo(struct conn *c, uint32_t bits, bool (*put)(struct bg_work *w))
{
	or_acqrel(&c->todo, bits);
	if (!bg_running())
		return;
	if (!ld_acq(&c->work.queued)) {	/* pairs with bg_queue_soon() */
		conn_get(c);
		if (!put(&c->work))
			conn_put(c);
	} else if (put == bg_queue_once) {
		bg_hurry(&c->work);
	}
}

void conn_todo(struct conn *c, uint32_t bits)
{
	todo(c, bits, bg_queue_once);
}

void conn_todo_soon(struct conn *c, uint32_t bits)
{
	todo(c, bits, bg_queue_soon);
}

/* ---- an error that a parent and its children know of is told by one of them ---- */

int conn_owed_take(struct conn *c)
{
	int err = owed_take(&c->owed), once = ld_acq(&c->owed_once) - 1;	/* pairs with request_once(), told() */
	char b;

	if (likely(!err || once < 0))
		return err;
	return sys_recvfrom(once, &b, 1, MSG_DONTWAIT) == 1 ? err : 0;
}

int conn_owed(struct conn *c)
{
	int err = owed_error(&c->owed);
	char b;

	if (likely(!err))
		return 0;
	int once = ld_acq(&c->owed_once) - 1;	/* pairs with request_once(), told() */
	if (once < 0 || sys_recvfrom(once, &b, 1, MSG_DONTWAIT | MSG_PEEK) == 1)
		return err;
	owed_take(&c->owed);		/* by another process */
	return 0;
}

/* ---- raw bytes of cold prefixes: two sizes, kept on free lists ---- */

static struct lock prefix_lock;
static void *prefix_free[2];

static void *prefix_get(void *arg, size_t bytes)
{
	int k = bytes > PREFIX_SMALL;
	void *p;

	lock_take(&prefix_lock);
	if (!prefix_free[k]) {
		size_t chunk = k ? 16 * bytes : 32 * bytes;
		char *m = sys_map(chunk, 0);

		for (size_t off = 0; m && off < chunk; off += bytes) {
			void **next = (void *)(m + off);

			*next = prefix_free[k];
			prefix_free[k] = next;
		}
	}
	p = prefix_free[k];
	if (p)
		prefix_free[k] = *(void **)p;
	lock_drop(&prefix_lock);
	return p;
}

static void prefix_put(void *arg, void *p, size_t bytes)
{
	int k = bytes > PREFIX_SMALL;

	lock_take(&prefix_lock);
	*(void **)p = prefix_free[k];
	prefix_free[k] = p;
	lock_drop(&prefix_lock);
}

const struct prefix_pool conn_prefix_pool = {
	.get = prefix_get,
	.put = prefix_put,
};

/* ---- fork: the lists are whole in the child, the rest is made anew ---- */

void conn_fork_prepare(void)
{
	lock_take(&walk_lock);
	lock_take(&conns_lock);
	lock_take(&prefix_lock);
}

void conn_fork_parent(void)
{
	lock_drop(&prefix_lock);
	lock_drop(&conns_lock);
	lock_drop(&walk_lock);
}

/* A thread that is not here may have been in the middle of it. */
static void direction_left(struct lock *l, struct prefix *p)
{
	if (!lock_held(l))
		return;
	lock_reset(l);
	*p = (struct prefix){ .state = PREFIX_LOST };	/* whose the buffer is, nobody knows */
}

static void conn_left(struct conn *c)
{
	direction_left(&c->txl, &c->tx_prefix);
	direction_left(&c->rxl, &c->rx_prefix);
}

/* What is told of its end: as in the parent, or by the kernel, and who is asked. */
static void end_inherit(struct conn *c, bool goes_on, bool reset)
{
	if (goes_on) {
		c->kin = 0;
		c->ever_bound = true;
		prx_over(&c->rx, reset);
	} else {
		c->owed &= OWED_TOLD;
		c->owed_once = c->rest = 0;
	}
}

void conn_fork_child(void)
{
	lock_reset(&prefix_lock);
	lock_reset(&conns_lock);
	lock_reset(&walk_lock);
	fdtab_fork_child();
	section.inside = 0;		/* counts begin anew; a handler of this thread may have made the fork */
	list_for_each(n, &free_conns)
		conn_left(list_entry(n, struct conn, all));
	list_for_each(n, &all_conns) {
		struct conn *c = list_entry(n, struct conn, all);
		bool goes_on = rest_goes_on(c), reset = c->rx.end_reset;

		conn_left(c);
		heir_fork_child(c);
		if (!goes_on)
			kin_inherit(c);
		c->inherited = true;
		c->counted = false;
		c->meet = MEET_OVER;
		c->why = REASON_FORK;
		c->link = NULL;
		c->tx_ring = c->rx_ring = NULL;
		c->tx_words = c->rx_words = NULL;
		c->tx_grown = 0;
		/* the threads that were in a call are the parent's */
		c->tx_inside = c->rx_inside = c->rx_plain_polls = c->sleepers = 0;
		c->tx_asking = c->rx_asking = 0;
		c->rx_looking = false;
		c->deferred = false;
		c->rx_read = c->rx_waited = false;
		c->tx_granted = c->rx_granted = c->listening = c->listen_there = false;
		c->tx_stuck = c->tx_shut = c->tx_fin_out = c->tx_blocked = false;
		c->rx_shut = c->rx_shut_out = c->rx_shut_clean = c->rx_shut_over = false;
		c->closing = c->end_kin = false;
		c->rx_end_ns = 0;
		c->rx_end_due = c->rx_end_read = false;
		c->lurks = false;
		c->reg_tx = false;
		c->reg_rx = 0;
		c->refs = c->nfds ? 1 : 0;
		if (!c->nfds)
			c->fd = -1;	/* it was being closed, on a descriptor of ours */
		st_rlx(&c->watch.fd, -1);
		c->watch_events = 0;
		c->todo = 0;
		c->work.queued = 0;
		list_init(&c->accepted);
		list_init(&c->waiting);
		c->timer.node.next = NULL;
		ptx_init(&c->tx, c->tx.kc);
		c->tx_given = c->tx.kc;
		prx_init(&c->rx, c->rx.pos);
		/* as before the ring: every read and write is the kernel's own */
		c->ever_bound = c->ever_ring = false;
		end_inherit(c, goes_on, reset);
	}
}
