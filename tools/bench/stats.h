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

/* The value in ns below or at which a share p (0..1) of all values lies; 0 if empty. */
double hist_percentile(const struct hist *h, double p);

#endif
