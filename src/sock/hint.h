/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * hint.h - processes met at a port before; several may share a listener
 *
 * All in the background thread.
 */
#ifndef SOCK_HINT_H
#define SOCK_HINT_H

#include "sock/conn.h"

/* The process instance answers for what t connects to. */
void hint_set(const struct meet_tuple *t, uint64_t instance);
/* The next one that c has not tried: the oldest first.  0: none. */
uint64_t hint_next(struct conn *c);
void hint_forget_all(void);	/* in a child */

#endif
