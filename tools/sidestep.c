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
#include "base/util.h"

#define LIBRARY "libsidestep.so"

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
	puts("Usage: sidestep [-o NAME=VALUE]... [--] PROGRAM [ARG]...\n"
	     "Run PROGRAM with its TCP connections moved to RDMA where both ends can.\n"
	     "\n"
	     "  -o, --option NAME=VALUE  a setting; the environment wins over it\n"
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
static bool same_name(const char *a, size_t n, const char *b)
{
	for (size_t i = 0; i < n; i++) {
		char x = a[i] == '-' ? '_' : a[i];

		if (x != b[i])
			return false;
	}
	return b[n] == '\0';
}

/* length of the common beginning: enough to tell "ringbytes" from "rnic" */
static size_t likeness(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

static const struct setting *setting_find(const char *name, size_t n)
{
	const struct setting *nearest = &settings[0];

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];

		if (same_name(name, n, s->name) || same_name(name, n, s->variable))
			return s;
		if (likeness(name, s->name) > likeness(name, nearest->name))
			nearest = s;
	}
	die("no setting \"%.*s\"; did you mean \"%s\"? (see --help)", (int)n, name, nearest->name);
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
	if (setenv(s->variable, eq + 1, 0) < 0)
		die("%s", strerror(errno));
}

/* dir/relative/libsidestep.so if it is there */
static bool try_library(char out[PATH_MAX], const char *dir, const char *relative)
{
	int n = snprintf(out, PATH_MAX, "%s/%s" LIBRARY, dir, relative);

	return n > 0 && n < PATH_MAX && access(out, R_OK) == 0;
}

/* beside us in the build tree, else where it was installed, else where that was moved */
static void library_find(char out[PATH_MAX])
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[MAX(n, 0)] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	if (slash && (try_library(out, exe, "../.libs/") || try_library(out, exe, "../../.libs/")))
		return;
	if (try_library(out, LIBDIR, ""))
		return;
	if (slash && (try_library(out, exe, "../lib/") || try_library(out, exe, "../lib64/")))
		return;
	die("%s is neither in %s nor beside this program", LIBRARY, LIBDIR);
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

	library_find(found);
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
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "+o:hV", longs, NULL)) != -1) {
		switch (c) {
		case 'o':
			option(optarg);
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
	if (optind == argc)
		die("which program? (try --help)");
	preload();
	execvp(argv[optind], argv + optind);
	int err = errno;
	fprintf(stderr, "sidestep: %s: %s\n", argv[optind], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
