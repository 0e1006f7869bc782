# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/ready/epoll.c \
	src/ready/eset.c \
	src/ready/eset.h \
	src/ready/poll.c \
	src/ready/ready.h
EXTRA_DIST += src/ready/README
