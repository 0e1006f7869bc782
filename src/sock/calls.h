/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* calls.h - what the files of this room owe each other */
#ifndef SOCK_CALLS_H
#define SOCK_CALLS_H

#include <stdbool.h>

#include "base/reasons.h"

/* Set by the readiness room before process_start(). */
struct process_hooks {
	void (*start)(void);
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
	/* A child waits on an epoll set of ours, too; its address, unchecked. */
	void (*set_shared)(uint64_t set);
};
extern const struct process_hooks *process_hooks;

void conn_fork_prepare(void);
void conn_fork_parent(void);
void conn_fork_child(void);

/*
 * Take directions of fd back to the kernel and keep them there.  Bounded; a
 * peer that does not give its direction back leaves the call to the kernel.
 */
void kernel_only(int fd, bool tx, bool rx, enum reason why);

#endif
