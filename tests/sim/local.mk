# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The simulator has its own copy of the protocol, with rules that can be taken
# out (PROTO_MUTANTS); the library is built without any of that.
check_PROGRAMS += tests/sim/sim
tests_sim_sim_SOURCES = \
	tests/sim/sim.c \
	tests/sim/sim.h \
	tests/sim/sim_end.c \
	tests/sim/sim_rx.c \
	tests/sim/sim_tx.c \
	tests/sim/sim_world.c \
	src/sock/proto_eat.c \
	src/sock/proto_rec.c \
	src/sock/proto_rx.c \
	src/sock/proto_tx.c
tests_sim_sim_CPPFLAGS = $(AM_CPPFLAGS) -DPROTO_MUTANTS -I$(top_srcdir)/tests/sim
TESTS += tests/sim/sim tests/sim/mutants.sh
EXTRA_DIST += tests/sim/mutants.sh tests/sim/README
