/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hello.h - a link to the process that owns the other end (background thread) */
#ifndef SOCK_HELLO_H
#define SOCK_HELLO_H

#include "meet/answer.h"
#include "sock/conn.h"

/* A random number of this process image. */
uint64_t hello_instance(void);

/* EACCES or EPERM was met: this process does not meet any more. Any thread. */
bool hello_forbidden(void);
void hello_forbid(void);

/*
 * Find the owner of c's other end, who runs as uid, and bring up a link to it.
 * done(): the link, or NULL and why (REASON_NONE: try again soon).
 */
void hello_ask(struct conn *c, uint32_t uid,
	       void (*done)(struct conn *c, struct link *l, enum reason why));

/* answer_ops.mine: the asker's HELLO comes next on fd. */
void hello_as_owner(void *arg, int fd, const struct meet_asker *who);

const struct meet_loop *hello_loop(void);
/* The answering side has deadlines too. */
void hello_set_answer(struct answer *a);
void hello_forget(void);

#endif
