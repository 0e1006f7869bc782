/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hurry.h - a fault for tests: who is about to get a ring waits for it (hurry.c) */
#ifndef SOCK_HURRY_H
#define SOCK_HURRY_H

#include <stdbool.h>

#include "base/config.h"
#include "base/util.h"

/* to_write: until the ring can be written to; else until it is there. */
void hurry_wait(int fd, bool to_write);

/* Context: before or after a call on fd, no lock held. */
static inline void hurry(int fd, bool to_write)
{
	if (unlikely(config.fault.hurry))
		hurry_wait(fd, to_write);
}

#endif
