/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* real.c - the one instance, and the names; see real.h */
#define _GNU_SOURCE		/* what real.h needs */
#include "base/real.h"

#include "base/util.h"

struct real_calls real;
int *real_nthreads;

static const char *const names[] = {
#define X(kind, ret, name, nr, params, args) [CALL_##name] = #name,
	CALLS(X)
#undef X
};

_Static_assert(sizeof(real) == CALL_COUNT * sizeof(void *), "the table is not one of pointers");

const char *call_name(enum call_id call)
{
	return (unsigned)call < ARRAY_SIZE(names) ? names[call] : "?";
}
