/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* slip.c - see slip.h */
#define _GNU_SOURCE
#include "sock/slip.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"

#define BYTES	4096
#define SLIPS	64
#define LOOK_MS	10

/* A word: serial, the error, and what of it. */
#define STATE(word)	((word) & 0xf)
#define ERROR(word)	((word) >> 4 & 0xff)
#define NEXT(word)	(((word) | 0xfff) + 1)

enum { FREE, ASKED, ANSWER };	/* ANSWER + enum kin_answer */

struct slips {
	uint32_t word[SLIPS];
};
_Static_assert(sizeof(struct slips) <= BYTES, "a page holds them");

struct slips *slips_here;

void slips_open(void)
{
	if (slips_here)
		return;
	long p = sys_mmap(BYTES, MAP_SHARED | MAP_ANONYMOUS, -1);

	slips_here = p < 0 && p > -4096 ? NULL : (struct slips *)p;
}

bool slip_take(struct slips *s, struct kin_msg *m)
{
	for (uint32_t i = 0; s && i < SLIPS; i++) {
		uint32_t word = ld_rlx(&s->word[i]), asked = NEXT(word) | ASKED;

		if (STATE(word) != FREE || !cas_acqrel(&s->word[i], word, asked))
			continue;
		m->slip = i + 1;
		m->asked = asked;
		return true;
	}
	return false;
}

/* Return: true, it is an answer. */
static bool read_answer(uint32_t word, struct kin_reply *r)
{
	if (STATE(word) < ANSWER || STATE(word) > ANSWER + KIN_FULL)
		return false;
	r->answer = (uint8_t)(STATE(word) - ANSWER);
	r->error = (uint8_t)ERROR(word);
	return true;
}

bool slip_await(struct slips *s, const struct kin_msg *m, struct kin_reply *r)
{
	uint32_t *word = &s->word[m->slip - 1];
	const struct timespec soon = { 0, (long)(LOOK_MS * NS_PER_MS) };

	if (ld_acq(word) == m->asked)	/* pairs with slip_answer(): the conn is back */
		sys_futex(word, FUTEX_WAIT, m->asked, &soon);
	else if (!read_answer(ld_acq(word), r))
		sys_nap(LOOK_MS * NS_PER_MS);	/* a brother has spoilt it */
	return read_answer(ld_acq(word), r);
}

bool slip_give_back(struct slips *s, const struct kin_msg *m, struct kin_reply *r)
{
	/* pairs with slip_answer(), as above */
	return read_answer(xchg_acqrel(&s->word[m->slip - 1], m->asked & ~0xfffu), r);
}

void slip_answer(const struct kin_msg *m, const struct kin_reply *r)
{
	if (!slips_here || !m->slip || m->slip > SLIPS || STATE(m->asked) != ASKED)
		return;
	uint32_t *word = &slips_here->word[m->slip - 1];
	uint32_t answer = (m->asked & ~0xfffu) | (uint32_t)r->error << 4 | (ANSWER + r->answer);

	if (cas_acqrel(word, m->asked, answer))	/* pairs with slip_await() */
		sys_futex(word, FUTEX_WAKE, INT_MAX, NULL);
}
