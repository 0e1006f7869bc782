# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
bin_PROGRAMS += tools/sidestep-stat
stat_sources = \
	tools/lib/json.c \
	tools/lib/json.h \
	tools/lib/nettcp.c \
	tools/lib/nettcp.h \
	tools/stat/addr.c \
	tools/stat/find.c \
	tools/stat/machine.c \
	tools/stat/memory.c \
	tools/stat/read.c \
	tools/stat/rows.c \
	tools/stat/stat.h \
	tools/stat/text.c
tools_sidestep_stat_SOURCES = tools/stat/main.c tools/stat/screen.c $(stat_sources)
tools_sidestep_stat_CPPFLAGS = $(AM_CPPFLAGS) -DVERSION='"$(VERSION)"'
tools_sidestep_stat_LDADD = libcore.la

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_page
TESTS += tests/unit/test_page
tests_unit_test_page_SOURCES = tests/unit/test_page.c $(stat_sources)
tests_unit_test_page_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_page_LDADD = libcore.la $(CMOCKA_LIBS)
endif

# a preloaded sanitizer wants to be the first library of the program
EXTRA_DIST += tests/stat/test_stat tests/stat/test_many
if !SANITIZED
TESTS += tests/stat/test_stat
endif
