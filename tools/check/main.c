/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* main.c - sidestep-check: options and output */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../lib/json.h"

#define HOST_MAX 32

static const char usage[] =
"Usage: sidestep-check [--json] [--peer HOST:PORT]\n"
"Can connections be accelerated on this host, and what is to be done?\n"
"\n"
"      --peer HOST:PORT  would one from here to there be?\n"
"      --json            one JSON object\n"
"  -q, --quiet           no output, only the exit status\n"
"  -h, --help            this text\n"
"  -V, --version         version\n"
"\n"
"Exit status: 0 yes, 1 no, 2 for a wrong option, 3 it cannot be told.\n";

static const char *const words[] = { "ok", "info", "warn", "fail", "unknown" };

void result_set(struct result *r, enum verdict v, const char *fmt, ...)
{
	va_list ap;

	r->v = v;
	va_start(ap, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
}

void result_fix(struct result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->fix, sizeof(r->fix), fmt, ap);
	va_end(ap);
}

static enum verdict run_host(struct result *all)
{
	enum verdict worst = V_OK;

	for (size_t i = 0; i < host_check_count; i++) {
		result_set(&all[i], V_OK, "%s", host_checks[i].about);
		all[i].fix[0] = '\0';
		host_checks[i].run(&all[i]);
		if (all[i].v == V_FAIL)
			worst = V_FAIL;
	}
	return worst;
}

static void text_result(const char *name, const struct result *r)
{
	printf("%-8s %-13s %s\n", words[r->v], name, r->text);
	if (r->fix[0])
		printf("%-22s fix: %s\n", "", r->fix);
}

static void text_show(const struct result *host, enum verdict v, const char *peer,
		      const struct peer_answer *a)
{
	for (size_t i = 0; i < host_check_count; i++)
		text_result(host_checks[i].name, &host[i]);
	printf("%s\n", v == V_OK ? "Connections between programs of this host can be accelerated." :
	       "Connections cannot be accelerated here.");
	if (!peer)
		return;
	putchar('\n');
	for (size_t i = 0; i < a->n; i++)
		text_result("peer", &a->results[i]);
	if (v == V_OK && a->v == V_OK)
		printf("A connection to %s would be accelerated.\n", peer);
	else if (a->v == V_UNKNOWN)
		printf("Whether a connection to %s would be accelerated cannot be told.\n", peer);
	else
		printf("A connection to %s would stay on TCP%s%s.\n", peer,
		       a->reason[0] ? ": " : "", a->reason);
}

static void json_result(const char *name, const struct result *r)
{
	json_open(NULL, '{');
	if (name)
		json_string("name", name);
	json_string("status", words[r->v]);
	json_string("text", r->text);
	json_string("fix", r->fix[0] ? r->fix : NULL);
	json_close('}');
}

static void json_show(const struct result *host, enum verdict v, const char *peer,
		      const struct peer_answer *a)
{
	json_open(NULL, '{');
	json_bool("host", v == V_OK);
	json_open("checks", '[');
	for (size_t i = 0; i < host_check_count; i++)
		json_result(host_checks[i].name, &host[i]);
	json_close(']');
	if (peer) {
		json_open("peer", '{');
		json_string("address", peer);
		json_string("accelerated", a->v == V_UNKNOWN ? NULL : a->v == V_OK && v == V_OK ? "yes" : "no");
		json_string("reason", a->reason[0] ? a->reason : NULL);
		json_open("checks", '[');
		for (size_t i = 0; i < a->n; i++)
			json_result(NULL, &a->results[i]);
		json_close(']');
		json_close('}');
	}
	json_close('}');
}

/* Started under the library, by check_library(): is it there? */
static int loaded(void)
{
	return dlsym(RTLD_DEFAULT, "sidestep_version") ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "peer", required_argument, NULL, 'P' },
		{ "json", no_argument, NULL, 'j' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "loaded", no_argument, NULL, 'L' },
		{ "ask", required_argument, NULL, 'A' },	/* these two are ours: see host.c, far.c */
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	static struct result host[HOST_MAX];
	static struct peer_answer a;
	const char *peer = NULL;
	bool json = false, quiet = false;
	int c;

	while ((c = getopt_long(argc, argv, "qhV", longs, NULL)) != -1) {
		switch (c) {
		case 'P':
			peer = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'q':
			quiet = true;
			break;
		case 'L':
			return loaded();
		case 'A':
			return far_child(optarg);
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts("sidestep-check " VERSION);
			return 0;
		default:
			fputs("Try 'sidestep-check --help'.\n", stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || (peer && peer_check(peer, &a))) {
		fprintf(stderr, "sidestep-check: %s\n", optind < argc ? "no arguments are known" :
			"--peer wants HOST:PORT");
		return EXIT_USAGE;
	}
	enum verdict v = run_host(host);
	if (!quiet && json)
		json_show(host, v, peer, &a);
	else if (!quiet)
		text_show(host, v, peer, &a);
	if (v != V_OK || (peer && a.v == V_FAIL))
		return EXIT_NO;
	return peer && a.v == V_UNKNOWN ? EXIT_UNKNOWN : 0;
}
