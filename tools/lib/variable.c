/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* variable.c - see variable.h */
#include "variable.h"

#include <string.h>

#include "base/config.h"
#include "base/nearest.h"
#include "base/util.h"

static const char *const variables[] = {
#define X(field, kind, var, def, values, meaning) var,
	SETTINGS(X)
#undef X
};

const char *variable_unknown(const char *entry)
{
	size_t n = strcspn(entry, "="), best = 0;

	if (strncmp(entry, "SIDESTEP", 8) != 0)
		return NULL;
	for (size_t i = 1; i < ARRAY_SIZE(variables); i++)
		if (name_distance(entry, n, variables[i]) < name_distance(entry, n, variables[best]))
			best = i;
	if (strlen(variables[best]) == n && !strncmp(entry, variables[best], n))
		return NULL;
	return variables[best];
}
