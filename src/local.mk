# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# One convenience library of all rooms but the door, so that unit tests link
# the hidden functions of just what they test.
noinst_LTLIBRARIES += libcore.la
libcore_la_SOURCES =
libcore_la_LIBADD =
# Fortified headers would turn calls and names here into others.
libcore_la_CPPFLAGS = $(AM_CPPFLAGS) -U_FORTIFY_SOURCE

include src/base/local.mk
include src/rnic/local.mk
include src/ring/local.mk
include src/progress/local.mk
include src/link/local.mk
include src/meet/local.mk
include src/sock/local.mk
include src/ready/local.mk
include src/preload/local.mk
