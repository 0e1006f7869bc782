/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* binding.h - a conn's place on a link (background thread) */
#ifndef SOCK_BINDING_H
#define SOCK_BINDING_H

#include "link/link.h"
#include "sock/conn.h"

/* Is a BIND out that nobody has answered?  It may have been given up meanwhile. */
static inline bool conn_awaits_bound(const struct conn *c)
{
	return c->link && !c->rx_words;
}

/*
 * A child takes it for cold: not before that one is gone.  kin_lock and a lock
 * of c held.
 */
bool bind_held(struct conn *c);

/* poll_lock and both locks held: rings and protocol are ready on this slot. */
void conn_bound(struct conn *c, struct link *l, uint16_t slot, uint16_t peer_slot,
		uint64_t peer_nonce);

/* Forget the binding; no lock held.  reset: the peer has a slot for us, which goes back. */
void conn_unbind(struct conn *c, bool reset);

#endif
