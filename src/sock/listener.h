/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* listener.h - the answering side, for those who start and end it; see also bind.h */
#ifndef SOCK_LISTENER_H
#define SOCK_LISTENER_H

#include "sock/conn.h"

/* An accepted conn that nobody could ask about; why: an enum reason.  No lock held. */
void listener_unanswered(struct conn *c, void *why);

/* Background thread: give up all names. */
void listener_shut(void);
void listener_forget_all(void);		/* in a child */

#endif
