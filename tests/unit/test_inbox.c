/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_inbox.c - BINDs without end, and the other work of the background thread */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "progress/bg.h"
#include "sock/inbox.h"

#define BOUND_MS	5000

static struct link l = { .refs = 1 };
static uint64_t handled;
static bool stop, ran;

static void put(void)
{
	assert_true(inbox_put(&l, &(struct wire_msg){ .type = WIRE_BIND }));
}

/* Whoever polls takes the peer's next one meanwhile. */
static void handle(struct link *link, const struct wire_msg *m)
{
	add_rlx(&handled, 1);
	if (!ld_acq(&stop))
		put();
}

static void other(struct bg_work *w)
{
	st_rel(&ran, true);
}

static bool wait_for(const bool *what)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;

	while (!ld_acq(what) && clock_ns() < until)
		sched_yield();
	return ld_acq(what);
}

static void others_have_their_turn(void **state)
{
	static struct bg_work work = { .fn = other };

	inbox_start(handle);
	assert_int_equal(bg_start(), 0);
	put();
	while (ld_rlx(&handled) < 1000)
		sched_yield();
	bg_queue(&work);
	bool turn = wait_for(&ran);
	st_rel(&stop, true);
	bg_stop();
	assert_true(turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_have_their_turn),
	};

	clock_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
