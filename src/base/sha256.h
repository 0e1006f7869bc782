/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104) */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES	32
#define SHA256_BLOCK	64

struct sha256 {
	uint32_t h[8];
	uint64_t len;			/* bytes so far */
	uint8_t buf[SHA256_BLOCK];	/* len % SHA256_BLOCK of them */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);
void sha256(const void *p, size_t n, uint8_t out[SHA256_BYTES]);

struct hmac_sha256 {
	struct sha256 inner, outer;
};

void hmac_sha256_init(struct hmac_sha256 *h, const void *key, size_t keylen);
void hmac_sha256_add(struct hmac_sha256 *h, const void *p, size_t n);
void hmac_sha256_end(struct hmac_sha256 *h, uint8_t out[SHA256_BYTES]);

#endif
