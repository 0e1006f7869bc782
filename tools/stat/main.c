/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* main.c - sidestep-stat: options, and looking again and again */
#define _GNU_SOURCE
#include "stat.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
"Usage: sidestep-stat [OPTION]...\n"
"What the programs that run under sidestep do now; none is stopped or slowed.\n"
"\n"
"  -p, --pid PID        this process only\n"
"  -P, --port PORT      connections with this port at either end\n"
"      --path PATH      connections that take this way: tcp, soft, verbs\n"
"  -s, --summary        processes and links, no connections\n"
"  -w, --watch SECONDS  rates, again and again; on a terminal a screen (q: quit)\n"
"  -n, --count N        ... so many times\n"
"      --json           one JSON object\n"
"      --prometheus     text format of Prometheus\n"
"  -h, --help           this text\n"
"  -V, --version        version\n"
"\n"
"Exit status: 0; 1 if a process asked for shows nothing, 2 for a wrong option.\n";

enum form { FORM_TEXT, FORM_JSON, FORM_PROMETHEUS };

static struct filter filter = { .rows = true };
static enum form form;
static double watch;
static long times = -1;

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "sidestep-stat: %s cannot be \"%s\"\n", what, value);
	return EXIT_USAGE;
}

static int number(const char *what, const char *s, long least, long most, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(s, &end, 10);
	if (errno || end == s || *end || *out < least || *out > most)
		return wrong(what, s);
	return 0;
}

static int watch_every(const char *s)
{
	char *end;

	watch = strtod(s, &end);
	if (end == s || *end || !(watch >= 0.01 && watch <= 86400))
		return wrong("--watch", s);
	return 0;
}

static int path_is(const char *s)
{
	if (strcmp(s, "tcp") && strcmp(s, "soft") && strcmp(s, "verbs"))
		return wrong("--path", s);
	filter.path = s;
	return 0;
}

static int option(int c)
{
	long v = 0;
	int bad = 0;

	switch (c) {
	case 'p':
		bad = number("--pid", optarg, 1, INT32_MAX, &v);
		filter.pid = (pid_t)v;
		return bad;
	case 'P':
		bad = number("--port", optarg, 1, 65535, &v);
		filter.port = (int)v;
		return bad;
	case 'w':
		return watch_every(optarg);
	case 'n':
		return number("--count", optarg, 1, INT32_MAX, &times);
	case 's':
		filter.rows = false;
		return 0;
	case 'j':
		form = FORM_JSON;
		return 0;
	case 'm':
		form = FORM_PROMETHEUS;
		return 0;
	case 'a':
		return path_is(optarg);
	default:
		fputs("Try 'sidestep-stat --help'.\n", stderr);
		return EXIT_USAGE;
	}
}

static int once(void)
{
	struct shown *all;
	int n = find_filled(&filter, &all);

	if (n < 0)
		return EXIT_FAILED;
	if (form == FORM_JSON)
		json_show(all, n, &filter);
	else if (form == FORM_PROMETHEUS)
		prometheus_show(all, n, &filter);
	else
		text_show(all, n, &filter);
	find_free(all, n);
	return 0;
}

static void sleep_s(double s)
{
	struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };

	nanosleep(&t, NULL);
}

static int again(void)
{
	struct shown *now, *then = NULL;
	int n, nthen = 0;
	double at = now_s();
	bool first = true;

	nthen = find_filled(&filter, &then);
	for (long i = 0; nthen >= 0 && (times < 0 || i < times); i++) {
		sleep_s(watch);
		n = find_filled(&filter, &now);
		if (n < 0)
			break;
		double t = now_s();
		text_rates(stdout, now, n, then, nthen, t - at, first || i % 20 == 0, &filter);
		first = false;
		find_free(then, nthen);
		then = now;
		nthen = n;
		at = t;
	}
	find_free(then, nthen);
	return nthen < 0 ? EXIT_FAILED : 0;
}

static int again_machine(void)
{
	int err = 0;

	for (long i = 0; !err && (times < 0 || i < times); i++) {
		if (i)
			sleep_s(watch);
		err = once();
		fflush(stdout);
	}
	return err;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "port", required_argument, NULL, 'P' },
		{ "path", required_argument, NULL, 'a' },
		{ "summary", no_argument, NULL, 's' },
		{ "watch", required_argument, NULL, 'w' },
		{ "count", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "prometheus", no_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c, bad;

	while ((c = getopt_long(argc, argv, "p:P:sw:n:hV", longs, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (c == 'V') {
			puts("sidestep-stat " VERSION);
			return 0;
		}
		bad = option(c);
		if (bad)
			return bad;
	}
	if (optind < argc)
		return wrong("an argument", argv[optind]);
	bool screen = watch > 0 && form == FORM_TEXT && screen_can();
	bool named = filter.port || filter.path;
	/* rates on paper are of processes, and their connections only to filter by */
	filter.conns = named || screen || (filter.rows && !(watch > 0 && form == FORM_TEXT));
	if (screen)
		return screen_run(&filter, watch, times);
	if (watch > 0)
		return form == FORM_TEXT ? again() : again_machine();
	return once();
}
