/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * slip.h - an owner's answers where there is no descriptor for them
 *
 * A child that may have no number more cannot make a socket for the answer to
 * its ask, and an owner in that state does not get the one that comes along.
 * So an owner shares a page with all its children: who asks takes a slip of
 * it, names it, and finds the answer there.
 *
 *	word of a slip	free -> asked		who asks, by exchange
 *			asked -> an answer	the owner, by exchange
 *			asked, answer -> free	who asked
 *
 * Each time it is asked with, a slip has another serial: an answer that comes
 * when its asker has given up is for nobody.  One whose asker was killed stays
 * taken.  Nothing here locks; only slip_await() blocks.
 */
#ifndef SOCK_SLIP_H
#define SOCK_SLIP_H

#include <stdbool.h>
#include <stdint.h>

#include "sock/kinmsg.h"

struct slips;

/* Of this process as an owner; NULL: none yet. */
extern struct slips *slips_here;
/* Before anything can be asked for; no memory: it goes on without. */
void slips_open(void);

/* The child.  Return: true, m names one. */
bool slip_take(struct slips *s, struct kin_msg *m);
/* Until there is an answer, for some milliseconds at most.  Return: true, there is. */
bool slip_await(struct slips *s, const struct kin_msg *m, struct kin_reply *r);
/* ... the last word on it. */
bool slip_give_back(struct slips *s, const struct kin_msg *m, struct kin_reply *r);

/* The owner, to whom has asked with m. */
void slip_answer(const struct kin_msg *m, const struct kin_reply *r);

#endif
