/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lock.h - a one-word futex mutex
 *
 * Not recursive, no owner, no priority inheritance, no cancellation point,
 * usable before libpthread is up.  0 free, 1 taken, 2 taken with sleepers.
 * Ranks are listed in doc/locking.md; a thread takes them in rising order.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/util.h"

struct lock {
	uint32_t word;
};

#define LOCK_INIT { 0 }

void lock_take_slow(struct lock *l);
void lock_drop_slow(struct lock *l);

static inline bool lock_try(struct lock *l)
{
	uint32_t free = 0;

	/* pairs with lock_drop(): what the last holder did is visible */
	return __atomic_compare_exchange_n(&l->word, &free, 1, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lock_take(struct lock *l)
{
	if (unlikely(!lock_try(l)))
		lock_take_slow(l);
}

static inline void lock_drop(struct lock *l)
{
	/* pairs with lock_try() and lock_take_slow() */
	if (unlikely(__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2))
		lock_drop_slow(l);
}

static inline bool lock_held(const struct lock *l)
{
	return ld_rlx(&l->word) != 0;
}

/* the child of a fork: whoever held it is not here */
static inline void lock_reset(struct lock *l)
{
	st_rlx(&l->word, 0);
}

#endif
