/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rest.h - what is left to read of a conn that has ended, for a process and its children
 *
 * See rest.c.
 */
#ifndef SOCK_REST_H
#define SOCK_REST_H

#include "sock/io.h"

/* Before a fork; kin_lock held. */
void rest_fork_prepare(void);
/* In the child: is this descriptor of ours to be kept? */
bool rest_keeps(int fd);
/* ... is c to go on where it was, and nobody to be asked for it? */
bool rest_goes_on(const struct conn *c);
/* ... sets of epoll hear of those. */
void rest_fork_child(void);

/* For the answer to a child: a descriptor, c's, or -1: nothing is left.  Both locks held. */
int rest_share(struct conn *c);
/* ... in the child, which has got it.  Both locks held. */
void rest_take_over(struct conn *c, int fd, bool reset);

/* How many bytes are left there.  rxl held. */
size_t rest_left(const struct conn *c);
/* As a read from a ring.  rxl held.  Return: bytes, 0 there are none, -errno. */
ssize_t rest_read(struct conn *c, const struct io *io);
/* c is over. */
void rest_drop(struct conn *c);

#endif
