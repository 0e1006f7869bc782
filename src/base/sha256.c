/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sha256.c - see sha256.h
 *
 * Portable C, and the SHA instructions of x86-64 where the processor has them
 * (4 KiB in some 2 us instead of some 15: it is on a program's cold path).
 * No state but the caller's and one flag that can only be set to the same value.
 */
#define _GNU_SOURCE
#include "base/sha256.h"

#include <stdbool.h>
#include <string.h>

#include "base/atomic.h"
#include "base/util.h"

#if defined(__x86_64__) && !defined(SHA256_PORTABLE)
#define HAVE_SHA_X86 1
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k256[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t ror(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void put_be32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static void block_c(uint32_t h[8], const uint8_t *p)
{
	uint32_t w[64], v[8];

	for (int i = 0; i < 16; i++)
		w[i] = get_be32(p + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) +
		       (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
	}
	memcpy(v, h, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t e = v[4], a = v[0];
		uint32_t t1 = v[7] + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) +
			      ((e & v[5]) ^ (~e & v[6])) + k256[i] + w[i];
		uint32_t t2 = (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) +
			      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

#ifdef HAVE_SHA_X86
/* The instructions keep the eight words as (a b e f) and (c d g h). */
__attribute__((target("sha,sse4.1,ssse3")))
static void block_x86(uint32_t h[8], const uint8_t *p)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
	__m128i m[4], abcd, efgh, abef, cdgh, abef0, cdgh0;

	abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)h), 0xb1);
	efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(h + 4)), 0x1b);
	abef0 = abef = _mm_alignr_epi8(abcd, efgh, 8);
	cdgh0 = cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);

	for (int i = 0; i < 4; i++)
		m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), swap);
	for (int i = 0; i < 16; i++) {
		__m128i w = m[0], wk, next;

		wk = _mm_add_epi32(w, _mm_loadu_si128((const __m128i *)(const void *)(k256 + 4 * i)));
		cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
		abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
		/* the next four words of the schedule but twelve */
		next = _mm_add_epi32(_mm_sha256msg1_epu32(m[0], m[1]), _mm_alignr_epi8(m[3], m[2], 4));
		next = _mm_sha256msg2_epu32(next, m[3]);
		m[0] = m[1];
		m[1] = m[2];
		m[2] = m[3];
		m[3] = next;
	}
	abef = _mm_add_epi32(abef, abef0);
	cdgh = _mm_add_epi32(cdgh, cdgh0);
	abcd = _mm_shuffle_epi32(abef, 0x1b);
	efgh = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(abcd, efgh, 0xf0));
	_mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(efgh, abcd, 8));
}

static bool x86_has_sha(void)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
#endif

static void blocks(uint32_t h[8], const uint8_t *p, size_t n)
{
#ifdef HAVE_SHA_X86
	static int has;			/* 0: not asked yet, 1: no, 2: yes */

	if (unlikely(!ld_rlx(&has)))
		st_rlx(&has, x86_has_sha() ? 2 : 1);
	if (ld_rlx(&has) == 2) {
		for (; n; n--, p += SHA256_BLOCK)
			block_x86(h, p);
		return;
	}
#endif
	for (; n; n--, p += SHA256_BLOCK)
		block_c(h, p);
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t first[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};

	memcpy(s->h, first, sizeof(first));
	s->len = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t have = s->len % SHA256_BLOCK;

	s->len += n;
	if (have) {
		size_t take = MIN(n, SHA256_BLOCK - have);

		memcpy(s->buf + have, p, take);
		p += take;
		n -= take;
		if (have + take < SHA256_BLOCK)
			return;
		blocks(s->h, s->buf, 1);
	}
	blocks(s->h, p, n / SHA256_BLOCK);
	if (n % SHA256_BLOCK)
		memcpy(s->buf, p + n - n % SHA256_BLOCK, n % SHA256_BLOCK);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
	static const uint8_t pad[SHA256_BLOCK] = { 0x80 };
	uint64_t bits = s->len * 8;
	uint8_t tail[8];

	put_be32(tail, (uint32_t)(bits >> 32));
	put_be32(tail + 4, (uint32_t)bits);
	sha256_add(s, pad, 1 + (SHA256_BLOCK + 55 - s->len % SHA256_BLOCK) % SHA256_BLOCK);
	sha256_add(s, tail, 8);
	for (int i = 0; i < 8; i++)
		put_be32(out + 4 * i, s->h[i]);
}

void sha256(const void *p, size_t n, uint8_t out[SHA256_BYTES])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, out);
}

void hmac_sha256_init(struct hmac_sha256 *h, const void *key, size_t keylen)
{
	uint8_t k[SHA256_BLOCK] = { 0 };

	if (keylen > SHA256_BLOCK)
		sha256(key, keylen, k);
	else if (keylen)
		memcpy(k, key, keylen);
	for (int i = 0; i < SHA256_BLOCK; i++)
		k[i] ^= 0x36;
	sha256_init(&h->inner);
	sha256_add(&h->inner, k, sizeof(k));
	for (int i = 0; i < SHA256_BLOCK; i++)
		k[i] ^= 0x36 ^ 0x5c;
	sha256_init(&h->outer);
	sha256_add(&h->outer, k, sizeof(k));
	explicit_bzero(k, sizeof(k));
}

void hmac_sha256_add(struct hmac_sha256 *h, const void *p, size_t n)
{
	sha256_add(&h->inner, p, n);
}

void hmac_sha256_end(struct hmac_sha256 *h, uint8_t out[SHA256_BYTES])
{
	uint8_t mid[SHA256_BYTES];

	sha256_end(&h->inner, mid);
	sha256_add(&h->outer, mid, sizeof(mid));
	sha256_end(&h->outer, out);
	explicit_bzero(h, sizeof(*h));
}
