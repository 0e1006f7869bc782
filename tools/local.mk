# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

# The launcher.  A plain program, no libtool wrapper: it finds the library in
# the build tree by where it stands itself.
bin_PROGRAMS += tools/sidestep
tools_sidestep_SOURCES = tools/sidestep.c
tools_sidestep_CPPFLAGS = $(AM_CPPFLAGS) -DLIBDIR='"$(libdir)"' -DVERSION='"$(VERSION)"'
tools_sidestep_LDADD = libcore.la
include tools/bench/local.mk
tools_sidestep_bench_SOURCES += tools/bench_rnic.c tools/bench_rnic.h
EXTRA_DIST += tools/lint

lint:
	$(srcdir)/tools/lint $(srcdir)
EXTRA_DIST += quickstart .ci/run

# who may look at whom among the rooms of src/
dist_check_SCRIPTS += tools/layers
TESTS += tools/layers
