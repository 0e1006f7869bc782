/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * request.h - a child wants a connection back from its owner
 *
 * An ask names a conn by number and generation and brings a socket for the
 * answer (so descendants never mix up answers, and none is left behind), or
 * names a slip (slip.h).  A
 * generation that is over means that the conn was closed, which an owner does
 * only when the kernel has all of it.
 *
 * All in the background thread, no lock held; see also kin_look().
 */
#ifndef SOCK_REQUEST_H
#define SOCK_REQUEST_H

#include "sock/conn.h"
#include "sock/kinmsg.h"

/* The ask m for c, whose reference goes over, with the socket fd for the answer, or -1. */
void request_take(struct conn *c, const struct kin_msg *m, int fd);
/* At once; closes fd. */
void request_answer(const struct kin_msg *m, int fd, enum kin_answer what, int error, int once);
void request_forget_all(void);		/* in a child */

#endif
