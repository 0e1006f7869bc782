/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* clock.c - see clock.h */
#define _GNU_SOURCE
#include "base/clock.h"

#include <time.h>

uint64_t clock_ticks_per_us = 1000;

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void clock_init(void)
{
	/* 20 us are enough for 1 % or so, and no start-up cost anybody sees */
	uint64_t t0 = clock_ns(), c0 = clock_ticks(), t1;

	do
		t1 = clock_ns();
	while (t1 - t0 < 20 * NS_PER_US);
	uint64_t per_us = (clock_ticks() - c0) * 1000 / (t1 - t0);
	if (per_us)
		clock_ticks_per_us = per_us;
}
