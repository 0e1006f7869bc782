/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * report.h - saved results as a page, and two of them compared
 *
 * A page is made from the JSON alone, so that what it says is what was saved.
 * gnuplot draws the plots; DIR has then index.html, plots.gp, *.svg and
 * results.json, and refers to nothing outside.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "../lib/jsonread.h"

/* Before measuring: is there gnuplot, can dir be made?  0 or an exit code. */
int report_check(const char *dir);

/* json: an object as `ab --json` prints it, or an array of them.  0 or an exit code. */
int report_write(const char *dir, const char *json);

/* Main programs of `--report DIR FILE` and `--compare A B`: the exit code. */
int report_main(int argc, char **argv);
int compare_main(int argc, char **argv);

/* The results in a file: an array, or NULL and a message. */
struct json_value *report_load(const char *path);

/* The results in a text likewise; name: for the message. */
struct json_value *report_parse(const char *text, const char *name);

/* A file of the report, to write; NULL and a message. */
FILE *report_open(const char *dir, const char *name);

/* page.c: index.html; bit i of there: plots[i] was drawn.  0 or an exit code. */
int page_write(const char *dir, const struct json_value *all, unsigned int there);

/* The values of a figure by run, at most REPORT_SAMPLES; side: "plain", "sidestep". */
#define REPORT_SAMPLES	1000
size_t report_samples(const struct json_value *figure, const char *side, double *v);

/* plots.c: the plots that these results have something for. */
struct plot {
	const char *file, *title, *text;
	bool (*draw)(FILE *gp, const struct json_value *all);	/* false: nothing to show */
};
extern const struct plot plots[];	/* ends with a NULL file */

#endif
