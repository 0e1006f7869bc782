# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What sidestep/sidestep.h promises; the program links nothing of ours.
check_PROGRAMS += tests/public/asks tests/public/known
tests_public_asks_SOURCES = tests/public/asks.c
tests_public_known_SOURCES = doc/examples/known.c
EXTRA_DIST += tests/public/test_asks
# a preloaded sanitizer wants to be the first library of the program
if !SANITIZED
TESTS += tests/public/test_asks
endif
