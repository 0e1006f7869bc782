/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* msgs.h - what the control messages of a link do to a conn */
#ifndef SOCK_MSGS_H
#define SOCK_MSGS_H

#include "link/link.h"

extern const struct link_user msgs_user;

struct conn;

/* Bytes have come into c's ring.  poll_lock held. */
void msgs_data(struct conn *c);

/*
 * Whoever answers lives, and has heard all that was sent on l before: the number of a
 * PING, never 0.  Any locks but post_lock.
 */
uint64_t msgs_ping(struct link *l);
bool msgs_answered(const struct link *l, uint64_t ping);

/* bind.c: BIND, BOUND, NOT_MINE, LATER go there. poll_lock held. */
void bind_inbox(struct link *l, struct conn *c, const struct wire_msg *m);

#endif
