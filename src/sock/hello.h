/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hello.h - a link to the process that owns the other end (background thread) */
#ifndef SOCK_HELLO_H
#define SOCK_HELLO_H

#include "meet/answer.h"
#include "sock/conn.h"

/* A random number of this process image. */
uint64_t hello_instance(void);

/* This process does not meet any more, and why (0: it may).  Any thread. */
enum reason hello_forbidden(void);
void hello_forbid(enum reason why);

/*
 * Find the owner of c's other end, who runs as uid, and bring up a link to it.
 * done(): the link, or NULL and why (REASON_NONE: try again soon).
 */
void hello_ask(struct conn *c, uint32_t uid,
	       void (*done)(struct conn *c, struct link *l, enum reason why));

/* answer_ops.mine: the asker's HELLO comes next on fd. */
void hello_as_owner(void *arg, int fd, const struct meet_asker *who);

/* Is err a want of descriptors or memory, which may be over later? */
bool hello_want(int err);

const struct meet_loop *hello_loop(void);
/* The answering side has deadlines too. */
void hello_set_answer(struct answer *a);
void hello_forget(void);
/* End all meetings.  Background thread. */
void hello_shut(void);

#endif
