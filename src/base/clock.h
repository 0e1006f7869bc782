/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* clock.h - monotonic time, and cycles for the spin loops */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* CLOCK_MONOTONIC in ns, through the vDSO: no system call, signal safe */
uint64_t clock_ns(void);

/* Cheap ticks for spin loops and rate limits; never for what a user sees. */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return clock_ns();
#endif
}

/* Measured once by clock_init(); before that an estimate of 1 tick a ns. */
extern uint64_t clock_ticks_per_us;
void clock_init(void);

#endif
