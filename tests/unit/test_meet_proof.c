/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_proof.c - SHA-256, HMAC, prefixes, proofs, key files */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meet/proof.h"

/* The portable half under other names, to hold it against the instructions. */
#define SHA256_PORTABLE 1
#define sha256		portable
#define sha256_init	portable_init
#define sha256_add	portable_add
#define sha256_end	portable_end
#define hmac_sha256	portable_hmac
#define hmac_sha256_init portable_hmac_init
#define hmac_sha256_add	portable_hmac_add
#define hmac_sha256_end	portable_hmac_end
#undef BASE_SHA256_H
#include "base/sha256.c"
#undef sha256
#undef sha256_init
#undef sha256_add
#undef sha256_end
#undef hmac_sha256
#undef hmac_sha256_init
#undef hmac_sha256_add
#undef hmac_sha256_end

static void unhex(const char *hex, uint8_t *out)
{
	for (; *hex; hex += 2) {
		unsigned v;

		assert_int_equal(sscanf(hex, "%2x", &v), 1);
		*out++ = (uint8_t)v;
	}
}

static uint8_t filler(size_t i)
{
	return (uint8_t)(i * 131 + i / 256 * 7 + 3);
}

/* FIPS 180-4 examples, and the million letters of its predecessor */
static const struct {
	const char *text;
	unsigned repeat;
	const char *hex;
} sha_cases[] = {
	{ "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu", 1,
	  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	{ "aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
};

static void sha256_vectors(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sha_cases); i++) {
		uint8_t want[32], got[32];
		struct sha256 s;
		struct portable c;

		unhex(sha_cases[i].hex, want);
		sha256_init(&s);
		portable_init(&c);
		for (unsigned r = 0; r < sha_cases[i].repeat; r++) {
			sha256_add(&s, sha_cases[i].text, strlen(sha_cases[i].text));
			portable_add(&c, sha_cases[i].text, strlen(sha_cases[i].text));
		}
		sha256_end(&s, got);
		assert_memory_equal(got, want, 32);
		portable_end(&c, got);
		assert_memory_equal(got, want, 32);
	}
}

/* Every length around the block edges, in one piece and in two: all four agree. */
static void sha256_pieces_and_portable_agree(void **state)
{
	uint8_t data[300], one[32], two[32], c[32];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = filler(i);
	for (size_t n = 0; n <= sizeof(data); n++) {
		sha256(data, n, one);
		portable(data, n, c);
		assert_memory_equal(one, c, 32);
		for (size_t cut = 0; cut <= n; cut += 7) {
			struct sha256 s;

			sha256_init(&s);
			sha256_add(&s, data, cut);
			sha256_add(&s, data + cut, n - cut);
			sha256_end(&s, two);
			assert_memory_equal(one, two, 32);
		}
	}
}

/* RFC 4231, test cases 1 to 4, 6 and 7 */
static const struct {
	const char *key;
	unsigned key_repeat;
	const char *data;
	unsigned data_repeat;
	const char *hex;
} hmac_cases[] = {
	{ "\x0b", 20, "Hi There", 1, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
	{ "Jefe", 1, "what do ya want for nothing?", 1,
	  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
	{ "\xaa", 20, "\xdd", 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
	{ "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19",
	  1, "\xcd", 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
	{ "\xaa", 131, "Test Using Larger Than Block-Size Key - Hash Key First", 1,
	  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	{ "\xaa", 131, "This is a test using a larger than block-size key and a larger than block-size data. "
	  "The key needs to be hashed before being used by the HMAC algorithm.", 1,
	  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
};

static void hmac_vectors(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(hmac_cases); i++) {
		uint8_t key[200], want[32], got[32];
		size_t unit = strlen(hmac_cases[i].key), len = 0;
		struct hmac_sha256 h;

		for (unsigned r = 0; r < hmac_cases[i].key_repeat; r++, len += unit)
			memcpy(key + len, hmac_cases[i].key, unit);
		unhex(hmac_cases[i].hex, want);
		hmac_sha256_init(&h, key, len);
		for (unsigned r = 0; r < hmac_cases[i].data_repeat; r++)
			hmac_sha256_add(&h, hmac_cases[i].data, strlen(hmac_cases[i].data));
		hmac_sha256_end(&h, got);
		assert_memory_equal(got, want, 32);
	}
}

/* ---- prefixes ---- */

struct counting_pool {
	size_t bytes;			/* out at the moment */
	unsigned gets;
	unsigned fail_at;		/* this get fails, 0: none */
};

static void *pool_get(void *arg, size_t bytes)
{
	struct counting_pool *c = arg;

	assert_true(bytes == PREFIX_SMALL || bytes == PREFIX_BYTES);
	if (++c->gets == c->fail_at)
		return NULL;
	c->bytes += bytes;
	return malloc(bytes);
}

static void pool_put(void *arg, void *p, size_t bytes)
{
	struct counting_pool *c = arg;

	c->bytes -= bytes;
	free(p);
}

static uint8_t stream[10000];

static void make_stream(void)
{
	for (size_t i = 0; i < sizeof(stream); i++)
		stream[i] = filler(i);
}

static void prefix_keeps_raw_bytes_then_a_digest(void **state)
{
	struct counting_pool c = { 0 };
	struct prefix_pool pool = { &c, pool_get, pool_put };
	struct prefix p = { 0 };
	uint8_t want[32], got[32];

	make_stream();
	assert_int_equal(prefix_digest(&p, 0, got), 0);
	assert_int_equal(prefix_digest(&p, 1, got), -EAGAIN);
	prefix_add(&p, &pool, stream, 100, 0);
	assert_int_equal(c.bytes, PREFIX_SMALL);
	prefix_add(&p, &pool, stream + 100, 500, 100);
	assert_int_equal(c.bytes, PREFIX_BYTES);
	for (size_t len = 0; len <= 600; len += 50) {
		assert_int_equal(prefix_digest(&p, len, got), 0);
		sha256(stream, len, want);
		assert_memory_equal(got, want, 32);
	}
	assert_int_equal(prefix_digest(&p, 601, got), -EAGAIN);
	prefix_add(&p, &pool, stream + 600, 9000, 600);
	assert_int_equal(c.bytes, 0);
	assert_int_equal(prefix_digest(&p, 600, got), -ENODATA);
	assert_int_equal(prefix_digest(&p, 4096, got), 0);
	sha256(stream, 4096, want);
	assert_memory_equal(got, want, 32);
	assert_int_equal(prefix_digest(&p, 4097, got), -EINVAL);
	prefix_add(&p, &pool, stream, 10, 9600);
	assert_int_equal(c.gets, 2);
	prefix_fini(&p, &pool);
	assert_int_equal(prefix_digest(&p, 4096, got), 0);
}

/* However the stream is cut, the digest of 4096 is the same and nothing leaks. */
static void prefix_any_cut(void **state)
{
	static const size_t cuts[] = { 1, 3, 64, 511, 512, 513, 1000, 4095, 4096, 4097, 9999 };
	uint8_t want[32], got[32];

	make_stream();
	sha256(stream, 4096, want);
	for (size_t k = 0; k < ARRAY_SIZE(cuts); k++) {
		struct counting_pool c = { 0 };
		struct prefix_pool pool = { &c, pool_get, pool_put };
		struct prefix p;

		prefix_init(&p);
		for (size_t at = 0; at < sizeof(stream); at += cuts[k])
			prefix_add(&p, &pool, stream + at, MIN(cuts[k], sizeof(stream) - at), at);
		assert_int_equal(prefix_digest(&p, 4096, got), 0);
		assert_memory_equal(got, want, 32);
		assert_int_equal(c.bytes, 0);
		assert_true(c.gets <= 2);
	}
}

static void prefix_gap_or_no_memory_is_lost(void **state)
{
	for (unsigned fail_at = 0; fail_at <= 2; fail_at++) {
		struct counting_pool c = { .fail_at = fail_at };
		struct prefix_pool pool = { &c, pool_get, pool_put };
		struct prefix p = { 0 };
		uint8_t got[32];

		prefix_add(&p, &pool, stream, 100, 0);
		prefix_add(&p, &pool, stream, 0, 77);	/* nothing is no gap */
		assert_int_equal(prefix_digest(&p, 100, got), fail_at == 1 ? -ENODATA : 0);
		/* the second get, or one byte too few */
		prefix_add(&p, &pool, stream, 1000, fail_at ? 100 : 101);
		assert_int_equal(p.state, PREFIX_LOST);
		assert_int_equal(prefix_digest(&p, 50, got), -ENODATA);
		assert_int_equal(c.bytes, 0);
		prefix_add(&p, &pool, stream, 5000, 0);
		assert_int_equal(prefix_digest(&p, 4096, got), -ENODATA);
	}
}

static void prefix_fini_gives_the_buffer_back(void **state)
{
	struct counting_pool c = { 0 };
	struct prefix_pool pool = { &c, pool_get, pool_put };
	struct prefix p = { 0 };

	prefix_add(&p, &pool, stream, 10, 0);
	prefix_fini(&p, &pool);
	prefix_fini(&p, &pool);
	assert_int_equal(c.bytes, 0);
	assert_int_equal(p.state, PREFIX_LOST);
}

/* What a direction leaves, the next one has: a small buffer, and no byte of it counts. */
static void prefix_keep_hands_on_a_small_buffer(void **state)
{
	static const size_t first[] = { 0, 10, PREFIX_SMALL, PREFIX_SMALL + 1, PREFIX_BYTES, 9999 };
	uint8_t want[32], got[32];

	make_stream();
	sha256(stream, 4096, want);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		struct counting_pool c = { 0 };
		struct prefix_pool pool = { &c, pool_get, pool_put };
		struct prefix p = { 0 };
		bool small = first[i] && first[i] <= PREFIX_SMALL;

		prefix_add(&p, &pool, stream, first[i], 0);
		prefix_keep(&p, &pool);
		assert_int_equal(c.bytes, small ? PREFIX_SMALL : 0);
		assert_int_equal(p.state, PREFIX_RAW);
		assert_int_equal(prefix_digest(&p, 1, got), -EAGAIN);
		c.gets = 0;
		prefix_add(&p, &pool, stream, 7, 0);
		assert_int_equal(c.gets, small ? 0 : 1);
		assert_int_equal(prefix_digest(&p, 7, got), 0);
		prefix_keep(&p, &pool);
		prefix_add(&p, &pool, stream, 9000, 0);	/* a whole prefix needs no buffer */
		assert_int_equal(prefix_digest(&p, 4096, got), 0);
		assert_memory_equal(got, want, 32);
		assert_int_equal(c.bytes, 0);
	}
}

/* ---- proofs ---- */

static struct proof_input sample(void)
{
	struct proof_input in;

	memset(&in, 0, sizeof(in));
	in.role = PROOF_BIND;
	memset(in.nonce_a, 0xa1, sizeof(in.nonce_a));
	memset(in.nonce_b, 0xb2, sizeof(in.nonce_b));
	in.count_ab = 5000;
	in.count_ba = 77;
	memset(in.digest_ab, 1, 32);
	memset(in.digest_ba, 2, 32);
	in.tuple.family = AF_INET;
	in.tuple.lport = 40000;
	in.tuple.rport = 6379;
	in.tuple.laddr[0] = in.tuple.raddr[0] = 127;
	return in;
}

/* The documented byte layout, hashed by hand. */
static void proof_layout(void **state)
{
	struct proof_input in = sample();
	uint8_t m[16 + 1 + 32 + 16 + 64 + 1 + 4 + 32], *p = m, want[32], got[32];
	struct hmac_sha256 h;

	memset(m, 0, sizeof(m));
	memcpy(p, "sidestep proof 1", 16);
	p += 16;
	*p++ = 1;
	memset(p, 0xa1, 16);
	memset(p + 16, 0xb2, 16);
	p += 32;
	p[0] = 5000 & 255;
	p[1] = 5000 >> 8;
	p[8] = 77;
	p += 16;
	memset(p, 1, 32);
	memset(p + 32, 2, 32);
	p += 64;
	*p++ = 4;
	p[0] = 40000 & 255;
	p[1] = 40000 >> 8;
	p[2] = 6379 & 255;
	p[3] = 6379 >> 8;
	p[4] = p[20] = 127;
	hmac_sha256_init(&h, "key", 3);
	hmac_sha256_add(&h, m, sizeof(m));
	hmac_sha256_end(&h, want);
	proof_make("key", 3, &in, got);
	assert_memory_equal(got, want, 32);
}

static void proof_depends_on_everything(void **state)
{
	struct proof_input base = sample(), in[12];
	uint8_t first[32], other[32];

	proof_make(NULL, 0, &base, first);
	for (unsigned i = 0; i < ARRAY_SIZE(in); i++)
		in[i] = base;
	in[0].role = PROOF_BOUND;
	in[1].nonce_a[15] ^= 1;
	in[2].nonce_b[0] ^= 1;
	in[3].count_ab++;
	in[4].count_ba ^= 1ull << 63;
	in[5].digest_ab[31] ^= 0x80;
	in[6].digest_ba[0] ^= 1;
	in[7].tuple.family = AF_INET6;
	in[8].tuple.lport++;
	in[9].tuple.rport--;
	in[10].tuple.laddr[3] ^= 1;
	in[11].tuple.raddr[15] ^= 1;
	for (unsigned i = 0; i < ARRAY_SIZE(in); i++) {
		proof_make(NULL, 0, &in[i], other);
		assert_false(proof_equal(first, other));
	}
	proof_make("k", 1, &base, other);
	assert_false(proof_equal(first, other));
	base.tuple.scope = 7;		/* a number of one host only */
	proof_make(NULL, 0, &base, other);
	assert_true(proof_equal(first, other));
}

static void proof_equal_sees_every_bit(void **state)
{
	uint8_t a[32] = { 0 }, b[32];

	for (unsigned bit = 0; bit < 256; bit++) {
		memcpy(b, a, sizeof(b));
		assert_true(proof_equal(a, b));
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(proof_equal(a, b));
	}
}

/* ---- key files ---- */

static char key_path[] = "/tmp/test_meet_key.XXXXXX";

static void key_write(size_t n, mode_t mode)
{
	int fd = open(key_path, O_WRONLY | O_TRUNC);
	char buf[5000];

	memset(buf, 'k', sizeof(buf));
	assert_int_equal(write(fd, buf, n), (ssize_t)n);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void key_files(void **state)
{
	static const struct {
		size_t n;
		mode_t mode;
		int ret;
	} cases[] = {
		{ 1, 0600, 0 }, { 4096, 0640, 0 }, { 4097, 0600, -EFBIG }, { 0, 0600, -ENODATA },
		{ 32, 0644, -EPERM }, { 32, 0602, -EPERM }, { 32, 0601, -EPERM },
	};
	uint8_t key[PROOF_KEY_BYTES], want[32];
	char text[4096];
	size_t len;
	int fd = mkstemp(key_path);

	assert_true(fd >= 0);
	close(fd);
	memset(text, 'k', sizeof(text));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		key_write(cases[i].n, cases[i].mode);
		assert_int_equal(proof_load_key(key_path, key, &len), cases[i].ret);
		assert_int_equal(len, cases[i].ret ? 0 : PROOF_KEY_BYTES);
		if (cases[i].ret)
			continue;
		sha256(text, cases[i].n, want);
		assert_memory_equal(key, want, 32);
	}
	unlink(key_path);
	assert_int_equal(proof_load_key(key_path, key, &len), -ENOENT);
	assert_int_equal(mkfifo(key_path, 0600), 0);
	assert_int_equal(proof_load_key(key_path, key, &len), -EINVAL);	/* and does not hang */
	unlink(key_path);
	assert_int_equal(proof_load_key("/proc/self", key, &len), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sha256_vectors),
		cmocka_unit_test(sha256_pieces_and_portable_agree),
		cmocka_unit_test(hmac_vectors),
		cmocka_unit_test(prefix_keeps_raw_bytes_then_a_digest),
		cmocka_unit_test(prefix_any_cut),
		cmocka_unit_test(prefix_gap_or_no_memory_is_lost),
		cmocka_unit_test(prefix_fini_gives_the_buffer_back),
		cmocka_unit_test(prefix_keep_hands_on_a_small_buffer),
		cmocka_unit_test(proof_layout),
		cmocka_unit_test(proof_depends_on_everything),
		cmocka_unit_test(proof_equal_sees_every_bit),
		cmocka_unit_test(key_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
