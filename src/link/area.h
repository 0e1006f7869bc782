/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * area.h - registered memory that grows in steps, and rings cut from it
 *
 * An area is a slab of which only addresses are there at first.  Parts of it are
 * registered one behind the other, each twice as large as the last, when there is
 * no room for another ring; registering takes time, so only the background
 * thread does it, and without a lock.  Where the memory that may be locked is
 * used up, smaller parts are tried.  What is registered stays until the link is
 * gone: a ring that is given back is another conn's next.
 *
 * Rings are powers of two, from a page to the 64 pages of a word of the map, lie
 * at multiples of their own size and in one part.
 *
 * Locks: parts, end and map change under poll_lock.
 */
#ifndef LINK_AREA_H
#define LINK_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"
#include "rnic/rnic.h"

#define AREA_PAGE	4096u
#define AREA_RING_MOST	(64 * AREA_PAGE)
#define AREA_BYTES	(64u << 20)	/* of rings */
#define AREA_STEP	(256u << 10)	/* the first part */
#define AREA_STEP_LEAST	(64u << 10)
#define AREA_STEP_MOST	(4u << 20)
#define AREA_PARTS	48
#define AREA_AGAIN_MS	200		/* after a registration that was refused */

struct area {
	const struct rnic_ops *ops;
	struct ibv_pd *pd;
	struct rnic_slab *slab;		/* the link's */
	bool remote;			/* the peer writes into it */
	size_t base;			/* bytes before the first ring */
	size_t end;			/* registered so far, of the slab */
	size_t step;			/* of the next part */
	uint64_t again_ns;		/* no more tries before that */
	uint32_t nparts;
	struct rnic_part parts[AREA_PARTS];
	uint64_t map[AREA_BYTES / AREA_RING_MOST];	/* a bit a page that is in use */
};

/* A ring, or room for one. */
struct place {
	size_t off;			/* in the slab; 0: none */
	uint32_t bytes;
	uint32_t key;			/* lkey to send from, rkey to be written to */
	bool grown;			/* for far.c */
};

/* base: a multiple of the page. The part with the base and a few rings.  0 or -errno. */
int area_open(struct area *a, const struct rnic_ops *ops, struct ibv_pd *pd,
	      struct rnic_slab *slab, bool remote, size_t base);
void area_close(struct area *a);

/*
 * Register more unless there is room for a ring of so many bytes.  Background
 * thread, no lock held: who takes it there next, finds it.  Return: 0; -ENOMEM.
 */
int area_room(struct area *a, uint32_t bytes);

/* poll_lock held. Return: false, no room. */
bool area_take(struct area *a, uint32_t bytes, struct place *p);
/* poll_lock held; *p becomes none, and may be already. */
void area_put(struct area *a, struct place *p);

#endif
