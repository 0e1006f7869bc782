/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* main.c - sidestep-bench: the subcommands */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "peer.h"
#include "report.h"

static const char usage[] =
"usage: sidestep-bench ab [OPTIONS] WORKLOAD   with against without sidestep\n"
"       sidestep-bench rnic [OPTIONS]          the device itself\n"
"       sidestep-bench --report DIR FILE.json  a page with plots of saved results\n"
"       sidestep-bench --compare A.json B.json is B better than A?\n"
"       sidestep-bench syscalls [OPTIONS] pingpong\n"
"                                              system calls of a busy connection\n"
"Each takes --help.\n";

static int rnic_main(int argc, char **argv)
{
	if (bench_rnic_main)
		return bench_rnic_main(argc, argv);
	fprintf(stderr, "sidestep-bench: rnic: not built in\n");
	return EXIT_SKIPPED;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "ab", ab_main },
	{ "rnic", rnic_main },
	{ "syscalls", syscalls_main },
	{ "peer", peer_main },
	{ "--report", report_main },
	{ "--compare", compare_main },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return EXIT_USAGE;
}
