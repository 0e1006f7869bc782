/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kin.h - connections that a process shares with its children
 *
 * After a fork the rings stay the parent's (the owner's).  A child's first use
 * of a connection that was on a ring, or on its way there, asks the owner to
 * take it back to the kernel; a child that only closes, executes or exits asks
 * nothing.  See kin.c for the reasoning, way.c for the child, request.c for
 * the owner's answers.
 */
#ifndef SOCK_KIN_H
#define SOCK_KIN_H

#include "sock/conn.h"
#include "sock/fdtab.h"

/* ------------------------------------------------------------ the owner -- */

/*
 * Held over a fork, and by the background thread where a cold conn starts to
 * meet: so a conn that the child takes for cold is cold.  Outermost lock.
 */
extern struct lock kin_lock;

extern uint64_t kin_serial;		/* forks so far; conns_lock */
extern uint64_t kin_newest;		/* the last one that left a child, or may have */

/* Do others hold c's socket, as far as we know?  Any context: a hint that errs towards yes. */
static inline bool kin_shared(const struct conn *c)
{
	return ld_acq(&kin_newest) > ld_rlx(&c->kin_born);	/* pairs with newest_set() */
}

/*
 * Before a fork: takes kin_lock.  Return: false if a child could not be told
 * whom to ask; nothing is held then, all conns must be handed back, and
 * kin_fork_blind() goes on in its place.
 */
bool kin_fork_prepare(void);
void kin_fork_blind(void);
/* conns_lock held. */
void kin_fork_number(void);
void kin_fork_parent(void);

/* Background thread, before anything is bound: from now on strays can ask too. */
void kin_start(void);
/* Background thread, no lock held: something about c has changed that others may wait for. */
void kin_look(struct conn *c);	/* request.c */

/* Are there children that may ask? */
bool kin_any(void);
/* All conns that were ever shared are the kernel's: the children need not ask any more. */
void kin_bye(void);
/* ... and from now on nobody would answer (sandbox). */
void kin_stop(void);

/* ------------------------------------------------- the child (way.c) -- */

/* kin.c.  First in the child: to whom its inherited conns are to turn. */
void kin_fork_child(void);
/* Is fd a way to an owner?  To be kept in the child. */
bool kin_is_way(int fd);
/* c as it was in the parent at the fork: what it is here. */
void kin_inherit(struct conn *c);

/*
 * The program is about to use c in these directions: not before its owner has
 * given them back.  No lock held; blocks, bounded; no handler runs meanwhile.
 * Return: 0; -ECONNRESET; -EAGAIN: bytes that the parent has written fill the
 * kernel's buffer, and some are still to follow (CONN_TX).
 */
int kin_use(struct conn *c, uint32_t bits);
int kin_use_fd(int fd, uint32_t bits);
/* Before a call that looks at, or changes, what a child shares with its parent. */
static inline int kin_first(int fd, uint32_t bits)
{
	const struct conn *c = fdtab_conn(fd);

	return c && unlikely(ld_rlx(&c->kin) & bits) ? kin_use_fd(fd, bits) : 0;
}
/* After -EAGAIN: the owner sends FIN behind its last byte. */
void kin_shutdown(struct conn *c);
/* A set of epoll that the parent uses too: it knows before this returns. */
void kin_use_set(const void *set);
/* Is there anybody yet who owns, or owned, what came over a fork? */
bool kin_others(void);
/* Others get c as well, who cannot ask: the owner is not to attach it any more. */
int kin_pass(struct conn *c);

#endif
