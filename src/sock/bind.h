/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bind.h - meeting, binding and everything else a conn needs from the background thread
 *
 * In bind.c, where no other file is named.
 */
#ifndef SOCK_BIND_H
#define SOCK_BIND_H

#include "sock/conn.h"

/* Once, at start-up. */
void bind_start(void);
void bind_conn_init(struct conn *c);	/* work.c */

/* warm.c.  May connections of this process ever attach? */
bool bind_enabled(void);

/* listener.c.  A conn came out of accept() on listener l; peer as accept() told.  Any thread; of
 * conn locks only c's. */
void bind_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer);

/* What conn_todo() asks for.  Background thread, no lock held. */
void bind_listen(struct conn *l);	/* listener.c: be found at the port of listener l */
void bind_meet(struct conn *c);		/* meeting.c: the peer's process, and BIND */
void conn_grant(struct conn *c);	/* grant.c: if the evidence is there */
/*
 * Either lock held.  Is the peer writing to the kernel what was in the ring, and would be
 * here on TCP?  What has arrived and is not in the queue any more was read past us.
 */
bool conn_still_to_come(const struct conn *c);	/* grant.c, which compares counts as well */

/*
 * BIND on an existing link; background thread, no lock held.  Return: 0, -ENOSPC
 * no slot, -ENOMEM, -ECANCELED the program wants something else by now, other:
 * no proof to give.
 */
int bind_send(struct conn *c, struct link *l);
/*
 * bind.c, by its own timer.  A link to another host on which a BIND has had no answer for
 * a minute is no link to anybody: it goes, and all that it held.  Return: some are waited for.
 */
bool bind_look_overdue(void);

/* meeting.c.  Never attach this conn again.  A lock held. */
void bind_give_up(struct conn *c, enum reason why);

/* Back to the kernel for good, both ways, without waiting for it.  No conn lock held. */
void sock_keep_on_kernel(struct conn *c, enum reason why);
/* Wait until what it has received is with the kernel again; c held.  Not in the background thread. */
void sock_back_until(struct conn *c, uint64_t deadline_ns);

/* binding.c.  The slot is no longer needed: release it as soon as both directions are out of it.
 * Background thread, no lock held. */
void bind_release_try(struct conn *c);

/*
 * owner.c.  Has the peer's program let go of its socket?  Only asked when the link is
 * gone: a RESUME record to nobody would earn a RST that TCP would not have
 * given.  Background thread, both locks held.
 */
bool bind_peer_gone(struct conn *c);

/* listener.c.  Somebody came for the accepted conn t, and there was no link for him: why. */
void bind_not_met(const struct meet_tuple *t, enum reason why);

/* binding.c.  c is the kernel's both ways: forget the binding.  Background thread, no lock held. */
void bind_let_go(struct conn *c);

/* Give up all names.  Background thread. */
void bind_shut(void);

/* work.c.  Background: watch deadlines of c. */
void bind_timer_at(struct conn *c, uint64_t at_ns);

/* In a child: everything of the parent's is gone. */
void bind_forget_all(void);

/* tx.c */
void tx_backoff(struct conn *c);
void tx_credit(struct conn *c);	/* look at the credit word; txl held */
void tx_credit_came(struct conn *c);
/* For a caller that will not wait: a retreat under way is over.  No conn lock held. */
void tx_settle(struct conn *c);
/* Somebody waits for room who will not write before there is some.  No conn lock held. */
void tx_want_room(struct conn *c);
void tx_stalled(struct conn *c, uint64_t now);

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

/*
 * The peer's program hears of the end now.  Both locks held.  Return: true
 * when the rest of an orderly end has no haste.
 */
bool end_tell(struct conn *c);

/* end.c, background thread */
void end_begin(struct conn *c);
bool end_step(struct conn *c);	/* true: over, the descriptor is closed */
extern uint32_t end_pending;

/* There is no background thread any more.  Both locks held.  Return: to be closed without them, or -1. */
int end_give_up(struct conn *c);

/* Until all of them are over; bounded.  No lock held. */
void end_wait(uint32_t most_s);
void end_forget(void);		/* in a child: they are the parent's */

/* A conn that was closed with SO_LINGER, as it was then; ns 0: nothing to wait for. */
struct lingering {
	struct conn *c;
	uint32_t gen;
	uint64_t ns;
};

/*
 * Wait until the peer's kernel has all of it, the end included; a handler or
 * the time ends the wait, and nothing else changes by that.  No lock held.
 */
void end_linger(const struct lingering *l);

/*
 * The calling thread ends the process.  On TCP the others would not live to
 * see what that does to their connections, so their calls do not return.
 */
void end_process(void);
bool end_parked(const struct conn *c);	/* is that the case for c and this thread? */
ssize_t end_park(bool blocking);	/* no lock held; -EAGAIN, or never */

#endif
