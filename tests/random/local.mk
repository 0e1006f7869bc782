# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
check_PROGRAMS += tests/random/actor
tests_random_actor_SOURCES = \
	tests/random/actor.c tests/random/actor.h \
	tests/random/data.c \
	tests/random/fds.c \
	tests/random/process.c \
	tests/random/waits.c \
	tests/conformance/conform.h \
	tests/conformance/role.c \
	tests/conformance/warm.c \
	tests/lib/rights.c tests/lib/rights.h \
	tests/lib/step.c tests/lib/step.h \
	tests/lib/transcript.c tests/lib/transcript.h
tests_random_actor_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)
EXTRA_DIST += tests/random/README tests/random/run tests/random/model.py tests/random/choose.py
