/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pledge.c - see pledge.h */
#define _GNU_SOURCE
#include "sock/pledge.h"

#include <string.h>

#include "base/config.h"

static uint8_t key[PROOF_KEY_BYTES];
static size_t keylen;

void pledge_start(void)
{
	if (config.key_file[0])
		proof_load_key(config.key_file, key, &keylen);
}

bool pledge_seen_enough(uint64_t bytes)
{
	return keylen || (!config.key_file[0] && bytes >= PREFIX_BYTES);
}

static void fill_nonce(uint8_t out[PROOF_NONCE_BYTES], const uint8_t link_nonce[LINK_NONCE],
		       uint64_t challenge, uint64_t rec_nonce)
{
	uint64_t w[2];

	memcpy(w, link_nonce, sizeof(w));
	w[0] ^= challenge;
	w[1] ^= rec_nonce;
	memcpy(out, w, sizeof(w));
}

int pledge_digests(struct conn *c, bool we_are_a, uint64_t count_ab, uint64_t count_ba)
{
	const struct prefix *p[2] = { we_are_a ? &c->tx_prefix : &c->rx_prefix,
				      we_are_a ? &c->rx_prefix : &c->tx_prefix };
	const uint64_t n[2] = { count_ab, count_ba };

	for (int i = 0; i < 2; i++) {
		int err = prefix_digest(p[i], (size_t)MIN(n[i], (uint64_t)PREFIX_BYTES),
					c->bind_digest[i]);

		if (err == -ENODATA && p[i]->state == PREFIX_FULL && n[i] < PREFIX_BYTES)
			err = -EAGAIN;
		if (err)
			return err;
	}
	return 0;
}

void pledge_mac(struct conn *c, bool we_are_a, enum proof_role role, struct link *l,
		   const uint64_t chal[2], const uint64_t rec[2], uint64_t count_ab,
		   uint64_t count_ba, uint8_t mac[SHA256_BYTES])
{
	struct proof_input in = { .role = role, .count_ab = count_ab, .count_ba = count_ba };

	memcpy(in.digest_ab, c->bind_digest[0], SHA256_BYTES);
	memcpy(in.digest_ba, c->bind_digest[1], SHA256_BYTES);
	fill_nonce(in.nonce_a, we_are_a ? l->nonce_mine : l->nonce_peer, chal[0], rec[0]);
	fill_nonce(in.nonce_b, we_are_a ? l->nonce_peer : l->nonce_mine, chal[1], rec[1]);
	if (we_are_a)
		in.tuple = c->tuple;
	else
		meet_tuple_swap(&in.tuple, &c->tuple);
	proof_make(key, keylen, &in, mac);
}

void pledge_fill(struct wire_msg *m, struct conn *c, uint16_t slot)
{
	const struct meet_tuple *t = &c->tuple;
	struct wire_bind *b = &m->bind;

	memcpy(b->addr_tx, t->laddr, 16);
	memcpy(b->addr_rx, t->raddr, 16);
	b->port_tx = t->lport;
	b->port_rx = t->rport;
	b->family = t->family == AF_INET ? 4 : 6;
	b->slot = slot;
	b->nonce = c->rec_nonce;
	b->challenge = c->challenge;
}

void pledge_tuple(struct meet_tuple *t, const struct wire_msg *m)
{
	const struct wire_bind *b = &m->bind;

	memset(t, 0, sizeof(*t));
	t->family = b->family == 4 ? AF_INET : AF_INET6;
	t->lport = b->port_tx;
	t->rport = b->port_rx;
	memcpy(t->laddr, b->addr_tx, 16);
	memcpy(t->raddr, b->addr_rx, 16);
}
