# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

if HAVE_CMOCKA
proto_tests = tests/unit/test_proto_tx tests/unit/test_proto_rx tests/unit/test_proto_eat tests/unit/test_proto_hostile
check_PROGRAMS += $(proto_tests)
TESTS += $(proto_tests)
tests_unit_test_proto_tx_SOURCES = tests/unit/test_proto_tx.c
tests_unit_test_proto_tx_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_proto_tx_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_proto_rx_SOURCES = tests/unit/test_proto_rx.c
tests_unit_test_proto_rx_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_proto_rx_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_proto_eat_SOURCES = tests/unit/test_proto_eat.c
tests_unit_test_proto_eat_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_proto_eat_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_ready
TESTS += tests/unit/test_ready
tests_unit_test_ready_SOURCES = tests/unit/test_ready.c
tests_unit_test_ready_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_ready_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_pledge
TESTS += tests/unit/test_pledge
tests_unit_test_pledge_SOURCES = tests/unit/test_pledge.c
tests_unit_test_pledge_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_pledge_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_left
TESTS += tests/unit/test_left
tests_unit_test_left_SOURCES = tests/unit/test_left.c
tests_unit_test_left_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_left_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_owed
TESTS += tests/unit/test_owed
tests_unit_test_owed_SOURCES = tests/unit/test_owed.c
tests_unit_test_owed_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_owed_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_area
TESTS += tests/unit/test_area
tests_unit_test_area_SOURCES = tests/unit/test_area.c
tests_unit_test_area_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_area_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_inbox
TESTS += tests/unit/test_inbox
tests_unit_test_inbox_SOURCES = tests/unit/test_inbox.c
tests_unit_test_inbox_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_inbox_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_unread
TESTS += tests/unit/test_unread
tests_unit_test_unread_SOURCES = tests/unit/test_unread.c
tests_unit_test_unread_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_unread_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_msgs
TESTS += tests/unit/test_msgs
tests_unit_test_msgs_SOURCES = tests/unit/test_msgs.c
tests_unit_test_msgs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_msgs_LDADD = libcore.la $(CMOCKA_LIBS)
MEET_TESTS = \
	tests/unit/test_meet_ask \
	tests/unit/test_meet_cmdata \
	tests/unit/test_meet_diag \
	tests/unit/test_meet_msg \
	tests/unit/test_meet_names \
	tests/unit/test_meet_proof \
	tests/unit/test_meet_silence
check_PROGRAMS += $(MEET_TESTS)
TESTS += $(MEET_TESTS)

meet_test_common = tests/unit/test_meet_util.c tests/unit/test_meet_util.h

tests_unit_test_meet_ask_SOURCES = tests/unit/test_meet_ask.c $(meet_test_common)
tests_unit_test_meet_ask_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_ask_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_cmdata_SOURCES = tests/unit/test_meet_cmdata.c
tests_unit_test_meet_cmdata_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_cmdata_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_diag_SOURCES = tests/unit/test_meet_diag.c $(meet_test_common)
tests_unit_test_meet_diag_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_diag_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_msg_SOURCES = tests/unit/test_meet_msg.c $(meet_test_common)
tests_unit_test_meet_msg_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_msg_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_names_SOURCES = tests/unit/test_meet_names.c $(meet_test_common)
tests_unit_test_meet_names_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_names_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_proof_SOURCES = tests/unit/test_meet_proof.c
tests_unit_test_meet_proof_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_proof_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_silence_SOURCES = tests/unit/test_meet_silence.c
tests_unit_test_meet_silence_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_silence_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_proto_hostile_SOURCES = tests/unit/test_proto_hostile.c
tests_unit_test_proto_hostile_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_proto_hostile_LDADD = libcore.la $(CMOCKA_LIBS)
endif
# base and the door
check_PROGRAMS += tests/unit/preload_table tests/unit/preload_probe
tests_unit_preload_table_SOURCES = tests/unit/preload_table.c
tests_unit_preload_probe_SOURCES = tests/unit/preload_probe.c
EXTRA_DIST += tests/unit/test_preload_symbols.sh tests/unit/test_preload_symbols.list \
	tests/unit/test_preload_door.sh
# a preloaded sanitizer wants to be the first library of the program
if !SANITIZED
TESTS += tests/unit/test_preload_symbols.sh tests/unit/test_preload_door.sh
endif
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_base
TESTS += tests/unit/test_base
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_base_LDADD = libcore.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_conffile
TESTS += tests/unit/test_conffile
tests_unit_test_conffile_SOURCES = tests/unit/test_conffile.c
tests_unit_test_conffile_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_conffile_LDADD = libcore.la $(CMOCKA_LIBS)
endif

# The door itself, over rooms that only listen; their headers come first.
if HAVE_CMOCKA
if !SANITIZED
check_PROGRAMS += tests/unit/test_door
TESTS += tests/unit/test_door
tests_unit_test_door_SOURCES = tests/unit/test_door.c tests/lib/rights.c tests/lib/rights.h \
	$(door_sources)
tests_unit_test_door_CPPFLAGS = -I$(top_srcdir)/tests/unit/door $(AM_CPPFLAGS) \
	-D_GNU_SOURCE -U_FORTIFY_SOURCE
tests_unit_test_door_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_door_LDADD = libcore.la $(CMOCKA_LIBS)
endif
endif
EXTRA_DIST += tests/unit/door/sock/fdtab.h tests/unit/door/sock/sock.h \
	tests/unit/door/sock/process.h tests/unit/door/ready/ready.h
# the verbs device and rdma_cm, over libraries that are fakes
if HAVE_CMOCKA
if HAVE_VERBS
check_PROGRAMS += tests/unit/test_verbs tests/unit/test_meet_cm tests/unit/test_hosts
TESTS += tests/unit/test_verbs tests/unit/test_meet_cm tests/unit/test_hosts
tests_unit_test_hosts_SOURCES = tests/unit/test_hosts.c tests/unit/fake_verbs.c \
	tests/unit/fake_verbs.h tests/unit/fake_cm.c tests/unit/fake_cm.h
tests_unit_test_hosts_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_hosts_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_meet_cm_SOURCES = tests/unit/test_meet_cm.c tests/unit/fake_cm.c \
	tests/unit/fake_cm.h
tests_unit_test_meet_cm_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_meet_cm_LDADD = libcore.la $(CMOCKA_LIBS)
tests_unit_test_verbs_SOURCES = tests/unit/test_verbs.c tests/unit/fake_verbs.c \
	tests/unit/fake_verbs.h tests/unit/fake_cm.c tests/unit/fake_cm.h
tests_unit_test_verbs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_verbs_LDADD = libcore.la $(CMOCKA_LIBS)
endif
endif

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_window
TESTS += tests/unit/test_window
endif
tests_unit_test_window_SOURCES = tests/unit/test_window.c
tests_unit_test_window_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_window_LDADD = libcore.la $(CMOCKA_LIBS)

# what the library's ELF notes say of its probes
EXTRA_DIST += tests/unit/test_probes
if WITH_PROBES
if !SANITIZED
TESTS += tests/unit/test_probes
endif
endif

# the tables agree: code, --help, manuals, README
EXTRA_DIST += tests/unit/test_tables
if !SANITIZED
TESTS += tests/unit/test_tables
endif
