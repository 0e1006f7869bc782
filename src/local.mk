# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# One convenience library a room, so that unit tests link the hidden
# functions of just what they test.
noinst_LTLIBRARIES += libcore.la
libcore_la_SOURCES =
libcore_la_LIBADD =

include src/base/local.mk
include src/sock/local.mk
include src/rnic/local.mk
include src/progress/local.mk
include src/link/local.mk
include src/meet/local.mk
include src/preload/local.mk
# The rooms under the door, until they are here.
libsidestep_la_SOURCES += tests/unit/door_stub.c src/sock/fdtab.h src/sock/sock.h \
	src/sock/process.h src/ready/ready.h
