/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* stats.c - medians, order statistics, histogram */
#include "stats.h"

#include <math.h>
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

/*
 * Coefficients of the Gaussian binomial: in how many of all orders of n and m
 * values does U take each value up to n m.
 */
static void count_orders(double *ways, size_t n, size_t m)
{
	size_t top = n * m;

	for (size_t u = 0; u <= top; u++)
		ways[u] = u == 0;
	for (size_t i = 1; i <= n; i++) {
		for (size_t u = top; u >= m + i; u--)
			ways[u] -= ways[u - m - i];
		for (size_t u = i; u <= top; u++)
			ways[u] += ways[u - i];
	}
}

/* The largest k with P(U < k) within 2.5 %, at least 1, and the level then. */
static size_t rank_of_u(size_t n, size_t m, double *level)
{
	double *ways = malloc((n * m + 1) * sizeof(*ways)), all = 0, tail;
	size_t k = 1;

	*level = 0;
	if (!ways)
		return 1;
	count_orders(ways, n, m);
	for (size_t u = 0; u <= n * m; u++)
		all += ways[u];
	tail = ways[0];
	*level = 1 - 2 * tail / all;
	while (k < n * m && tail + ways[k] <= 0.025 * all) {
		tail += ways[k++];
		*level = 1 - 2 * tail / all;
	}
	free(ways);
	if (*level < 0)
		*level = 0;
	return k;
}

static size_t rank_of_normal(size_t n, size_t m, double *level)
{
	double nm = (double)n * (double)m;
	double k = nm / 2 - 1.96 * sqrt(nm * (double)(n + m + 1) / 12);

	*level = 0.95;
	return k < 1 ? 1 : (size_t)k;
}

double stats_quotient(const double *a, size_t n, const double *b, size_t m, struct interval *r)
{
	double *q = malloc(n * m * sizeof(*q)), mid;
	size_t k = n + m <= 50 ? rank_of_u(n, m, &r->level) : rank_of_normal(n, m, &r->level);

	if (!q) {
		r->lo = r->hi = stats_median(b, m) / stats_median(a, n);
		r->level = 0;
		return r->lo;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < m; j++)
			q[i * m + j] = b[j] / a[i];
	qsort(q, n * m, sizeof(*q), compare);
	r->lo = q[k - 1];
	r->hi = q[n * m - k];
	mid = stats_median(q, n * m);
	free(q);
	return mid;
}

double hist_value(unsigned int i)
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
			return hist_value(i);
	}
	return hist_value(HIST_BUCKETS - 1);
}
