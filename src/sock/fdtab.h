/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fdtab.h - what the program's file descriptors mean to us
 *
 * Two levels: a root in bss (untouched pages cost nothing) and leaves that are
 * mapped when a number in them is first tracked; never sized by RLIMIT_NOFILE.
 * Numbers beyond FDTAB_MAX stay untracked and thus on kernel tcp.
 *
 * An entry is a tagged pointer to an object in type-stable memory (its slab is
 * never unmapped), so a stale pointer may be dereferenced: who has taken the
 * object's lock looks the entry up again and goes on only if it is the same.
 *
 * Going: the kernel is about to take the number away, or to give it to something
 * else.  What it means in between nobody knows, so a call that begins (fdtab_look(),
 * conn_lock_rx() and its like) waits until that is over.  Who has marked it is in a
 * section, and waits for no other thread until then.  To all others it is not tracked.
 */
#ifndef SOCK_FDTAB_H
#define SOCK_FDTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/util.h"

#define FDTAB_LEAF_BITS	10
#define FDTAB_LEAF	(1 << FDTAB_LEAF_BITS)
#define FDTAB_ROOT	(1 << 14)
#define FDTAB_MAX	(FDTAB_LEAF * FDTAB_ROOT)

enum fdtab_tag { FDTAB_CONN = 0, FDTAB_EPOLL = 1, FDTAB_GOING = 2, FDTAB_TAGS = 3 };

extern uintptr_t *fdtab_root[FDTAB_ROOT];

static inline uintptr_t fdtab_raw(int fd)
{
	if (unlikely((unsigned)fd >= FDTAB_MAX))
		return 0;
	/* pairs with fdtab_set(): a leaf is zeroed, an object filled in before */
	uintptr_t *leaf = ld_acq(&fdtab_root[(unsigned)fd >> FDTAB_LEAF_BITS]);

	return leaf ? ld_acq(&leaf[fd & (FDTAB_LEAF - 1)]) : 0;
}

struct conn;
struct eset;

/* Wait, bounded, until it is known what fd is.  Return: its entry.  No lock held. */
uintptr_t fdtab_await(int fd);

static inline bool fdtab_going(int fd)
{
	return unlikely(fdtab_raw(fd) == FDTAB_GOING);
}

/* The entry, for a call that begins. */
static inline uintptr_t fdtab_look(int fd)
{
	uintptr_t v = fdtab_raw(fd);

	return unlikely(v == FDTAB_GOING) ? fdtab_await(fd) : v;
}

/* Is it c's?  Also with a lock held. */
static inline bool fdtab_has(int fd, const struct conn *c)
{
	return fdtab_raw(fd) == (uintptr_t)c;
}

/* Is fd a TCP socket we know? */
static inline struct conn *fdtab_conn(int fd)
{
	uintptr_t v = fdtab_raw(fd);

	return v && (v & FDTAB_TAGS) == FDTAB_CONN ? (struct conn *)v : NULL;
}

static inline struct eset *fdtab_eset(int fd)
{
	uintptr_t v = fdtab_raw(fd);

	return (v & FDTAB_TAGS) == FDTAB_EPOLL ? (struct eset *)(v & ~(uintptr_t)FDTAB_TAGS) : NULL;
}

static inline bool fdtab_tracked(int fd)
{
	return fdtab_conn(fd) != NULL;
}

/* The same, for a call that begins. */
static inline bool fdtab_look_tracked(int fd)
{
	uintptr_t v = fdtab_raw(fd);

	if (likely(!(v & FDTAB_TAGS)))
		return v != 0;
	return v == FDTAB_GOING && fdtab_await(fd) && fdtab_tracked(fd);
}

/* What it was is over; calls that begin wait.  The object's lock held. */
void fdtab_leave(int fd);
/* The same where it may be nothing yet.  Return: true, it is ours to end.  No lock held. */
bool fdtab_take(int fd);
/* A number that we have marked: calls that wait find what it is now. */
void fdtab_done(int fd);
/* In the child of a fork: who has marked a number is not here. */
void fdtab_fork_child(void);

/* obj NULL: forget.  Return: 0, -ENOMEM, -EMFILE (number too high). */
int fdtab_set(int fd, void *obj, enum fdtab_tag tag);

/* The lowest entry at or above fd, up to last, or -1. */
int fdtab_next(int fd, int last);

#endif
