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
	long p = sysn6(SYS_mmap, 0, FDTAB_LEAF * sizeof(uintptr_t), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	if (cas_acqrel(at, NULL, (uintptr_t *)p))	/* pairs with fdtab_raw() */
		return (uintptr_t *)p;
	sys2(SYS_munmap, p, FDTAB_LEAF * sizeof(uintptr_t));
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
