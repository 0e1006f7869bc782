/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* page.c - the HTML page of a report: no script, nothing from outside */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "report.h"

static void put_text(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", f);
		else if (*s == '&')
			fputs("&amp;", f);
		else if (*s == '"')
			fputs("&quot;", f);
		else
			fputc(*s, f);
	}
}

static void put_cell(FILE *f, const struct json_value *figure, const char *key)
{
	double v = jsonread_number(figure, key, NAN);

	if (isnan(v))
		fprintf(f, "<td data-key=\"%s\">-</td>", key);
	else
		fprintf(f, "<td data-key=\"%s\">%.6g</td>", key, v);
}

static const char *verdict(const struct json_value *figure)
{
	double v[REPORT_SAMPLES];

	if (report_samples(figure, "sidestep", v) < 6)
		return "unsure";
	if (jsonread_number(figure, "ratio_min", 1) > 1)
		return "better";
	return jsonread_number(figure, "ratio_max", 1) < 1 ? "worse" : "same";
}

static void put_row(FILE *f, const struct json_value *w, const struct json_value *figure,
		    const char *list)
{
	static const char *const keys[] = { "plain", "sidestep", "ratio", "ratio_min", "ratio_max" };

	fputs("<tr data-workload=\"", f);
	put_text(f, jsonread_string(w, "workload", "?"));
	fprintf(f, "\" data-list=\"%s\" data-figure=\"", list);
	put_text(f, jsonread_string(figure, "name", "?"));
	fprintf(f, "\" class=\"%s\"><th>", verdict(figure));
	put_text(f, jsonread_string(w, "workload", "?"));
	fputs("</th><td>", f);
	put_text(f, jsonread_string(figure, "name", "?"));
	fputs("</td><td>", f);
	put_text(f, jsonread_string(figure, "unit", ""));
	if (!strcmp(list, "costs")) {
		fputs(jsonread_string(figure, "unit", "")[0] ? " per " : "per ", f);
		put_text(f, jsonread_string(w, "per", "operation"));
	}
	fputs("</td>", f);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		put_cell(f, figure, keys[i]);
	fputs("</tr>\n", f);
}

static void put_table(FILE *f, const struct json_value *all, const char *list)
{
	fputs("<table>\n<tr><th>workload</th><th>figure</th><th>unit</th><th>plain</th>"
	      "<th>sidestep</th><th>ratio</th><th colspan=\"2\">95 % interval</th></tr>\n", f);
	for (const struct json_value *w = all->child; w; w = w->next) {
		const struct json_value *figure = jsonread_get(w, list);

		for (figure = figure ? figure->child : NULL; figure; figure = figure->next)
			put_row(f, w, figure, list);
	}
	fputs("</table>\n", f);
}

static void put_fact(FILE *f, const char *name, const struct json_value *v)
{
	if (!v || (v->kind == JSON_STRING && !v->string[0]))
		return;
	fprintf(f, "<tr><th>%s</th><td>", name);
	if (v->kind == JSON_STRING)
		put_text(f, v->string);
	else
		fprintf(f, "%.10g", v->number);
	fputs("</td></tr>\n", f);
}

/* Of the first workload: they were measured in one go, on one machine. */
static void put_machine(FILE *f, const struct json_value *w)
{
	static const struct { const char *key, *name; } facts[] = {
		{ "sidestep", "sidestep" }, { "kernel", "kernel" }, { "libc", "C library" },
		{ "cpu", "processor" }, { "governor", "frequency governor" },
		{ "clocksource", "clock source" },
		{ "tcp_congestion", "TCP congestion control" }, { "server_core", "server on core (-1: any)" },
		{ "client_core", "client on core (-1: any)" }, { "attach", "attach policy" },
		{ "ring_bytes", "bytes a ring" },
	};
	static const struct { const char *key, *name; } more[] = {
		{ "cores", "cores" }, { "rnic", "RNIC" }, { "cq_mode", "CQ mode" }, { "ring_share", "share of bytes over rings" },
		{ "runs", "pairs of runs" }, { "seconds", "seconds a run" },
		{ "side", "end under sidestep" }, { "syscalls_by", "system calls counted by" },
	};
	const struct json_value *m = jsonread_get(w, "machine");

	fputs("<table class=\"facts\">\n", f);
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		put_fact(f, facts[i].name, jsonread_get(m, facts[i].key));
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		put_fact(f, more[i].name, jsonread_get(w, more[i].key));
	fputs("</table>\n", f);
}

static void put_servers(FILE *f, const struct json_value *all)
{
	for (const struct json_value *w = all->child; w; w = w->next) {
		const char *v = jsonread_string(jsonread_get(w, "machine"), "server", "");

		if (!v[0])
			continue;
		fputs("<p>", f);
		put_text(f, jsonread_string(w, "workload", "?"));
		fputs(": ", f);
		put_text(f, v);
		fputs("</p>\n", f);
	}
}

static void put_plots(FILE *f, unsigned int there)
{
	for (int i = 0; plots[i].file; i++)
		if (there & 1u << i)
			fprintf(f, "<h2>%s</h2>\n<p>%s</p>\n<p><img src=\"%s.svg\" alt=\"%s\"></p>\n",
				plots[i].title, plots[i].text, plots[i].file, plots[i].title);
}

static const char head[] =
"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
"<meta name=\"viewport\" content=\"width=device-width\">\n"
"<title>sidestep-bench</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n"
"body { font: 15px/1.45 sans-serif; max-width: 64em; margin: 2em auto; padding: 0 1em;\n"
"  color: #222; background: #fff }\n"
"table { border-collapse: collapse } th, td { padding: .15em .8em; text-align: right;\n"
"  border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }\n"
"th:first-child, td:nth-child(2), td:nth-child(3), .facts td { text-align: left }\n"
"th { font-weight: 600 } .better td[data-key=ratio] { color: #0a6b2d; font-weight: 600 }\n"
".worse td[data-key=ratio] { color: #a11616; font-weight: 600 }\n"
"img { max-width: 100%; height: auto }\n</style>\n</head>\n<body>\n"
"<h1>Plain against sidestep</h1>\n"
"<p>Each workload ran without and with sidestep in turn. A ratio says how many times\n"
"better sidestep is, whatever the unit: the median of the ratios of neighbouring\n"
"pairs, and behind it the interval that holds the true median with a probability of\n"
"95 % or more (from six pairs on; below, the whole range). An interval that holds 1\n"
"says nothing. The numbers are in <a href=\"results.json\">results.json</a>.</p>\n";

int page_write(const char *dir, const struct json_value *all, unsigned int there)
{
	FILE *f = report_open(dir, "index.html");

	if (!f)
		return EXIT_FAILED;
	fputs(head, f);
	put_table(f, all, "figures");
	put_plots(f, there);
	fputs("<h2>Costs</h2>\n<p>Of whole runs, both programs from start to end, by the number of\n"
	      "operations. System calls are counted by the kernel in a pair of runs of their own.</p>\n", f);
	put_table(f, all, "costs");
	fputs("<h2>Where</h2>\n", f);
	put_machine(f, all->child);
	put_servers(f, all);
	fputs("</body>\n</html>\n", f);
	return fclose(f) ? EXIT_FAILED : 0;
}
