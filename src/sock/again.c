/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* again.c - see again.h */
#define _GNU_SOURCE
#include "sock/again.h"

#include <string.h>

#include "base/clock.h"
#include "progress/bg.h"

static struct {
	uint32_t id, gen;
	uint64_t at_ns;
} waiting[AGAIN_MOST];			/* in the order of at_ns */
static uint32_t head, tail;
static struct bg_timer timer;

static void ask(uint32_t id, uint32_t gen)
{
	struct conn *c = conn_find(id, gen);

	if (!c)
		return;
	if (!ld_rlx(&c->closing) && ld_rlx(&c->meet) == MEET_IDLE)
		conn_todo(c, JOB_MEET);
	conn_put(c);
}

static void on_timer(struct bg_timer *t)
{
	uint64_t now = clock_ns();

	for (; head != tail && waiting[head % AGAIN_MOST].at_ns <= now; head++)
		ask(waiting[head % AGAIN_MOST].id, waiting[head % AGAIN_MOST].gen);
	if (head != tail)
		bg_timer_set(t, waiting[head % AGAIN_MOST].at_ns);
}

void again_put(struct conn *c)
{
	uint64_t at = clock_ns() + AGAIN_MS * NS_PER_MS;

	if (tail - head == AGAIN_MOST)
		return;
	waiting[tail % AGAIN_MOST].id = c->id;
	waiting[tail % AGAIN_MOST].gen = ld_rlx(&c->gen);
	waiting[tail++ % AGAIN_MOST].at_ns = at;
	timer.fn = on_timer;
	if (tail - head == 1)
		bg_timer_set(&timer, at);
}

void again_forget_all(void)
{
	head = tail = 0;
	memset(&timer, 0, sizeof(timer));
}
