/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_window.c - a window that doubles moves no byte, and soon may */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sock/window.h"

enum { LEAST = 8, MOST = 256 };

static void no_byte_moves(void **state)
{
	int yes = 0;

	for (uint64_t w = LEAST; w < MOST; w *= 2)
		for (uint64_t K = 0; K < 4 * w; K++)
			for (uint64_t P = K; P <= K + w; P++) {
				if (!window_may_double(K, P, w))
					continue;
				yes++;
				for (uint64_t n = K; n < P; n++)
					assert_int_equal(n & (w - 1), n & (2 * w - 1));
			}
	assert_true(yes > 0);
}

/* Who stops there, be the ring as full as it may. */
static void at_the_end_of_an_even_window_it_may(void **state)
{
	for (uint64_t w = LEAST; w < MOST; w *= 2)
		for (uint64_t P = w; P < 16 * w; P += 2 * w)
			for (uint64_t K = P - w; K <= P; K++)
				assert_true(window_may_double(K, P, w));
}

static void over_an_edge_it_may_not(void **state)
{
	for (uint64_t w = LEAST; w < MOST; w *= 2)
		for (uint64_t at = w; at < 8 * w; at += w)
			assert_false(window_may_double(at - 1, at + 1, w));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_byte_moves),
		cmocka_unit_test(at_the_end_of_an_even_window_it_may),
		cmocka_unit_test(over_an_edge_it_may_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
