/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Vectors: readv, writev, sendmsg, recvmsg and their many forms. */
#include "conform.h"

#include <limits.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "tests/lib/pattern.h"

static struct iovec vec(const void *base, size_t len)
{
	return (struct iovec){ .iov_base = (void *)(uintptr_t)base, .iov_len = len };
}

static void writev_readv(struct role *r)
{
	char a[4] = "", b[8] = "";
	struct iovec out[] = { vec("abc", 3), vec("d", 1), vec("efgh", 4) };
	struct iovec in[] = { vec(a, 3), vec(b, 8) };

	conn_open(r);
	CLIENT(r)
		TRY(r, 8, writev(r->c, out, 3));
	SERVER(r) {
		TRY(r, 8, readable_await(r->s, 8));
		TRY(r, 8, readv(r->s, in, 2));
		CHECK(r, memcmp(a, "abc", 3) == 0 && memcmp(b, "defgh", 5) == 0);
	}
	conn_close(r);
}

static void null_and_empty(struct role *r)
{
	char buf[8] = "";
	struct iovec out[] = { vec(NULL, 0), vec("ab", 2), vec("", 0), vec(NULL, 0), vec("c", 1) };
	struct iovec in[] = { vec(NULL, 0), vec(buf, 1), vec(NULL, 0), vec(buf + 1, 7) };

	conn_open(r);
	CLIENT(r)
		TRY(r, 3, writev(r->c, out, 5));
	SERVER(r) {
		TRY(r, 3, readable_await(r->s, 3));
		TRY(r, 3, readv(r->s, in, 4));
		CHECK(r, memcmp(buf, "abc", 3) == 0);
	}
	conn_close(r);
}

static void zero_total(struct role *r)
{
	struct iovec none[] = { vec(NULL, 0), vec("", 0) };
	struct msghdr m = { .msg_iov = none, .msg_iovlen = 2 };

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, writev(r->c, none, 2));
		TRY(r, 0, writev(r->c, NULL, 0));
		TRY(r, 0, readv(r->c, none, 2));
		TRY(r, 0, readv(r->c, NULL, 0));
		TRY(r, 0, sendmsg(r->c, &m, 0));
		TRY(r, -EAGAIN, recvmsg(r->c, &m, MSG_DONTWAIT));
		m.msg_iovlen = 0;
		TRY(r, 0, sendmsg(r->c, &m, 0));
	}
	meet(r);
	SERVER(r)
		quiet_check(r, r->s, POLLIN);
	conn_close(r);
}

static void too_many(struct role *r)
{
	static char byte;
	struct iovec v[1025];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 1025 };
	volatile int minus = -1;
	int i;

	for (i = 0; i < 1025; i++)
		v[i] = vec(&byte, 1);
	conn_open(r);
	CLIENT(r) {
		TRY(r, -EINVAL, writev(r->c, v, 1025));
		TRY(r, -EINVAL, readv(r->c, v, 1025));
		TRY(r, -EINVAL, writev(r->c, v, minus));
		TRY(r, -EMSGSIZE, sendmsg(r->c, &m, 0));
		TRY(r, -EMSGSIZE, recvmsg(r->c, &m, MSG_DONTWAIT));
	}
	meet(r);
	SERVER(r)
		quiet_check(r, r->s, POLLIN);
	conn_close(r);
}

static void most_entries(struct role *r)
{
	unsigned char out[IOV_MAX * 3], in[sizeof(out)];
	struct iovec v[IOV_MAX];
	int i;

	conn_open(r);
	for (i = 0; i < IOV_MAX; i++)
		v[i] = vec(out + i * 3, 3);
	CLIENT(r) {
		pattern_fill(out, sizeof(out), 0, SEED_CLIENT);
		TRY(r, IOV_MAX * 3, writev(r->c, v, IOV_MAX));
	}
	SERVER(r) {
		for (i = 0; i < IOV_MAX; i++)
			v[i] = vec(in + i * 3, 3);
		TRY(r, IOV_MAX * 3, readable_await(r->s, sizeof(in)));
		TRY(r, IOV_MAX * 3, readv(r->s, v, IOV_MAX));
		TRY(r, -1, pattern_check(in, sizeof(in), 0, SEED_CLIENT));
	}
	conn_close(r);
}

static void bad_address(struct role *r)
{
	void *bad = bad_pointer();
	struct iovec v[] = { vec("ab", 2), vec(bad, 2) }, b = vec(bad, 2);
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		TRY(r, -EFAULT, writev(r->c, &b, 1));
		TRY(r, -EFAULT, writev(r->c, bad, 1));
		TRY(r, -EFAULT, write(r->c, bad, 2));
		TRY(r, -EFAULT, sendmsg(r->c, bad, 0));
		SHOW(r, writev(r->c, v, 2));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		SHOW(r, recv(r->s, buf, sizeof(buf), MSG_WAITALL));
		TRY(r, 3, send(r->s, "xyz", 3, 0));
	}
	CLIENT(r) {
		TRY(r, 3, readable_await(r->c, 3));
		TRY(r, -EFAULT, read(r->c, bad, 3));
		TRY(r, 3, read(r->c, buf, 8));
	}
	conn_close(r);
}

static void sendmsg_recvmsg(struct role *r)
{
	char a[3] = "", b[8] = "", control[128];
	struct iovec out[] = { vec("abc", 3), vec("def", 3) }, in[] = { vec(a, 2), vec(b, 8) };
	struct sockaddr_storage sa;
	struct msghdr m = { .msg_iov = out, .msg_iovlen = 2 };

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, sendmsg(r->c, &m, MSG_NOSIGNAL));
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		m = (struct msghdr){ .msg_iov = in, .msg_iovlen = 2, .msg_name = &sa,
				     .msg_namelen = sizeof(sa), .msg_control = control,
				     .msg_controllen = sizeof(control), .msg_flags = -1 };
		TRY(r, 6, recvmsg(r->s, &m, 0));
		CHECK(r, memcmp(a, "ab", 2) == 0 && memcmp(b, "cdef", 4) == 0);
		TRY(r, 0, m.msg_namelen);
		TRY(r, 0, m.msg_controllen);
		TRY(r, 0, m.msg_flags);
		TRY(r, -EAGAIN, recvmsg(r->s, &m, MSG_DONTWAIT));
	}
	conn_close(r);
}

static void recvmsg_flags(struct role *r)
{
	char buf[8] = "";
	struct iovec in = vec(buf, 4);
	struct msghdr m = { .msg_iov = &in, .msg_iovlen = 1 };

	conn_open(r);
	CLIENT(r)
		TRY(r, 8, send(r->c, "01234567", 8, 0));
	SERVER(r) {
		TRY(r, 8, readable_await(r->s, 8));
		TRY(r, 4, recvmsg(r->s, &m, MSG_PEEK));
		SHOW(r, m.msg_flags);
		TRY(r, 4, recvmsg(r->s, &m, MSG_TRUNC));
		SHOW(r, m.msg_flags);
		TRY(r, 4, recvmsg(r->s, &m, MSG_WAITALL));
		SHOW(r, m.msg_flags);
		CHECK(r, memcmp(buf, "4567", 4) == 0);
	}
	conn_close(r);
}

/* Ancillary data means nothing to TCP, but a malformed one is an error. */
static void control_out(struct role *r)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} c = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	struct iovec out = vec("ab", 2);
	struct msghdr m = { .msg_iov = &out, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = sizeof(c) };
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		SHOW(r, sendmsg(r->c, &m, 0));
		c.h.cmsg_len = 1;
		SHOW(r, sendmsg(r->c, &m, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r)
		SHOW(r, recv(r->s, buf, sizeof(buf), MSG_WAITALL));
	conn_close(r);
}

/* All numbers are taken from now on.  Return: the old limit. */
static rlim_t numbers_taken(struct role *r)
{
	struct rlimit rl;
	int lowest = (int)MUST(r, dup(0));

	MUST(r, close(lowest));
	MUST(r, getrlimit(RLIMIT_NOFILE, &rl));
	rlim_t old = rl.rlim_cur;
	rl.rlim_cur = (rlim_t)lowest;
	MUST(r, setrlimit(RLIMIT_NOFILE, &rl));
	return old;
}

static void numbers_back(struct role *r, rlim_t most)
{
	struct rlimit rl;

	MUST(r, getrlimit(RLIMIT_NOFILE, &rl));
	rl.rlim_cur = most;
	MUST(r, setrlimit(RLIMIT_NOFILE, &rl));
}

/* ... with room for descriptors, which do not come */
static long receive_beside(int fd)
{
	char data[8], control[256] __attribute__((aligned(8)));
	struct iovec v = vec(data, sizeof(data));
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };

	return recvmsg(fd, &m, 0);
}

/* The reset that waits on a local socket, where no number is free. */
static void local_reset(struct role *r)
{
	const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	int sv[2];

	conn_open(r);
	CLIENT(r)
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			MUST(r, socketpair(AF_UNIX, types[i], 0, sv));
			MUST(r, send(sv[0], "unread", 6, 0));
			MUST(r, send(sv[1], "ahead", 5, 0));
			MUST(r, close(sv[1]));
			rlim_t most = numbers_taken(r);
			SHOW(r, receive_beside(sv[0]));
			SHOW(r, receive_beside(sv[0]));
			SHOW(r, receive_beside(sv[0]));
			numbers_back(r, most);
			MUST(r, close(sv[0]));
		}
	conn_close(r);
}

/* What comes with messages is no descriptor: nobody has to make room for it. */
static void local_credentials(struct role *r)
{
	const int options[] = { SO_PASSCRED, SO_TIMESTAMP, SO_PASSSEC };
	int sv[2], on = 1;

	conn_open(r);
	CLIENT(r) {
		MUST(r, socketpair(AF_UNIX, SOCK_DGRAM, 0, sv));
		for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
			MUST(r, setsockopt(sv[0], SOL_SOCKET, options[i], &on, sizeof(on)));
		MUST(r, send(sv[1], "hello", 5, 0));
		int path = path_of(r->c);
		rlim_t most = numbers_taken(r);
		TRY(r, 5, receive_beside(sv[0]));
		numbers_back(r, most);
		CHECK(r, path_of(r->c) == path || getenv("SIDESTEP_FAULT"));
		MUST(r, close(sv[0]) | close(sv[1]));
	}
	conn_close(r);
}

static void sendmmsg_recvmmsg(struct role *r)
{
	char in[3][4] = { "" };
	struct iovec v[] = { vec("ab", 2), vec("cd", 2), vec("ef", 2) };
	struct iovec w[] = { vec(in[0], 2), vec(in[1], 2), vec(in[2], 4) };
	struct mmsghdr m[3] = { 0 };
	int i;

	conn_open(r);
	for (i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	CLIENT(r) {
		TRY(r, 3, sendmmsg(r->c, m, 3, 0));
		TRY(r, 2, m[2].msg_len);
	}
	SERVER(r) {
		for (i = 0; i < 3; i++)
			m[i].msg_hdr.msg_iov = &w[i];
		TRY(r, 6, readable_await(r->s, 6));
		TRY(r, 3, recvmmsg(r->s, m, 3, MSG_DONTWAIT, NULL));
		CHECK(r, memcmp(in[0], "ab", 2) == 0 && memcmp(in[2], "ef", 2) == 0);
		TRY(r, 2, m[0].msg_len);
		TRY(r, 2, m[2].msg_len);
		TRY(r, -EAGAIN, recvmmsg(r->s, m, 3, MSG_DONTWAIT, NULL));
	}
	conn_close(r);
}

static void recvmmsg_waitforone(struct role *r)
{
	char in[2][4];
	struct iovec w[] = { vec(in[0], 4), vec(in[1], 4) };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &w[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &w[1], .msg_iovlen = 1 } } };

	conn_open(r);
	CLIENT(r)
		TRY(r, 2, send(r->c, "ab", 2, 0));
	SERVER(r) {
		TRY(r, 2, readable_await(r->s, 2));
		TRY(r, 1, recvmmsg(r->s, m, 2, MSG_WAITFORONE, NULL));
		TRY(r, 2, m[0].msg_len);
	}
	conn_close(r);
}

static void offsets(struct role *r)
{
	char buf[8] = "";
	struct iovec out = vec("abcd", 4), in = vec(buf, 8);

	conn_open(r);
	CLIENT(r) {
		TRY(r, -ESPIPE, pwrite(r->c, "x", 1, 0));
		TRY(r, -ESPIPE, pwritev(r->c, &out, 1, 0));
		TRY(r, -ESPIPE, pwritev2(r->c, &out, 1, 0, 0));
		TRY(r, -ESPIPE, lseek(r->c, 0, SEEK_CUR));
		TRY(r, 4, pwritev2(r->c, &out, 1, -1, 0));
	}
	SERVER(r) {
		TRY(r, 4, readable_await(r->s, 4));
		TRY(r, -ESPIPE, pread(r->s, buf, 1, 0));
		TRY(r, -ESPIPE, preadv(r->s, &in, 1, 0));
		TRY(r, 4, preadv2(r->s, &in, 1, -1, 0));
		SHOW(r, preadv2(r->s, &in, 1, -1, RWF_NOWAIT));
	}
	conn_close(r);
}

/* Each flag of preadv2() and pwritev2(): this kernel takes it of a socket, or does not. */
static void rw_flags(struct role *r)
{
	static const int flags[] = { RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT, RWF_APPEND, 0x20,
				     0x30, 0x40, 0x80, 0x100, 1 << 20, RWF_NOWAIT | RWF_HIPRI };
	char in[8];
	struct iovec out = vec("abcd", 4), part = vec(in, 3), none = vec(in, 0);
	enum { N = sizeof(flags) / sizeof(flags[0]) };
	int i;

	conn_open(r);
	for (i = 0; i < 2 * N; i++) {		/* reads first: such a write may end what a read would find */
		CLIENT(r) {
			if (i >= N) {
				SHOW(r, pwritev2(r->c, &none, 1, -1, flags[i - N]));
				SHOW(r, pwritev2(r->c, &out, 1, -1, flags[i - N]));
			}
			TRY(r, 5, send(r->c, "efgh.", 5, 0));
		}
		SERVER(r) {
			TRY(r, 1, readable_await(r->s, 5) >= 5);
			if (i < N) {
				SHOW(r, preadv2(r->s, &none, 1, -1, flags[i]));
				SHOW(r, preadv2(r->s, &part, 1, -1, flags[i]));
			}
			for (in[0] = 0; in[0] != '.';)
				SHOW(r, recv(r->s, in, 1, 0));
		}
		meet(r);
	}
	conn_close(r);
}

/* The first words of a connection are many; it comes to a ring all the same. */
static void cold_entries(struct role *r)
{
	enum { ENTRIES = 40 };
	char out[ENTRIES], in[ENTRIES];
	struct iovec v[ENTRIES], w[ENTRIES];
	int i;

	for (i = 0; i < ENTRIES; i++) {
		out[i] = (char)('0' + i);
		v[i] = vec(out + i, 1);
		w[i] = vec(in + i, 1);
	}
	conn_open(r);
	CLIENT(r)
		TRY(r, ENTRIES, writev(r->c, v, ENTRIES));
	SERVER(r) {
		TRY(r, ENTRIES, readable_await(r->s, ENTRIES));
		TRY(r, ENTRIES, readv(r->s, w, ENTRIES));
		CHECK(r, memcmp(in, out, ENTRIES) == 0);
	}
	meet(r);
	conn_warm(r);
	conn_close(r);
}

/* More entries than go along the usual way, over what a splice() has sent back to the kernel. */
static void many_entries(struct role *r)
{
	enum { ENTRIES = 60, EACH = 50, ALL = ENTRIES * EACH };
	static __thread unsigned char out[40000], in[ALL];
	struct iovec v[ENTRIES + 1];
	int i, p[2];

	pattern_fill(out, sizeof(out), 0, SEED_SERVER);
	v[0] = vec(NULL, 0);
	for (i = 0; i < ENTRIES; i++)
		v[i + 1] = vec(in + i * EACH, EACH);
	conn_open(r);
	SERVER(r)
		TRY(r, 10, send(r->s, out, 10, 0));
	CLIENT(r) {
		TRY(r, 10, readable_await(r->c, 10));
		MUST(r, pipe(p));
		TRY(r, 3, splice(r->c, NULL, p[1], NULL, 3, 0));
		close(p[0]);
		close(p[1]);
	}
	meet(r);
	SERVER(r) {
		TRY(r, (long)sizeof(out) - 10, send(r->s, out + 10, sizeof(out) - 10, 0));
		drained_await(r->s);
	}
	meet(r);
	CLIENT(r) {
		struct msghdr h = { .msg_iov = v, .msg_iovlen = ENTRIES + 1 };

		for (i = 0; i < 8; i++) {
			memset(in, 0, ALL);
			TRY(r, ALL, i % 2 ? recvmsg(r->c, &h, MSG_DONTWAIT) : readv(r->c, v, ENTRIES + 1));
			CHECK(r, pattern_check(in, ALL, 3 + (unsigned)i * ALL, SEED_SERVER) < 0);
		}
		TRY(r, ALL, recvmsg(r->c, &h, MSG_PEEK));
		CHECK(r, pattern_check(in, ALL, 3 + (unsigned)i * ALL, SEED_SERVER) < 0);
	}
	conn_close(r);
}

/* Many pieces of odd lengths, long enough to wrap any ring several times. */
static void wrap(struct role *r)
{
	enum { PIECES = 37, ROUNDS = 60 };
	static unsigned char out[PIECES * 997], in[sizeof(out)];
	struct iovec v[PIECES];
	long wrong = 0;
	int i, round;

	conn_open(r);
	for (round = 0; round < ROUNDS; round++) {
		CLIENT(r) {
			pattern_fill(out, sizeof(out), (uint64_t)round * sizeof(out), 1);
			for (i = 0; i < PIECES; i++)
				v[i] = vec(out + i * 997, 997);
			wrong += writev(r->c, v, PIECES) != sizeof(out);
		}
		SERVER(r) {
			wrong += recv_all(r->s, in, sizeof(in)) != sizeof(in);
			wrong += pattern_check(in, sizeof(in), (uint64_t)round * sizeof(in), 1) >= 0;
		}
	}
	CHECK(r, wrong == 0);
	conn_close(r);
}

const struct conf_case iov_cases[] = {
	{ "iov-writev-readv", writev_readv, 0 },
	{ "iov-null-and-empty", null_and_empty, 0 },
	{ "iov-zero-total", zero_total, 0 },
	{ "iov-too-many", too_many, 0 },
	{ "iov-most-entries", most_entries, 0 },
	{ "iov-bad-address", bad_address, 0 },
	{ "iov-sendmsg-recvmsg", sendmsg_recvmsg, 0 },
	{ "iov-recvmsg-flags", recvmsg_flags, 0 },
	{ "iov-control-out", control_out, 0 },
	{ "iov-sendmmsg", sendmmsg_recvmmsg, 0 },
	{ "iov-local-reset", local_reset, PROCESS },
	{ "iov-local-credentials", local_credentials, PROCESS },
	{ "iov-recvmmsg-waitforone", recvmmsg_waitforone, 0 },
	{ "iov-offsets", offsets, 0 },
	{ "iov-rw-flags", rw_flags, 0 },
	{ "iov-cold-entries", cold_entries, COLD | WARMS },
	{ "iov-many-entries", many_entries, 0 },
	{ "iov-wrap", wrap, 0 },
	{ NULL, NULL, 0 }
};
