# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What sidestep/sidestep.h promises; the program links nothing of ours.
check_PROGRAMS += tests/public/asks tests/public/known tests/public/fates
tests_public_asks_SOURCES = tests/public/asks.c
tests_public_known_SOURCES = doc/examples/known.c
tests_public_fates_SOURCES = tests/public/fates.c
EXTRA_DIST += tests/public/test_asks tests/public/test_fates
# a preloaded sanitizer wants to be the first library of the program
if !SANITIZED
TESTS += tests/public/test_asks tests/public/test_fates
endif
