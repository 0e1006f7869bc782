/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* accepted.h - what was accepted here, found by its 4-tuple */
#ifndef SOCK_ACCEPTED_H
#define SOCK_ACCEPTED_H

#include "sock/conn.h"

/* c came from peer_port.  Any thread; of conn locks only c's. */
void accepted_put(struct conn *c, uint16_t peer_port);
/* The conn is going away: it cannot be found any more.  Both locks held. */
void accepted_del(struct conn *c);
/* A thread has a number from accept(), and is about to put its conn, or has done so. */
void accepted_comes(bool begins);
/* Is there such a thread?  Then who is not found may be in a moment. */
bool accepted_coming(void);
/* The one with this tuple, with a reference, or NULL.  No conn lock held. */
struct conn *accepted_find(const struct meet_tuple *t);

/* A set of ports. */
struct ports {
	uint64_t bits[65536 / 64];
};

static inline bool ports_have(const struct ports *p, uint16_t port)
{
	return p->bits[port / 64] >> port % 64 & 1;
}

/* The ports of those listeners that have accepted and are not closed. */
void accepted_ports(struct ports *p);
/* At start, and in a child. */
void accepted_forget_all(void);

/* Ask the kernel for both addresses of c, once.  Both locks held.  Return: 0 or -errno. */
int conn_tuple_learn(struct conn *c);

#endif
