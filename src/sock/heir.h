/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * heir.h - a connection accepted by a parent and served by its child
 *
 * See heir.c.  All functions look first whether there is anything to do.
 */
#ifndef SOCK_HEIR_H
#define SOCK_HEIR_H

#include "sock/conn.h"

/* Before a fork.  kin_lock held: what is cold stays so. */
void heir_fork_prepare(void);
/* In the child, before anything of c is made anew. */
void heir_fork_child(struct conn *c);

/* The program closes its last number of c.  Both locks held. */
void heir_close(struct conn *c);
/* Others hold c as well from now on, or may: nobody is its heir.  Both locks held. */
void heir_spoil(struct conn *c);
/* The program has changed c where its heir cannot know.  No lock held. */
void heir_changed(int fd);

/* In the child: is c this process's alone by now?  A lock of c held. */
bool heir_alone(const struct conn *c);
/* ... then it is one like others.  Both locks held.  Return: false if it is not. */
bool heir_take(struct conn *c);

#endif
