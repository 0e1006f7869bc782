/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bench.h - what the parts of sidestep-bench share
 *
 * A workload is a row of a table: arguments of a server and of a client, how
 * the server is ended, and where the figures stand in the client's output.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <limits.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "ringstats.h"
#include "stats.h"

#define MAX_FIGURES	8
#define MAX_ARGS	40
#define MAX_RUNS	1000

/* Exit codes */
#define EXIT_FAILED	1
#define EXIT_USAGE	2
#define EXIT_REFUSED	3
#define EXIT_WORSE	4
#define EXIT_SKIPPED	77

enum stop {
	STOP_SELF,		/* it ends when its client has */
	STOP_TERM,
	STOP_INT,
	STOP_QUIT,
	STOP_COMMAND,		/* the stop_argv of the workload */
};

struct pattern {
	const char *name;
	const char *unit;
	bool lower;		/* lower is better */
	const char *regex;	/* its first group is the number; the last match counts */
	double scale;		/* 0: 1 */
};

struct bench;

/*
 * Arguments may hold {port}, {dir}, {seconds}, {whole} (seconds, rounded up),
 * {size} (what stands behind the colon), {requests}, {self}, {user}.  The first
 * one is a program and looked for in PATH.
 */
struct workload {
	const char *name;
	const char *size;	/* default of what stands behind a colon; NULL: nothing may */
	const char *text;
	const char *package;	/* where to get it when it is not installed */
	bool short_conns;	/* not refused when it stays on tcp */
	bool need_size;
	long requests_per_s;	/* {requests}: this many times the seconds */
	enum stop stop;
	const char *server[MAX_ARGS];
	const char *client[MAX_ARGS];
	const char *stop_argv[MAX_ARGS];
	struct pattern figures[MAX_FIGURES];
	/*
	 * How many operations the client has made in all, warm-up included, for
	 * what an operation costs: a number in its output; without a regex the
	 * number of {requests}, scale times; name NULL: nobody knows.
	 */
	struct pattern ops;
	const char *version;	/* argument that makes the server tell its version; NULL: none */
	const char *wrong;	/* a client that prints this has failed; NULL: none */
	int (*prepare)(struct bench *b);	/* once; 0 or an exit code */
	int (*each)(struct bench *b);		/* before each run, port known; likewise */
};

extern const struct workload workloads[];	/* ends with a NULL name */

enum side { SIDE_BOTH, SIDE_SERVER, SIDE_CLIENT };

/*
 * What an operation costs beside time, of whole runs: both programs from exec
 * to exit with all their children, starting and warming up included.
 */
enum cost { COST_CPU, COST_CPU_SERVER, COST_CPU_CLIENT, COST_SWITCHES, COST_CALLS, COSTS };

extern const struct pattern cost_names[COSTS];

struct run {
	double figure[MAX_FIGURES];
	double cost[COSTS];		/* NAN: not known */
};

/* Values of all runs, in turn. */
struct series {
	double plain[MAX_RUNS];
	double sidestep[MAX_RUNS];
};

struct bench {
	/* what the user wants */
	const char *workload_name;	/* as typed */
	struct workload w;
	char size[32];
	long runs;
	double seconds;
	bool json, pin, keep;
	bool no_calls;			/* do not count system calls */
	const char *save;		/* file for the results as JSON */
	const char *report;		/* directory for a page about them */
	const char *const *names;	/* workloads, as typed */
	int nnames;
	enum side side;
	const char *launcher;
	/* where and on what */
	char dir[PATH_MAX];
	char self[PATH_MAX];
	char version[128];		/* what the server says of itself */
	int server_core, client_core;	/* -1: anywhere */
	int cores;
	uid_t uid;			/* of the server and client, 0: ours */
	gid_t gid;
	const char *user;
	int port;
	int run_number;
	bool counting;			/* system calls, in this run */
	/* what was seen */
	regex_t compiled[MAX_FIGURES], compiled_ops;
	int nfigures;
	bool ops_compiled;
	struct series figures[MAX_FIGURES];
	struct series costs[COSTS];
	long ncosts[COSTS];		/* values of each */
	int calls_error;		/* why system calls were not counted: -errno, or 0 */
	struct hist trips[2];		/* plain, sidestep: where the client tells each */
	struct ringstats stats;		/* of all sidestep runs */
	double worst_share;		/* of a single one */
};

/* bench.c: a private directory, cores, compiled patterns; 0 or an exit code. */
int bench_init(struct bench *b);
void bench_fini(struct bench *b);

/* run.c: replace the {names} of an argument vector; free with run_free_args. */
char **run_expand(const struct bench *b, const char *const *args, const char *before);
void run_free_args(char **argv);

/* run.c: one run.  Return: 0 or an exit code. */
int run_once(struct bench *b, bool sidestep, struct run *out);

/* run.c: start a program under strace, for `syscalls`; NULL: not. */
struct run_wrap {
	const char *server_trace;	/* file for the counts, or NULL */
	const char *client_trace;
};
extern struct run_wrap run_wrap;

/* options.c: -1 to go on, else the exit code. */
int options_parse(struct bench *b, int argc, char **argv);
int options_choose(struct bench *b, const char *name);

/* ab.c, syscalls.c */
int ab_main(int argc, char **argv);
int syscalls_main(int argc, char **argv);

/* output.c */
void output_text(const struct bench *b);
void output_json(FILE *f, const struct bench *b);

/* ../bench_rnic.c, when it is built in */
int bench_rnic_main(int argc, char **argv) __attribute__((weak));

#endif
