/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* calls.h - hooks of the room above into process.c, and conn.c's part of a fork */
#ifndef SOCK_CALLS_H
#define SOCK_CALLS_H

/* Set by the readiness room before process_start(). */
struct process_hooks {
	void (*start)(void);
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
};
extern const struct process_hooks *process_hooks;

void conn_fork_prepare(void);
void conn_fork_parent(void);
void conn_fork_child(void);

#endif
