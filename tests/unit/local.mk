# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_proto tests/unit/test_proto_eat
TESTS += tests/unit/test_proto tests/unit/test_proto_eat
tests_unit_test_proto_SOURCES = tests/unit/test_proto.c
tests_unit_test_proto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_proto_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_proto_eat_SOURCES = tests/unit/test_proto_eat.c
tests_unit_test_proto_eat_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_proto_eat_LDADD = libcore.la $(CMOCKA_LIBS)
endif
