/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* unread.h - how much a program could read now: FIONREAD, TCP_INQ */
#ifndef SOCK_UNREAD_H
#define SOCK_UNREAD_H

#include "sock/conn.h"

/*
 * Bytes that are there or are known to be on their way, of a conn that is or was bound.
 * Return: 0..INT_MAX; -EINVAL: the kernel does not say.  rxl held.
 */
int unread_now(struct conn *c);

/*
 * What TCP_INQ tells, tcp_inq_hint() of the kernel: a FIN that has come counts as a
 * byte, so that nobody stops before the end, and so does an urgent one.
 * told: what the kernel said with what it has just been read of; 0: nothing.
 * As unread_now(), but never negative.
 */
int unread_hint(struct conn *c, int told);

/*
 * The same of fd, if it is still c's, once a switch or a retreat under way is over; else
 * -ENOENT.  No lock held.
 */
int unread_hint_of(int fd, const struct conn *c, int told);

/* FIONREAD of fd, once a switch or a retreat under way is over.  -ENOSYS: ask the kernel. */
int unread_of(int fd);

#endif
