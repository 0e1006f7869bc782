/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hint.c - see hint.h */
#define _GNU_SOURCE
#include "sock/hint.h"

#include <string.h>

#define HINTS 64

/* in the order of serial */
static struct hint {
	uint16_t family, port;
	uint32_t serial;
	uint64_t instance;
} hints[HINTS];

void hint_set(const struct meet_tuple *t, uint64_t instance)
{
	static unsigned next;
	static uint32_t serial;

	for (int i = 0; i < HINTS; i++)
		if (hints[i].family == t->family && hints[i].port == t->rport &&
		    hints[i].instance == instance)
			return;
	hints[next++ % HINTS] = (struct hint){ t->family, t->rport, ++serial, instance };
}

uint64_t hint_next(struct conn *c)
{
	const struct hint *best = NULL;

	for (int i = 0; i < HINTS; i++) {
		const struct hint *h = &hints[i];

		if (h->family == c->tuple.family && h->port == c->tuple.rport &&
		    h->serial > c->hint_tried && (!best || h->serial < best->serial))
			best = h;
	}
	if (!best)
		return 0;
	c->hint_tried = best->serial;
	return best->instance;
}

void hint_forget_all(void)
{
	memset(hints, 0, sizeof(hints));
}
