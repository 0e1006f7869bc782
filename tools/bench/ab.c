/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ab.c - `sidestep-bench ab`: plain and sidestep in turn */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "callcount.h"
#include "report.h"

static struct bench wanted = { .runs = 7, .seconds = 1, .pin = true, .worst_share = 1 };
static struct bench bench;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* On a terminal: what runs, and about how long the rest of this workload takes. */
static void progress(const struct bench *b, long done, long all, double start, const char *what)
{
	char left[48] = "";

	if (!isatty(STDERR_FILENO))
		return;
	if (done)
		snprintf(left, sizeof(left), "; about %.0f s left",
			 ceil((now_s() - start) / (double)done * (double)(all - done)));
	fprintf(stderr, "\r\033[K%s: run %ld of %ld, %s%s\r", b->workload_name, done + 1, all,
		what, left);
}

static void progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

static void keep(struct bench *b, long i, bool sidestep, const struct run *run)
{
	for (int f = 0; f < b->nfigures; f++)
		(sidestep ? b->figures[f].sidestep : b->figures[f].plain)[i] = run->figure[f];
	for (int c = 0; c < COSTS; c++) {
		if (isnan(run->cost[c]))
			continue;
		(sidestep ? b->costs[c].sidestep : b->costs[c].plain)[i] = run->cost[c];
		if (sidestep)
			b->ncosts[c] = i + 1;
	}
}

/* Runs with system calls counted are somewhat slower: a pair of their own. */
static int count_calls(struct bench *b, long done, long all, double start)
{
	struct run run;

	b->counting = true;
	for (int s = 0; s < 2; s++) {
		progress(b, done + s, all, start, "system calls");
		int r = run_once(b, s, &run);
		if (r)
			return r;
		if (isnan(run.cost[COST_CALLS]))
			continue;
		(s ? b->costs[COST_CALLS].sidestep : b->costs[COST_CALLS].plain)[0] =
			run.cost[COST_CALLS];
		b->ncosts[COST_CALLS] += s;
	}
	return 0;
}

static int measure(struct bench *b)
{
	bool calls = !b->no_calls && b->w.ops.name && !b->calls_error;
	long all = 2 * b->runs + (calls ? 2 : 0);
	double start = now_s();
	struct run run;
	int r = 0;

	for (long i = 0; i < 2 * b->runs && !r; i++) {
		progress(b, i, all, start, i % 2 ? "sidestep" : "plain");
		r = run_once(b, i % 2, &run);
		if (!r)
			keep(b, i / 2, i % 2, &run);
	}
	if (!r && calls)
		r = count_calls(b, 2 * b->runs, all, start);
	progress_end();
	return r;
}

/* The figures are about rings only if the traffic went over them. */
static int check_rings(const struct bench *b)
{
	if (b->side != SIDE_BOTH || b->w.short_conns || b->worst_share >= 0.5)
		return 0;
	if (!b->stats.processes)
		fprintf(stderr, "sidestep-bench: %s: refused: no process of the sidestep runs wrote its counters\n",
			b->workload_name);
	else
		fprintf(stderr, "sidestep-bench: %s: refused: only %.1f %% of the bytes of a sidestep run went over rings\n",
			b->workload_name, 100 * b->worst_share);
	return EXIT_REFUSED;
}

/* One workload; its JSON object goes to f. */
static int one(const char *name, FILE *f)
{
	int r;

	bench = wanted;
	r = name ? options_choose(&bench, name) : 0;
	if (!r)
		r = bench_init(&bench);
	if (!r)
		r = measure(&bench);
	if (!r)
		r = check_rings(&bench);
	if (!r) {
		output_json(f, &bench);
		if (!bench.json)
			output_text(&bench);
		fflush(stdout);
	}
	bench_fini(&bench);
	return r;
}

static int save(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (f && fputs(text, f) >= 0 && !fclose(f))
		return 0;
	fprintf(stderr, "sidestep-bench: %s: %s\n", path, strerror(errno));
	return EXIT_FAILED;
}

/* All workloads; one that is refused or skipped does not take the others with it.
 * Return: the first exit code that is not 0. */
static int each(FILE *f, int *good)
{
	int worst = 0;

	for (int i = 0; i < wanted.nnames; i++) {
		char *text = NULL;
		size_t len;
		FILE *object = open_memstream(&text, &len);
		int r = object ? one(wanted.names ? wanted.names[i] : NULL, object) : EXIT_FAILED;

		if (object)
			fclose(object);
		if (!r)
			fprintf(f, "%s%s", (*good)++ ? ",\n" : "", text);
		free(text);
		worst = worst ? worst : r;
		if (r && r != EXIT_REFUSED && r != EXIT_SKIPPED)
			return r;
		if (i + 1 < wanted.nnames && !r && !wanted.json)
			putchar('\n');
	}
	return worst;
}

static int results_out(const char *text, bool many)
{
	char *all;
	int r = 0;

	if (asprintf(&all, "%s%s%s\n", many ? "[" : "", text, many ? "]" : "") < 0)
		return EXIT_FAILED;
	if (wanted.json)
		fputs(all, stdout);
	if (wanted.save)
		r = save(wanted.save, all);
	if (!r && wanted.report)
		r = report_write(wanted.report, all);
	free(all);
	return r;
}

int ab_main(int argc, char **argv)
{
	char *text = NULL;
	size_t len;
	int good = 0, r2;
	int r = options_parse(&wanted, argc, argv);

	if (r >= 0)
		return r;
	r = wanted.report ? report_check(wanted.report) : 0;
	if (r)
		return r;
	wanted.calls_error = wanted.no_calls ? 0 : callcount_allowed();
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return EXIT_FAILED;
	r = each(f, &good);
	fclose(f);
	r2 = good ? results_out(text, wanted.nnames > 1) : 0;
	free(text);
	return r ? r : r2;
}
