# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
include tests/bench/rnic.mk

if HAVE_CMOCKA
contract_ends = tests/contract/ends.c tests/contract/ends.h tests/contract/join.c tests/contract/join.h \
	tools/device/params.c tools/device/params.h

check_PROGRAMS += tests/contract/data
tests_contract_data_SOURCES = tests/contract/test_data.c $(contract_ends)
tests_contract_data_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_contract_data_LDADD = libcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/contract/hostile
tests_contract_hostile_SOURCES = tests/contract/test_hostile.c $(contract_ends)
tests_contract_hostile_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_contract_hostile_LDADD = libcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/contract/procs
tests_contract_procs_SOURCES = tests/contract/test_procs.c $(contract_ends)
tests_contract_procs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_contract_procs_LDADD = libcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/contract/link
tests_contract_link_SOURCES = tests/contract/test_link.c $(contract_ends)
tests_contract_link_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_contract_link_LDADD = libcore.la $(CMOCKA_LIBS)

TESTS += tests/contract/data tests/contract/hostile tests/contract/procs tests/contract/link

# a link as over a verbs device, on the software RNIC
dist_check_SCRIPTS += tests/contract/link_far.sh
TESTS += tests/contract/link_far.sh
endif
