/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* back.h - a conn's way back to the kernel, for whoever else holds its socket */
#ifndef SOCK_BACK_H
#define SOCK_BACK_H

#include "sock/conn.h"

/* Take the reading way back to the kernel for good, without waiting.  rxl held. */
void conn_rx_back(struct conn *c);
/* Take both directions back to the kernel for good, without waiting.  No lock held. */
void conn_ask_back(struct conn *c, enum reason why);
/* Has the kernel all there is of these directions?  Both locks held. */
bool conn_is_back(const struct conn *c, uint32_t bits);
/* Nobody is to go on with this connection: reset it, for all.  A lock held. */
void conn_abort(int fd);

/*
 * The end that the link has told, and the program has seen, follows RESUME on the
 * kernel socket: others will look for it there.  A lock of c held.
 */
bool conn_end_to_come(const struct conn *c);

#endif
