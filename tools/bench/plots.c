/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * plots.c - what gnuplot is told
 *
 * Each plot is a piece of script with its data in it, so that plots.gp of a
 * report can be changed and run again.  Blue is plain, orange is sidestep.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "stats.h"

#define PLAIN_STYLE	"lc rgb '#1f6fb4' lw 2"
#define RING_STYLE	"lc rgb '#e07b1a' lw 2"
/* A name between double quotes of gnuplot; what has a meaning there becomes a dash. */
static void put_name(FILE *gp, const char *s)
{
	fputc('"', gp);
	for (; *s; s++)
		fputc((unsigned char)*s < 0x20 || strchr("\"\\`$@_^{}&~", *s) ? '-' : *s, gp);
	fputc('"', gp);
}

size_t report_samples(const struct json_value *figure, const char *side, double *v)
{
	const struct json_value *s = jsonread_get(jsonread_get(figure, "samples"), side);
	size_t n = 0;

	for (s = s ? s->child : NULL; s && n < REPORT_SAMPLES; s = s->next)
		v[n++] = s->number;
	return n;
}

/* ------------------------------------------------------------ round trips -- */

/* Share of the round trips that took longer than each value. */
static bool put_slower(FILE *gp, const char *block, const struct json_value *side)
{
	double total = 0, left;

	for (const struct json_value *b = side ? side->child : NULL; b; b = b->next)
		if (b->child && b->child->next)
			total += b->child->next->number;
	fprintf(gp, "$%s << EOD\n", block);
	left = total;
	for (const struct json_value *b = side ? side->child : NULL; b; b = b->next) {
		if (!b->child || !b->child->next)
			continue;
		fprintf(gp, "%.6g %.6g\n", b->child->number, left / total);
		left -= b->child->next->number;
	}
	fputs("EOD\n", gp);
	return total > 0;
}

static bool draw_trips(FILE *gp, const struct json_value *all)
{
	int n = 0;

	for (const struct json_value *w = all->child; w; w = w->next) {
		const struct json_value *d = jsonread_get(w, "distribution");
		char block[32];

		if (!d)
			continue;
		snprintf(block, sizeof(block), "trip%da", n);
		put_slower(gp, block, jsonread_get(d, "plain"));
		snprintf(block, sizeof(block), "trip%db", n++);
		put_slower(gp, block, jsonread_get(d, "sidestep"));
	}
	if (!n)
		return false;
	fputs("set logscale xy\nset xlabel 'round trip, us'\n"
	      "set ylabel 'share that took as long or longer'\nset format y '%.0e'\n"
	      "set yrange [*:1]\nset key left bottom\nplot ", gp);
	n = 0;
	for (const struct json_value *w = all->child; w; w = w->next) {
		if (!jsonread_get(w, "distribution"))
			continue;
		fprintf(gp, "%s$trip%da with steps " PLAIN_STYLE " dt %d title ", n ? ", " : "",
			n, n + 1);
		put_name(gp, jsonread_string(w, "workload", "?"));
		fprintf(gp, ".', plain', $trip%db with steps " RING_STYLE " dt %d title ", n, n + 1);
		put_name(gp, jsonread_string(w, "workload", "?"));
		fputs(".', sidestep'", gp);
		n++;
	}
	fputs("\n", gp);
	return true;
}

/* ------------------------------------------------------ throughput by size -- */

static const struct json_value *figure_of(const struct json_value *w, const char *name)
{
	const struct json_value *f = jsonread_get(w, "figures");

	for (f = f ? f->child : NULL; f; f = f->next)
		if (!strcmp(jsonread_string(f, "name", ""), name))
			return f;
	return NULL;
}

static int put_sizes(FILE *gp, const struct json_value *all, const char *side)
{
	double v[REPORT_SAMPLES];
	int rows = 0;

	fprintf(gp, "$size_%s << EOD\n", side);
	for (const struct json_value *w = all->child; w; w = w->next) {
		const char *name = jsonread_string(w, "workload", "");
		const struct json_value *f = figure_of(w, "bytes");
		size_t n = f ? report_samples(f, side, v) : 0;

		if (strncmp(name, "stream:", 7) != 0 || !n)
			continue;
		struct interval i = stats_median_interval(v, n);

		fprintf(gp, "%s %.6g %.6g %.6g\n", name + 7, stats_median(v, n) / 1e9, i.lo / 1e9,
			i.hi / 1e9);
		rows++;
	}
	fputs("EOD\n", gp);
	return rows;
}

static bool draw_sizes(FILE *gp, const struct json_value *all)
{
	put_sizes(gp, all, "plain");
	if (!put_sizes(gp, all, "sidestep"))
		return false;
	fputs("set logscale xy\nset xlabel 'bytes a message'\nset ylabel 'GB/s'\nset key left top\n"
	      "plot $size_plain with yerrorlines pt 7 ps 0.6 " PLAIN_STYLE " title 'plain', "
	      "$size_sidestep with yerrorlines pt 7 ps 0.6 " RING_STYLE " title 'sidestep'\n", gp);
	return true;
}

/* ----------------------------------------------------------------- ratios -- */

static int put_ratios(FILE *gp, const struct json_value *w, const char *list, int row)
{
	const struct json_value *f = jsonread_get(w, list);

	for (f = f ? f->child : NULL; f; f = f->next) {
		char label[160];

		if (isnan(jsonread_number(f, "ratio", NAN)))
			continue;
		snprintf(label, sizeof(label), "%s %s", jsonread_string(w, "workload", "?"),
			 jsonread_string(f, "name", "?"));
		fprintf(gp, "%.6g %d %.6g %.6g ", jsonread_number(f, "ratio", 1), row++,
			jsonread_number(f, "ratio_min", 1), jsonread_number(f, "ratio_max", 1));
		put_name(gp, label);
		fputc('\n', gp);
	}
	return row;
}

static bool draw_list(FILE *gp, const struct json_value *all, const char *list, const char *style)
{
	int rows = 0;

	fprintf(gp, "$ratio_%s << EOD\n", list);
	for (const struct json_value *w = all->child; w; w = w->next)
		rows = put_ratios(gp, w, list, rows);
	fputs("EOD\n", gp);
	if (!rows)
		return false;
	fprintf(gp, "set terminal svg size 760,%d font 'sans-serif,12' background 'white'\n",
		110 + 22 * rows);
	fprintf(gp, "set logscale x\nset xlabel 'times better with sidestep'\n"
		"set yrange [%d.5:-0.5]\nset arrow 1 from 1,-0.5 to 1,%d.5 nohead dt 2\n"
		"unset key\nset grid x\n"
		"plot $ratio_%s using 1:2:3:4:ytic(5) with xerrorbars pt 7 ps 0.6 %s\n",
		rows - 1, rows - 1, list, style);
	return true;
}

static bool draw_ratios(FILE *gp, const struct json_value *all)
{
	return draw_list(gp, all, "figures", RING_STYLE);
}

static bool draw_costs(FILE *gp, const struct json_value *all)
{
	return draw_list(gp, all, "costs", RING_STYLE);
}

const struct plot plots[] = {
	{ "ratios", "Plain against sidestep",
	  "The ratio of each figure with its 95 % interval; right of the dashed line sidestep is better.",
	  draw_ratios },
	{ "trips", "Distribution of round trips",
	  "Of all runs together: how large a share of the round trips took so long or longer.",
	  draw_trips },
	{ "sizes", "Throughput by size",
	  "Medians of the runs with their 95 % intervals.", draw_sizes },
	{ "costs", "What an operation costs",
	  "CPU time, context switches and system calls, as ratios: right of the dashed line sidestep needs less.",
	  draw_costs },
	{ NULL, NULL, NULL, NULL },
};
