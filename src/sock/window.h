/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * window.h - how much of its ring a sender uses
 *
 * Byte n of the stream stands at n mod window.  A window that was full is
 * doubled, up to the ring: at once where the ring is empty, or where all that
 * is in it lies in one window of even number, for then nothing moves.  So a
 * put that would leave such a window stops at its end first.  The reader finds
 * the window beside P; what it has not read yet stands where it stood.
 *
 * A dialogue stays in a few pages of the cache.  Bulk wants more than what a
 * core's own cache holds: from there lines come twice as fast, and more, as
 * from another core's.
 *
 * All with txl held.
 */
#ifndef SOCK_WINDOW_H
#define SOCK_WINDOW_H

#include "sock/conn.h"
#include "sock/io.h"

/* With bytes K to P in the ring, does none of them move? */
static inline bool window_may_double(uint64_t K, uint64_t P, uint64_t window)
{
	return P == K || (!(K & window) && P <= (K | (window - 1)) + 1);
}

/* Bytes that may be put now, 0: full. */
uint64_t tx_room(struct conn *c);

/*
 * The next n bytes of io into the ring, where there is room for them.  Bulk
 * whose lines come slowly from a core that shares no cache with ours goes past
 * the caches for a while, and is measured again then: what runs where, the
 * scheduler may change, and a hypervisor behind its back.
 */
void window_put(struct conn *c, const struct io *io, size_t n);

/*
 * The window of the epoch that begins, the ring being empty: larger after one
 * that was too small; also for a program that does not wait (waits: false) and
 * writes n bytes at once.
 */
void window_begin(struct conn *c, bool waits, size_t n);

/* The slot of c is another's from now on. */
void window_forget(struct conn *c);
void window_forget_all(void);	/* in a child: no lock */

#endif
