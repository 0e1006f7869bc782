# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
libcore_la_SOURCES += src/ring/ring.h
EXTRA_DIST += src/ring/README
