/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* calls.h - what the files of this room owe each other */
#ifndef SOCK_CALLS_H
#define SOCK_CALLS_H

#include <stdbool.h>

#include "base/reasons.h"
#include "sock/bind.h"

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

/* A new conn with this number, or NULL.  No lock held. */
struct conn *conn_track(int fd, bool nonblock);

/*
 * What fd has been told before it was known here is noted in c.  Signatures of its
 * segments (TCP_MD5SIG) cannot be asked for.  Return: something keeps it off the ring.
 */
bool option_learn(struct conn *c, int fd);

void conn_fork_prepare(void);
void conn_fork_parent(void);
void conn_fork_child(void);

/*
 * Take directions of fd back to the kernel and keep them there.  Bounded; a
 * peer that does not give its direction back leaves the call to the kernel.
 */
void kernel_only(int fd, bool tx, bool rx, enum reason why);

/* A number has been taken from its object; what follows when the kernel has done the same. */
struct number_end {
	bool going;			/* it is marked: fdtab_done() */
	bool waits;			/* the kernel's close may */
	bool inside;			/* calls may be on their way to the kernel with it */
	int kept;			/* a dup that is closed then, and waits in its place; or -1 */
	struct conn *deferred;		/* a sleeper of it that goes then */
	struct lingering linger;	/* what close() waits for then */
};

/* fd is about to be closed, or to be something else.  Context: a section, no lock held. */
struct number_end number_take(int fd);

#endif
