/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sidestep - runs a program with the library in front of it
 *
 * Sets the environment and executes; nothing of it is left when the program
 * runs.  What the user's environment already says is never overridden, and
 * the user's own LD_PRELOAD entries stay, behind ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/nearest.h"
#include "base/util.h"
#include "launch_config.h"
#include "lib/library.h"

/* as env(1) has them */
enum { EXIT_OURS = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

static const struct setting {
	const char *name, *variable, *def, *values, *meaning;
} settings[] = {
#define X(field, kind, var, def, values, meaning) { #field, var, def, values, meaning },
	SETTINGS(X)
#undef X
};

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	fputs("sidestep: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_OURS);
}

static void help(void)
{
	puts("Usage: sidestep [-p PROFILE] [-o NAME=VALUE]... [--] PROGRAM [ARG]...\n"
	     "       sidestep --check-config [FILE]...\n"
	     "       sidestep --show-config\n"
	     "Run PROGRAM with its TCP connections moved to RDMA where both ends can.\n"
	     "\n"
	     "  -o, --option NAME=VALUE  a setting; the environment wins over it\n"
	     "  -p, --profile NAME       several at once: latency, throughput, shared-cpu, safe\n"
	     "      --check-config       is there a mistake in the files that would be read?\n"
	     "      --show-config        what holds, and where it comes from\n"
	     "  -h, --help               this text\n"
	     "  -V, --version            version\n"
	     "\n"
	     "Settings (NAME, environment variable, values; default):");
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];

		printf("  %-12s %-20s %s", s->name, s->variable, s->values);
		printf("; %s\n%37s%s\n", *s->def ? s->def : "none", "", s->meaning);
	}
	puts("\n"
	     "Exit status: PROGRAM's; 125 if sidestep itself fails, 126 if PROGRAM cannot be\n"
	     "run, 127 if it is not found.");
}

/* ring-bytes, ring_bytes and SIDESTEP_RING_BYTES are all one name */
static const struct setting *setting_find(const char *name, size_t n)
{
	const struct setting *nearest = &settings[0];
	unsigned least = UINT_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];
		unsigned d = MIN(name_distance(name, n, s->name),
				 name_distance(name, n, s->variable));

		if (d < least) {
			least = d;
			nearest = s;
		}
	}
	if (least)
		die("no setting \"%.*s\"; did you mean \"%s\"? (see --help)", (int)n, name,
		    nearest->name);
	return nearest;
}

static void option(const char *arg)
{
	static struct config scratch;
	const char *eq = strchr(arg, '=');

	if (!eq)
		die("-o wants NAME=VALUE, not \"%s\"", arg);
	const struct setting *s = setting_find(arg, (size_t)(eq - arg));
	if (config_set(&scratch, s->variable, eq + 1) < 0)
		die("%s cannot be \"%s\"; it can be: %s", s->name, eq + 1, s->values);
	if (config_set_by(s->variable, eq + 1, "-o") < 0)
		die("%s", strerror(errno));
}

/* is path one of the entries, which stand between colons or blanks? */
static bool listed(const char *list, const char *path)
{
	size_t len = strlen(path);

	while (*list) {
		size_t n = strcspn(list, ": ");

		if (n == len && strncmp(list, path, n) == 0)
			return true;
		list += n;
		list += strspn(list, ": ");
	}
	return false;
}

static void preload(void)
{
	const char *theirs = getenv("LD_PRELOAD");
	char found[PATH_MAX], *path = NULL, *value = NULL;

	if (!library_find(found, LIBDIR))
		die("%s is neither in %s nor beside this program", LIBRARY, LIBDIR);
	path = realpath(found, NULL);
	if (!path)
		die("%s: %s", found, strerror(errno));
	if (strpbrk(path, ": "))
		die("%s: the loader cannot preload a path with a colon or a blank in it", path);
	if (theirs && listed(theirs, path))
		return;
	if (asprintf(&value, "%s%s%s", path, theirs && *theirs ? ":" : "", theirs ? theirs : "") < 0 ||
	    setenv("LD_PRELOAD", value, 1) < 0)
		die("%s", strerror(ENOMEM));
	free(path);
	free(value);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "option", required_argument, NULL, 'o' },
		{ "profile", required_argument, NULL, 'p' },
		{ "check-config", no_argument, NULL, 'c' },
		{ "show-config", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	enum { RUN, CHECK, SHOW } what = RUN;
	const char *profile = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "+o:p:hV", longs, NULL)) != -1) {
		switch (c) {
		case 'o':
			option(optarg);
			break;
		case 'p':
			profile = optarg;
			break;
		case 'c':
			what = CHECK;
			break;
		case 's':
			what = SHOW;
			break;
		case 'h':
			help();
			return 0;
		case 'V':
			puts("sidestep " VERSION);
			return 0;
		default:
			fputs("Try 'sidestep --help'.\n", stderr);
			return EXIT_OURS;
		}
	}
	/* after the options: what is said more exactly wins */
	if (profile && (c = profile_use(profile)) != 0)
		return c;
	if (what == CHECK)
		return config_check(argc - optind, argv + optind);
	if (what == SHOW)
		return config_show();
	if (optind == argc)
		die("which program? (try --help)");
	preload();
	execvp(argv[optind], argv + optind);
	int err = errno;
	fprintf(stderr, "sidestep: %s: %s\n", argv[optind], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
