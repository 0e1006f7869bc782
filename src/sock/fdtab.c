/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fdtab.c - see fdtab.h */
#define _GNU_SOURCE
#include "sock/fdtab.h"

#include <sys/mman.h>

#include "base/sys.h"

uintptr_t *fdtab_root[FDTAB_ROOT];

static uintptr_t *leaf_of(int fd)
{
	uintptr_t **at = &fdtab_root[(unsigned)fd >> FDTAB_LEAF_BITS];
	uintptr_t *leaf = ld_acq(at);

	if (leaf)
		return leaf;
	uintptr_t *p = sys_map(FDTAB_LEAF * sizeof(*p), 0);
	if (!p)
		return NULL;
	if (cas_acqrel(at, NULL, p))	/* pairs with fdtab_raw() */
		return p;
	sys_unmap(p, FDTAB_LEAF * sizeof(*p));
	return ld_acq(at);
}

int fdtab_set(int fd, void *obj, enum fdtab_tag tag)
{
	if ((unsigned)fd >= FDTAB_MAX)
		return -EMFILE;
	if (!obj && !fdtab_raw(fd))
		return 0;
	uintptr_t *leaf = leaf_of(fd);
	if (!leaf)
		return -ENOMEM;
	st_rel(&leaf[fd & (FDTAB_LEAF - 1)], obj ? (uintptr_t)obj | tag : 0);
	return 0;
}

int fdtab_next(int fd, int last)
{
	last = MIN(last, FDTAB_MAX - 1);
	while (fd <= last) {
		if (!ld_acq(&fdtab_root[(unsigned)fd >> FDTAB_LEAF_BITS]))
			fd = (fd | (FDTAB_LEAF - 1)) + 1;
		else if (fdtab_raw(fd))
			return fd;
		else
			fd++;
	}
	return -1;
}
