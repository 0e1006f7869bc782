# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/rnic/lane.h \
	src/rnic/load.c \
	src/rnic/load.h \
	src/rnic/rnic.h \
	src/rnic/shmem.c \
	src/rnic/shmem.h \
	src/rnic/soft.c \
	src/rnic/soft.h \
	src/rnic/soft_poll.c \
	src/rnic/soft_qp.c \
	src/rnic/soft_send.c
if HAVE_VERBS
libcore_la_SOURCES += \
	src/rnic/verbs.c \
	src/rnic/verbs.h \
	src/rnic/verbs_lib.c \
	src/rnic/verbs_lib.h \
	src/rnic/verbs_poll.c \
	src/rnic/verbs_qp.c \
	src/rnic/verbs_send.c
endif
EXTRA_DIST += src/rnic/README
