/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * syscalls.c - `sidestep-bench syscalls`: what a message costs in system calls
 *
 * The workload runs with N and with 2N messages, one end at a time under
 * strace; the difference of the counts is what N messages cost that end.
 */
#include "bench.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"

static struct bench bench = { .runs = 1, .seconds = 1, .pin = true, .worst_share = 1,
			      .workload_name = "syscalls" };
static char messages_text[32];

static const char usage[] =
"usage: sidestep-bench syscalls [OPTIONS] pingpong\n"
"Count the extra system calls of each end for N more messages, under sidestep.\n\n"
"  -m, --messages N     N (100000)\n"
"      --plain          without sidestep\n"
"      --max N          exit 1 if an end makes N extra calls or more\n"
"      --launcher PATH  use this in place of the sidestep next to the tool\n";

static const struct option options[] = {
	{ "messages", required_argument, NULL, 'm' },
	{ "plain", no_argument, NULL, 'p' },
	{ "max", required_argument, NULL, 'M' },
	{ "launcher", required_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

struct call {
	char name[32];
	long n[2];
};

struct counts {
	struct call calls[128];
	int n;
	long total[2];
};

static struct call *call_named(struct counts *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->calls[i].name, name))
			return &c->calls[i];
	if (c->n == 128)
		return NULL;
	snprintf(c->calls[c->n].name, sizeof(c->calls[c->n].name), "%s", name);
	return &c->calls[c->n++];
}

/* Lines "CALLS NAME" of strace -c -U calls,name. */
static void counts_read(struct counts *c, int which, const char *path)
{
	char *text = proc_read_file(path), *save = NULL, name[32];
	long n;

	for (char *l = text ? strtok_r(text, "\n", &save) : NULL; l; l = strtok_r(NULL, "\n", &save)) {
		struct call *call;

		if (sscanf(l, " %ld %31s", &n, name) != 2 || !strcmp(name, "total"))
			continue;
		call = call_named(c, name);
		if (call)
			call->n[which] = n;
		c->total[which] += n;
	}
	free(text);
}

static int count_end(bool client, bool sidestep, long messages, struct counts *c)
{
	char path[PATH_MAX + 32];
	struct run out;

	memset(c, 0, sizeof(*c));
	for (int i = 0; i < 2; i++) {
		int r;

		snprintf(path, sizeof(path), "%s/strace-%d-%d", bench.dir, client, i);
		snprintf(messages_text, sizeof(messages_text), "%ld", messages * (i + 1));
		run_wrap.client_trace = client ? path : NULL;
		run_wrap.server_trace = client ? NULL : path;
		r = run_once(&bench, sidestep, &out);
		if (r)
			return r;
		counts_read(c, i, path);
		if (!c->total[i]) {
			fprintf(stderr, "sidestep-bench: strace has counted nothing\n");
			return EXIT_FAILED;
		}
	}
	return 0;
}

static void print_end(const char *end, const struct counts *c, long messages)
{
	printf("%-8s %10ld %12ld %12ld %10ld  ", end, messages, c->total[0], c->total[1],
	       c->total[1] - c->total[0]);
	for (int i = 0; i < c->n; i++)
		if (c->calls[i].n[1] != c->calls[i].n[0])
			printf(" %s %+ld", c->calls[i].name, c->calls[i].n[1] - c->calls[i].n[0]);
	putchar('\n');
}

static void choose_pingpong(struct bench *b)
{
	int n = 0;

	b->w = workloads[0];
	snprintf(b->size, sizeof(b->size), "64");
	while (b->w.client[n])
		n++;
	b->w.client[n] = "--messages";
	b->w.client[n + 1] = messages_text;
}

static int count_both(bool sidestep, long messages, long max)
{
	static const char *const ends[] = { "server", "client" };
	struct counts c;
	int over = 0;

	printf("%-8s %10s %12s %12s %10s   %s\n", "end", "messages", "calls", "twice as many",
	       "extra", "which");
	for (int i = 0; i < 2; i++) {
		int r = count_end(i == 1, sidestep, messages, &c);

		if (r)
			return r;
		print_end(ends[i], &c, messages);
		over |= max > 0 && c.total[1] - c.total[0] >= max;
	}
	return over ? EXIT_FAILED : 0;
}

int syscalls_main(int argc, char **argv)
{
	long messages = 100000, max = 0;
	bool sidestep = true;
	int opt, r;

	while ((opt = getopt_long(argc, argv, "m:h", options, NULL)) != -1) {
		if (opt == 'm')
			messages = atol(optarg);
		else if (opt == 'M')
			max = atol(optarg);
		else if (opt == 'p')
			sidestep = false;
		else if (opt == 'l')
			bench.launcher = optarg;
		else
			return fputs(usage, opt == 'h' ? stdout : stderr), opt == 'h' ? 0 : EXIT_USAGE;
	}
	if (optind != argc - 1 || strcmp(argv[optind], "pingpong") || messages < 1)
		return fputs(usage, stderr), EXIT_USAGE;
	choose_pingpong(&bench);
	bench.w.stop_argv[0] = "strace";
	bench.w.package = "strace";
	r = bench_init(&bench);
	if (!r)
		r = count_both(sidestep, messages, max);
	if (!r && sidestep && bench.worst_share < 0.5) {
		fprintf(stderr, "sidestep-bench: syscalls: refused: only %.1f %% of the bytes went over rings\n",
			100 * bench.worst_share);
		r = EXIT_REFUSED;
	}
	bench_fini(&bench);
	return r;
}
