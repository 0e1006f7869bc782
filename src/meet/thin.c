/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* thin.c - which of the ports that nobody wants any more go first */
#include "meet/meet.h"

unsigned meet_older_half(uint64_t *serial[], unsigned n)
{
	unsigned half = (n + 1) / 2;

	for (unsigned k = 0; k < half; k++) {
		unsigned oldest = k;

		for (unsigned i = k; i < n; i++)
			if (*serial[i] < *serial[oldest])
				oldest = i;
		uint64_t *first = serial[oldest];
		serial[oldest] = serial[k];
		serial[k] = first;
	}
	return half;
}
