/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * owner.h - what the kernel knows of the other end of a TCP connection
 *
 * All in the background thread; no lock is asked for.
 */
#ifndef SOCK_OWNER_H
#define SOCK_OWNER_H

#include "meet/meet.h"

/* Return: as diag_lookup(). */
int owner_find(const struct meet_tuple *t, struct diag_result *r);
/* Is the socket at t's other end that user's?  Return: 0; -EACCES; -EAGAIN: not to be told now. */
int owner_matches(const struct meet_tuple *t, uint32_t uid);
/* Has nobody accepted it yet?  For who asks from another host, whose kernel cannot tell. */
bool owner_still_queued(const struct meet_tuple *t);

void owner_shut(void);
void owner_forget(void);		/* in a child */

#endif
