# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The door, and the library that it is the front of.  Not in libcore: a test
# that linked it would have its own read() and write() replaced.
lib_LTLIBRARIES += libsidestep.la
door_sources = \
	src/preload/data.c \
	src/preload/door.c \
	src/preload/door.h \
	src/preload/fds.c \
	src/preload/files.c \
	src/preload/message.c \
	src/preload/process.c \
	src/preload/real.c \
	src/preload/signals.c \
	src/preload/syscall.c \
	src/preload/vfork.c \
	src/preload/wait.c
libsidestep_la_SOURCES = $(door_sources) src/preload/public.c
EXTRA_DIST += src/preload/README
EXTRA_libsidestep_la_DEPENDENCIES = src/preload/libsidestep.map
# Fortified headers would turn calls and names here into others.
libsidestep_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -U_FORTIFY_SOURCE -DSIDESTEP_VERSION='"$(VERSION)"'
# ThreadSanitizer calls sigaction() before its own threads are known, and the
# instrumented function would look for one.
libsidestep_la_CFLAGS = $(AM_CFLAGS) -fno-sanitize=thread
libsidestep_la_LIBADD = libcore.la
# All symbols are bound at load: binding one at the first call could meet the
# loader's lock in a signal handler, or in the child of a vfork.  Our own are
# bound to ourselves: another preload's close() is no part of our dup2().
libsidestep_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,-z,now -Wl,-z,nodelete -Wl,-Bsymbolic $(DOOR_DEFS) \
	-Wl,--version-script=src/preload/libsidestep.map

if !SANITIZED
DOOR_DEFS = -Wl,-z,defs
endif

# The names stand in the table once; see the head of src/base/calls.h.
# Without a version name: ours answers for every version of libc's.
src/preload/libsidestep.map: $(top_srcdir)/src/base/calls.h
	$(AM_V_GEN)$(MKDIR_P) src/preload && { \
	echo '{ global:'; \
	sed -n -e 's/^	X([a-z]*, [^,]*, \([A-Za-z0-9_]*\), .*/	\1;/p' \
	       -e 's/^	A(\([A-Za-z0-9_]*\), .*/	\1;/p' $(top_srcdir)/src/base/calls.h; \
	echo '	sidestep_*;'; \
	echo 'local: *; };'; } > $@.tmp && mv $@.tmp $@
CLEANFILES += src/preload/libsidestep.map src/preload/libsidestep.map.tmp
sidestepincludedir = $(includedir)/sidestep
sidestepinclude_HEADERS = include/sidestep/sidestep.h
