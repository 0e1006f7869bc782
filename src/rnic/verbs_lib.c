/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* verbs_lib.c - see verbs_lib.h; the one file that asks the loader for libibverbs and librdmacm */
#define _GNU_SOURCE
#include "rnic/verbs_lib.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"

#define DEVICES		64		/* numbers looked at in /dev/infiniband */
#define COPIES		12		/* generations of forked processes that load one more */
#define LOCKED_LEAST	65537u		/* an old default of 64 KiB holds no ring */

const struct verbs_lib *verbs;
const struct cm_lib *cm;

struct symbol {
	const char *name;
	size_t off;
};

static const struct symbol verbs_symbols[] = {
#define X(ret, field, sym, params) { sym, offsetof(struct verbs_lib, field) },
	VERBS_CALLS(X)
#undef X
};

static const struct symbol cm_symbols[] = {
#define X(ret, field, sym, params) { sym, offsetof(struct cm_lib, field) },
	CM_CALLS(X)
#undef X
};

_Static_assert(sizeof(struct verbs_lib) == ARRAY_SIZE(verbs_symbols) * sizeof(void *) &&
	       sizeof(struct cm_lib) == ARRAY_SIZE(cm_symbols) * sizeof(void *),
	       "the tables are not of pointers");

static int may_open(int n)
{
	char path[] = "/dev/infiniband/uverbs00";
	char *p = path + sizeof("/dev/infiniband/uverbs") - 1;

	if (n >= 10)
		*p++ = (char)('0' + n / 10);
	*p++ = (char)('0' + n % 10);
	*p = 0;
	return (int)sys3(SYS_faccessat, AT_FDCWD, path, R_OK | W_OK);
}

static int device_there(void)
{
	int err = -ENODEV;

	if (sys3(SYS_faccessat, AT_FDCWD, "/dev/infiniband", F_OK))
		return -ENODEV;
	for (int n = 0; n < DEVICES; n++)
		switch (may_open(n)) {
		case 0:
			return 0;
		case -EACCES:
		case -EPERM:
			err = -EACCES;
		}
	return err;
}

/* Below that registration fails anyway, and the library would warn on stderr. */
static bool memory_may_be_locked(void)
{
	struct rlimit rl;

	return sys0(SYS_geteuid) == 0 || sys4(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, &rl) ||
	       rl.rlim_cur >= LOCKED_LEAST;
}

static int symbols_find(void *lib, const struct symbol *symbols, size_t n, void *to)
{
	for (size_t i = 0; i < n; i++) {
		void *fn = dlsym(lib, symbols[i].name);

		if (!fn) {
			log_info("rnic: there is no %s", symbols[i].name);
			return -ENOSYS;
		}
		memcpy((char *)to + symbols[i].off, &fn, sizeof(fn));
	}
	return 0;
}

/* Never unloaded: libibverbs' providers would not like it. */
static int lib_load(void **lib, const char *name)
{
	if (!*lib)
		*lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	return *lib ? 0 : -ELIBACC;
}

int verbs_load(void)
{
	static struct verbs_lib table;
	static void *lib;
	int err;

	if (verbs)
		return 0;
	err = device_there();
	if (err)
		return err;
	if (!memory_may_be_locked())
		return -ENOMEM;
	err = lib_load(&lib, "libibverbs.so.1");
	if (!err)
		err = symbols_find(lib, verbs_symbols, ARRAY_SIZE(verbs_symbols), &table);
	if (!err)
		verbs = &table;
	return err;
}

/* ------------------------------------------- librdmacm, once a process -- */

/*
 * What it knows of devices is global, is made once, and in the child of a fork is
 * the parent's: contexts whose descriptors are closed, and locks that somebody may
 * have held.  It cannot be told to forget.  So the child loads the same file once
 * more, from a memory of its own: to the loader another inode is another library.
 */
static void *cm_first;			/* the one from the disk */
static unsigned cm_copies;		/* loaded by this process and those it comes from */
static bool cm_is_parents;

static int file_copy(int to, const char *path)
{
	int from = PRIVFD_NEW(sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
	char buf[4096];
	long n = from;

	while (n >= 0) {
		n = sys3(SYS_read, from, buf, sizeof(buf));
		if (n <= 0)
			break;
		long put = sys3(SYS_write, to, buf, n);
		if (put != n)
			n = put < 0 ? put : -ENOSPC;
	}
	if (from >= 0)
		privfd_close(from);
	return (int)n;
}

void *lib_copy(void *lib, unsigned nth)
{
	/* another path each time, as the loader remembers those that it has opened */
	static const char slashes[COPIES + 1] = "////////////";
	char path[64];
	struct link_map *map;
	void *copy = NULL;

	if (nth >= COPIES || dlinfo(lib, RTLD_DI_LINKMAP, &map))
		return NULL;
	int fd = PRIVFD_NEW(sys2(SYS_memfd_create, "sidestep", MFD_CLOEXEC));
	if (fd < 0)
		return NULL;
	if (!file_copy(fd, map->l_name)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.*s%d", (int)nth, slashes, fd);
		copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	privfd_close(fd);
	return copy;
}

/* Return: NULL: none. */
static void *cm_open(void)
{
	static void *lib;

	if (!cm_first && lib_load(&cm_first, "librdmacm.so.1"))
		return NULL;
	if (!lib)
		lib = cm_first;
	if (!cm_is_parents)
		return lib;
	void *copy = lib_copy(cm_first, cm_copies);
	if (!copy)
		return NULL;
	cm_copies++;
	cm_is_parents = false;
	lib = copy;
	return lib;
}

int cm_load(void)
{
	static struct cm_lib table;
	void *lib;
	int err;

	if (cm)
		return 0;
	if (!verbs)
		return -ENODEV;
	err = (int)sys3(SYS_faccessat, AT_FDCWD, "/dev/infiniband/rdma_cm", R_OK | W_OK);
	if (err)
		return err;
	lib = cm_open();
	err = lib ? symbols_find(lib, cm_symbols, ARRAY_SIZE(cm_symbols), &table) : -ELIBACC;
	if (!err)
		cm = &table;
	return err;
}

void cm_lib_forget(void)
{
	cm = NULL;
	cm_is_parents = true;
}
