/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* shmem.c - see shmem.h */
#define _GNU_SOURCE
#include "rnic/shmem.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/privfd.h"
#include "base/sys.h"

#define SPACE_SHARE 8
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int mmap_raw(size_t bytes, int flags, int fd, void **addr)
{
	long p = sys_mmap(bytes, flags, fd);

	if (p < 0 && p > -4096)
		return (int)p;
	*addr = (void *)p;
	return 0;
}

/* The first number of statm: pages of address space in use; 0: not to be had. */
static uint64_t pages_in_use(void)
{
	int fd = PRIVFD_NEW(sys4(SYS_openat, AT_FDCWD, "/proc/thread-self/statm",
				 O_RDONLY | O_CLOEXEC, 0));
	char buf[64];
	uint64_t n = 0;

	if (fd < 0)
		return 0;
	ssize_t len = sys_read(fd, buf, sizeof(buf));
	for (ssize_t i = 0; i < len && buf[i] >= '0' && buf[i] <= '9'; i++)
		n = 10 * n + (uint64_t)(buf[i] - '0');
	privfd_close(fd);
	return n;
}

/* A limit of address space is meant for the program: we take a small part of what it has left. */
static bool space_for(size_t bytes)
{
	struct rlimit rl;

	if (sys4(SYS_prlimit64, 0, RLIMIT_AS, 0, &rl) || rl.rlim_cur == RLIM_INFINITY)
		return true;
	uint64_t used = pages_in_use() * SHMEM_PAGE;
	return used && used < rl.rlim_cur && bytes <= (rl.rlim_cur - used) / SPACE_SHARE;
}

static int map_shared(int fd, size_t bytes, void **addr)
{
	int err = space_for(bytes) ? mmap_raw(bytes, MAP_SHARED, fd, addr) : -ENOMEM;

	if (err)
		return err;
	err = (int)sys3(SYS_madvise, *addr, bytes, MADV_DONTFORK);
	if (err)
		shmem_unmap(*addr, bytes);
	return err;
}

static int memfd_sealed(const char *name, size_t bytes)
{
	int fd = PRIVFD_NEW(sys2(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	int err;

	if (fd < 0)
		return fd;
	err = (int)sys2(SYS_ftruncate, fd, bytes);
	if (!err)
		err = sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (err) {
		privfd_close(fd);
		return err;
	}
	return fd;
}

int shmem_new(const char *name, size_t bytes, void **addr)
{
	int fd = memfd_sealed(name, bytes);
	int err;

	if (fd < 0)
		return fd;
	err = map_shared(fd, bytes, addr);
	if (err) {
		privfd_close(fd);
		return err;
	}
	return fd;
}

static bool memfd_is_ours(int fd, uint64_t bytes)
{
	struct statfs fs;
	struct stat st;

	/* the seals first: with them the size cannot change any more */
	if (sys_fcntl(fd, F_GET_SEALS, 0) != SEALS)
		return false;
	if (sys2(SYS_fstatfs, fd, &fs) || fs.f_type != TMPFS_MAGIC)
		return false;
	return !sys2(SYS_fstat, fd, &st) && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == bytes;
}

int shmem_map_peer(int fd, uint64_t bytes, void **addr)
{
	int err;

	if (!bytes || bytes % SHMEM_PAGE || !memfd_is_ours(fd, bytes))
		return -EPROTO;
	err = map_shared(fd, bytes, addr);
	/* opened read-only by the peer: its fault, not want of memory */
	return err == -EACCES || err == -EPERM ? -EPROTO : err;
}

void shmem_unmap(void *addr, size_t bytes)
{
	if (addr)
		sys_unmap(addr, bytes);
}

void *pages_new(size_t bytes)
{
	return sys_map(bytes, 0);
}

void pages_free(void *p, size_t bytes)
{
	if (p)
		sys_unmap(p, bytes);
}
