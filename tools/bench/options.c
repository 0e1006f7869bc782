/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* options.c - what `sidestep-bench ab` is told, and its table of workloads */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char usage[] =
"usage: sidestep-bench ab [OPTIONS] WORKLOAD...\n"
"       sidestep-bench ab [OPTIONS] --server CMD --client CMD --figure NAME=REGEX...\n"
"Run a workload without and with sidestep in turn and compare.\n\n"
"  -n, --runs N         pairs of runs (7)\n"
"  -s, --seconds S      how long a run measures (1)\n"
"  -j, --json           print one JSON object; an array of them for several workloads\n"
"      --save FILE      write that to a file too, for --compare and --report\n"
"      --report DIR     make a page with plots there, DIR/index.html, and save\n"
"                       DIR/results.json; without a workload: the built-in ones\n"
"                       that need no other program\n"
"      --no-syscalls    no extra pair of runs in which system calls are counted\n"
"      --side SIDE      which end runs under sidestep: both, server, client (both)\n"
"      --no-pin         do not give each end a core of its own\n"
"      --keep           keep what the programs printed and counted, and say where\n"
"      --launcher PATH  use this in place of the sidestep next to the tool\n"
"      --server CMD     a server of your own; {port} is its port on 127.0.0.1,\n"
"                       {dir} a directory that is removed afterwards\n"
"      --client CMD     its client; {seconds}: how long to run\n"
"      --figure NAME=REGEX, --figure-lower NAME=REGEX\n"
"                       a number in the client's output: the first group of REGEX;\n"
"                       higher, or lower, is better\n"
"      --ops REGEX      likewise how many operations there were in all, for what\n"
"                       one costs in CPU time, system calls, context switches\n\n"
"Workloads:\n";

static void print_usage(FILE *f)
{
	fputs(usage, f);
	for (const struct workload *w = workloads; w->name; w++)
		fprintf(f, "  %s%-*s %s\n", w->name, 20 - (int)strlen(w->name),
			w->size ? w->need_size ? ":N" : "[:N]" : "", w->text);
}

int options_choose(struct bench *b, const char *name)
{
	size_t n = strcspn(name, ":");
	const char *size = name[n] ? name + n + 1 : NULL;
	char *end = NULL;

	for (const struct workload *w = workloads; w->name; w++) {
		if (strlen(w->name) != n || memcmp(w->name, name, n))
			continue;
		if ((size && !w->size) || (!size && w->need_size) ||
		    (size && (strtol(size, &end, 10) <= 0 || *end))) {
			fprintf(stderr, "sidestep-bench: %s: write %s%s\n", name, w->name,
				w->need_size ? ":NUMBER" : w->size ? "[:NUMBER]" : "");
			return EXIT_USAGE;
		}
		b->w = *w;
		b->workload_name = name;
		snprintf(b->size, sizeof(b->size), "%s", size ? size : w->size ? w->size : "");
		return 0;
	}
	fprintf(stderr, "sidestep-bench: no workload %s; see sidestep-bench ab --help\n", name);
	return EXIT_USAGE;
}

/* Split a command into words; quotes hold words together.  Works in place. */
static int split(char *s, const char **argv)
{
	int n = 0;

	while (*(s += strspn(s, " \t\n"))) {
		char *to = s, quote = 0;

		if (n == MAX_ARGS - 1)
			return -E2BIG;
		argv[n++] = to;
		for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
			if (quote ? *s == quote : *s == '"' || *s == '\'')
				quote = quote ? 0 : *s;
			else
				*to++ = *s;
		}
		if (quote)
			return -EINVAL;
		s += *s != '\0';
		*to = '\0';
	}
	return n ? 0 : -EINVAL;
}

static int add_figure(struct workload *w, char *spec, bool lower)
{
	char *eq = strchr(spec, '=');

	for (int i = 0; i < MAX_FIGURES && eq; i++) {
		if (w->figures[i].name)
			continue;
		*eq = '\0';
		w->figures[i] = (struct pattern){ spec, "", lower, eq + 1, 1 };
		return 0;
	}
	fprintf(stderr, "sidestep-bench: figure %s: %s\n", spec,
		eq ? "too many" : "write NAME=REGEX");
	return EXIT_USAGE;
}

enum { OPT_SIDE = 256, OPT_NO_PIN, OPT_KEEP, OPT_LAUNCHER, OPT_SERVER, OPT_CLIENT, OPT_FIGURE,
       OPT_FIGURE_LOWER, OPT_OPS, OPT_SAVE, OPT_REPORT, OPT_NO_CALLS };

static const struct option options[] = {
	{ "runs", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ "side", required_argument, NULL, OPT_SIDE },
	{ "no-pin", no_argument, NULL, OPT_NO_PIN },
	{ "keep", no_argument, NULL, OPT_KEEP },
	{ "launcher", required_argument, NULL, OPT_LAUNCHER },
	{ "server", required_argument, NULL, OPT_SERVER },
	{ "client", required_argument, NULL, OPT_CLIENT },
	{ "figure", required_argument, NULL, OPT_FIGURE },
	{ "figure-lower", required_argument, NULL, OPT_FIGURE_LOWER },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "save", required_argument, NULL, OPT_SAVE },
	{ "report", required_argument, NULL, OPT_REPORT },
	{ "no-syscalls", no_argument, NULL, OPT_NO_CALLS },
	{ NULL, 0, NULL, 0 },
};

static int bad(const char *what)
{
	fprintf(stderr, "sidestep-bench: %s\n", what);
	return EXIT_USAGE;
}

static int set_side(struct bench *b, const char *v)
{
	static const char *const names[] = { "both", "server", "client" };

	for (size_t i = 0; i < 3; i++) {
		if (!strcmp(v, names[i])) {
			b->side = (enum side)i;
			return 0;
		}
	}
	return bad("--side is both, server or client");
}

static int set_program(struct bench *b, int opt, char *v)
{
	switch (opt) {
	case OPT_SERVER:
		return split(v, b->w.server) ? bad("--server: no command, or an open quote") : 0;
	case OPT_CLIENT:
		return split(v, b->w.client) ? bad("--client: no command, or an open quote") : 0;
	case OPT_FIGURE:
	case OPT_FIGURE_LOWER:
		return add_figure(&b->w, v, opt == OPT_FIGURE_LOWER);
	case OPT_OPS:
		b->w.ops = (struct pattern){ "operation", "", false, v, 1 };
		return 0;
	default:
		print_usage(stderr);
		return EXIT_USAGE;
	}
}

static int set_option(struct bench *b, int opt, char *v)
{
	switch (opt) {
	case 'n':
		b->runs = atol(v);
		return b->runs >= 1 && b->runs <= MAX_RUNS ? 0 : bad("--runs is 1 to 1000");
	case 's':
		b->seconds = atof(v);
		return b->seconds > 0 && b->seconds <= 3600 ? 0 : bad("--seconds is above 0, up to 3600");
	case 'j':
		b->json = true;
		return 0;
	case OPT_SIDE:
		return set_side(b, v);
	case OPT_NO_PIN:
		b->pin = false;
		return 0;
	case OPT_KEEP:
		b->keep = true;
		return 0;
	case OPT_LAUNCHER:
		b->launcher = v;
		return 0;
	case OPT_SAVE:
		b->save = v;
		return 0;
	case OPT_REPORT:
		b->report = v;
		return 0;
	case OPT_NO_CALLS:
		b->no_calls = true;
		return 0;
	default:
		return set_program(b, opt, v);
	}
}

static int own_programs(struct bench *b, bool workload_too)
{
	if (!b->w.server[0] || !b->w.client[0] || !b->w.figures[0].name || workload_too)
		return bad("--server, --client and --figure go together, without a workload");
	b->w.name = b->workload_name = "custom";
	b->w.stop = STOP_TERM;
	b->nnames = 1;
	return -1;
}

/* A report of its own accord: every plot has something to show. */
static const char *const reported[] = { "pingpong", "stream:64", "stream:1024", "stream:8192",
					"stream:65536", "conns:50", "connect" };

int options_parse(struct bench *b, int argc, char **argv)
{
	int opt, r;

	while ((opt = getopt_long(argc, argv, "n:s:jh", options, NULL)) != -1) {
		if (opt == 'h') {
			print_usage(stdout);
			return 0;
		}
		r = set_option(b, opt, optarg);
		if (r)
			return r;
	}
	if (b->w.server[0] || b->w.client[0] || b->w.figures[0].name || b->w.ops.name)
		return own_programs(b, optind != argc);
	b->names = (const char *const *)&argv[optind];
	b->nnames = argc - optind;
	if (!b->nnames && b->report) {
		b->names = reported;
		b->nnames = sizeof(reported) / sizeof(reported[0]);
	}
	if (!b->nnames) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	for (int i = 0; i < b->nnames; i++) {
		r = options_choose(b, b->names[i]);
		if (r)
			return r;
	}
	return -1;
}
