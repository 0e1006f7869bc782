/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A transcript: lines that must be the same in every run of a test, so no
 * pids, fd numbers, ports or times.  Each line goes out by one write(), so
 * that a crash keeps what came before it.
 */
#ifndef TESTS_LIB_TRANSCRIPT_H
#define TESTS_LIB_TRANSCRIPT_H

#include <stddef.h>

struct transcript {
	int fd;
	unsigned int failures;
};

struct bit_name {
	unsigned int bit;
	const char *name;
};

__attribute__((format(printf, 2, 3)))
void transcript_line(struct transcript *t, const char *fmt, ...);

/*
 * "label = value", or "label = -1 ENAME" if got < 0.  want is the value
 * expected, or -errno; got_errno counts only when got is -1.
 */
void transcript_result(struct transcript *t, const char *label, long want, long got, int got_errno);

/* "label: yes"; anything else is a failure. */
void transcript_check(struct transcript *t, const char *label, int holds);

/* "label: IN|OUT" */
void transcript_bits(struct transcript *t, const char *label, const struct bit_name *names,
		     unsigned int want, unsigned int got);

#endif
