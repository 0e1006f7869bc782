/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* nearest.c - see nearest.h */
#include "base/nearest.h"

#include <string.h>

#include "base/util.h"

#define LETTERS 31

static char letter(char c)
{
	return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

unsigned name_distance(const char *a, size_t n, const char *b)
{
	unsigned d[LETTERS + 1][LETTERS + 1];
	size_t m = MIN(strlen(b), (size_t)LETTERS);

	n = MIN(n, (size_t)LETTERS);
	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			char x = letter(a[i - 1]), y = letter(b[j - 1]);
			unsigned best = d[i - 1][j - 1] + (x != y);

			best = MIN(best, d[i - 1][j] + 1);
			best = MIN(best, d[i][j - 1] + 1);
			if (i > 1 && j > 1 && x == letter(b[j - 2]) && letter(a[i - 2]) == y)
				best = MIN(best, d[i - 2][j - 2] + 1);
			d[i][j] = best;
		}
	}
	return d[n][m];
}
