/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* silence.c - see silence.h */
#include "meet/silence.h"

#include <string.h>

#include "base/clock.h"
#include "base/util.h"

static bool is_of(const struct silence_place *p, const struct meet_tuple *t)
{
	return p->family == t->family && p->port == t->rport && p->scope == t->scope &&
	       memcmp(p->addr, t->raddr, sizeof(p->addr)) == 0;
}

static struct silence_place *find(const struct silence *s, const struct meet_tuple *t)
{
	for (int i = 0; i < SILENCE_PLACES; i++)
		if (is_of(&s->places[i], t))
			return (struct silence_place *)(uintptr_t)&s->places[i];
	return NULL;
}

/* Free ones have the time 0. */
static struct silence_place *place_new(struct silence *s, const struct meet_tuple *t)
{
	struct silence_place *p = &s->places[0];

	for (int i = 1; i < SILENCE_PLACES; i++)
		if (s->places[i].until_ns < p->until_ns)
			p = &s->places[i];
	*p = (struct silence_place){ .family = t->family, .port = t->rport,
				     .scope = t->scope };
	memcpy(p->addr, t->raddr, sizeof(p->addr));
	return p;
}

void silence_note(struct silence *s, const struct meet_tuple *t, enum reason why, uint64_t now_ns)
{
	struct silence_place *p = find(s, t);

	if (!p)
		p = place_new(s, t);
	p->ms = p->ms ? MIN(2 * p->ms, (uint32_t)SILENCE_MOST_MS) : SILENCE_FIRST_MS;
	p->why = why;
	p->until_ns = now_ns + p->ms * NS_PER_MS;
}

void silence_over(struct silence *s, const struct meet_tuple *t)
{
	struct silence_place *p = find(s, t);

	if (p)
		*p = (struct silence_place){ 0 };
}

enum reason silence_why(const struct silence *s, const struct meet_tuple *t, uint64_t now_ns)
{
	const struct silence_place *p = find(s, t);

	return p && now_ns < p->until_ns ? p->why : REASON_NONE;
}
