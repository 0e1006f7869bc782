# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/sock/proto.h \
	src/sock/proto_eat.c \
	src/sock/proto_mut.h \
	src/sock/proto_rec.c \
	src/sock/proto_rx.c \
	src/sock/proto_rx.h \
	src/sock/proto_shm.h \
	src/sock/proto_tx.c
