/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proof.h - who has not seen the stream cannot answer
 *
 * A struct prefix keeps what is needed of the first PREFIX_BYTES cold bytes of
 * one direction; a proof is an HMAC over two nonces, two byte counts and the
 * digests of two prefixes.
 *
 * Locking: prefix_*() of one prefix are serialised by the caller (the lock of
 * the direction); the pool's functions are called under that lock and must not
 * block.  Everything else is pure.
 */
#ifndef MEET_PROOF_H
#define MEET_PROOF_H

#include "base/sha256.h"
#include "base/util.h"
#include "meet/meet.h"

#define PREFIX_BYTES	4096
#define PREFIX_SMALL	512

/* Where raw bytes are kept: sizes are PREFIX_SMALL and PREFIX_BYTES only. */
struct prefix_pool {
	void *arg;
	void *(*get)(void *arg, size_t bytes);	/* NULL: none left */
	void (*put)(void *arg, void *p, size_t bytes);
};

enum prefix_state {
	PREFIX_RAW,	/* fewer than PREFIX_BYTES seen, all in buf */
	PREFIX_FULL,	/* PREFIX_BYTES seen; digest[] is theirs, buf is gone */
	PREFIX_LOST	/* a gap, or no memory: nothing can be proven */
};

struct prefix {
	uint8_t *buf;
	uint16_t size;			/* of buf: 0, PREFIX_SMALL or PREFIX_BYTES */
	uint16_t seen;			/* 0..PREFIX_BYTES */
	uint32_t state;			/* enum prefix_state */
	uint8_t digest[SHA256_BYTES];
};

/* All zero bytes are a good empty prefix too. */
void prefix_init(struct prefix *p);
/* Give the buffer back; what was not FULL is LOST. */
void prefix_fini(struct prefix *p, const struct prefix_pool *pool);
/* An empty prefix of another direction, which has a small buffer of this one at once. */
void prefix_keep(struct prefix *p, const struct prefix_pool *pool);

void prefix_add_slow(struct prefix *p, const struct prefix_pool *pool,
		     const void *data, size_t n, uint64_t pos);

/* n bytes at data went by, the first of them at offset pos of the direction. */
static inline void prefix_add(struct prefix *p, const struct prefix_pool *pool,
			      const void *data, size_t n, uint64_t pos)
{
	if (unlikely(p->state == PREFIX_RAW))
		prefix_add_slow(p, pool, data, n, pos);
}

/*
 * SHA-256 of the first len bytes, len <= PREFIX_BYTES.
 * Return: 0; -EAGAIN: not so many seen yet; -ENODATA: not kept; -EINVAL.
 */
int prefix_digest(const struct prefix *p, size_t len, uint8_t out[SHA256_BYTES]);

#define PROOF_NONCE_BYTES 16
#define PROOF_KEY_BYTES	 SHA256_BYTES

enum proof_role { PROOF_BIND = 1, PROOF_BOUND = 2 };

/*
 * a is the side that called connect(), b the accepting one, for both roles;
 * tuple is a's view.  The digests are of the first min(count, PREFIX_BYTES)
 * bytes of each direction.  key may be NULL with keylen 0.
 */
struct proof_input {
	enum proof_role role;
	uint8_t nonce_a[PROOF_NONCE_BYTES], nonce_b[PROOF_NONCE_BYTES];
	uint64_t count_ab, count_ba;
	uint8_t digest_ab[SHA256_BYTES], digest_ba[SHA256_BYTES];
	struct meet_tuple tuple;
};

void proof_make(const void *key, size_t keylen, const struct proof_input *in,
		uint8_t out[SHA256_BYTES]);
/* Takes the same time wherever the first difference is. */
bool proof_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

/*
 * Read SIDESTEP_KEY_FILE: a regular file of 1 to 4096 bytes to which others
 * have no access at all; all its bytes count, a last line feed too.
 * Return: 0 with key[] their SHA-256 and *len PROOF_KEY_BYTES; or -errno, the
 * reason logged (-EPERM: open to others, -EINVAL: no file, -EFBIG, -ENODATA).
 */
int proof_load_key(const char *path, uint8_t key[PROOF_KEY_BYTES], size_t *len);

#endif
