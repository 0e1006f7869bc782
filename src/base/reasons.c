/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* reasons.c - names of the reasons */
#define _GNU_SOURCE
#include "base/reasons.h"

#include "base/util.h"

static const char *const names[] = {
#define X(sym, name, text) [REASON_##sym] = name,
	REASONS(X)
#undef X
};

static const char *const texts[] = {
#define X(sym, name, text) [REASON_##sym] = text,
	REASONS(X)
#undef X
};

_Static_assert(ARRAY_SIZE(names) == REASON_COUNT, "a reason without a name");

const char *reason_name(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? names[r] : "?";
}

const char *reason_text(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? texts[r] : "?";
}
