/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* info.h - TCP_INFO of a connection that has, or had, a ring */
#ifndef SOCK_INFO_H
#define SOCK_INFO_H

#include <stddef.h>

struct conn;

/*
 * What the kernel has said of fd, len bytes at info, with the state and the byte
 * counts that TCP would have.  Context: no lock held; c may be over by now.
 */
void info_true(int fd, const struct conn *c, void *info, size_t len);

/* SIOCOUTQ: bytes that the peer has not acked.  Return: 0 or -errno.  Context: no lock held */
int info_outq(int fd, int *out);

#endif
