/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * stats.h - the arithmetic of sidestep-bench: medians, the interval of a
 * median, and a histogram of latencies
 */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Median of v[0..n), n > 0; the mean of the middle two for an even n. */
double stats_median(const double *v, size_t n);

struct interval {
	double lo, hi;
	double level;		/* probability that it holds the true median */
};

/*
 * Interval of the median of v[0..n), n > 0, by order statistics: the
 * narrowest pair of values, equally far from both ends, that holds the true
 * median with a probability of at least 0.95, whatever the distribution.
 * Below six values no pair does; then it is the whole range, with its level.
 */
struct interval stats_median_interval(const double *v, size_t n);

/*
 * How many times larger b is than a, of independent samples of values above 0:
 * the median of all quotients (Hodges and Lehmann's estimate, of logarithms)
 * and its interval by the distribution of Mann and Whitney's U, exact up to 50
 * values and by the normal one above.  Level as above.
 */
double stats_quotient(const double *a, size_t n, const double *b, size_t m, struct interval *r);

/*
 * Latency histogram: 128 buckets for each power of two, so that a value is
 * known to better than 0.8 %; 0 ns to some 70 s.
 */
#define HIST_SUB_BITS	7
#define HIST_SUB	(1u << HIST_SUB_BITS)
#define HIST_BUCKETS	(HIST_SUB * (37 - HIST_SUB_BITS))

struct hist {
	uint64_t total;
	uint32_t bucket[HIST_BUCKETS];
};

static inline unsigned int hist_index(uint64_t ns)
{
	unsigned int shift, i;

	if (ns < HIST_SUB)
		return (unsigned int)ns;
	shift = 63 - (unsigned int)__builtin_clzll(ns) - HIST_SUB_BITS;
	i = (shift + 1) * HIST_SUB + (unsigned int)((ns >> shift) - HIST_SUB);
	return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

static inline void hist_add(struct hist *h, uint64_t ns)
{
	h->bucket[hist_index(ns)]++;
	h->total++;
}

static inline void hist_add_many(struct hist *h, uint64_t ns, uint32_t n)
{
	h->bucket[hist_index(ns)] += n;
	h->total += n;
}

/* The value in ns in the middle of bucket i. */
double hist_value(unsigned int i);

/* The value in ns below or at which a share p (0..1) of all values lies; 0 if empty. */
double hist_percentile(const struct hist *h, double p);

#endif
