/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* unseen.h - waiters that the library cannot see (unseen.c) */
#ifndef SOCK_UNSEEN_H
#define SOCK_UNSEEN_H

#include "sock/conn.h"

void unseen_list(struct conn *c);

/*
 * Bytes have come, or room has: somebody should take them before long.
 * Context: poll_lock or a lock of c held, which keeps it bound.
 */
static inline void unseen_note(struct conn *c)
{
	if (!ld_rlx(&c->lurks))
		unseen_list(c);
}

/* The same of room for a writer that was told EAGAIN, or asks for OUT; txl held. */
static inline void unseen_offer(struct conn *c)
{
	st_rlx(&c->lurk_P, c->tx.P);
	st_rlx(&c->tx_offered, true);
	unseen_note(c);
}

/* It is about to be unbound; poll_lock and both locks held. */
void unseen_forget(struct conn *c);

/* In the child of a fork; conn_fork_child() unlists the conns. */
void unseen_forget_all(void);

#endif
