/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* library.c - see library.h */
#include "library.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/util.h"

/* dir/relative/libsidestep.so if it is there */
static bool try_library(char out[PATH_MAX], const char *dir, const char *relative)
{
	int n = snprintf(out, PATH_MAX, "%s/%s" LIBRARY, dir, relative);

	return n > 0 && n < PATH_MAX && access(out, R_OK) == 0;
}

bool library_find(char out[PATH_MAX], const char *libdir)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[MAX(n, 0)] = '\0';
	if (n < 0)		/* no /proc here */
		snprintf(exe, sizeof(exe), "%s", (const char *)getauxval(AT_EXECFN));
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	if (slash && (try_library(out, exe, "../.libs/") || try_library(out, exe, "../../.libs/")))
		return true;
	if (try_library(out, libdir, ""))
		return true;
	return slash && (try_library(out, exe, "../lib/") || try_library(out, exe, "../lib64/"));
}
