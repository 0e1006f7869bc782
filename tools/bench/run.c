/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* run.c - one run: server up, client through, server down, figures out */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "figures.h"
#include "proc.h"

#define START_MS	20000
#define STOP_MS		15000

struct run_wrap run_wrap;

struct files {
	char server_out[PATH_MAX + 64], client_out[PATH_MAX + 64], client_err[PATH_MAX + 64];
	char stop_out[PATH_MAX + 64], stats[PATH_MAX + 64];
};

/* Text of a {name}, or NULL if there is none of that name. */
static const char *name_value(const struct bench *b, const char *name, size_t n, char *buf, size_t size)
{
	if (n == 4 && !memcmp(name, "port", n))
		snprintf(buf, size, "%d", b->port);
	else if (n == 7 && !memcmp(name, "seconds", n))
		snprintf(buf, size, "%g", b->seconds);
	else if (n == 5 && !memcmp(name, "whole", n))
		snprintf(buf, size, "%.0f", ceil(b->seconds));
	else if (n == 8 && !memcmp(name, "requests", n))
		snprintf(buf, size, "%.0f", ceil((double)b->w.requests_per_s * b->seconds));
	else if (n == 4 && !memcmp(name, "size", n))
		return b->size;
	else if (n == 3 && !memcmp(name, "dir", n))
		return b->dir;
	else if (n == 4 && !memcmp(name, "self", n))
		return b->self;
	else if (n == 4 && !memcmp(name, "user", n))
		return b->user;
	else
		return NULL;
	return buf;
}

static char *expand(const struct bench *b, const char *s)
{
	char *out = NULL, buf[64];
	size_t len;
	FILE *f = open_memstream(&out, &len);

	while (f && *s) {
		const char *end = *s == '{' ? strchr(s, '}') : NULL;
		const char *v = end ? name_value(b, s + 1, (size_t)(end - s - 1), buf, sizeof(buf)) : NULL;

		if (v) {
			fputs(v, f);
			s = end + 1;
		} else {
			fputc(*s++, f);
		}
	}
	if (f)
		fclose(f);
	return out;
}

char **run_expand(const struct bench *b, const char *const *args, const char *before)
{
	char **argv = calloc(MAX_ARGS + 2, sizeof(*argv));
	int n = 0;

	if (!argv)
		return NULL;
	if (before)
		argv[n++] = strdup(before);
	for (int i = 0; i < MAX_ARGS && args[i]; i++) {
		char *a = expand(b, args[i]);
		char *path = i == 0 ? proc_find(a) : NULL;

		argv[n++] = path ? path : a;
		if (path)
			free(a);
	}
	return argv;
}

void run_free_args(char **argv)
{
	for (int i = 0; argv && argv[i]; i++)
		free(argv[i]);
	free(argv);
}

/* Put `strace -f -c -o FILE` in front. */
static char **under_strace(char **argv, const char *file)
{
	const char *const front[] = { "-f", "-c", "-U", "calls,name", "-o", file };
	char **out = calloc(2 * MAX_ARGS, sizeof(*out));
	int n = 0;

	if (!out)
		return argv;
	out[n++] = proc_find("strace");
	for (size_t i = 0; i < sizeof(front) / sizeof(front[0]); i++)
		out[n++] = strdup(front[i]);
	for (int i = 0; argv[i]; i++)
		out[n++] = argv[i];
	free(argv);
	return out;
}

static int start(struct bench *b, struct proc *p, const char *const *args, bool sidestep,
		 struct spawn *s, const char *trace)
{
	char **argv = run_expand(b, args, sidestep ? b->launcher : NULL);
	int r;

	if (argv && trace)
		argv = under_strace(argv, trace);
	if (!argv)
		return EXIT_FAILED;
	s->argv = argv;
	s->uid = b->uid;
	s->gid = b->gid;
	s->count_calls = b->counting;
	r = proc_start(p, s);
	run_free_args(argv);
	if (r)
		fprintf(stderr, "sidestep-bench: %s: %s\n", args[0], strerror(-r));
	return r ? EXIT_FAILED : 0;
}

static int server_start(struct bench *b, struct proc *p, const struct files *f, bool sidestep)
{
	struct spawn s = { .out = f->server_out, .err = f->server_out, .core = b->server_core,
			   .stats_file = sidestep ? f->stats : NULL };
	int r = start(b, p, b->w.server, sidestep, &s, run_wrap.server_trace);

	if (r)
		return r;
	r = proc_wait_listening(p, b->port, START_MS);
	if (!r)
		return 0;
	fprintf(stderr, "sidestep-bench: the server %s%s:\n", b->w.server[0],
		r == -ECHILD ? " has ended" : " does not listen");
	proc_print_tail(f->server_out);
	return EXIT_FAILED;
}

static void client_explain(const struct bench *b, const struct files *f, int r)
{
	fprintf(stderr, "sidestep-bench: the client %s:\n",
		r == -ETIMEDOUT ? "does not end" : r == -EINTR ? "was interrupted" : "has failed");
	proc_print_tail(f->client_out);
	proc_print_tail(f->client_err);
}

static void server_explain(const struct files *f, const struct proc *p)
{
	if (WIFSIGNALED(p->status))
		fprintf(stderr, "sidestep-bench: the server died of signal %d:\n",
			WTERMSIG(p->status));
	else
		fprintf(stderr, "sidestep-bench: the server ended with status %d:\n",
			WEXITSTATUS(p->status));
	proc_print_tail(f->server_out);
}

static int client_run(struct bench *b, struct proc *server, struct proc *client,
		      const struct files *f, bool sidestep)
{
	struct spawn s = { .out = f->client_out, .err = f->client_err, .core = b->client_core,
			   .stats_file = sidestep ? f->stats : NULL };
	int timeout = (int)(b->seconds * 20000) + 120000;
	int r = start(b, client, b->w.client, sidestep, &s, run_wrap.client_trace);

	if (r)
		return r;
	r = proc_wait(client, server, timeout);
	if (r == -ECHILD && proc_succeeded(server))
		r = proc_wait(client, NULL, timeout);
	if (r == -ECHILD)
		server_explain(f, server);
	else if (r || !proc_succeeded(client))
		client_explain(b, f, r);
	if (r)
		proc_end(client, SIGTERM, STOP_MS);
	return proc_succeeded(client) ? 0 : EXIT_FAILED;
}

static int server_stop(struct bench *b, struct proc *p, const struct files *f)
{
	static const int signals[] = { [STOP_TERM] = SIGTERM, [STOP_INT] = SIGINT,
				       [STOP_QUIT] = SIGQUIT, [STOP_SELF] = 0, [STOP_COMMAND] = 0 };
	struct spawn s = { .out = f->stop_out, .err = f->stop_out, .core = -1 };
	struct proc stop;

	if (b->w.stop == STOP_COMMAND && !start(b, &stop, b->w.stop_argv, false, &s, NULL))
		proc_end(&stop, 0, STOP_MS);
	if (proc_end(p, signals[b->w.stop], STOP_MS)) {
		fprintf(stderr, "sidestep-bench: the server did not end and was killed:\n");
		proc_print_tail(f->server_out);
		return EXIT_FAILED;
	}
	if (b->w.stop != STOP_TERM && !proc_succeeded(p)) {
		server_explain(f, p);
		return EXIT_FAILED;
	}
	return 0;
}

static void name_files(const struct bench *b, struct files *f)
{
	int n = b->run_number;

	snprintf(f->server_out, sizeof(f->server_out), "%s/server-%d", b->dir, n);
	snprintf(f->client_out, sizeof(f->client_out), "%s/client-%d", b->dir, n);
	snprintf(f->client_err, sizeof(f->client_err), "%s/client-%d.err", b->dir, n);
	snprintf(f->stop_out, sizeof(f->stop_out), "%s/stop-%d", b->dir, n);
	snprintf(f->stats, sizeof(f->stats), "%s/stats-%d", b->dir, n);
}

/* Every process of the run may append, whatever user it becomes. */
static void stats_prepare(const struct files *f)
{
	int fd = open(f->stats, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd >= 0) {
		fchmod(fd, 0666);
		close(fd);
	}
}

static void stats_read(struct bench *b, const struct files *f)
{
	char *text = proc_read_file(f->stats);
	struct ringstats one = { 0 };

	ringstats_add(&one, text);
	ringstats_add(&b->stats, text);
	if (ringstats_share(&one) < b->worst_share)
		b->worst_share = ringstats_share(&one);
	free(text);
}

int run_once(struct bench *b, bool sidestep, struct run *out)
{
	struct proc server = { 0 }, client = { 0 };
	struct files f;
	int r, r2;

	b->run_number++;
	b->port = proc_free_port();
	if (b->port < 0) {
		fprintf(stderr, "sidestep-bench: no free port: %s\n", strerror(-b->port));
		return EXIT_FAILED;
	}
	name_files(b, &f);
	stats_prepare(&f);
	r = b->w.each ? b->w.each(b) : 0;
	if (!r)
		r = server_start(b, &server, &f, sidestep && b->side != SIDE_CLIENT);
	if (!r)
		r = client_run(b, &server, &client, &f, sidestep && b->side != SIDE_SERVER);
	if (r) {
		proc_end(&server, SIGTERM, STOP_MS);
		return r;
	}
	r2 = server_stop(b, &server, &f);
	r = figures_read(b, f.client_out, sidestep, out);
	figures_cost(out, b->counting, &server, &client);
	if (sidestep)
		stats_read(b, &f);
	return r ? r : r2;
}
