# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
bin_PROGRAMS += tools/sidestep-check
tools_sidestep_check_SOURCES = \
	tools/check/check.h \
	tools/check/far.c \
	tools/check/host.c \
	tools/check/main.c \
	tools/check/peer.c \
	tools/check/route.c \
	tools/lib/library.c \
	tools/lib/library.h \
	tools/lib/variable.c \
	tools/lib/variable.h \
	$(stat_sources)
tools_sidestep_check_CPPFLAGS = $(AM_CPPFLAGS) -DLIBDIR='"$(libdir)"' -DVERSION='"$(VERSION)"'
tools_sidestep_check_LDADD = libcore.la

EXTRA_DIST += tests/stat/test_check tests/stat/test_config
if !SANITIZED
TESTS += tests/stat/test_check tests/stat/test_config
endif
