/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* machine.h - what figures were measured on, and with which settings */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

struct machine {
	char version[64];		/* of sidestep */
	char kernel[256];
	char libc[64];
	char cpu[128];
	char governor[64];		/* of the first core; "none": the kernel scales nothing */
	char clocksource[64];
	char congestion[32];		/* control of plain TCP */
	char cq_mode[16];		/* how a thread waits for its CQ: adaptive, spin, event */
	char attach[32];
	unsigned long ring_bytes;
};

/* Fills it in once; the settings are those that a program under sidestep has
 * by environment and files, rules by program aside. */
const struct machine *machine_get(void);

#endif
