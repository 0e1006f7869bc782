# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/meet/answer.c \
	src/meet/answer.h \
	src/meet/ask.c \
	src/meet/ask.h \
	src/meet/cmdata.c \
	src/meet/cmdata.h \
	src/meet/cred.c \
	src/meet/diag.c \
	src/meet/meet.h \
	src/meet/msg.c \
	src/meet/msg.h \
	src/meet/names.c \
	src/meet/proof.c \
	src/meet/proof.h \
	src/meet/scan.c \
	src/meet/scan.h \
	src/meet/silence.c \
	src/meet/silence.h \
	src/meet/thin.c \
	src/meet/tuple.c

if HAVE_VERBS
libcore_la_SOURCES += \
	src/meet/cm.c \
	src/meet/cm.h
endif
EXTRA_DIST += src/meet/README
