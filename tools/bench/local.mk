# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
bin_PROGRAMS += tools/sidestep-bench
tools_sidestep_bench_SOURCES = \
	tools/bench/ab.c \
	tools/bench/bench.c \
	tools/bench/bench.h \
	tools/bench/callcount.c \
	tools/bench/callcount.h \
	tools/bench/compare.c \
	tools/bench/figures.c \
	tools/bench/figures.h \
	tools/bench/main.c \
	tools/bench/options.c \
	tools/bench/outjson.c \
	tools/bench/output.c \
	tools/bench/page.c \
	tools/bench/peer.c \
	tools/bench/peer.h \
	tools/bench/peer_close.c \
	tools/bench/peer_connect.c \
	tools/bench/peer_conns.c \
	tools/bench/peer_idle.c \
	tools/bench/peer_pingpong.c \
	tools/bench/peer_stream.c \
	tools/bench/plots.c \
	tools/bench/proc.c \
	tools/bench/proc.h \
	tools/bench/report.c \
	tools/bench/report.h \
	tools/bench/results.h \
	tools/bench/ringstats.c \
	tools/bench/ringstats.h \
	tools/bench/run.c \
	tools/bench/stats.c \
	tools/bench/stats.h \
	tools/bench/syscalls.c \
	tools/bench/workloads.c \
	tools/lib/jsonread.c \
	tools/lib/jsonread.h

tools_sidestep_bench_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tools

tools_sidestep_bench_LDADD = libcore.la -lm

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_bench_stats
TESTS += tests/unit/test_bench_stats
tests_unit_test_bench_stats_SOURCES = tests/unit/test_bench_stats.c \
	tools/bench/stats.c tools/bench/ringstats.c
tests_unit_test_bench_stats_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_bench_stats_LDADD = $(CMOCKA_LIBS) -lm

check_PROGRAMS += tests/unit/test_jsonread
TESTS += tests/unit/test_jsonread
tests_unit_test_jsonread_SOURCES = tests/unit/test_jsonread.c \
	tools/lib/jsonread.c tools/lib/jsonread.h
tests_unit_test_jsonread_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_jsonread_LDADD = $(CMOCKA_LIBS)
endif

EXTRA_DIST += tools/bench/test_cli.sh
TESTS += tools/bench/test_cli.sh
