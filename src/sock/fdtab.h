/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fdtab.h - declarations that the door builds on */
#ifndef SOCK_FDTAB_H
#define SOCK_FDTAB_H

#include <stdbool.h>

#include "base/atomic.h"

#define FDTAB_STANDIN 65536
extern unsigned char fdtab_standin[FDTAB_STANDIN];

static inline bool fdtab_tracked(int fd)
{
	return (unsigned)fd < FDTAB_STANDIN && ld_rlx(&fdtab_standin[fd]);
}

#endif
