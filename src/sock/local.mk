# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += \
	src/sock/act.c \
	src/sock/act.h \
	src/sock/bind.c \
	src/sock/bind.h \
	src/sock/calls.c \
	src/sock/calls.h \
	src/sock/conn.c \
	src/sock/conn.h \
	src/sock/end.c \
	src/sock/fdtab.c \
	src/sock/fdtab.h \
	src/sock/hello.c \
	src/sock/hello.h \
	src/sock/io.c \
	src/sock/io.h \
	src/sock/msgs.c \
	src/sock/msgs.h \
	src/sock/process.c \
	src/sock/process.h \
	src/sock/proto.h \
	src/sock/proto_eat.c \
	src/sock/proto_mut.h \
	src/sock/proto_rec.c \
	src/sock/proto_rx.c \
	src/sock/proto_rx.h \
	src/sock/proto_shm.h \
	src/sock/proto_tx.c \
	src/sock/rx.c \
	src/sock/sendfile.c \
	src/sock/sock.h \
	src/sock/tx.c
EXTRA_DIST += src/sock/README
