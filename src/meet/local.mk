# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/meet/answer.c \
	src/meet/answer.h \
	src/meet/ask.c \
	src/meet/ask.h \
	src/meet/cred.c \
	src/meet/diag.c \
	src/meet/meet.h \
	src/meet/msg.c \
	src/meet/msg.h \
	src/meet/names.c \
	src/meet/proof.c \
	src/meet/proof.h \
	src/meet/tuple.c

EXTRA_DIST += src/meet/README doc/security.md
