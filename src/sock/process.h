/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * process.h - declarations that the door builds on: start, fork, exec, exit
 *
 * fork_*: called by pthread_atfork() handlers nearest to the fork, so the
 * allocator's locks may be held: no malloc.  exec_prepare() is not called in a
 * vfork child; spawn_prepare() has run in its parent, and spawn_done() comes
 * when the child has executed or gone (posix_spawn, system, popen, too).
 * exit(): once a process; libraries that end after us may still call.
 * make_room(): after EMFILE.
 * sandbox(): before unshare, setns, raw set*id or Landlock; from then on all is
 * kernel TCP.  seal(): before a filter; nothing here is called again.
 */
#ifndef SOCK_PROCESS_H
#define SOCK_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/reasons.h"
#include "base/util.h"

/* A word that the kernel wipes in a child, also one of which nobody has told us. */
extern uint32_t *process_mark;

static inline bool process_is_stray(void)
{
	return unlikely(ld_rlx(ld_acq(&process_mark)) == 0);	/* pairs with mark_open() */
}

/* config, log and clock are up; libc's real functions are known */
void process_start(char *const *envp);
void process_fork_prepare(void);
void process_fork_parent(void);
void process_fork_child(void);
void process_exec_prepare(char *const *argv, char *const *envp);
void process_exec_failed(int err);
void process_spawn_prepare(void);
void process_spawn_done(void);
/* In a child by vfork(): fd is going to be the new image's, close-on-exec or not. */
void process_vfork_gives(int fd);
void process_exit(int status);
/* This thread is about to leave past libc.  Return: true if that ends the process. */
bool process_leaves(int status);
void process_sandbox(enum reason why);
void process_seal(void);
/*
 * A call of the program's found no free number: give up some of ours, first
 * those in reserve, then the ring and all of it, for good (reason no-memory).
 * Return: true if it is worth another try.
 */
bool process_make_room(void);
/* Are the calls that a ring lives by allowed here? */
bool sandbox_allows(void);

/* for sandbox.c: all conns back to the kernel; parents and children; the ends under way, bounded; final counts */
void process_hand_back(enum reason why);
void process_leave_kin(void);
void process_ends(void);
void process_count(void);

#endif
