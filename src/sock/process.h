/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * process.h - declarations that the door builds on: start, fork, exec, exit
 *
 * fork_*: called by pthread_atfork() handlers nearest to the fork, so the
 * allocator's locks may be held: no malloc.  exec_prepare() is not called in a
 * vfork child; spawn_prepare() has run in its parent, and spawn_done() comes
 * when the child has executed or gone (posix_spawn, system, popen, too).
 * exit(): once a process; libraries that end after us may still call.
 * sandbox(): before unshare, setns, raw set*id, Landlock or a filter.  After a
 * filter nothing here is called again, and no call of ours may be made.
 */
#ifndef SOCK_PROCESS_H
#define SOCK_PROCESS_H

#include "base/reasons.h"

/* config, log and clock are up; libc's real functions are known */
void process_start(char *const *envp);
void process_fork_prepare(void);
void process_fork_parent(void);
void process_fork_child(void);
void process_exec_prepare(char *const *argv, char *const *envp);
void process_exec_failed(int err);
void process_spawn_prepare(void);
void process_spawn_done(void);
void process_exit(int status);
void process_sandbox(enum reason why);

#endif
