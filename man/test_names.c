/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_names.c - the manuals and the tables agree: every setting, fault,
 * counter, reason and probe has its entry in sidestep(7), and no setting has one that
 * does not exist; every check has one in sidestep-check(1), every condition and
 * action of a rule in sidestep.conf(5)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/probe.h"
#include "base/reasons.h"
#include "check/check.h"

struct entry {
	const char *macro, *name;
};

static const struct entry checks[] = {
#define X(fn, name, about) { ".It Li ", name },
	HOST_CHECKS(X)
#undef X
};

static const struct entry conf[] = {
#define X(sym, word, meaning) { ".It Cm ", word },
	RULE_ACTIONS(X)
#undef X
#define X(word, argument, meaning) { ".It Cm ", word },
	RULE_CONDITIONS(X)
#undef X
};

static const struct entry entries[] = {
#define X(field, kind, variable, def, values, meaning) { ".It Ev ", variable },
	SETTINGS(X)
#undef X
#define X(field, name) { ".Cm ", name },
	FAULTS(X)
#undef X
#define X(name, text) { ".It Li ", #name },
	COUNTERS(X)
#undef X
#define X(sym, name, text) { ".It Li ", name },
	REASONS(X)
#undef X
#define X(name, args, when) { ".It Li ", #name },
	PROBES(X)
#undef X
};

static int is_entry(const char *line, const struct entry *e)
{
	size_t m = strlen(e->macro), n = strlen(e->name);

	return !strncmp(line, e->macro, m) && !strncmp(line + m, e->name, n) &&
	       (line[m + n] == '\n' || line[m + n] == ' ');
}

static int manual(const char *name, const struct entry *list, size_t count)
{
	unsigned int seen[256] = { 0 };
	char line[1024], path[4096];
	int bad = 0;

	snprintf(path, sizeof(path), MANUALS "%s", name);
	FILE *f = fopen(path, "r");
	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		unsigned int known = 0;

		for (size_t i = 0; i < count; i++) {
			known += (unsigned int)is_entry(line, &list[i]);
			seen[i] += (unsigned int)is_entry(line, &list[i]);
		}
		if (!known && !strncmp(line, ".It Ev SIDESTEP", 15)) {
			printf("in the manual only: %s", line);
			bad = 1;
		}
	}
	fclose(f);
	for (size_t i = 0; i < count; i++) {
		if (!seen[i] && strcmp(list[i].name, "none") != 0) {
			printf("not in %s: %s\n", name, list[i].name);
			bad = 1;
		}
	}
	return bad;
}

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
_Static_assert(COUNT(entries) <= 256, "seen[] has room");

int main(void)
{
	return manual("sidestep.7", entries, COUNT(entries)) |
	       manual("sidestep-check.1", checks, COUNT(checks)) |
	       manual("sidestep.conf.5", conf, COUNT(conf));
}
