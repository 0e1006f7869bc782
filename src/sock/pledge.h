/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pledge.h - what BIND and BOUND say of a connection, and how they prove it
 *
 * An HMAC over the nonces of link and connection, the counts, and the first
 * cold bytes each way (doc/security.md).
 */
#ifndef SOCK_PLEDGE_H
#define SOCK_PLEDGE_H

#include "link/link.h"
#include "meet/proof.h"
#include "sock/conn.h"

/* Read the key, if one is set.  Once, at start-up. */
void pledge_start(void);

/*
 * No kernel has a word on the other end: have so many cold bytes passed, both
 * ways together, that who has seen them is taken for it?  With a key, always; with
 * one that could not be read, never.
 */
bool pledge_seen_enough(uint64_t bytes);

/*
 * Digests of the cold bytes that a BIND with these counts is about.
 * Return: 0; -EAGAIN: not all seen yet, or too many by now (a later BIND will
 * do); -ENODATA: not kept.  Both locks of c held.
 */
int pledge_digests(struct conn *c, bool we_are_a, uint64_t count_ab, uint64_t count_ba);

/* The MAC over what pledge_digests() has found.  Both locks of c held. */
void pledge_mac(struct conn *c, bool we_are_a, enum proof_role role, struct link *l,
		const uint64_t chal[2], const uint64_t rec[2], uint64_t count_ab,
		uint64_t count_ba, uint8_t mac[SHA256_BYTES]);

/* The tuple, slot and nonces of c into m.  Both locks of c held. */
void pledge_fill(struct wire_msg *m, struct conn *c, uint16_t slot);
/* The tuple out of m, as its sender sees it. */
void pledge_tuple(struct meet_tuple *t, const struct wire_msg *m);

#endif
