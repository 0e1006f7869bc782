# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/progress/bg.c \
	src/progress/bg.h \
	src/progress/engine.c \
	src/progress/engine.h \
	src/progress/wait.c \
	src/progress/wait.h
EXTRA_DIST += src/progress/README
