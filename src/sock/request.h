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
/* At once; closes fd.  f: NULL, or what goes along and stays ours. */
void request_answer(const struct kin_msg *m, int fd, const struct kin_reply *r,
		    const struct kin_fds *f);
/*
 * On TCP the error would be in the socket, for the first to ask: whoever reads this
 * tells it.  Return: a descriptor, c's; -1 if there is no error, or no descriptor: then
 * each tells it, rather twice than not at all.  Any thread, both locks held.
 */
int request_once(struct conn *c, int error);
void request_forget_all(void);		/* in a child */

#endif
