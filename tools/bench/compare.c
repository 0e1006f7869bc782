/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * compare.c - `sidestep-bench --compare A.json B.json`: is B better than A?
 *
 * Values of the two were not taken in turn, so what the machine did meanwhile
 * is in them.  The ratio of sidestep to plain was taken in turn within each
 * of the two, and its change is what the verdict is about.
 */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "report.h"

struct change {
	double times;			/* better */
	struct interval spread;
};

static bool positive(const double *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(v[i] > 0))
			return false;
	return n > 0;
}

/* Pair by pair, how many times better sidestep is. */
static size_t ratios_of(const struct json_value *f, bool lower, double *v)
{
	double plain[REPORT_SAMPLES];
	size_t n = report_samples(f, "plain", plain), m = report_samples(f, "sidestep", v);

	if (n != m || !positive(plain, n) || !positive(v, m))
		return 0;
	for (size_t i = 0; i < n; i++)
		v[i] = lower ? plain[i] / v[i] : v[i] / plain[i];
	return n;
}

static bool change_of(const double *a, size_t n, const double *b, size_t m, bool lower,
		      struct change *c)
{
	if (!positive(a, n) || !positive(b, m))
		return false;
	c->times = lower ? stats_quotient(b, m, a, n, &c->spread) :
			   stats_quotient(a, n, b, m, &c->spread);
	return true;
}

/* Without the samples there is nothing to tell the chance by. */
static void print_change(bool known, const struct change *c)
{
	if (known)
		printf(" %7.3f (%.3f to %.3f)", c->times, c->spread.lo, c->spread.hi);
	else
		printf(" %7s %-16s", "-", "");
}

static bool side_change(const struct json_value *a, const struct json_value *b, const char *side,
			bool lower, struct change *c)
{
	double va[REPORT_SAMPLES], vb[REPORT_SAMPLES];
	size_t n = report_samples(a, side, va), m = report_samples(b, side, vb);

	return change_of(va, n, vb, m, lower, c);
}

/* Return: whether B is worse, beyond chance. */
static bool compare_figure(const char *workload, const struct json_value *a,
			   const struct json_value *b)
{
	bool lower = !strcmp(jsonread_string(a, "better", ""), "lower"), known;
	double ra[REPORT_SAMPLES], rb[REPORT_SAMPLES];
	struct change c;
	size_t n, m;

	printf("%-16s %-12s", workload, jsonread_string(a, "name", "?"));
	known = side_change(a, b, "plain", lower, &c);
	print_change(known, &c);
	known = side_change(a, b, "sidestep", lower, &c);
	print_change(known, &c);
	n = ratios_of(a, lower, ra);
	m = ratios_of(b, lower, rb);
	known = change_of(ra, n, rb, m, false, &c);
	print_change(known, &c);
	if (!known || c.spread.level < 0.95) {
		puts("  too few runs");
		return false;
	}
	puts(c.spread.lo > 1 ? "  better" : c.spread.hi < 1 ? "  worse" : "  same");
	return c.spread.hi < 1;
}

static const struct json_value *named(const struct json_value *list, const char *key,
				      const char *name)
{
	for (list = list ? list->child : NULL; list; list = list->next)
		if (!strcmp(jsonread_string(list, key, ""), name))
			return list;
	return NULL;
}

static bool compare_list(const struct json_value *a, const struct json_value *b, const char *list)
{
	const struct json_value *f = jsonread_get(a, list);
	bool worse = false;

	for (f = f ? f->child : NULL; f; f = f->next) {
		const struct json_value *g = named(jsonread_get(b, list), "name",
						   jsonread_string(f, "name", ""));

		if (g)
			worse |= compare_figure(jsonread_string(a, "workload", "?"), f, g);
	}
	return worse;
}

/* What was not the same when the two were measured. */
static void print_differences(const struct json_value *a, const struct json_value *b)
{
	static const char *const keys[] = { "sidestep", "server", "kernel", "libc", "cpu",
					    "governor", "tcp_congestion", "attach" };
	const struct json_value *ma = jsonread_get(a, "machine"), *mb = jsonread_get(b, "machine");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *x = jsonread_string(ma, keys[i], ""), *y = jsonread_string(mb, keys[i], "");

		if (strcmp(x, y) != 0)
			printf("%s: A %s, B %s\n", keys[i], x, y);
	}
	if (jsonread_number(ma, "ring_bytes", 0) != jsonread_number(mb, "ring_bytes", 0))
		printf("ring_bytes: A %.0f, B %.0f\n", jsonread_number(ma, "ring_bytes", 0),
		       jsonread_number(mb, "ring_bytes", 0));
}

static int compare(const struct json_value *a, const struct json_value *b)
{
	int both = 0;
	bool worse = false;

	print_differences(a->child, b->child);
	puts("How many times better B is than A, by each side, and by the ratio of the two:\n");
	printf("%-16s %-12s %-25s %-25s %s\n", "workload", "figure", " plain", " sidestep", " ratio");
	for (const struct json_value *w = a->child; w; w = w->next) {
		const struct json_value *v = named(b, "workload", jsonread_string(w, "workload", ""));

		if (!v)
			continue;
		both++;
		worse |= compare_list(w, v, "figures");
		worse |= compare_list(w, v, "costs");
	}
	if (!both) {
		fputs("sidestep-bench: --compare: no workload is in both\n", stderr);
		return EXIT_FAILED;
	}
	return worse ? EXIT_WORSE : 0;
}

int compare_main(int argc, char **argv)
{
	struct json_value *a, *b;
	int r = EXIT_FAILED;

	if (argc != 3) {
		fputs("usage: sidestep-bench --compare A.json B.json\n", stderr);
		return EXIT_USAGE;
	}
	a = report_load(argv[1]);
	b = a ? report_load(argv[2]) : NULL;
	if (b)
		r = compare(a, b);
	jsonread_free(a);
	jsonread_free(b);
	return r;
}
