/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ab.c - `sidestep-bench ab`: plain and sidestep in turn */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bench bench = { .runs = 7, .seconds = 1, .pin = true, .worst_share = 1 };

static const char usage[] =
"usage: sidestep-bench ab [OPTIONS] WORKLOAD\n"
"       sidestep-bench ab [OPTIONS] --server CMD --client CMD --figure NAME=REGEX...\n"
"Run a workload without and with sidestep in turn and compare.\n\n"
"  -n, --runs N         pairs of runs (7)\n"
"  -s, --seconds S      how long a run measures (1)\n"
"  -j, --json           print one JSON object\n"
"      --side SIDE      which end runs under sidestep: both, server, client (both)\n"
"      --no-pin         do not give each end a core of its own\n"
"      --keep           keep what the programs printed and counted, and say where\n"
"      --launcher PATH  use this in place of the sidestep next to the tool\n"
"      --server CMD     a server of your own; {port} is its port on 127.0.0.1,\n"
"                       {dir} a directory that is removed afterwards\n"
"      --client CMD     its client; {seconds}: how long to run\n"
"      --figure NAME=REGEX, --figure-lower NAME=REGEX\n"
"                       a number in the client's output: the first group of REGEX;\n"
"                       higher, or lower, is better\n\n"
"Workloads:\n";

static void print_usage(FILE *f)
{
	fputs(usage, f);
	for (const struct workload *w = workloads; w->name; w++)
		fprintf(f, "  %s%-*s %s\n", w->name, 20 - (int)strlen(w->name),
			w->size ? w->need_size ? ":N" : "[:N]" : "", w->text);
}

/* "name" or "name:size". */
static int choose(struct bench *b, const char *name)
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

enum { OPT_SIDE = 256, OPT_NO_PIN, OPT_KEEP, OPT_LAUNCHER, OPT_SERVER, OPT_CLIENT, OPT_FIGURE, OPT_FIGURE_LOWER };

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
	case OPT_SERVER:
		return split(v, b->w.server) ? bad("--server: no command, or an open quote") : 0;
	case OPT_CLIENT:
		return split(v, b->w.client) ? bad("--client: no command, or an open quote") : 0;
	case OPT_FIGURE:
	case OPT_FIGURE_LOWER:
		return add_figure(&b->w, v, opt == OPT_FIGURE_LOWER);
	default:
		print_usage(stderr);
		return EXIT_USAGE;
	}
}

/* Return: -1 to go on, else the exit code. */
static int parse(struct bench *b, int argc, char **argv)
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
	if (b->w.server[0] || b->w.client[0] || b->w.figures[0].name) {
		if (!b->w.server[0] || !b->w.client[0] || !b->w.figures[0].name || optind != argc)
			return bad("--server, --client and --figure go together, without a workload");
		b->w.name = b->workload_name = "custom";
		b->w.stop = STOP_TERM;
		return -1;
	}
	if (optind != argc - 1) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	r = choose(b, argv[optind]);
	return r ? r : -1;
}

static void progress(const struct bench *b, long pair, bool sidestep)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s: pair %ld of %ld, %s\r", b->workload_name, pair + 1,
			b->runs, sidestep ? "sidestep" : "plain");
}

static int measure(struct bench *b)
{
	double out[MAX_FIGURES];

	for (long i = 0; i < b->runs; i++) {
		for (int s = 0; s < 2; s++) {
			int r;

			progress(b, i, s);
			r = run_once(b, s, out);
			if (r)
				return r;
			for (int f = 0; f < b->nfigures; f++)
				(s ? b->sidestep : b->plain)[f][i] = out[f];
		}
	}
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	return 0;
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

int ab_main(int argc, char **argv)
{
	int r = parse(&bench, argc, argv);

	if (r >= 0)
		return r;
	r = bench_init(&bench);
	if (!r)
		r = measure(&bench);
	if (!r)
		r = check_rings(&bench);
	bench_fini(&bench);
	if (!r) {
		if (bench.json)
			output_json(&bench);
		else
			output_text(&bench);
	}
	return r;
}
