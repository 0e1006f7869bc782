/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fault.h - the Nth failure: SIDESTEP_FAULT=fail-alloc:N, fail-call:N, fail-mr:N
 *
 * What fails, fails once, as the kernel or a device might: with an error that
 * the call has in its manual, and without effect.  Calls that pass the
 * program's own request on do not come by here.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

extern int fault_armed;		/* fail-alloc or fail-call is asked for */
extern int fault_device_armed;	/* fail-mr */

/* Settings are read, log and counters are open: from now on calls count. */
void fault_arm(void);

/* System call nr with second to fourth argument b, c, d: 0 or the -errno it is to end with. */
long fault_sys(long nr, long b, long c, long d);

/* pthread_create(): 0 or -EAGAIN. */
int fault_thread(void);

/* An operation of the device: true if it is to fail. */
bool fault_device_strikes(void);
static inline bool fault_device(void)
{
	return __builtin_expect(fault_device_armed, 0) && fault_device_strikes();
}

#endif
