# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
check_PROGRAMS += tests/torture/waiters tests/torture/crash
check_PROGRAMS += tests/torture/numbers tests/torture/recycled
tests_torture_waiters_SOURCES = tests/torture/waiters.c tests/lib/pattern.c tests/lib/pattern.h
tests_torture_numbers_SOURCES = tests/torture/numbers.c
tests_torture_numbers_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)
tests_torture_recycled_SOURCES = tests/torture/recycled.c
tests_torture_recycled_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)
tests_torture_waiters_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)

tests_torture_crash_LDADD = libcore.la
tests_torture_crash_SOURCES = tests/torture/crash.c tests/torture/crash.h \
	tests/torture/crash_ends.c tests/torture/crash_more.c \
	tests/lib/pattern.c tests/lib/pattern.h
tests_torture_crash_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)
check_PROGRAMS += tests/torture/ends
tests_torture_ends_SOURCES = tests/torture/ends.c tests/lib/pattern.c tests/lib/pattern.h
tests_torture_ends_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)
# a peer that means no good; a preloaded sanitizer wants to be the first library
if !SANITIZED
TESTS += tests/torture/strangers
endif

# several threads on one epoll set, whole and with retreats: no wake-up is lost;
# processes that fork while they stream: the rings stay, nothing is left behind;
# numbers that the program has not made are not seen; libc and allocators beside us
check-torture: $(check_PROGRAMS) all
	tools/sidestep tests/torture/waiters 3
	SIDESTEP_FAULT=retreat:5 tools/sidestep tests/torture/waiters 3
	$(srcdir)/tests/torture/kin tools/sidestep bgsave 256
	$(srcdir)/tests/torture/kin tools/sidestep storm 64
	SIDESTEP_FAULT=retreat:5 $(srcdir)/tests/torture/kin tools/sidestep storm 64
	$(srcdir)/tests/torture/kin tools/sidestep orphans
	tools/sidestep tests/torture/numbers
	tools/sidestep tests/torture/recycled 2
	$(srcdir)/tests/torture/allocators $(abs_builddir)
	$(srcdir)/tests/torture/closing --build $(abs_builddir)
	$(srcdir)/tests/torture/appended $(abs_builddir)
	$(srcdir)/tests/torture/dialogue $(abs_builddir)
	$(srcdir)/tests/torture/grown tools/sidestep
.PHONY: check-torture

# one end dies: every cell of the matrix against plain TCP, then death under traffic
CRASH = tests/torture/crash --launcher $(abs_builddir)/tools/sidestep
check-crash: $(check_PROGRAMS) all
	bad=; for args in "--mode both" "--mode survivor" "--mode victim" "--rounds 100" \
			"--many 500" "--leak 60" "--latency 15"; do \
		$(CRASH) $$args || bad="$$bad $$args"; \
	done; test -z "$$bad" || { echo "crash failed:$$bad"; exit 1; }
.PHONY: check-crash
