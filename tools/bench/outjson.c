/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * outjson.c - results as a JSON object: what the table says, and each run's
 * values and the distribution of round trips, for --compare and --report
 */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "callcount.h"
#include "machine.h"
#include "results.h"

#define TRIP_STEP	8		/* buckets of struct hist in one: 16 a power of two */

static void put_string(FILE *f, const char *name, const char *s)
{
	fprintf(f, "\"%s\":\"", name);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			fprintf(f, "\\u%04x", (unsigned int)(unsigned char)*s);
		else
			fputc(*s, f);
	}
	fputc('"', f);
}

/* JSON has no number for what is not one. */
static void put_number(FILE *f, const char *name, double v)
{
	if (isnan(v))
		fprintf(f, "\"%s\":null", name);
	else
		fprintf(f, "\"%s\":%.9g", name, v);
}

static void put_samples(FILE *f, const char *name, const double *v, long n)
{
	fprintf(f, "\"%s\":[", name);
	for (long i = 0; i < n; i++)
		fprintf(f, "%s%.9g", i ? "," : "", v[i]);
	fputc(']', f);
}

static void put_result(FILE *f, const struct pattern *p, const struct series *s, long n)
{
	struct result r = result_of(p, s, n);
	bool known = !isnan(r.ratio);

	fputc('{', f);
	put_string(f, "name", p->name);
	fputc(',', f);
	put_string(f, "unit", p->unit);
	fprintf(f, ",\"better\":\"%s\",", p->lower ? "lower" : "higher");
	put_number(f, "plain", r.plain);
	fputc(',', f);
	put_number(f, "sidestep", r.sidestep);
	fputc(',', f);
	put_number(f, "ratio", r.ratio);
	fputc(',', f);
	put_number(f, "ratio_min", known ? r.spread.lo : NAN);
	fputc(',', f);
	put_number(f, "ratio_max", known ? r.spread.hi : NAN);
	fputs(",\"samples\":{", f);
	put_samples(f, "plain", s->plain, n);
	fputc(',', f);
	put_samples(f, "sidestep", s->sidestep, n);
	fputs("}}", f);
}

static void put_costs(FILE *f, const struct bench *b)
{
	bool first = true;

	fputs(",\"costs\":[", f);
	for (int i = 0; i < COSTS; i++) {
		if (!b->ncosts[i])
			continue;
		if (!first)
			fputc(',', f);
		first = false;
		put_result(f, &cost_names[i], &b->costs[i], b->ncosts[i]);
	}
	fputs("],", f);
	put_string(f, "per", b->w.ops.name ? b->w.ops.name : "");
	fputc(',', f);
	put_string(f, "syscalls_by", b->ncosts[COST_CALLS] ? CALLCOUNT_HOW : "not counted");
}

static void put_trips(FILE *f, const char *name, const struct hist *h)
{
	bool first = true;

	fprintf(f, "\"%s\":[", name);
	for (unsigned int i = 0; i < HIST_BUCKETS; i += TRIP_STEP) {
		uint64_t n = 0;

		for (unsigned int j = i; j < i + TRIP_STEP; j++)
			n += h->bucket[j];
		if (!n)
			continue;
		fprintf(f, "%s[%.6g,%llu]", first ? "" : ",",
			hist_value(i + TRIP_STEP / 2) / 1e3, (unsigned long long)n);
		first = false;
	}
	fputc(']', f);
}

static void put_distribution(FILE *f, const struct bench *b)
{
	if (!b->trips[0].total || !b->trips[1].total)
		return;
	fputs(",\"distribution\":{\"unit\":\"us\",", f);
	put_trips(f, "plain", &b->trips[0]);
	fputc(',', f);
	put_trips(f, "sidestep", &b->trips[1]);
	fputc('}', f);
}

static void put_machine(FILE *f, const struct bench *b)
{
	const struct machine *m = machine_get();
	const struct {
		const char *name, *value;
	} words[] = {
		{ "sidestep", m->version }, { "server", b->version }, { "kernel", m->kernel },
		{ "libc", m->libc }, { "cpu", m->cpu }, { "governor", m->governor },
		{ "clocksource", m->clocksource }, { "tcp_congestion", m->congestion },
		{ "attach", m->attach },
	};

	fputs(",\"machine\":{", f);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		put_string(f, words[i].name, words[i].value);
		fputc(',', f);
	}
	fprintf(f, "\"server_core\":%d,\"client_core\":%d,\"ring_bytes\":%lu}",
		b->server_core, b->client_core, m->ring_bytes);
}

void output_json(FILE *f, const struct bench *b)
{
	static const char *const sides[] = { "both", "server", "client" };

	fputc('{', f);
	put_string(f, "workload", b->workload_name);
	fprintf(f, ",\"runs\":%ld,\"figures\":[", b->runs);
	for (int i = 0; i < b->nfigures; i++) {
		if (i)
			fputc(',', f);
		put_result(f, &b->w.figures[i], &b->figures[i], b->runs);
	}
	fputc(']', f);
	fprintf(f, ",\"cq_mode\":\"%s\",\"rnic\":\"%s\",\"cores\":%d", machine_get()->cq_mode,
		ringstats_rnic(&b->stats), b->cores);
	fprintf(f, ",\"seconds\":%g,\"side\":\"%s\",\"ring_share\":%.6g", b->seconds,
		sides[b->side], ringstats_share(&b->stats));
	put_costs(f, b);
	put_machine(f, b);
	put_distribution(f, b);
	fputc('}', f);
}
