/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_bench_stats.c - the arithmetic of sidestep-bench */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/bench/ringstats.h"
#include "../../tools/bench/stats.h"

static int near(double a, double b, double part)
{
	double d = a > b ? a - b : b - a;

	return d <= part * (b > 0 ? b : 1);
}

static void median_of_odd_and_even(void **state)
{
	const double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };

	assert_true(near(stats_median(odd, 3), 3, 0));
	assert_true(near(stats_median(even, 4), 2.5, 0));
	assert_true(near(stats_median(one, 1), 7, 0));
}

/*
 * Critical values of Mann and Whitney's U at 5 %, two-sided, as tables have them:
 * 2 for 5 and 5, 8 for 7 and 7, 13 for 8 and 8.  The ranks are one more.
 */
static void quotient_by_mann_whitney(void **state)
{
	static const struct {
		size_t n, m, rank;
	} cases[] = { { 5, 5, 3 }, { 7, 7, 9 }, { 8, 8, 14 }, { 6, 10, 12 }, { 3, 3, 1 } };

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		size_t n = cases[c].n, m = cases[c].m, below = 0;
		double a[10], b[10], mid;
		struct interval r;

		for (size_t i = 0; i < n; i++)
			a[i] = 1 + (double)i / 7;
		for (size_t j = 0; j < m; j++)
			b[j] = 2 + (double)(j * j) / 11;
		mid = stats_quotient(a, n, b, m, &r);
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < m; j++)
				below += b[j] / a[i] < r.lo;
		assert_int_equal(below, cases[c].rank - 1);
		assert_true(r.lo <= mid && mid <= r.hi);
		assert_true(c == 4 ? r.level < 0.95 : r.level >= 0.95 && r.level < 0.97);
	}
}

static void quotient_of_the_same_is_one(void **state)
{
	const double a[] = { 3, 1, 2, 5, 4, 8 };
	struct interval r;

	assert_true(near(stats_quotient(a, 6, a, 6, &r), 1, 1e-9));
	assert_true(r.lo < 1 && r.hi > 1);
}

/* Ranks and levels from the binomial table with p = 1/2. */
static void interval_by_order_statistics(void **state)
{
	static const struct {
		size_t n, lo, hi;	/* ranks from 1 */
		double level;
	} cases[] = {
		{ 1, 1, 1, 0 },
		{ 2, 1, 2, 0.5 },
		{ 5, 1, 5, 0.9375 },
		{ 6, 1, 6, 0.96875 },
		{ 7, 1, 7, 0.984375 },
		{ 9, 2, 8, 0.9609375 },
		{ 15, 4, 12, 0.9648438 },
		{ 20, 6, 15, 0.9586105 },
		{ 100, 40, 61, 0.9647998 },
	};
	double v[100];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = cases[i].n;

		for (size_t j = 0; j < n; j++)
			v[j] = (double)(n - j);
		struct interval r = stats_median_interval(v, n);

		assert_true(near(r.lo, (double)cases[i].lo, 0));
		assert_true(near(r.hi, (double)cases[i].hi, 0));
		assert_true(near(r.level, cases[i].level, 1e-6));
	}
}

static void histogram_is_finer_than_one_percent(void **state)
{
	for (uint64_t v = 1; v < 60000000000ull; v += v / 7 + 1) {
		struct hist h;

		memset(&h, 0, sizeof(h));
		hist_add(&h, v);
		assert_true(near(hist_percentile(&h, 0.5), (double)v, 0.008));
	}
	assert_int_equal(hist_index(UINT64_MAX), HIST_BUCKETS - 1);
}

static void histogram_buckets_never_go_back(void **state)
{
	unsigned int last = 0;

	for (uint64_t v = 0; v < 1u << 20; v++) {
		unsigned int i = hist_index(v);

		assert_in_range(i, last, last + 1);
		last = i;
	}
}

static void percentiles_of_a_ramp(void **state)
{
	static struct hist h;

	assert_true(near(hist_percentile(&h, 0.5), 0, 0));
	for (uint64_t v = 1; v <= 10000; v++)
		hist_add(&h, v);
	assert_true(near(hist_percentile(&h, 0.5), 5000, 0.01));
	assert_true(near(hist_percentile(&h, 0.99), 9900, 0.01));
	assert_true(near(hist_percentile(&h, 0.999), 9990, 0.01));
	assert_true(near(hist_percentile(&h, 1), 10000, 0.01));
}

static void counter_lines_are_summed(void **state)
{
	struct ringstats s = { 0 };

	ringstats_add(&s, NULL);
	assert_true(near(ringstats_share(&s), 0, 0));
	assert_string_equal(ringstats_rnic(&s), "none");
	ringstats_add(&s, "{\"program\":\"a\",\"conns_ring_soft\":2,\"ring_tx_bytes\":60,"
			  "\"ring_rx_bytes\":15,\"tcp_tx_bytes\":5,\"tcp_rx_bytes\":20}\n"
			  "noise \"ring_tx_bytes\":1000\n"
			  "{\"program\":\"b\",\"ring_tx_bytes\":100");
	assert_int_equal(s.processes, 2);
	assert_int_equal(s.ring_bytes, 175);
	assert_int_equal(s.tcp_bytes, 25);
	assert_true(near(ringstats_share(&s), 0.875, 1e-9));
	assert_string_equal(ringstats_rnic(&s), "soft");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(median_of_odd_and_even),
		cmocka_unit_test(interval_by_order_statistics),
		cmocka_unit_test(quotient_by_mann_whitney),
		cmocka_unit_test(quotient_of_the_same_is_one),
		cmocka_unit_test(histogram_is_finer_than_one_percent),
		cmocka_unit_test(histogram_buckets_never_go_back),
		cmocka_unit_test(percentiles_of_a_ramp),
		cmocka_unit_test(counter_lines_are_summed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
