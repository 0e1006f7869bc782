/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* warm.h - from when on a conn meets, and why a process does not (private to its meetings) */
#ifndef SOCK_WARM_H
#define SOCK_WARM_H

#include "base/reasons.h"

#define WARM_CALLS	4u
#define WARM_BYTES	(32u * 1024)

/*
 * Start the background thread, where that is allowed.  Any thread.
 * Return: 0 or -errno; -EINTR: not from here, a signal handler, but from the next call.
 */
int bind_begin(void);
/* ... why it was not. */
enum reason bind_not_begun(void);
/* Why engine_start() has failed with err. */
enum reason bind_no_engine(int err);

#endif
