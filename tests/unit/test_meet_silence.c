/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_silence.c - who does not answer is left alone, and not for ever */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "meet/silence.h"

static struct silence s;

static int setup(void **state)
{
	memset(&s, 0, sizeof(s));
	return 0;
}

static struct meet_tuple to(uint8_t host, uint16_t port)
{
	return (struct meet_tuple){ .family = AF_INET, .lport = 40000, .rport = port,
				    .laddr = { 10, 9, 0, 1 }, .raddr = { 10, 9, 0, host } };
}

static void for_a_while(void **state)
{
	struct meet_tuple t = to(2, 80), port = to(2, 81), host = to(3, 80), six = to(2, 80);

	six.family = AF_INET6;
	assert_int_equal(silence_why(&s, &t, 0), REASON_NONE);
	silence_note(&s, &t, REASON_NO_RNIC, 1000);
	t.lport++;		/* another connection to the same place */
	assert_int_equal(silence_why(&s, &t, 1000), REASON_NO_RNIC);
	assert_int_equal(silence_why(&s, &t, 999 + SILENCE_FIRST_MS * NS_PER_MS), REASON_NO_RNIC);
	assert_int_equal(silence_why(&s, &t, 1000 + SILENCE_FIRST_MS * NS_PER_MS), REASON_NONE);
	assert_int_equal(silence_why(&s, &port, 1000), REASON_NONE);
	assert_int_equal(silence_why(&s, &host, 1000), REASON_NONE);
	assert_int_equal(silence_why(&s, &six, 1000), REASON_NONE);
}

/* Return: how long it lasts, from now on. */
static uint64_t lasts_ms(const struct meet_tuple *t, uint64_t now)
{
	uint64_t ms = 0;

	while (silence_why(&s, t, now + ms * NS_PER_MS))
		ms++;
	return ms;
}

static void longer_each_time(void **state)
{
	struct meet_tuple t = to(2, 80);
	uint64_t now = 0, want = SILENCE_FIRST_MS;

	for (int i = 0; i < 20; i++) {
		silence_note(&s, &t, REASON_PEER_UNPROVEN, now);
		assert_int_equal(lasts_ms(&t, now), want);
		now += want * NS_PER_MS;
		want = want * 2 < SILENCE_MOST_MS ? want * 2 : SILENCE_MOST_MS;
	}
	assert_int_equal(want, SILENCE_MOST_MS);
	silence_over(&s, &t);
	assert_int_equal(silence_why(&s, &t, now), REASON_NONE);
	silence_note(&s, &t, REASON_PEER_UNPROVEN, now);
	assert_int_equal(lasts_ms(&t, now), SILENCE_FIRST_MS);
}

static void bounded(void **state)
{
	struct meet_tuple t;

	for (uint16_t i = 0; i < 3 * SILENCE_PLACES; i++) {
		t = to(2, (uint16_t)(1000 + i));
		silence_note(&s, &t, REASON_PEER_UNPROVEN, i);
		assert_int_equal(silence_why(&s, &t, i), REASON_PEER_UNPROVEN);
	}
	/* the last ones are those that are known */
	for (uint16_t i = 0; i < 3 * SILENCE_PLACES; i++) {
		t = to(2, (uint16_t)(1000 + i));
		assert_int_equal(silence_why(&s, &t, 3 * SILENCE_PLACES),
				 i < 2 * SILENCE_PLACES ? REASON_NONE : REASON_PEER_UNPROVEN);
	}
	t = to(2, 1);
	silence_over(&s, &t);	/* nobody knows of it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(for_a_while, setup),
		cmocka_unit_test_setup(longer_each_time, setup),
		cmocka_unit_test_setup(bounded, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
