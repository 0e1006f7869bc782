/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * callcount.h - how many system calls a process and its descendants make
 *
 * The kernel counts them itself, at its tracepoint raw_syscalls:sys_enter, by
 * perf_event_open(2).  Nobody is stopped as under strace, but each call takes
 * some 0.1 us longer, so runs that are counted are not those that are timed.
 */
#ifndef BENCH_CALLCOUNT_H
#define BENCH_CALLCOUNT_H

#include <stdint.h>
#include <sys/types.h>

#define CALLCOUNT_HOW	"perf_event_open raw_syscalls:sys_enter"

/*
 * Count from the next execve(2) of pid on, which has not made it yet.
 * Return: a descriptor, or -errno: mostly -EACCES or -EPERM, it wants root or
 * kernel.perf_event_paranoid below 2 and a readable tracefs.
 */
int callcount_open(pid_t pid);

/* Whether this machine lets us: 0 or -errno. */
int callcount_allowed(void);

/* Calls so far, of descendants too; closes fd. */
uint64_t callcount_close(int fd);

#endif
