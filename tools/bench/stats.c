/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* stats.c - medians, order statistics, histogram */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double *sorted_copy(const double *v, size_t n)
{
	double *s = malloc(n * sizeof(*s));

	if (s) {
		memcpy(s, v, n * sizeof(*s));
		qsort(s, n, sizeof(*s), compare);
	}
	return s;
}

double stats_median(const double *v, size_t n)
{
	double *s = sorted_copy(v, n);
	double m;

	if (!s)
		return v[n / 2];
	m = n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
	free(s);
	return m;
}

/*
 * The true median lies below the k-th smallest value (k from 1) with the
 * probability that fewer than k of n fair coins fall on one side.
 * Return: the largest k for which both tails together stay within 5 %, and
 * the level it has; at least 1.
 */
static size_t rank_for_95(size_t n, double *level)
{
	double term = 1, tail;
	size_t k = 1;

	for (size_t i = 0; i < n; i++)
		term /= 2;
	tail = term;
	*level = 1 - 2 * tail;
	for (size_t i = 1; i <= n / 2; i++) {
		term = term * (double)(n - i + 1) / (double)i;
		tail += term;
		if (2 * tail > 0.05)
			break;
		k = i + 1;
		*level = 1 - 2 * tail;
	}
	if (*level < 0)
		*level = 0;
	return k;
}

struct interval stats_median_interval(const double *v, size_t n)
{
	double *s = sorted_copy(v, n);
	struct interval r = { v[0], v[0], 0 };
	size_t k = rank_for_95(n, &r.level);

	if (!s)
		return r;
	r.lo = s[k - 1];
	r.hi = s[n - k];
	free(s);
	return r;
}

/* Middle of bucket i in ns. */
static double bucket_value(unsigned int i)
{
	unsigned int shift;
	double lo;

	if (i < HIST_SUB)
		return i;
	shift = i / HIST_SUB - 1;
	lo = (double)((uint64_t)(HIST_SUB + i % HIST_SUB) << shift);
	return lo + (double)((1ull << shift) - 1) / 2;
}

double hist_percentile(const struct hist *h, double p)
{
	double want = p * (double)h->total;
	uint64_t seen = 0;

	if (!h->total)
		return 0;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen && (double)seen >= want)
			return bucket_value(i);
	}
	return bucket_value(HIST_BUCKETS - 1);
}
