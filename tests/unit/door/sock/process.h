/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* process.h - what the door expects of the process room (test double) */
#ifndef SOCK_PROCESS_H
#define SOCK_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reasons.h"

extern uint32_t *process_mark;
static inline bool process_is_stray(void)
{
	return *process_mark == 0;
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
void process_vfork_gives(int fd);
void process_exit(int status);
bool process_leaves(int status);
void process_sandbox(enum reason why);
void process_seal(void);
bool process_make_room(void);

#endif
