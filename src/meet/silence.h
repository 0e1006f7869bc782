/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * silence.h - addresses and ports at which nobody has answered
 *
 * They are not asked again for a while, which doubles each time.  Bounded: when
 * all places are taken, what would be asked again first is forgotten.  Pure but
 * for the caller's clock; the background thread's.
 */
#ifndef MEET_SILENCE_H
#define MEET_SILENCE_H

#include "base/reasons.h"
#include "meet/meet.h"

#define SILENCE_PLACES	64
#define SILENCE_FIRST_MS 40		/* who has just accepted may not listen yet */
#define SILENCE_MOST_MS	60000

struct silence {
	struct silence_place {
		uint16_t family, port;	/* family 0: free */
		uint8_t addr[16];
		uint32_t scope;
		uint32_t ms;
		enum reason why;
		uint64_t until_ns;
	} places[SILENCE_PLACES];
};

/* Nobody has answered at t's other end, and why. */
void silence_note(struct silence *s, const struct meet_tuple *t, enum reason why, uint64_t now_ns);
/* Somebody has. */
void silence_over(struct silence *s, const struct meet_tuple *t);
/* Return: why it need not be asked now, REASON_NONE: it may. */
enum reason silence_why(const struct silence *s, const struct meet_tuple *t, uint64_t now_ns);

#endif
