/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* workloads.c - the table of built-in workloads, and what some need first */
#include "bench.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc.h"

/* {dir}/name with this text.  Return: 0 or an exit code. */
static int write_file(const struct bench *b, const char *name, const char *text)
{
	char path[PATH_MAX + 64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", b->dir, name);
	f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		fprintf(stderr, "sidestep-bench: %s: %s\n", path, strerror(errno));
		return EXIT_FAILED;
	}
	return 0;
}

static int run_command(struct bench *b, const char *const *args)
{
	char out[PATH_MAX + 64];
	char **argv = run_expand(b, args, NULL);
	struct spawn s = { .argv = argv, .out = out, .err = out, .core = -1,
			   .uid = b->uid, .gid = b->gid };
	struct proc p = { 0 };
	int r;

	snprintf(out, sizeof(out), "%s/prepare", b->dir);
	r = argv ? proc_start(&p, &s) : -ENOMEM;
	if (!r)
		r = proc_end(&p, 0, 120000);
	run_free_args(argv);
	if (!r && proc_succeeded(&p))
		return 0;
	fprintf(stderr, "sidestep-bench: %s has failed:\n", args[0]);
	proc_print_tail(out);
	return EXIT_FAILED;
}

/* Programs that do not run as root, or drop it, must reach the directory. */
static int open_dir(struct bench *b)
{
	return chmod(b->dir, 0755) ? EXIT_FAILED : 0;
}

static void user_name(struct bench *b)
{
	struct passwd *pw = getpwuid(geteuid());

	b->user = pw ? strdup(pw->pw_name) : "root";
}

static int prepare_memcached(struct bench *b)
{
	user_name(b);
	/* its own default, which it would write into the home directory */
	return write_file(b, "memslap.cnf", "key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n");
}

static int prepare_nginx(struct bench *b)
{
	static const char head[] =
		"worker_processes 2;\n"
		"error_log error.log;\n"
		"pid nginx.pid;\n"
		"events { worker_connections 1024; }\n"
		"http {\n"
		"  access_log off;\n"
		"  keepalive_requests 1000000000;\n"
		"  client_body_temp_path body;\n"
		"  proxy_temp_path proxy;\n"
		"  fastcgi_temp_path fastcgi;\n"
		"  uwsgi_temp_path uwsgi;\n"
		"  scgi_temp_path scgi;\n"
		"  default_type application/octet-stream;\n"
		"  include port.conf;\n"
		"}\n";
	char text[sizeof(head) + 128], page[1025];

	user_name(b);
	snprintf(text, sizeof(text), "%s%s%s%s", geteuid() ? "" : "user ",
		 geteuid() ? "" : b->user, geteuid() ? "" : ";\n", head);
	memset(page, 'x', 1024);
	page[1024] = '\0';
	if (write_file(b, "nginx.conf", text) || write_file(b, "page", page))
		return EXIT_FAILED;
	return open_dir(b);
}

static int each_nginx(struct bench *b)
{
	char text[PATH_MAX + 64];

	snprintf(text, sizeof(text), "server { listen 127.0.0.1:%d; root %s; }\n",
		 b->port, b->dir);
	return write_file(b, "port.conf", text);
}

/* postgres refuses to run as root: take its own user, or nobody. */
static int choose_user(struct bench *b)
{
	struct passwd *pw;

	if (geteuid()) {
		user_name(b);
		return 0;
	}
	pw = getpwnam("postgres");
	if (!pw)
		pw = getpwnam("nobody");
	if (!pw) {
		fprintf(stderr, "sidestep-bench: postgres: skipped, no user to run it as\n");
		return EXIT_SKIPPED;
	}
	b->uid = pw->pw_uid;
	b->gid = pw->pw_gid;
	b->user = strdup(pw->pw_name);
	return chown(b->dir, b->uid, b->gid) ? EXIT_FAILED : 0;
}

static int prepare_postgres(struct bench *b)
{
	static const char *const initdb[] = { "initdb", "-D", "{dir}/data", "-A", "trust", "-U",
					      "bench", "--no-sync", NULL };
	int r = choose_user(b);

	if (!r)
		r = write_file(b, "select.sql", "SELECT 1;\n");
	if (!r)
		r = open_dir(b);
	return r ? r : run_command(b, initdb);
}

#define OPS(what) .ops = { what, "", false, "^ops ([0-9]+)", 1 }
#define OWN_FIGURES(...) .figures = { __VA_ARGS__ }
#define OWN(what, ...) \
	.stop = STOP_SELF, \
	.server = { "{self}", "peer", what "-server", "--port", "{port}", __VA_ARGS__ }, \
	.client = { "{self}", "peer", what "-client", "--port", "{port}", \
		    "--seconds", "{seconds}", __VA_ARGS__ }

#define CLOSE_FIGURES \
	OWN_FIGURES({ "p50", "us", true, "^p50 ([0-9.]+)", 1 }, \
		    { "p99", "us", true, "^p99 ([0-9.]+)", 1 })

#define REDIS(...) \
	.package = "redis-server, redis-tools", .stop = STOP_COMMAND, \
	.server = { "redis-server", "--port", "{port}", "--bind", "127.0.0.1", \
		    "--save", "", "--appendonly", "no", "--dir", "{dir}" }, \
	.client = { "redis-benchmark", "-h", "127.0.0.1", "-p", "{port}", "-c", "50", \
		    "-n", "{requests}", "-t", "set,get", "--csv", __VA_ARGS__ }, \
	.ops = { "request", "", false, NULL, 2 }, .version = "--version", \
	.stop_argv = { "redis-cli", "-h", "127.0.0.1", "-p", "{port}", "shutdown", "nosave" }, \
	.figures = { { "set", "requests/s", false, "^\"SET\",\"([0-9.]+)\"", 1 }, \
		     { "get", "requests/s", false, "^\"GET\",\"([0-9.]+)\"", 1 } }

#define NGINX(...) \
	.package = "nginx-light, wrk", .prepare = prepare_nginx, .each = each_nginx, .stop = STOP_QUIT, \
	.server = { "nginx", "-p", "{dir}", "-c", "nginx.conf", "-e", "error.log", "-g", \
		    "daemon off;" }, \
	.client = { "wrk", "-t", "1", "-c", "50", "-d", "{whole}s", __VA_ARGS__ }, \
	.ops = { "request", "", false, "([0-9]+) requests in", 1 }, .version = "-v", \
	.wrong = "Non-2xx.*|Socket errors.*", \
	.figures = { { "requests", "requests/s", false, "^Requests/sec: +([0-9.]+)", 1 } }

const struct workload workloads[] = {
	{ .name = "pingpong", .size = "64", .text = "round trips of so many bytes (64)",
	  OWN("pingpong", "--bytes", "{size}"), OPS("round trip"),
	  OWN_FIGURES({ "p50", "us", true, "^p50 ([0-9.]+)", 1 },
		      { "p99", "us", true, "^p99 ([0-9.]+)", 1 },
		      { "p99.9", "us", true, "^p99\\.9 ([0-9.]+)", 1 }) },
	{ .name = "stream", .size = "", .need_size = true, .text = "messages of so many bytes, one way",
	  OWN("stream", "--bytes", "{size}"), OPS("message"),
	  OWN_FIGURES({ "messages", "messages/s", false, "^messages ([0-9.]+)", 1 },
		      { "bytes", "bytes/s", false, "^bytes ([0-9.]+)", 1 }) },
	{ .name = "connect", .text = "connect, request, reply, close",
	  .short_conns = true, OWN("connect", NULL), OPS("connection"),
	  OWN_FIGURES({ "calls", "calls/s", false, "^calls ([0-9.]+)", 1 },
		      { "p50", "us", true, "^p50 ([0-9.]+)", 1 },
		      { "p99", "us", true, "^p99 ([0-9.]+)", 1 }) },
	{ .name = "close", .text = "how long close() takes, of a warm connection",
	  OWN("close", NULL), CLOSE_FIGURES },
	{ .name = "close-frozen", .text = "the same, the peer being stopped",
	  OWN("close-frozen", NULL), CLOSE_FIGURES },
	{ .name = "close-full", .text = "the same, all buffers being full",
	  OWN("close-full", NULL), CLOSE_FIGURES },
	{ .name = "conns", .size = "", .need_size = true, .text = "echo over so many connections, epoll at both ends",
	  OWN("conns", "--conns", "{size}"), OPS("message"),
	  OWN_FIGURES({ "messages", "messages/s", false, "^messages ([0-9.]+)", 1 },
		      { "p50", "us", true, "^p50 ([0-9.]+)", 1 },
		      { "p99", "us", true, "^p99 ([0-9.]+)", 1 }) },
	{ .name = "idle", .size = "5", .text = "CPU time of each end in so many seconds of silence (5)",
	  .stop = STOP_SELF,
	  .server = { "{self}", "peer", "idle-server", "--port", "{port}" },
	  .client = { "{self}", "peer", "idle-client", "--port", "{port}", "--seconds", "{size}" },
	  OWN_FIGURES({ "client", "ms", true, "^client ([0-9.]+)", 1 },
		      { "server", "ms", true, "^server ([0-9.]+)", 1 }) },
	{ .name = "redis", .text = "redis-benchmark SET and GET, 50 clients",
	  .requests_per_s = 100000, REDIS(NULL) },
	{ .name = "redis-pipeline", .text = "the same, 16 requests in one go",
	  .requests_per_s = 800000, REDIS("-P", "16") },
	{ .name = "memcached", .text = "memcaslap, 16 clients, 4 server threads",
	  .package = "memcached, libmemcached-tools", .prepare = prepare_memcached,
	  .stop = STOP_TERM,
	  .server = { "memcached", "-l", "127.0.0.1", "-p", "{port}", "-U", "0", "-t", "4",
		      "-u", "{user}" },
	  .client = { "memcaslap", "-s", "127.0.0.1:{port}", "-T", "1", "-c", "16", "-t",
		      "{whole}s", "-F", "{dir}/memslap.cnf" },
	  .ops = { "operation", "", false, "Ops: ([0-9]+)", 1 }, .version = "--version",
	  .figures = { { "ops", "ops/s", false, "TPS: ([0-9]+)", 1 } } },
	{ .name = "nginx", .text = "wrk, 50 kept connections, 1 KiB, 2 workers",
	  NGINX("http://127.0.0.1:{port}/page") },
	{ .name = "nginx-short", .text = "wrk, a connection for each request",
	  .short_conns = true,
	  NGINX("-H", "Connection: close", "http://127.0.0.1:{port}/page") },
	{ .name = "iperf3", .text = "one stream", .package = "iperf3", .stop = STOP_SELF,
	  .server = { "iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", "{port}" },
	  .client = { "iperf3", "-c", "127.0.0.1", "-p", "{port}", "-t", "{whole}", "-N",
		      "-J" },
	  /* the last of each are what the receiver says */
	  .ops = { "MiB", "", false, "\"bytes\":[[:space:]]*([0-9]+)", 1.0 / 1048576 },
	  .version = "--version",
	  .figures = { { "bytes", "bytes/s", false,
			 "\"bits_per_second\":[[:space:]]*([0-9.e+]+)", 0.125 } } },
	{ .name = "postgres", .text = "pgbench, SELECT 1 over 8 connections",
	  .package = "postgresql", .prepare = prepare_postgres, .stop = STOP_INT,
	  .server = { "postgres", "-D", "{dir}/data", "-h", "127.0.0.1", "-p", "{port}",
		      "-k", "{dir}", "-c", "fsync=off" },
	  .client = { "pgbench", "-h", "127.0.0.1", "-p", "{port}", "-U", "bench", "-n",
		      "-f", "{dir}/select.sql", "-M", "prepared", "-c", "8", "-T", "{whole}",
		      "postgres" },
	  .ops = { "transaction", "", false, "actually processed: ([0-9]+)", 1 },
	  .version = "--version",
	  .figures = { { "transactions", "transactions/s", false,
			 "^tps = ([0-9.]+)", 1 } } },
	{ .name = NULL },
};
