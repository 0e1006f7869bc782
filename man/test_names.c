/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_names.c - the manual and the tables agree: every setting, fault,
 * counter and reason has its entry in sidestep(7), and no setting has one that
 * does not exist
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/reasons.h"

static const struct entry {
	const char *macro, *name;
} entries[] = {
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
};

static int is_entry(const char *line, const struct entry *e)
{
	size_t m = strlen(e->macro), n = strlen(e->name);

	return !strncmp(line, e->macro, m) && !strncmp(line + m, e->name, n) &&
	       (line[m + n] == '\n' || line[m + n] == ' ');
}

int main(void)
{
	size_t count = sizeof(entries) / sizeof(entries[0]);
	unsigned int seen[sizeof(entries) / sizeof(entries[0])] = { 0 };
	FILE *f = fopen(MANUAL, "r");
	int bad = 0;
	char line[1024];

	if (!f) {
		perror(MANUAL);
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		unsigned int known = 0;

		for (size_t i = 0; i < count; i++) {
			known += (unsigned int)is_entry(line, &entries[i]);
			seen[i] += (unsigned int)is_entry(line, &entries[i]);
		}
		if (!known && !strncmp(line, ".It Ev SIDESTEP", 15)) {
			printf("in the manual only: %s", line);
			bad = 1;
		}
	}
	fclose(f);
	for (size_t i = 0; i < count; i++) {
		if (!seen[i] && strcmp(entries[i].name, "none") != 0) {
			printf("not in the manual: %s\n", entries[i].name);
			bad = 1;
		}
	}
	return bad;
}
