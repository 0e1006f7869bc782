/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* output.c - results as a table for people */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "machine.h"
#include "results.h"

struct result result_of(const struct pattern *p, const struct series *s, long n)
{
	struct result r = { .p = p, .n = n, .ratio = NAN };
	double ratios[MAX_RUNS];

	r.plain = stats_median(s->plain, (size_t)n);
	r.sidestep = stats_median(s->sidestep, (size_t)n);
	for (long i = 0; i < n; i++) {
		double over = p->lower ? s->plain[i] : s->sidestep[i];
		double under = p->lower ? s->sidestep[i] : s->plain[i];

		if (!(over > 0) || !(under > 0))
			return r;
		ratios[i] = over / under;
	}
	r.ratio = stats_median(ratios, (size_t)n);
	r.spread = stats_median_interval(ratios, (size_t)n);
	return r;
}

/* Three digits at least, none of them for show. */
static const char *number(double v, char *buf, size_t size)
{
	snprintf(buf, size, "%.*f", v >= 1000 ? 0 : v >= 100 ? 1 : v >= 10 ? 2 : v >= 0.1 ? 3 : 5, v);
	return buf;
}

static void print_head(const struct bench *b)
{
	static const char *const sides[] = { "", ", server end only", ", client end only" };

	printf("%s: %ld pairs of %g s", b->workload_name, b->runs, b->seconds);
	if (b->server_core >= 0)
		printf(", server on core %d, client on core %d", b->server_core, b->client_core);
	else
		printf(", %d core%s, not pinned", b->cores, b->cores == 1 ? "" : "s");
	printf("%s\n\n", sides[b->side]);
}

static void print_row(const struct result *r, const char *unit)
{
	char plain[32], sidestep[32];

	printf("%-12s %-14s %12s %12s ", r->p->name, unit, number(r->plain, plain, sizeof(plain)),
	       number(r->sidestep, sidestep, sizeof(sidestep)));
	if (isnan(r->ratio))
		printf("%8s   -\n", "-");
	else if (r->n == 1)
		printf("%8.3f   one pair\n", r->ratio);
	else
		printf("%8.3f   %.3f to %.3f\n", r->ratio, r->spread.lo, r->spread.hi);
}

static void print_costs(const struct bench *b)
{
	if (!b->ncosts[COST_CPU])
		return;
	printf("\nper %s, of both ends:\n", b->w.ops.name);
	for (int i = 0; i < COSTS; i++) {
		if (!b->ncosts[i])
			continue;
		struct result r = result_of(&cost_names[i], &b->costs[i], b->ncosts[i]);

		print_row(&r, r.p->unit);
	}
	if (b->calls_error)
		printf("system calls not counted: %s\n", strerror(-b->calls_error));
}

static void print_foot(const struct bench *b, double level)
{
	const struct ringstats *s = &b->stats;
	const struct machine *m = machine_get();

	printf("\nratio: how many times better sidestep is (median of the pairs; %.0f %% interval)\n",
	       level * 100);
	printf("ring bytes: %llu of %llu (%.1f %%) in the sidestep runs; rnic %s, cq %s\n",
	       (unsigned long long)s->ring_bytes,
	       (unsigned long long)(s->ring_bytes + s->tcp_bytes),
	       100 * ringstats_share(s), ringstats_rnic(s), m->cq_mode);
	printf("sidestep %s, rings of %lu bytes; %s, %s, governor %s, tcp %s\n", m->version,
	       m->ring_bytes, m->kernel, m->cpu, m->governor, m->congestion);
}

void output_text(const struct bench *b)
{
	double level = 0;

	print_head(b);
	printf("%-12s %-14s %12s %12s %8s   %s\n", "figure", "unit", "plain", "sidestep",
	       "ratio", "interval");
	for (int i = 0; i < b->nfigures; i++) {
		struct result r = result_of(&b->w.figures[i], &b->figures[i], b->runs);

		level = r.spread.level;
		print_row(&r, r.p->unit);
	}
	print_costs(b);
	print_foot(b, level);
}
