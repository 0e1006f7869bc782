/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * owed.h - the error that a socket owes its program, which is told once
 *
 * The kernel may tell it by itself, in a call of the program's; or a call of ours
 * has taken it from the socket, or we know of a reset before the kernel does, and
 * then the program's next read, write or SO_ERROR tells it.  All of these happen
 * under either lock of a conn or under none.  So what is owed and whether anything
 * has been told are one word: who finds an error while another thread tells it
 * comes before (and it is told) or after (and it is no news).
 */
#ifndef SOCK_OWED_H
#define SOCK_OWED_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

#define OWED_TOLD	(1u << 31)	/* beside the errno, or 0 */

static inline int owed_error(const uint32_t *o)
{
	return (int)(ld_rlx(o) & ~OWED_TOLD);
}

static inline bool owed_told(const uint32_t *o)
{
	return ld_rlx(o) & OWED_TOLD;
}

/* A reset is no news to who has been told; EPIPE neither, and any cause is better. */
static inline bool owed_news(uint32_t old, int err)
{
	if (err == EPIPE)
		return old == 0;
	return err != ECONNRESET || !(old & OWED_TOLD);
}

static inline void owed_add(uint32_t *o, int err)
{
	uint32_t old = ld_rlx(o);

	/* pairs with owed_take() and owed_by_kernel() */
	while (owed_news(old, err) && !cas_acqrel(o, old, (old & OWED_TOLD) | (uint32_t)err))
		old = ld_rlx(o);
}

/* Tell it now.  Return: errno, 0 if another thread has been told instead. */
static inline int owed_take(uint32_t *o)
{
	if (!owed_error(o))
		return 0;
	return (int)(xchg_acqrel(o, OWED_TOLD) & ~OWED_TOLD);	/* pairs with owed_add() */
}

/* The kernel tells an error itself.  Return: whether it is the first to. */
static inline bool owed_by_kernel(uint32_t *o)
{
	return !(xchg_acqrel(o, OWED_TOLD) & OWED_TOLD);	/* pairs with owed_add() */
}

/* A life begins: what an earlier one was told does not count. */
static inline void owed_untold(uint32_t *o)
{
	and_acqrel(o, ~OWED_TOLD);
}

#endif
