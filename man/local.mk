# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
dist_man_MANS += man/sidestep.1 man/sidestep-bench.1 man/sidestep-check.1 man/sidestep-stat.1 man/sidestep.7 \
	man/libsidestep.3 man/sidestep.conf.5

check_PROGRAMS += man/test_names
TESTS += man/test_names
man_test_names_SOURCES = man/test_names.c
man_test_names_CPPFLAGS = $(AM_CPPFLAGS) -DMANUALS='"$(abs_top_srcdir)/man/"' -I$(top_srcdir)/tools
