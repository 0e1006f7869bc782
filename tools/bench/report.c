/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* report.c - `--report`: files, gnuplot; see report.h */
#include "report.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "proc.h"

#define GNUPLOT_MS	60000

int report_check(const char *dir)
{
	char *gnuplot = proc_find("gnuplot");

	if (!gnuplot) {
		fputs("sidestep-bench: --report: skipped, gnuplot is not installed; see package gnuplot-nox\n",
		      stderr);
		return EXIT_SKIPPED;
	}
	free(gnuplot);
	if ((mkdir(dir, 0777) && errno != EEXIST) || access(dir, W_OK | X_OK)) {
		fprintf(stderr, "sidestep-bench: %s: %s\n", dir, strerror(errno));
		return EXIT_FAILED;
	}
	return 0;
}

/* -------------------------------------------------------------- gnuplot -- */

FILE *report_open(const char *dir, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "we");

	if (!f)
		fprintf(stderr, "sidestep-bench: %s: %s\n", path, strerror(errno));
	return f;
}

/* One plot, if it has something to show. */
static bool write_plot(FILE *gp, const struct plot *p, const struct json_value *all)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	bool there = f && p->draw(f, all);

	if (f)
		fclose(f);
	if (there)
		fprintf(gp, "\nreset\nset terminal svg size 760,420 font 'sans-serif,12' background 'white'\n"
			"set output '%s.svg'\nset grid\nset border 3\nset tics nomirror\n%s"
			"set output\n", p->file, text);
	free(text);
	return there;
}

/* Bit i: plots[i] has something to show. */
static unsigned int write_script(FILE *gp, const struct json_value *all)
{
	unsigned int there = 0;

	fputs("# gnuplot plots.gp\n", gp);
	for (int i = 0; plots[i].file; i++)
		if (write_plot(gp, &plots[i], all))
			there |= 1u << i;
	return there;
}

static int run_gnuplot(const char *dir)
{
	char full[PATH_MAX], out[PATH_MAX + 16], script[] = "plots.gp";
	char *argv[] = { proc_find("gnuplot"), script, NULL };
	struct spawn s = { .argv = argv, .out = out, .err = out, .dir = dir, .core = -1 };
	struct proc p = { 0 };
	int r;

	if (!realpath(dir, full))
		return EXIT_FAILED;
	snprintf(out, sizeof(out), "%s/gnuplot.log", full);
	r = argv[0] ? proc_start(&p, &s) : -ENOENT;
	if (!r)
		r = proc_end(&p, 0, GNUPLOT_MS);
	free(argv[0]);
	if (r || !proc_succeeded(&p)) {
		fputs("sidestep-bench: gnuplot has failed:\n", stderr);
		proc_print_tail(out);
		return EXIT_FAILED;
	}
	unlink(out);
	return 0;
}

static int write_json(const char *dir, const char *json)
{
	FILE *f = report_open(dir, "results.json");
	bool ok = f && fputs(json, f) >= 0;

	return f && !fclose(f) && ok ? 0 : EXIT_FAILED;
}

int report_write(const char *dir, const char *json)
{
	struct json_value *all = report_parse(json, "results");
	unsigned int there = 0;
	FILE *gp;
	int r = all ? write_json(dir, json) : EXIT_FAILED;

	gp = r ? NULL : report_open(dir, "plots.gp");
	if (gp)
		there = write_script(gp, all);
	r = gp && !fclose(gp) ? run_gnuplot(dir) : EXIT_FAILED;
	if (!r)
		r = page_write(dir, all, there);
	if (!r)
		fprintf(stderr, "sidestep-bench: report in %s/index.html\n", dir);
	jsonread_free(all);
	return r;
}

/* ---------------------------------------------------------------- files -- */

struct json_value *report_parse(const char *text, const char *name)
{
	struct json_value *v = jsonread(text), *all = v;

	if (v && v->kind == JSON_OBJECT) {
		all = calloc(1, sizeof(*all));
		if (all)
			*all = (struct json_value){ .kind = JSON_ARRAY, .child = v };
	}
	for (const struct json_value *w = all ? all->child : NULL; w; w = w->next)
		if (!jsonread_get(w, "workload") || !jsonread_get(w, "figures")) {
			jsonread_free(all);
			all = NULL;
			break;
		}
	if (all && all->child)
		return all;
	fprintf(stderr, "sidestep-bench: %s: no results as `sidestep-bench ab --json' prints them\n",
		name);
	return NULL;
}

struct json_value *report_load(const char *path)
{
	char *text = proc_read_file(path);
	struct json_value *v = NULL;

	if (text)
		v = report_parse(text, path);
	else
		fprintf(stderr, "sidestep-bench: %s: %s\n", path, strerror(errno));
	free(text);
	return v;
}

int report_main(int argc, char **argv)
{
	char *text;
	int r;

	if (argc != 3) {
		fputs("usage: sidestep-bench --report DIR FILE.json\n", stderr);
		return EXIT_USAGE;
	}
	text = proc_read_file(argv[2]);
	if (!text) {
		fprintf(stderr, "sidestep-bench: %s: %s\n", argv[2], strerror(errno));
		return EXIT_FAILED;
	}
	r = report_check(argv[1]);
	if (!r)
		r = report_write(argv[1], text);
	free(text);
	return r;
}
