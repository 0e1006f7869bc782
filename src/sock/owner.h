/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * owner.h - what the kernel knows of the other end of a TCP connection
 *
 * All in the background thread; no lock is asked for.
 */
#ifndef SOCK_OWNER_H
#define SOCK_OWNER_H

#include "sock/conn.h"

/* c->tuple is known. Return: as diag_lookup(). */
int owner_find(struct conn *c, struct diag_result *r);
/* Is the socket at c's other end that user's?  Return: 0; -EACCES; -EAGAIN: not to be told now. */
int owner_matches(struct conn *c, uint32_t uid);
/* c's was not to be told.  Is it, now?  True also of who was never asked about. */
bool owner_ready(const struct conn *c);
/* When to ask again. */
uint32_t owner_retry_ms(void);
/* What was known of c's other end is known to be so no more: c is bound. */
void owner_renew(struct conn *c);
/* Has nobody accepted it yet?  For who asks from another host, whose kernel cannot tell. */
bool owner_still_queued(const struct meet_tuple *t);

void owner_shut(void);
void owner_forget(void);		/* in a child */

#endif
