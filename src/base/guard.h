/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * guard.h - memory that is read without a lock, and when it may be unmapped
 *
 * Predicates of waits look at a peer's shared words without the conn's lock.
 * They do so between guard_enter() and guard_exit(), loading the pointer once
 * and taking NULL for "not on the ring".  Who wants to unmap first takes the
 * pointers away, then waits for a moment in which nobody is inside:
 *
 *   reader:  count up -> pointer -> memory -> count down
 *   freer:   pointer NULL -> full fence -> count is 0 -> unmap
 *
 * so a reader either finished before that moment or sees NULL.
 */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

extern uint32_t guard_inside;

static inline void guard_enter(void)
{
	/* pairs with guard_empty(): a locked instruction, so a full fence on x86 */
	__atomic_fetch_add(&guard_inside, 1, __ATOMIC_SEQ_CST);
}

static inline void guard_exit(void)
{
	/* pairs with guard_empty(): what was read was read before */
	__atomic_fetch_sub(&guard_inside, 1, __ATOMIC_RELEASE);
}

static inline bool guard_empty(void)
{
	fence_full();
	return __atomic_load_n(&guard_inside, __ATOMIC_SEQ_CST) == 0;
}

#endif
