/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* library.h - where the library is */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#define LIBRARY "libsidestep.so"

/*
 * Beside us in the build tree, else in libdir, where it was installed, else
 * where that was moved.  false: nowhere.
 */
bool library_find(char out[PATH_MAX], const char *libdir);

#endif
