# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/base/atomic.h \
	src/base/calls.h \
	src/base/clock.c \
	src/base/clock.h \
	src/base/config.c \
	src/base/config.h \
	src/base/counters.c \
	src/base/counters.h \
	src/base/guard.h \
	src/base/list.h \
	src/base/lock.c \
	src/base/lock.h \
	src/base/log.c \
	src/base/log.h \
	src/base/privfd.c \
	src/base/privfd.h \
	src/base/real.c \
	src/base/real.h \
	src/base/reasons.c \
	src/base/reasons.h \
	src/base/section.c \
	src/base/section.h \
	src/base/sha256.c \
	src/base/sha256.h \
	src/base/sys.h \
	src/base/util.h
