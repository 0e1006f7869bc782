/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * parked.h - BINDs that cannot be answered yet
 *
 * One that names bytes which our program has not read: the proof is over those, so it
 * cannot be checked before they are.  One of which the kernel does not tell at once
 * whose it may be (owner.h).  It has its answer when that has changed, and needs no
 * second BIND.  What is not so within PARKED_MS has the peer ask again (LATER).
 * And BINDs of connections that a thread of ours is just accepting.
 *
 * All functions: the background thread, no lock held.
 */
#ifndef SOCK_PARKED_H
#define SOCK_PARKED_H

#include "link/link.h"
#include "sock/conn.h"

#define PARKED_MOST	1024
#define PARKED_MS	500
#define PARKED_NEW_MS	20

/* What it has waited for; for each at most once. */
enum parked_for { PARKED_NOT, PARKED_UNKNOWN, PARKED_UNREAD };

/* m, a BIND, can be answered, or never can; l is held meanwhile. */
typedef void parked_fn(struct link *l, const struct wire_msg *m, enum parked_for why);

/*
 * m, a BIND that came on l, is for c: keep it until c has read and written as much as
 * it names, and whose the other end is can be told; whose: it could not, just now.
 * c NULL: it names nobody who is known, until nobody is being accepted.
 * Return: false where it need not wait, or there is no room.
 */
bool parked_put(struct link *l, const struct wire_msg *m, struct conn *c, bool whose);
/* Empty.  At start, and in a child. */
void parked_start(parked_fn *fn);

#endif
