/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rule.h - the rules of the configuration, asked once for each connection
 *
 * Where it is established; what a rule forbids is as if it had been tried and
 * given up, so no later call knows of rules.  Which RNIC it allows is asked once
 * more, when the peer has been found.
 */
#ifndef SOCK_RULE_H
#define SOCK_RULE_H

#include <stdbool.h>
#include <sys/socket.h>

struct conn;
struct engine_dev;

/* c is connected, or about to be, to this address; both locks held. */
void rule_connected(struct conn *c, const struct sockaddr *to, socklen_t len);

/* Does a rule keep it from a device of this kind? */
bool rule_forbids(const struct conn *c, const struct engine_dev *d);

/* c was accepted from peer on listener l.  Nobody else knows of c yet. */
void rule_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer);

#endif
