/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A byte stream that anybody can recompute: byte number n of stream `seed`
 * depends on n and the seed only.  A reader that checks what it got against
 * its own offset therefore sees a lost, repeated, swapped or foreign byte at
 * the very place where it happens, without any checksum travelling along.
 */
#ifndef TESTS_LIB_PATTERN_H
#define TESTS_LIB_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Write bytes [off, off + len) of stream `seed` to buf. */
void pattern_fill(void *buf, size_t len, uint64_t off, uint64_t seed);

/*
 * Compare buf with bytes [off, off + len) of stream `seed`.
 * Return: -1 if all are right, else the index in buf of the first wrong one.
 */
long pattern_check(const void *buf, size_t len, uint64_t off, uint64_t seed);

/* A running sum over a stream, whatever pieces it comes in; start at 0. */
uint64_t pattern_sum(uint64_t sum, const void *buf, size_t len);

/* A small deterministic generator for sizes; *state is the caller's. */
uint32_t pattern_rand(uint64_t *state);

#endif
