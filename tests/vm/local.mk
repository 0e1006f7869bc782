# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
EXTRA_DIST += tests/vm/README tests/vm/run tests/vm/guests.py tests/vm/image tests/vm/init \
	tests/vm/siw tests/vm/pieces.py tests/vm/lib.sh tests/vm/faults tests/vm/rivals \
	tests/vm/cases/bench.sh \
	tests/vm/cases/boot.sh \
	tests/vm/cases/conform.sh \
	tests/vm/cases/conform_long.sh \
	tests/vm/cases/contract.sh \
	tests/vm/cases/door.sh \
	tests/vm/cases/faults.sh \
	tests/vm/cases/faults_long.sh \
	tests/vm/cases/hosts.sh \
	tests/vm/cases/hosts_auto.sh \
	tests/vm/cases/hosts_check.sh \
	tests/vm/cases/hosts_children.sh \
	tests/vm/cases/hosts_devices.sh \
	tests/vm/cases/hosts_faults.sh \
	tests/vm/cases/hosts_forked.sh \
	tests/vm/cases/hosts_inherited.sh \
	tests/vm/cases/hosts_loss.sh \
	tests/vm/cases/hosts_plain.sh \
	tests/vm/cases/hosts_programs.sh \
	tests/vm/cases/hosts_takeover.sh \
	tests/vm/cases/link.sh \
	tests/vm/cases/many.sh \
	tests/vm/cases/many_1000.sh \
	tests/vm/cases/many_8mib.sh \
	tests/vm/cases/news.sh \
	tests/vm/cases/programs.sh \
	tests/vm/cases/reasons.sh \
	tests/vm/cases/rivals.sh \
	tests/vm/cases/rivals_programs.sh \
	tests/vm/cases/siw.sh \
	tests/vm/cases/wire.sh

check_PROGRAMS += tests/vm/rnic_open
tests_vm_rnic_open_SOURCES = tests/vm/rnic_open.c
tests_vm_rnic_open_LDADD = libcore.la

check_PROGRAMS += tests/vm/tsckhz
tests_vm_tsckhz_SOURCES = tests/vm/tsckhz.c
tests_vm_tsckhz_LDADD = libcore.la

check_PROGRAMS += tests/vm/counted
tests_vm_counted_SOURCES = tests/vm/counted.c tools/bench/callcount.c tools/bench/callcount.h
tests_vm_counted_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tools

# a module, which only -rpath makes
check_LTLIBRARIES = tests/vm/countverbs.la
tests_vm_countverbs_la_SOURCES = tests/vm/countverbs.c
tests_vm_countverbs_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /none
tests_vm_countverbs_la_LIBADD = -ldl

# Guests take minutes, packages and a kernel's download: not a part of make check.
# What they run is built here and seen there.  VM_FLAGS: as of tests/vm/run.
VM_FLAGS =
.PHONY: check-vm check-vm-long
check-vm: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	$(srcdir)/tests/vm/run --build $(abs_builddir) $(VM_FLAGS)
check-vm-long: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	$(srcdir)/tests/vm/run --build $(abs_builddir) --long $(VM_FLAGS)

clean-local:
	rm -rf vm
