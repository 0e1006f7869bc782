/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * real.c - finds libc's functions; the only file that calls dlsym() for them
 *
 * All are looked up in one go.  A successful dlsym() does not allocate; one
 * that fails does (for dlerror()), which may bring the program's own malloc
 * back to the door: door_enter() sees the recursion and answers with raw
 * system calls.  Several threads may resolve at once: all write the same
 * pointers, and none waits for another, which could hold the loader's lock.
 *
 * libc's count of threads is found likewise, and may be missing.
 *
 * Before this library is relocated (another library's IFUNC resolver calls
 * read(), say) not even dlsym() can be called.  That is seen by a pointer to
 * itself, which the loader fills in like all others.
 */
#include <dlfcn.h>

#include "preload/door.h"

static void *const volatile relocated = (void *)&relocated;

long (*real_syscall)(long nr, ...);

static long absent(void)
{
	errno = ENOSYS;
	return -1;
}

static void *absent_pointer(void)
{
	errno = ENOSYS;
	return NULL;
}

static const struct wanted {
	const char *name;
	bool pointer;		/* what it returns */
} wanted[] = {
#define X(kind, ret, name, nr, params, args) \
	[CALL_##name] = { #name, __builtin_types_compatible_p(ret, FILE *) || \
				 __builtin_types_compatible_p(ret, DIR *) },
	CALLS(X)
#undef X
};

bool real_reachable(void)
{
	return (uintptr_t)relocated == (uintptr_t)&relocated;
}

bool real_resolve(void)
{
	void **to = (void **)(void *)&real;

	if (!real_reachable())
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		void *p = dlsym(RTLD_NEXT, wanted[i].name);

		if (!p) {
			dlerror();
			p = wanted[i].pointer ? (void *)absent_pointer : (void *)absent;
		}
		st_rlx(&to[i], p);
	}
	real_syscall = real.syscall;
	st_rlx(&real_nthreads, dlvsym(RTLD_NEXT, "__nptl_nthreads", "GLIBC_PRIVATE"));
	if (!ld_rlx(&real_nthreads))
		dlerror();
	return true;
}

long door_raw(long ret)
{
	if (ret >= 0 || ret < -4095)
		return ret;
	if (real_reachable())
		errno = (int)-ret;
	return -1;
}
