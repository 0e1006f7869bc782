/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* preload_table.c - prints the names that the door exports, one a line */
#include <stdio.h>

#include "base/calls.h"

int main(void)
{
#define X(kind, ret, name, nr, params, args) puts(#name);
	CALLS(X)
#undef X
#define A(other, name) puts(#other);
	CALL_ALIASES(A)
#undef A
	return 0;
}
