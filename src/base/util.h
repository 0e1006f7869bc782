/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* util.h - the few macros everybody needs */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE	64
#define cacheline_aligned __attribute__((aligned(CACHE_LINE)))
/* sys/sdt.h has the word "hidden" for the assembler */
#define unexported	__attribute__((visibility("hidden")))
#define exported	__attribute__((visibility("default")))
#define container_of(p, type, member) \
	((type *)(void *)((char *)(p) - offsetof(type, member)))
#define MIN(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define MAX(a, b) ({ __typeof__(a) _x = (a); __typeof__(b) _y = (b); _x > _y ? _x : _y; })

#endif
