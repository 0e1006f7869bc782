/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bind.h - meeting, binding and everything else a conn needs from the background thread */
#ifndef SOCK_BIND_H
#define SOCK_BIND_H

#include "sock/conn.h"

/* Once, at start-up. */
void bind_start(void);
void bind_conn_init(struct conn *c);

/* May connections of this process ever attach? */
bool bind_enabled(void);

/* A conn came out of accept() on listener l; peer as accept() told.  No lock held. */
void bind_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer);
/* The conn is going away: it cannot be found any more.  Both locks held. */
void bind_forget(struct conn *c);

/* Never attach this conn again.  A lock held. */
void bind_give_up(struct conn *c, enum reason why);

/* Back to the kernel for good, both ways, without waiting for it.  No conn lock held. */
void sock_keep_on_kernel(struct conn *c, enum reason why);

/* The slot is no longer needed: release it as soon as both directions are out of it.
 * Background thread, no lock held. */
void bind_release_try(struct conn *c);

/*
 * Has the peer's program let go of its socket?  Only asked when the link is
 * gone: a RESUME record to nobody would earn a RST that TCP would not have
 * given.  Background thread, both locks held.
 */
bool bind_peer_gone(struct conn *c);

/* Background: watch deadlines of c. */
void bind_timer_at(struct conn *c, uint64_t at_ns);

/* In a child: everything of the parent's is gone. */
void bind_forget_all(void);

/* tx.c */
void tx_backoff(struct conn *c);
void tx_credit(struct conn *c);	/* look at the credit word; txl held */
void tx_credit_came(struct conn *c);
/* Somebody waits for room who will not write before there is some.  No conn lock held. */
void tx_want_room(struct conn *c);
bool tx_stalled(struct conn *c, uint64_t now);

/*
 * end.c: how the program's last close of fd must be carried out; both locks
 * held, records just taken off the kernel socket.
 *	END_PLAIN	the kernel's close does it all
 *	END_RESET	bytes are unread: the kernel's close says RST, as it would
 *			have said of them (SO_LINGER is set)
 *	END_ORDERLY	the background thread ends it on a private dup
 */
enum end_how { END_PLAIN, END_RESET, END_ORDERLY };
enum end_how end_take_over(struct conn *c, int fd);

/* end.c, background thread */
void end_begin(struct conn *c);
bool end_step(struct conn *c);	/* true: over, the descriptor is closed */
extern uint32_t end_pending;

#endif
