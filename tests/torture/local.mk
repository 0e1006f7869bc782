# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
check_PROGRAMS += tests/torture/waiters
tests_torture_waiters_SOURCES = tests/torture/waiters.c tests/lib/pattern.c tests/lib/pattern.h
tests_torture_waiters_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)

# several threads on one epoll set, whole and with retreats: no wake-up is lost
check-torture: $(check_PROGRAMS) all
	tools/sidestep tests/torture/waiters 3
	SIDESTEP_FAULT=retreat:5 tools/sidestep tests/torture/waiters 3
.PHONY: check-torture
