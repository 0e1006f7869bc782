/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fdtab.h - of test_door.c: one bit a descriptor, set by the test */
#ifndef SOCK_FDTAB_H
#define SOCK_FDTAB_H

#include <stdbool.h>

extern bool double_tracked[1024];

static inline bool fdtab_tracked(int fd)
{
	return (unsigned)fd < 1024 && double_tracked[fd];
}

static inline bool fdtab_look_tracked(int fd)
{
	return fdtab_tracked(fd);
}

static inline bool fdtab_raw(int fd)
{
	return fdtab_tracked(fd);
}

#endif
