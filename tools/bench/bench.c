/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bench.c - set-up of a measurement: directory, cores, patterns, programs */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc.h"

static void find_cores(struct bench *b)
{
	cpu_set_t set;
	int found[2] = { -1, -1 }, n = 0;

	b->cores = 1;
	b->server_core = b->client_core = -1;
	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	b->cores = CPU_COUNT(&set);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			found[n++] = i;
	if (n == 2 && b->pin) {
		b->server_core = found[0];
		b->client_core = found[1];
	}
}

static int find_self(struct bench *b)
{
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	char *slash;
	static char launcher[PATH_MAX + 16];

	if (n < 0) {
		fprintf(stderr, "sidestep-bench: /proc/self/exe: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	b->self[n] = '\0';
	if (!b->launcher) {
		slash = strrchr(b->self, '/');
		snprintf(launcher, sizeof(launcher), "%.*s/sidestep",
			 (int)(slash - b->self), b->self);
		b->launcher = launcher;
	}
	if (access(b->launcher, X_OK)) {
		fprintf(stderr, "sidestep-bench: %s: %s\n", b->launcher, strerror(errno));
		return EXIT_FAILED;
	}
	return 0;
}

static int make_dir(struct bench *b)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(b->dir, sizeof(b->dir), "%s/sidestep-bench.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(b->dir)) {
		fprintf(stderr, "sidestep-bench: %s: %s\n", b->dir, strerror(errno));
		b->dir[0] = '\0';
		return EXIT_FAILED;
	}
	return 0;
}

static int compile(regex_t *re, const struct pattern *p)
{
	char why[128] = "no (group) in its pattern";
	int r = regcomp(re, p->regex, REG_EXTENDED | REG_NEWLINE);

	if (!r && re->re_nsub >= 1)
		return 0;
	if (r)
		regerror(r, re, why, sizeof(why));
	else
		regfree(re);
	fprintf(stderr, "sidestep-bench: figure %s: %s\n", p->name, why);
	return EXIT_USAGE;
}

static int compile_patterns(struct bench *b)
{
	for (int i = 0; i < MAX_FIGURES && b->w.figures[i].name; i++) {
		if (compile(&b->compiled[i], &b->w.figures[i]))
			return EXIT_USAGE;
		b->nfigures = i + 1;
	}
	if (!b->w.ops.regex)
		return 0;
	if (compile(&b->compiled_ops, &b->w.ops))
		return EXIT_USAGE;
	b->ops_compiled = true;
	return 0;
}

static int check_program(const struct bench *b, const char *name)
{
	char *path;

	if (!name || name[0] == '{')
		return 0;
	path = proc_find(name);
	if (!path) {
		fprintf(stderr, "sidestep-bench: %s: skipped, %s is not installed%s%s\n",
			b->workload_name, name, b->w.package ? "; see package " : "",
			b->w.package ? b->w.package : "");
		return EXIT_SKIPPED;
	}
	free(path);
	return 0;
}

static int check_programs(const struct bench *b)
{
	int r = check_program(b, b->w.server[0]);

	if (!r)
		r = check_program(b, b->w.client[0]);
	return r ? r : check_program(b, b->w.stop_argv[0]);
}

/* First line of what the server says when it is asked for its version. */
static void ask_version(struct bench *b)
{
	char out[PATH_MAX + 64], *text;
	const char *const args[] = { b->w.server[0], b->w.version, NULL };
	struct spawn s = { .out = out, .err = out, .core = -1 };
	struct proc p = { 0 };

	if (!b->w.version)
		return;
	snprintf(out, sizeof(out), "%s/version", b->dir);
	s.argv = run_expand(b, args, NULL);
	if (s.argv && !proc_start(&p, &s))
		proc_end(&p, 0, 5000);
	run_free_args((char **)(uintptr_t)s.argv);
	text = proc_read_file(out);
	if (text)
		snprintf(b->version, sizeof(b->version), "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
}

int bench_init(struct bench *b)
{
	int r = check_programs(b);

	find_cores(b);
	if (!r)
		r = compile_patterns(b);
	if (!r)
		r = find_self(b);
	proc_catch_signals();
	if (!r)
		r = make_dir(b);
	if (!r)
		ask_version(b);
	if (!r && b->w.prepare)
		r = b->w.prepare(b);
	return r;
}

void bench_fini(struct bench *b)
{
	for (int i = 0; i < b->nfigures; i++)
		regfree(&b->compiled[i]);
	if (b->ops_compiled)
		regfree(&b->compiled_ops);
	if (b->dir[0] && b->keep)
		fprintf(stderr, "sidestep-bench: kept %s\n", b->dir);
	else if (b->dir[0])
		proc_remove_tree(b->dir);
}
