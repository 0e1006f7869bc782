/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * door.h - how an exported function gets from the program to the rooms below
 *
 * Every entry of base/calls.h is a function door_NAME here whose symbol is
 * NAME: so it meets neither libc's prototypes nor the compiler's built-ins.
 *
 * Invariants
 *  1. errno: the rooms return -errno; the door sets it on failure and puts the
 *     program's own back on success.
 *  2. A descriptor that is not tracked reaches libc's function with the
 *     program's arguments, unchanged.
 *  3. Nothing here allocates, locks or prints.
 *  4. Whoever enters the rooms does so in a section (base/section.h).
 *  5. In the child of a vfork, which runs in its parent's memory, nothing is
 *     tracked and nothing is recorded: its descriptors are not the parent's.
 */
#ifndef PRELOAD_DOOR_H
#define PRELOAD_DOOR_H

#include <errno.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "base/privfd.h"
#include "base/real.h"
#include "base/section.h"
#include "base/sys.h"
#include "base/util.h"
#include "ready/ready.h"
#include "sock/fdtab.h"
#include "sock/process.h"
#include "sock/sock.h"

/* _exit and _Exit do not come back, but libc's pointer type does not say so */
#define X(kind, ret, name, nr, params, args) \
	exported ret door_##name params __asm__(#name);
CALLS(X)
#undef X

#define DOOR_ALIAS(other, name) \
	exported extern __typeof__(door_##name) door_##other \
		__asm__(#other) __attribute__((alias(#name)));

enum door_state {
	DOOR_SHUT,	/* our constructor has not run yet */
	DOOR_PASS,	/* SIDESTEP=off: everything passes */
	DOOR_ON,
	DOOR_SEALED,	/* behind a system call filter: as PASS, but our descriptors stay hidden */
};

extern int door_state;
extern __thread int door_vfork_depth;	/* raised while this thread is in vfork() */
extern int door_pid;
extern int door_filtered;	/* a system call filter is on: no calls of our own */

/*
 * Find libc's functions, if that has not been done.
 * Return: false if they cannot be called yet (before relocation, or from
 * inside the search): the caller makes the system call by hand.
 * Context: any.
 */
bool door_enter(void);

/* src/preload/real.c: has the loader relocated us, so that a call can leave? */
bool real_reachable(void);
/* fill the table; false if that is out of reach */
bool real_resolve(void);

static inline bool door_up(void)
{
	/* pairs with door_begin(): the table of real functions is filled */
	return likely(ld_acq(&door_state) != DOOR_SHUT) || door_enter();
}

/*
 * The depth alone does not tell: a signal handler of the parent may run with
 * it raised too.  The system call is made only then.
 */
static inline bool door_vfork_child(void)
{
	return unlikely(door_vfork_depth != 0) &&
	       (ld_rlx(&door_filtered) || sys_getpid() != door_pid);
}

/* Nobody has told us of this child (clone() in assembly): as after any fork. */
void door_stray(void);
static inline void door_stray_check(void)
{
	if (unlikely(process_is_stray()))
		door_stray();
}

/* may the rooms hear of this call at all? */
static inline bool door_on(void)
{
	door_stray_check();
	return likely(ld_rlx(&door_state) == DOOR_ON) && !door_vfork_child();
}

/* are there descriptors of ours that the program is not to touch? */
static inline bool door_hides(void)
{
	return likely(ld_rlx(&door_state) >= DOOR_ON) && !door_vfork_child();
}

/* a socket or an epoll set that we know */
static inline bool door_known(int fd)
{
	door_stray_check();
	return fdtab_raw(fd) && door_vfork_depth == 0;
}

static inline bool door_tracked(int fd)
{
	door_stray_check();
	return fdtab_look_tracked(fd) && !door_vfork_child();
}

/* a copy of real.syscall that assembly can name; NULL until then */
extern long (*real_syscall)(long nr, ...);

/* for the call that comes too early: value or -1; errno only once that can be reached */
long door_raw(long ret);

#define DOOR_RAW6(nr, a, b, c, d, e, f, ...) door_raw(sysn6(nr, a, b, c, d, e, f))
#define DOOR_RAWX(...)	DOOR_RAW6(__VA_ARGS__)
#define DOOR_ARGS(...)	__VA_ARGS__ __VA_OPT__(,) 0, 0, 0, 0, 0, 0
#define DOOR_RAW(nr, args) DOOR_RAWX(nr, DOOR_ARGS args)

/* the value of a room's answer as libc would give it */
#define DOOR_RET(expr) ({ \
	int _errno = errno; \
	section_enter(); \
	__typeof__(expr) _ret = (expr); \
	section_leave(); \
	errno = unlikely(_ret < 0) ? (int)-_ret : _errno; \
	unlikely(_ret < 0) ? (__typeof__(expr))-1 : _ret; })

/* for what the rooms do beside the call; errno is as the call left it */
#define DOOR_ASIDE(stmt) do { \
	int _errno = errno; \
	section_enter(); \
	stmt; \
	section_leave(); \
	errno = _errno; \
} while (0)

/* a child by vfork() makes fd one that a new image gets */
static inline void door_vfork_gives(int fd)
{
	if (unlikely(door_vfork_depth) && fdtab_tracked(fd) && door_vfork_child() &&
	    ld_rlx(&door_state) == DOOR_ON && !ld_rlx(&door_filtered))
		DOOR_ASIDE(process_vfork_gives(fd));
}

/* Are there numbers of ours to give up?  errno is left alone. */
bool door_make_room(void);

/* A call that makes a descriptor: EMFILE is told only where plain TCP would tell it. */
#define DOOR_ROOM(call, failed) ({ \
	__typeof__(call) _fd = (call); \
	while (unlikely(_fd == (failed)) && errno == EMFILE && door_make_room()) \
		_fd = (call); \
	_fd; })
#define DOOR_NUMBER(call) DOOR_ROOM(call, -1)
#define DOOR_FILE(call)	DOOR_ROOM(call, NULL)

/*
 * Numbers that the kernel has just given: to be the lowest from min on, also
 * where one of ours was in the way for a moment (base/privfd.h).
 */
void door_settle(int *fds, int n, int min);

static inline int door_lowest(int fd, int min)
{
	if (fd >= 0 && unlikely(privfd_moved()))
		door_settle(&fd, 1, min);
	return fd;
}

/* What was known of this number is over. */
static inline void door_over(int fd)
{
	if (fd >= 0 && door_on())
		DOOR_ASIDE(sock_purge(fd));
}

static inline int door_fresh(int fd)
{
	fd = door_lowest(fd, 0);
	door_over(fd);
	return fd;
}

static inline void door_foreign(int fd)
{
	if (unlikely(door_tracked(fd)))
		DOOR_ASIDE(sock_foreign(fd, REASON_FOREIGN_IO));
}

/* another descriptor of what is here is about to be made where we cannot see it */
void door_passed_on(int fd);

/* the last thing that a process does here; once, and never in a vfork child */
void door_exit(int status);

/* the process is about to install a system call filter */
void door_filter(void);
/* ... by these calls; to ask what a kernel can do, or to fail at once, is none */
bool door_filters_by_prctl(int op, long a, long b);
bool door_filters_by_seccomp(long op, long flags, long args);

/* fork without the handlers of pthread_atfork(): _Fork and clone */
void door_fork_prepare(void);
void door_fork_parent(void);
void door_fork_child(void);

/* the child of a fork has nobody else's locks */
void door_signals_child(void);

#endif
