/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* proof.c - see proof.h */
#include "meet/proof.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/sys.h"

#define KEY_FILE_MAX 4096

void prefix_init(struct prefix *p)
{
	memset(p, 0, sizeof(*p));
}

static void drop_buf(struct prefix *p, const struct prefix_pool *pool)
{
	if (p->buf)
		pool->put(pool->arg, p->buf, p->size);
	p->buf = NULL;
	p->size = 0;
}

static void lose(struct prefix *p, const struct prefix_pool *pool)
{
	drop_buf(p, pool);
	p->state = PREFIX_LOST;
}

void prefix_fini(struct prefix *p, const struct prefix_pool *pool)
{
	if (p->state == PREFIX_RAW)
		lose(p, pool);
}

void prefix_keep(struct prefix *p, const struct prefix_pool *pool)
{
	struct prefix kept = { .buf = p->buf, .size = p->size };

	if (p->state != PREFIX_RAW || p->size != PREFIX_SMALL) {
		prefix_fini(p, pool);
		kept = (struct prefix){ 0 };
	}
	*p = kept;
}

/* Room for want bytes in all. */
static bool grow(struct prefix *p, const struct prefix_pool *pool, size_t want)
{
	uint16_t size = want <= PREFIX_SMALL ? PREFIX_SMALL : PREFIX_BYTES;
	uint8_t *buf;

	if (want <= p->size)
		return true;
	buf = pool->get(pool->arg, size);
	if (!buf)
		return false;
	if (p->seen)
		memcpy(buf, p->buf, p->seen);
	drop_buf(p, pool);
	p->buf = buf;
	p->size = size;
	return true;
}

void prefix_add_slow(struct prefix *p, const struct prefix_pool *pool,
		     const void *data, size_t n, uint64_t pos)
{
	size_t take = MIN(n, (size_t)(PREFIX_BYTES - p->seen));

	if (!n)
		return;
	/* the whole prefix in one piece needs no buffer */
	if (!p->seen && pos == 0 && take == PREFIX_BYTES) {
		sha256(data, take, p->digest);
		drop_buf(p, pool);
		p->seen = PREFIX_BYTES;
		p->state = PREFIX_FULL;
		return;
	}
	if (pos != p->seen || !grow(p, pool, p->seen + take)) {
		lose(p, pool);
		return;
	}
	memcpy(p->buf + p->seen, data, take);
	p->seen = (uint16_t)(p->seen + take);
	if (p->seen == PREFIX_BYTES) {
		sha256(p->buf, PREFIX_BYTES, p->digest);
		drop_buf(p, pool);
		p->state = PREFIX_FULL;
	}
}

int prefix_digest(const struct prefix *p, size_t len, uint8_t out[SHA256_BYTES])
{
	if (len > PREFIX_BYTES)
		return -EINVAL;
	if (len == 0) {
		sha256(NULL, 0, out);
		return 0;
	}
	if (p->state == PREFIX_LOST || (p->state == PREFIX_FULL && len != PREFIX_BYTES))
		return -ENODATA;
	if (len > p->seen)
		return -EAGAIN;
	if (p->state == PREFIX_FULL)
		memcpy(out, p->digest, SHA256_BYTES);
	else
		sha256(p->buf, len, out);
	return 0;
}

static void add_int(struct hmac_sha256 *h, uint64_t v, unsigned bytes)
{
	uint8_t le[8];

	for (unsigned i = 0; i < bytes; i++)
		le[i] = (uint8_t)(v >> 8 * i);
	hmac_sha256_add(h, le, bytes);
}

/* The scope stays out: it is a number of one host only. */
static void add_tuple(struct hmac_sha256 *h, const struct meet_tuple *t)
{
	add_int(h, t->family == AF_INET6 ? 6 : 4, 1);
	add_int(h, t->lport, 2);
	add_int(h, t->rport, 2);
	hmac_sha256_add(h, t->laddr, sizeof(t->laddr));
	hmac_sha256_add(h, t->raddr, sizeof(t->raddr));
}

/*
 * 16 bytes "sidestep proof 1", role (1), nonces a, b (16 each), counts ab, ba
 * (8 each, little-endian), digests ab, ba (32 each), family 4 or 6 (1), ports
 * of a and b (2 each, little-endian), addresses of a and b (16 each).
 */
void proof_make(const void *key, size_t keylen, const struct proof_input *in,
		uint8_t out[SHA256_BYTES])
{
	struct hmac_sha256 h;

	hmac_sha256_init(&h, key, keylen);
	hmac_sha256_add(&h, "sidestep proof 1", 16);
	add_int(&h, in->role, 1);
	hmac_sha256_add(&h, in->nonce_a, PROOF_NONCE_BYTES);
	hmac_sha256_add(&h, in->nonce_b, PROOF_NONCE_BYTES);
	add_int(&h, in->count_ab, 8);
	add_int(&h, in->count_ba, 8);
	hmac_sha256_add(&h, in->digest_ab, SHA256_BYTES);
	hmac_sha256_add(&h, in->digest_ba, SHA256_BYTES);
	add_tuple(&h, &in->tuple);
	hmac_sha256_end(&h, out);
}

bool proof_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
	volatile uint8_t diff = 0;

	for (size_t i = 0; i < SHA256_BYTES; i++)
		diff = (uint8_t)(diff | (a[i] ^ b[i]));
	return diff == 0;
}

static ssize_t read_whole(int fd, uint8_t *buf, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = sys_read(fd, buf + have, size - have);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return n;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

static int refuse(const char *path, const char *why, int err)
{
	log_error("key file %s: %s (error %d), using no key", path, why, -err);
	return err;
}

static int load_fd(int fd, const char *path, uint8_t key[PROOF_KEY_BYTES])
{
	uint8_t buf[KEY_FILE_MAX + 1];
	struct stat st;
	ssize_t n = sys2(SYS_fstat, fd, &st);

	if (n < 0)
		return refuse(path, "cannot be examined", (int)n);
	if (!S_ISREG(st.st_mode))
		return refuse(path, "not a regular file", -EINVAL);
	if (st.st_mode & S_IRWXO)
		return refuse(path, "open to others, want mode 0600 or 0640", -EPERM);
	n = read_whole(fd, buf, sizeof(buf));
	if (n > 0 && n <= KEY_FILE_MAX)
		sha256(buf, (size_t)n, key);
	explicit_bzero(buf, sizeof(buf));
	if (n < 0)
		return refuse(path, "cannot be read", (int)n);
	if (n == 0)
		return refuse(path, "empty", -ENODATA);
	if (n > KEY_FILE_MAX)
		return refuse(path, "longer than 4096 bytes", -EFBIG);
	return 0;
}

int proof_load_key(const char *path, uint8_t key[PROOF_KEY_BYTES], size_t *len)
{
	long fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	int ret;

	*len = 0;
	if (fd < 0)
		return refuse(path, "cannot be opened", (int)fd);
	ret = load_fd((int)fd, path, key);
	sys_close((int)fd);
	if (ret == 0)
		*len = PROOF_KEY_BYTES;
	return ret;
}
