/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* nearest.h - which known name did somebody mean? */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/*
 * Letters to be changed, left out, put in or swapped with their neighbour to
 * make b of a[0..n); '-' and '_' are the same letter, and so are small and
 * capital ones.  Long names count by their first 31 letters.
 */
unsigned name_distance(const char *a, size_t n, const char *b);

#endif
