/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * tsckhz: print how fast the time stamp counter runs, in kHz
 *
 * Which an emulated kernel cannot find out on a busy machine, and then reads its
 * clock from an emulated device, by a system call each time.
 */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

#define LONG_NS	100000000

/* Both at once: of some tries the one that nothing came between. */
static uint64_t both(uint64_t *ns)
{
	uint64_t best = UINT64_MAX, ticks = 0;

	for (int i = 0; i < 100; i++) {
		uint64_t before = clock_ticks(), t = clock_ns(), after = clock_ticks();

		if (after - before >= best)
			continue;
		best = after - before;
		ticks = before + best / 2;
		*ns = t;
	}
	return ticks;
}

int main(void)
{
	uint64_t ns0, ns1, ticks0 = both(&ns0), ticks1;
	struct timespec wait = { 0, LONG_NS };

	nanosleep(&wait, NULL);
	ticks1 = both(&ns1);
	printf("%.0f\n", (double)(ticks1 - ticks0) * 1e6 / (double)(ns1 - ns0));
	return 0;
}
