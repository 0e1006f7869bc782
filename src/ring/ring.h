/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ring.h - copies between plain memory and a ring
 *
 * mask is the window less one (a power of two less one), at a free-running
 * position.  The caller has made sure that n bytes are his: a writer has room,
 * a reader has seen them published (acquire).
 */
#ifndef RING_RING_H
#define RING_RING_H

#include <stddef.h>
#include <stdint.h>

#include "base/copy.h"
#include "base/util.h"

static inline void ring_put(uint8_t *ring, uint64_t mask, uint64_t at, const void *p, size_t n)
{
	size_t run = MIN(n, (size_t)(mask + 1 - (at & mask)));

	copy_bytes(ring + (at & mask), p, run);
	if (unlikely(run < n))
		copy_bytes(ring, (const uint8_t *)p + run, n - run);
}

/* The same, for a reader who shares no cache with us (base/copy.h). */
static inline void ring_put_past(uint8_t *ring, uint64_t mask, uint64_t at, const void *p,
				 size_t n)
{
	size_t run = MIN(n, (size_t)(mask + 1 - (at & mask)));

	copy_past_caches(ring + (at & mask), p, run);
	if (unlikely(run < n))
		copy_past_caches(ring, (const uint8_t *)p + run, n - run);
}

static inline void ring_get(const uint8_t *ring, uint64_t mask, uint64_t at, void *p, size_t n)
{
	size_t run = MIN(n, (size_t)(mask + 1 - (at & mask)));

	copy_bytes(p, ring + (at & mask), run);
	if (unlikely(run < n))
		copy_bytes((uint8_t *)p + run, ring, n - run);
}

/* Bytes from position at up to the wrap: what one plain call can take, n at most. */
static inline size_t ring_run(uint64_t mask, uint64_t at, uint64_t n)
{
	return (size_t)MIN(n, mask + 1 - (at & mask));
}

#endif
