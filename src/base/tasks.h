/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tasks.h - the threads of this process: what they sleep in, and how many there are */
#ifndef BASE_TASKS_H
#define BASE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct task_call {
	long nr;		/* -1: asleep, but in no system call */
	unsigned long a[6];
};

/*
 * Call fn for each thread that sleeps, but this one.
 * Return: 0, or -errno where the kernel does not tell (no /proc, no permission):
 * then fn may have been called for some.
 */
int tasks_each(void (*fn)(void *arg, const struct task_call *call), void *arg);

/*
 * Memory that a sleeping thread of this process has named and may unmap at any
 * moment.  Return: bytes, or -errno.
 */
ssize_t tasks_peek(unsigned long from, void *to, size_t n);

/*
 * libc ends a process with its last thread, which ours shall not be: it is taken
 * off libc's count, by who has made it, and put back before it ends.
 */
void tasks_hide(void);
void tasks_unhide(void);
void tasks_forget(void);	/* in a child */

/* Threads that have not ended as libc knows it, ours apart; -ENOSYS: unknown. */
int tasks_counted(void);

/* Threads of this process, a main thread that has left included.  Or -errno. */
int tasks_total(void);

/* Is an io_uring of this process mapped?  Looked up at most once a second. */
bool tasks_uring(uint64_t now_ns);

/* CPU time of all threads but this one. */
uint64_t tasks_cpu_ns(void);

#endif
