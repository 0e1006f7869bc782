/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* output.c - results as a table for people and as a JSON object */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "stats.h"

struct result {
	const struct pattern *p;
	double plain, sidestep, ratio;
	struct interval spread;
};

static struct result result_of(const struct bench *b, int f)
{
	struct result r = { .p = &b->w.figures[f] };
	double ratios[MAX_RUNS];
	size_t n = (size_t)b->runs;

	for (size_t i = 0; i < n; i++)
		ratios[i] = r.p->lower ? b->plain[f][i] / b->sidestep[f][i] :
					 b->sidestep[f][i] / b->plain[f][i];
	r.plain = stats_median(b->plain[f], n);
	r.sidestep = stats_median(b->sidestep[f], n);
	r.ratio = stats_median(ratios, n);
	r.spread = stats_median_interval(ratios, n);
	return r;
}

/* How a thread of the sidestep runs waits for its CQ. */
static const char *cq_mode(void)
{
	const char *spin = getenv("SIDESTEP_SPIN_US");

	if (!spin || !*spin || !strcmp(spin, "auto"))
		return "adaptive";
	return strcmp(spin, "0") ? "spin" : "event";
}

static const char *number(double v, char *buf, size_t size)
{
	snprintf(buf, size, "%.*f", v >= 1000 ? 0 : v >= 100 ? 1 : v >= 10 ? 2 : 3, v);
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

static void print_foot(const struct bench *b, double level)
{
	const struct ringstats *s = &b->stats;

	printf("\nratio: how many times better sidestep is (median of the pairs; %.0f %% interval)\n",
	       level * 100);
	printf("ring bytes: %llu of %llu (%.1f %%) in the sidestep runs; rnic %s, cq %s\n",
	       (unsigned long long)s->ring_bytes,
	       (unsigned long long)(s->ring_bytes + s->tcp_bytes),
	       100 * ringstats_share(s), ringstats_rnic(s), cq_mode());
}

void output_text(const struct bench *b)
{
	double level = 0;

	print_head(b);
	printf("%-12s %-12s %12s %12s %8s   %s\n", "figure", "unit", "plain", "sidestep",
	       "ratio", "interval");
	for (int i = 0; i < b->nfigures; i++) {
		struct result r = result_of(b, i);
		char plain[32], sidestep[32];

		level = r.spread.level;
		printf("%-12s %-12s %12s %12s %8.3f   %.3f to %.3f\n", r.p->name, r.p->unit,
		       number(r.plain, plain, sizeof(plain)),
		       number(r.sidestep, sidestep, sizeof(sidestep)),
		       r.ratio, r.spread.lo, r.spread.hi);
	}
	print_foot(b, level);
}

static void json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			printf("\\u%04x", (unsigned int)(unsigned char)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void json_figure(const struct result *r)
{
	printf("{\"name\":");
	json_string(r->p->name);
	printf(",\"unit\":");
	json_string(r->p->unit);
	printf(",\"better\":\"%s\",\"plain\":%.9g,\"sidestep\":%.9g,\"ratio\":%.6g,\"ratio_min\":%.6g,\"ratio_max\":%.6g}",
	       r->p->lower ? "lower" : "higher", r->plain, r->sidestep, r->ratio,
	       r->spread.lo, r->spread.hi);
}

void output_json(const struct bench *b)
{
	printf("{\"workload\":");
	json_string(b->workload_name);
	printf(",\"runs\":%ld,\"figures\":[", b->runs);
	for (int i = 0; i < b->nfigures; i++) {
		struct result r = result_of(b, i);

		if (i)
			putchar(',');
		json_figure(&r);
	}
	printf("],\"cq_mode\":\"%s\",\"rnic\":\"%s\",\"cores\":%d}\n", cq_mode(),
	       ringstats_rnic(&b->stats), b->cores);
}
