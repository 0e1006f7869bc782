/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Recomputable byte streams; see pattern.h. */
#include "pattern.h"

#include <string.h>

static uint64_t word_at(uint64_t index, uint64_t seed)
{
	uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd6e8feb86659fd93ull;

	x ^= x >> 32;
	x *= 0xff51afd7ed558ccdull;
	return x ^ x >> 29;
}

/* One piece of at most a word, so that the callers' loops stay simple. */
static size_t piece_at(unsigned char word[8], size_t len, uint64_t off, uint64_t seed)
{
	uint64_t w = word_at(off / 8, seed) >> off % 8 * 8;
	size_t n = 8 - off % 8;

	memcpy(word, &w, 8);
	return n < len ? n : len;
}

void pattern_fill(void *buf, size_t len, uint64_t off, uint64_t seed)
{
	unsigned char *p = buf, word[8];
	size_t n;

	for (; len; p += n, off += n, len -= n) {
		if (off % 8 == 0 && len >= 8) {
			uint64_t w = word_at(off / 8, seed);

			memcpy(p, &w, 8);
			n = 8;
			continue;
		}
		n = piece_at(word, len, off, seed);
		memcpy(p, word, n);
	}
}

static long first_difference(const unsigned char *p, const unsigned char *want, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != want[i])
			return (long)i;
	return -1;
}

long pattern_check(const void *buf, size_t len, uint64_t off, uint64_t seed)
{
	const unsigned char *p = buf;
	unsigned char word[8];
	size_t n, done;

	for (done = 0; done < len; done += n, off += n) {
		if (off % 8 == 0 && len - done >= 8) {
			uint64_t w = word_at(off / 8, seed);

			memcpy(word, &w, 8);
			n = 8;
		} else {
			n = piece_at(word, len - done, off, seed);
		}
		if (memcmp(p + done, word, n) != 0)
			return (long)done + first_difference(p + done, word, n);
	}
	return -1;
}

uint64_t pattern_sum(uint64_t sum, const void *buf, size_t len)
{
	const unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		sum = (sum ^ p[i]) * 0x100000001b3ull;
	return sum;
}

uint32_t pattern_rand(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}
