/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * real.h - libc's own functions behind the names that the door exports
 *
 * Filled in one go by src/preload/real.c, before the first call passes the
 * door; a function that this libc lacks is one that answers ENOSYS.  The rooms
 * below call them only where a call must reach libc exactly as the program
 * made it: a cold wait, or a cold call that may block, which pthread_cancel()
 * must be able to end (those of base/sys.h are no cancellation points).
 * Everything else of ours uses base/sys.h.
 * Who includes this defines _GNU_SOURCE first.
 */
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/calls.h"

struct real_calls {
#define X(kind, ret, name, nr, params, args) ret (*name) params;
	CALLS(X)
#undef X
};

extern struct real_calls real;

/*
 * How many threads libc counts: it ends the process when its last thread makes
 * this zero.  NULL where that cannot be had.
 */
extern int *real_nthreads;

/* of a call of these: its value, or -errno */
#define real_result(call) ({ \
	__typeof__(call) _n = (call); \
	_n < 0 ? (__typeof__(_n))-errno : _n; })

const char *call_name(enum call_id call);

#endif
