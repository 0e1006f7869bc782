/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* verbs_lib.c - see verbs_lib.h; the one file that asks the loader for libibverbs and librdmacm */
#define _GNU_SOURCE
#include "rnic/verbs_lib.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"

#define DEVICES		64		/* numbers looked at in /dev/infiniband */
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
static int lib_load(const char *name, const struct symbol *symbols, size_t n, void *to)
{
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	return lib ? symbols_find(lib, symbols, n, to) : -ELIBACC;
}

int verbs_load(void)
{
	static struct verbs_lib table;
	int err;

	if (verbs)
		return 0;
	err = device_there();
	if (err)
		return err;
	if (!memory_may_be_locked())
		return -ENOMEM;
	err = lib_load("libibverbs.so.1", verbs_symbols, ARRAY_SIZE(verbs_symbols), &table);
	if (!err)
		verbs = &table;
	return err;
}

int cm_load(void)
{
	static struct cm_lib table;
	int err;

	if (cm)
		return 0;
	if (!verbs)
		return -ENODEV;
	err = (int)sys3(SYS_faccessat, AT_FDCWD, "/dev/infiniband/rdma_cm", R_OK | W_OK);
	if (!err)
		err = lib_load("librdmacm.so.1", cm_symbols, ARRAY_SIZE(cm_symbols), &table);
	if (!err)
		cm = &table;
	return err;
}
