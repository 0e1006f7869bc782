# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/link/area.c \
	src/link/area.h \
	src/link/death.c \
	src/link/far.c \
	src/link/far.h \
	src/link/inner.h \
	src/link/link.c \
	src/link/link.h \
	src/link/recv.c \
	src/link/send.c \
	src/link/wire.h
EXTRA_DIST += src/link/README
