# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
noinst_PROGRAMS += tests/bench/rnic-bench
tests_bench_rnic_bench_SOURCES = tests/bench/rnic_bench.c $(RNIC_BENCH)
tests_bench_rnic_bench_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tools
tests_bench_rnic_bench_LDADD = libcore.la
EXTRA_DIST += tests/bench/page
