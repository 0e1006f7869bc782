/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* results.h - medians, ratios and their intervals of what was measured */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "bench.h"

struct result {
	const struct pattern *p;
	long n;				/* pairs */
	double plain, sidestep;		/* medians */
	double ratio;			/* how many times better; NAN: a value is 0 */
	struct interval spread;		/* of the ratio */
};

struct result result_of(const struct pattern *p, const struct series *s, long n);

#endif
