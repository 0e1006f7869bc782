/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * probe.h - places where perf, bpftrace and gdb may look on (USDT)
 *
 * A probe is one nop and a note in the ELF file that says where its arguments
 * are; nothing is called and nothing is loaded for it.  So what is passed where
 * bytes move must be at hand there anyway.  Nothing at all is left without
 * sys/sdt.h, or with --disable-probes.
 *
 * PROBES is the table of sidestep(7); tests/unit/test_probes holds it against
 * the notes of the library.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#include <config.h>	/* not base/config.h */

/* X(name, arguments, when) */
#define PROBES(X) \
	X(attach, "fd, epoch, bytes sent by the kernel before", "what is written moves to a ring") \
	X(retreat, "fd, reason (a string)", "a direction is taken back to the kernel") \
	X(sleep, "deadline in ns, descriptors slept on", "a thread goes to sleep") \
	X(wake, "whom: 1 a thread of this process or 2 a peer", "a sleeper is woken") \
	X(post, "number of the queue pair, work requests", "work requests have been posted") \
	X(completion, "completions", "completions have been taken off the CQ")

#if defined WITH_PROBES && !defined NO_PROBES	/* the latter: its test */
#include <sys/sdt.h>

#define probe_1(name, a)	DTRACE_PROBE1(sidestep, name, a)
#define probe_2(name, a, b)	DTRACE_PROBE2(sidestep, name, a, b)
#define probe_3(name, a, b, c)	DTRACE_PROBE3(sidestep, name, a, b, c)
#else
#define probe_1(name, a)	((void)sizeof(a))
#define probe_2(name, a, b)	((void)sizeof(a), (void)sizeof(b))
#define probe_3(name, a, b, c)	((void)sizeof(a), (void)sizeof(b), (void)sizeof(c))
#endif

enum { PROBE_WAKES_THREAD = 1, PROBE_WAKES_PEER = 2 };

#endif
