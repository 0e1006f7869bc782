/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_owed.c - an error is told once, whoever finds it and whoever tells it */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sock/owed.h"

static void a_reset_is_told_once(void **state)
{
	uint32_t o = 0;

	assert_int_equal(owed_take(&o), 0);
	assert_false(owed_told(&o));
	owed_add(&o, ECONNRESET);
	assert_int_equal(owed_error(&o), ECONNRESET);
	assert_int_equal(owed_take(&o), ECONNRESET);
	assert_int_equal(owed_take(&o), 0);
	owed_add(&o, ECONNRESET);
	owed_add(&o, EPIPE);
	assert_int_equal(owed_error(&o), 0);
	owed_add(&o, ETIMEDOUT);
	assert_int_equal(owed_take(&o), ETIMEDOUT);
}

static void the_kernel_tells_it(void **state)
{
	uint32_t o = 0;

	assert_true(owed_by_kernel(&o));
	assert_false(owed_by_kernel(&o));
	owed_add(&o, ECONNRESET);
	assert_int_equal(owed_error(&o), 0);
	owed_untold(&o);
	owed_add(&o, ECONNRESET);
	assert_true(owed_by_kernel(&o));	/* and with it what was owed */
	assert_int_equal(owed_error(&o), 0);
}

static void a_cause_is_better_than_epipe(void **state)
{
	uint32_t o = 0;

	owed_add(&o, EPIPE);
	owed_add(&o, ECONNRESET);
	owed_add(&o, EPIPE);
	assert_int_equal(owed_take(&o), ECONNRESET);
}

#define LIVES	100000

static struct {
	uint32_t owed, life, found, told;
} t;

/* On the spot, so that both threads go on at once; but one core is enough. */
static void until(const uint32_t *p, uint32_t life)
{
	for (uint32_t i = 0; ld_acq(p) != life; i++)
		if (i >= 500)
			sched_yield();
}

/* Finds the reset of every life a second time, at about the time when it is told. */
static void *finder(void *arg)
{
	for (uint32_t life = 1; life <= LIVES; life++) {
		until(&t.life, life);
		owed_add(&t.owed, ECONNRESET);
		st_rel(&t.found, life);
	}
	return NULL;
}

static void told_once_while_it_is_found_again(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, finder, NULL), 0);
	for (uint32_t life = 1; life <= LIVES; life++) {
		st_rel(&t.owed, 0);
		owed_add(&t.owed, ECONNRESET);
		st_rel(&t.life, life);
		for (uint32_t i = life % 128; i; i--)
			ld_acq(&t.life);
		t.told = owed_take(&t.owed) != 0;
		until(&t.found, life);
		t.told += owed_take(&t.owed) != 0;
		if (t.told != 1)
			break;
	}
	assert_int_equal(t.told, 1);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reset_is_told_once),
		cmocka_unit_test(the_kernel_tells_it),
		cmocka_unit_test(a_cause_is_better_than_epipe),
		cmocka_unit_test(told_once_while_it_is_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
