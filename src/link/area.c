/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* area.c - see area.h */
#include "link/area.h"

#include <errno.h>

#include "base/clock.h"
#include "progress/engine.h"

static uint64_t map_mask(uint32_t bytes, unsigned int at)
{
	uint32_t pages = bytes / AREA_PAGE;

	return (pages == 64 ? UINT64_MAX : (1ull << pages) - 1) << at;
}

/* The part in which [off, off+bytes) lies; NULL: it lies in none. */
static const struct rnic_part *part_of(const struct area *a, size_t off, size_t bytes)
{
	for (uint32_t i = a->nparts; i-- > 0;)
		if (off >= a->parts[i].off)
			return off + bytes <= a->parts[i].off + a->parts[i].len ? &a->parts[i] : NULL;
	return NULL;
}

/* Return: the offset of room for a ring in the slab, 0: there is none. */
static size_t room_find(const struct area *a, uint32_t bytes, const struct rnic_part **part)
{
	size_t words = (a->end - a->base + AREA_RING_MOST - 1) / AREA_RING_MOST;

	for (size_t w = 0; w < words; w++) {
		if (!~a->map[w])
			continue;
		for (unsigned int at = 0; at < 64; at += bytes / AREA_PAGE) {
			size_t off = a->base + w * AREA_RING_MOST + at * AREA_PAGE;

			if (a->map[w] & map_mask(bytes, at))
				continue;
			*part = part_of(a, off, bytes);
			if (*part)
				return off;
		}
	}
	return 0;
}

static int part_add(struct area *a, size_t len)
{
	struct rnic_part part;
	int err = a->ops->part_new(a->pd, a->slab, a->end, len, a->remote, &part);

	if (err)
		return err;
	lock_take(&engine.poll_lock);
	a->parts[a->nparts++] = part;
	a->end += len;
	lock_drop(&engine.poll_lock);
	return 0;
}

/* The next part: less than was meant, where that is too much.  base: the first one has it. */
static int grow(struct area *a, size_t base)
{
	size_t left = a->slab->len - a->end, len = MIN(a->step, left - base);
	int err = -ENOMEM;

	if (a->nparts == AREA_PARTS || left == base)
		return -ENOMEM;
	for (; len >= AREA_STEP_LEAST; len /= 2) {
		err = part_add(a, base + len);
		if (err != -ENOMEM)
			break;
	}
	if (!err)
		a->step = len < a->step ? len : MIN(2 * len, (size_t)AREA_STEP_MOST);
	return err;
}

int area_open(struct area *a, const struct rnic_ops *ops, struct ibv_pd *pd,
	      struct rnic_slab *slab, bool remote, size_t base)
{
	*a = (struct area){ .ops = ops, .pd = pd, .slab = slab, .remote = remote,
			    .base = base, .step = AREA_STEP };
	int err = ops->slab_reserve(pd, base + AREA_BYTES, slab);

	return err ? err : grow(a, base);
}

void area_close(struct area *a)
{
	while (a->nparts)
		a->ops->part_free(&a->parts[--a->nparts]);
}

int area_room(struct area *a, uint32_t bytes)
{
	const struct rnic_part *part;

	for (;;) {
		lock_take(&engine.poll_lock);
		bool found = room_find(a, bytes, &part) != 0;
		lock_drop(&engine.poll_lock);
		if (found)
			return 0;
		if (clock_ns() < a->again_ns)
			return -ENOMEM;
		if (grow(a, 0)) {
			a->again_ns = clock_ns() + AREA_AGAIN_MS * NS_PER_MS;
			return -ENOMEM;
		}
	}
}

bool area_take(struct area *a, uint32_t bytes, struct place *p)
{
	const struct rnic_part *part;
	size_t off = room_find(a, bytes, &part), page = (off - a->base) / AREA_PAGE;

	if (!off)
		return false;
	a->map[page / 64] |= map_mask(bytes, page % 64);
	*p = (struct place){ .off = off, .bytes = bytes, .key = a->remote ? part->rkey : part->lkey };
	return true;
}

void area_put(struct area *a, struct place *p)
{
	size_t page = (p->off - a->base) / AREA_PAGE;

	if (p->off)
		a->map[page / 64] &= ~map_mask(p->bytes, page % 64);
	*p = (struct place){ .off = 0 };
}
