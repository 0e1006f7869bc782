/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ringstats.c - sum up counter lines */
#define _GNU_SOURCE
#include "ringstats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Value of a counter in the line [l, end); 0 if it is not there. */
static uint64_t value(const char *l, const char *end, const char *name)
{
	char key[64];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\":", name);
	at = memmem(l, (size_t)(end - l), key, strlen(key));
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

void ringstats_add(struct ringstats *s, const char *text)
{
	while (text && *text) {
		const char *end = strchrnul(text, '\n');

		if (*text == '{') {
			s->processes++;
			s->ring_bytes += value(text, end, "ring_tx_bytes") +
					 value(text, end, "ring_rx_bytes");
			s->tcp_bytes += value(text, end, "tcp_tx_bytes") +
					value(text, end, "tcp_rx_bytes");
			s->conns_soft += value(text, end, "conns_ring_soft");
			s->conns_verbs += value(text, end, "conns_ring_verbs");
		}
		text = end + (*end == '\n');
	}
}

double ringstats_share(const struct ringstats *s)
{
	uint64_t all = s->ring_bytes + s->tcp_bytes;

	return all ? (double)s->ring_bytes / (double)all : 0;
}

const char *ringstats_rnic(const struct ringstats *s)
{
	if (s->conns_soft && s->conns_verbs)
		return "soft+verbs";
	return s->conns_soft ? "soft" : s->conns_verbs ? "verbs" : "none";
}
