/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* parked.c - see parked.h */
#define _GNU_SOURCE
#include "sock/parked.h"

#include <string.h>

#include "base/clock.h"
#include "meet/proof.h"
#include "progress/bg.h"
#include "sock/accepted.h"
#include "sock/owner.h"

#define PAUSE_MS_LEAST	1
#define PAUSE_MS_MOST	16

static struct parked {
	struct link *link;
	uint32_t id, gen;
	uint64_t until_ns;
	bool unknown;
	struct wire_msg m;
} parked[PARKED_MOST];
static uint32_t nparked, pause_ms;
static struct bg_timer timer;
static parked_fn *answer;

/* Could its proof be checked now, or will it never be? */
static bool ripe(struct conn *c, const struct wire_msg *m)
{
	conn_take_both(c);
	bool yes = c->closing || c->link || c->meet == MEET_OVER ||
		   (MIN(m->a, (uint64_t)PREFIX_BYTES) <= c->rx.pos && m->b <= c->tx.kc &&
		    owner_ready(c));
	conn_unlock_both(c);
	return yes;
}

static bool due(const struct parked *p, uint64_t now)
{
	struct conn *c = p->unknown ? NULL : conn_find(p->id, p->gen);
	bool yes = now >= p->until_ns || ld_rlx(&p->link->state) == LINK_DEAD ||
		   (p->unknown ? !accepted_coming() : !c || ripe(c, &p->m));

	if (c)
		conn_put(c);
	return yes;
}

static void on_timer(struct bg_timer *t)
{
	uint64_t now = clock_ns();
	uint32_t i = 0;

	pause_ms = MIN(2 * pause_ms, (uint32_t)PAUSE_MS_MOST);
	while (i < nparked) {
		struct parked p = parked[i];

		if (!due(&p, now)) {
			i++;
			continue;
		}
		parked[i] = parked[--nparked];
		answer(p.link, &p.m, p.unknown ? PARKED_UNKNOWN : PARKED_UNREAD);
		link_drop(p.link);
		pause_ms = PAUSE_MS_LEAST;
	}
	if (nparked)
		bg_timer_set(t, clock_ns() + pause_ms * NS_PER_MS);
}

bool parked_put(struct link *l, const struct wire_msg *m, struct conn *c, bool whose)
{
	for (uint32_t i = 0; i < nparked; i++) {
		if (parked[i].link == l && parked[i].m.bind.slot == m->bind.slot) {
			link_kill(l);	/* a slot asks once, and waits */
			return true;
		}
	}
	uint64_t most_ms = c ? PARKED_MS : PARKED_NEW_MS;

	if (nparked == PARKED_MOST || (c && !whose && ripe(c, m)))
		return false;
	link_hold(l);
	parked[nparked++] = (struct parked){ .link = l, .id = c ? c->id : 0, .gen = c ? ld_rlx(&c->gen) : 0,
					     .until_ns = clock_ns() + most_ms * NS_PER_MS,
					     .unknown = !c, .m = *m };
	timer.fn = on_timer;
	if (nparked == 1 || pause_ms != PAUSE_MS_LEAST) {
		pause_ms = PAUSE_MS_LEAST;
		bg_timer_set(&timer, clock_ns() + PAUSE_MS_LEAST * NS_PER_MS);
	}
	return true;
}

void parked_start(parked_fn *fn)
{
	nparked = 0;
	answer = fn;
	memset(&timer, 0, sizeof(timer));
}
