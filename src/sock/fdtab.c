/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fdtab.c - see fdtab.h */
#define _GNU_SOURCE
#include "sock/fdtab.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/sys.h"

#define AWAIT_S	4		/* then who has marked it is stopped, or worse */

uintptr_t *fdtab_root[FDTAB_ROOT];
static uint32_t waiters, turn;	/* for numbers that are going; turn: moves when one is not any more */

static uintptr_t *leaf_of(int fd)
{
	uintptr_t **at = &fdtab_root[(unsigned)fd >> FDTAB_LEAF_BITS];
	uintptr_t *leaf = ld_acq(at);

	if (leaf)
		return leaf;
	uintptr_t *p = sys_map(FDTAB_LEAF * sizeof(*p), 0);
	if (!p)
		return NULL;
	if (cas_acqrel(at, NULL, p))	/* pairs with fdtab_raw() */
		return p;
	sys_unmap(p, FDTAB_LEAF * sizeof(*p));
	return ld_acq(at);
}

/* A number is known again. */
static void tell(void)
{
	fence_full();		/* pairs with fdtab_await(): the entry, then waiters */
	if (likely(!ld_rlx(&waiters)))
		return;
	add_acqrel(&turn, 1);
	sys_futex(&turn, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX, NULL);
}

int fdtab_set(int fd, void *obj, enum fdtab_tag tag)
{
	if ((unsigned)fd >= FDTAB_MAX)
		return -EMFILE;
	if (!obj && !fdtab_raw(fd))
		return 0;
	uintptr_t *leaf = leaf_of(fd);
	if (!leaf)
		return -ENOMEM;
	uintptr_t was = xchg_acqrel(&leaf[fd & (FDTAB_LEAF - 1)], obj ? (uintptr_t)obj | tag : 0);
	if (was == FDTAB_GOING)
		tell();
	return 0;
}

/* An entry of fd, whose leaf exists. */
static uintptr_t *entry(int fd)
{
	return &fdtab_root[(unsigned)fd >> FDTAB_LEAF_BITS][fd & (FDTAB_LEAF - 1)];
}

void fdtab_leave(int fd)
{
	st_rel(entry(fd), FDTAB_GOING);
}

bool fdtab_take(int fd)
{
	if ((unsigned)fd >= FDTAB_MAX || !leaf_of(fd))
		return false;
	while (!cas_acqrel(entry(fd), 0, FDTAB_GOING))	/* pairs with itself: one at a time */
		if (fdtab_look(fd))
			return false;		/* another's, meanwhile */
	return true;
}

void fdtab_done(int fd)
{
	/* what has it by now, if anything, is not touched; pairs with fdtab_raw() */
	if (cas_acqrel(entry(fd), FDTAB_GOING, 0))
		tell();
}

uintptr_t fdtab_await(int fd)
{
	const struct timespec soon = { AWAIT_S, 0 };
	uint64_t end = clock_ns() + AWAIT_S * NS_PER_S;
	uint32_t seen;

	add_acqrel(&waiters, 1);
	fence_full();		/* pairs with tell(): waiters, then the entry */
	while ((seen = ld_acq(&turn), fdtab_going(fd)) && clock_ns() < end)
		sys_futex(&turn, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, &soon);
	sub_acqrel(&waiters, 1);
	if (fdtab_going(fd))
		fdtab_done(fd);		/* nobody waits for it again */
	return fdtab_raw(fd);
}

void fdtab_fork_child(void)
{
	waiters = 0;
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1))
		if (fdtab_going(fd))
			fdtab_done(fd);
}

int fdtab_next(int fd, int last)
{
	last = MIN(last, FDTAB_MAX - 1);
	while (fd <= last) {
		if (!ld_acq(&fdtab_root[(unsigned)fd >> FDTAB_LEAF_BITS]))
			fd = (fd | (FDTAB_LEAF - 1)) + 1;
		else if (fdtab_raw(fd))
			return fd;
		else
			fd++;
	}
	return -1;
}
