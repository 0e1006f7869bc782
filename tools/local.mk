# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

# The launcher.  A plain program, no libtool wrapper: it finds the library in
# the build tree by where it stands itself.
bin_PROGRAMS += tools/sidestep
tools_sidestep_SOURCES = tools/sidestep.c tools/launch_config.c tools/launch_config.h \
	tools/lib/library.c tools/lib/library.h tools/lib/variable.c tools/lib/variable.h
tools_sidestep_CPPFLAGS = $(AM_CPPFLAGS) -DLIBDIR='"$(libdir)"' -DPROFILES='"$(pkgdatadir)/profiles"' -DVERSION='"$(VERSION)"'
tools_sidestep_LDADD = libcore.la
include tools/bench/local.mk
include tools/stat/local.mk
include tools/check/local.mk
RNIC_BENCH = tools/bench_rnic.c tools/bench_rnic.h tools/device/end.c tools/device/end.h \
	tools/device/params.c tools/device/params.h \
	tools/device/play.c tools/device/play.h tools/bench/machine.c tools/bench/machine.h
tools_sidestep_bench_SOURCES += $(RNIC_BENCH)
EXTRA_DIST += tools/lint

lint:
	$(srcdir)/tools/lint $(srcdir)
EXTRA_DIST += quickstart .ci/run

# who may look at whom among the rooms of src/
dist_check_SCRIPTS += tools/layers
TESTS += tools/layers
