# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Copied into the build tree, where tools/sidestep looks for them too.
profiledir = $(pkgdatadir)/profiles
profile_DATA = \
	profiles/latency.conf \
	profiles/safe.conf \
	profiles/shared-cpu.conf \
	profiles/throughput.conf
EXTRA_DIST += $(profile_DATA:=.in)
CLEANFILES += $(profile_DATA)

profiles/%.conf: profiles/%.conf.in
	$(AM_V_GEN)$(MKDIR_P) profiles && cp $< $@.tmp && mv $@.tmp $@
