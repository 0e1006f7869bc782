/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sendfile, splice, tee, copy_file_range on a connection. */
#include "conform.h"

#include <linux/errqueue.h>
#include <netinet/in.h>

#include <sys/mman.h>
#include <sys/sendfile.h>

#include "tests/lib/pattern.h"

enum { FILE_SIZE = 3000000 };

static int file_new(struct role *r, size_t size)
{
	int fd = (int)MUST(r, memfd_create("file", MFD_CLOEXEC));
	unsigned char buf[4096];
	size_t done, n;

	for (done = 0; done < size; done += n) {
		n = size - done < sizeof(buf) ? size - done : sizeof(buf);
		pattern_fill(buf, n, done, SEED_CLIENT);
		MUST(r, write(fd, buf, n));
	}
	MUST(r, lseek(fd, 0, SEEK_SET));
	return fd;
}

static void whole_file(struct role *r)
{
	size_t done = 0;
	ssize_t n = 1;
	int file;

	conn_open(r);
	CLIENT(r) {
		file = file_new(r, FILE_SIZE);
		while (done < FILE_SIZE && n > 0) {
			n = sendfile(r->c, file, NULL, FILE_SIZE - done);
			done += n > 0 ? (size_t)n : 0;
		}
		TRY(r, FILE_SIZE, done);
		TRY(r, FILE_SIZE, lseek(file, 0, SEEK_CUR));
		TRY(r, 0, sendfile(r->c, file, NULL, 100));
		TRY(r, 0, close(file));
	}
	SERVER(r)
		bulk_read(r, r->s, FILE_SIZE, SEED_CLIENT);
	conn_close(r);
}

static void with_offset(struct role *r)
{
	unsigned char buf[64];
	off_t off = 1000;
	int file;

	conn_open(r);
	CLIENT(r) {
		file = file_new(r, 2000);
		TRY(r, 20, sendfile(r->c, file, &off, 20));
		TRY(r, 1020, off);
		TRY(r, 0, lseek(file, 0, SEEK_CUR));
		off = 1990;
		TRY(r, 10, sendfile(r->c, file, &off, 1000));	/* past the end */
		TRY(r, 2000, off);
		TRY(r, 0, sendfile(r->c, file, &off, 1000));
		TRY(r, 0, sendfile(r->c, file, NULL, 0));
		off = -1;
		TRY(r, -EINVAL, sendfile(r->c, file, &off, 10));
		TRY(r, -EBADF, sendfile(r->c, 999, NULL, 10));
		TRY(r, 0, close(file));
	}
	SERVER(r) {
		TRY(r, 30, recv(r->s, buf, 30, MSG_WAITALL));
		TRY(r, -1, pattern_check(buf, 20, 1000, SEED_CLIENT));
		TRY(r, -1, pattern_check(buf + 20, 10, 1990, SEED_CLIENT));
	}
	conn_close(r);
}

/* Header by send(MSG_MORE), body by sendfile: in that order. */
static void after_header(struct role *r)
{
	unsigned char buf[600];
	int file;

	conn_open(r);
	CLIENT(r) {
		file = file_new(r, 500);
		TRY(r, 6, send(r->c, "HEADER", 6, MSG_MORE));
		TRY(r, 500, sendfile(r->c, file, NULL, 500));
		TRY(r, 7, send(r->c, "TRAILER", 7, 0));
		TRY(r, 0, close(file));
	}
	SERVER(r) {
		TRY(r, 513, recv(r->s, buf, 513, MSG_WAITALL));
		CHECK(r, memcmp(buf, "HEADER", 6) == 0 && memcmp(buf + 506, "TRAILER", 7) == 0);
		TRY(r, -1, pattern_check(buf + 6, 500, 0, SEED_CLIENT));
	}
	conn_close(r);
}

static void nonblocking(struct role *r)
{
	size_t total = 32 << 20;
	off_t off = 0;
	ssize_t n;
	int file;

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		file = (int)MUST(r, memfd_create("zeros", MFD_CLOEXEC));
		MUST(r, ftruncate(file, (off_t)total));
		while ((n = sendfile(r->c, file, &off, total - (size_t)off)) > 0)
			;
		CHECK(r, n == -1 && errno == EAGAIN && off >= 65536 && off < (off_t)total);
		tell(r, off);
		TRY(r, 0, close(file));
	}
	SERVER(r) {
		static unsigned char buf[65536];
		long left = r->client ? (long)off : hear(r);

		while (left > 0 && (n = recv(r->s, buf, sizeof(buf), MSG_DONTWAIT)) != 0) {
			if (n > 0)
				left -= n;
			else if (!event_await(r->s, POLLIN))
				break;
		}
		TRY(r, 0, left);
	}
	conn_close(r);
}

static void splice_out(struct role *r)
{
	unsigned char buf[64];
	int p[2];

	conn_open(r);
	CLIENT(r) {
		MUST(r, pipe2(p, O_CLOEXEC));
		pattern_fill(buf, 64, 0, SEED_CLIENT);
		MUST(r, write(p[1], buf, 64));
		TRY(r, 40, splice(p[0], NULL, r->c, NULL, 40, SPLICE_F_MORE));
		TRY(r, 24, splice(p[0], NULL, r->c, NULL, 64, 0));
		TRY(r, -EAGAIN, splice(p[0], NULL, r->c, NULL, 64, SPLICE_F_NONBLOCK));
		TRY(r, 0, close(p[1]));
		TRY(r, 0, splice(p[0], NULL, r->c, NULL, 64, 0));
		TRY(r, 0, close(p[0]));
	}
	SERVER(r) {
		TRY(r, 64, recv(r->s, buf, 64, MSG_WAITALL));
		TRY(r, -1, pattern_check(buf, 64, 0, SEED_CLIENT));
	}
	conn_close(r);
}

static void splice_in(struct role *r)
{
	unsigned char buf[64];
	loff_t off = 0;
	int p[2];

	conn_open(r);
	CLIENT(r) {
		pattern_fill(buf, 64, 0, SEED_CLIENT);
		TRY(r, 64, send(r->c, buf, 64, 0));
	}
	SERVER(r) {
		MUST(r, pipe2(p, O_CLOEXEC));
		TRY(r, 64, readable_await(r->s, 64));
		TRY(r, 10, splice(r->s, NULL, p[1], NULL, 10, 0));
		TRY(r, -EINVAL, splice(r->s, &off, p[1], NULL, 10, 0));
		TRY(r, 4, recv(r->s, buf + 10, 4, 0));
		TRY(r, 50, splice(r->s, NULL, p[1], NULL, 1000, 0));
		/* SPLICE_F_NONBLOCK is about the pipe: a blocking socket blocks */
		nonblock_set(r, r->s);
		TRY(r, -EAGAIN, splice(r->s, NULL, p[1], NULL, 10, 0));
		MUST(r, fcntl(r->s, F_SETFL, O_RDWR));
		TRY(r, 10, read(p[0], buf, 10));
		TRY(r, 50, read(p[0], buf + 14, 50));
		TRY(r, -1, pattern_check(buf, 64, 0, SEED_CLIENT));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	SERVER(r) {
		TRY(r, 0, splice(r->s, NULL, p[1], NULL, 10, 0));
		MUST(r, close(p[0]));
		MUST(r, close(p[1]));
	}
	conn_close(r);
}

/* A proxy by splice: 4 MB through a pipe, both fds kernel sockets. */
static void splice_bulk(struct role *r)
{
	size_t left = 4 << 20;
	ssize_t n, k;
	int p[2];

	conn_open(r);
	CLIENT(r) {
		bulk_write(r, r->c, 4 << 20, SEED_CLIENT);
		bulk_read(r, r->c, 4 << 20, SEED_CLIENT);
	}
	SERVER(r) {
		int file = (int)MUST(r, memfd_create("store", MFD_CLOEXEC));

		MUST(r, pipe2(p, O_CLOEXEC));
		while (left > 0 && (n = splice(r->s, NULL, p[1], NULL, left, SPLICE_F_MOVE)) > 0)
			for (left -= (size_t)n; n > 0; n -= k)
				k = MUST(r, splice(p[0], NULL, file, NULL, (size_t)n, 0));
		TRY(r, 0, left);
		MUST(r, lseek(file, 0, SEEK_SET));
		for (left = 4 << 20; left > 0; left -= (size_t)n)
			n = MUST(r, sendfile(r->s, file, NULL, left));
		MUST(r, close(file));
		MUST(r, close(p[0]));
		MUST(r, close(p[1]));
	}
	conn_close(r);
}

/* What was sent without a copy is told on the error queue. */
static void zero_copy(struct role *r)
{
	static char buf[200000], in[sizeof(buf)], ctl[256];
	struct msghdr m = { .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	struct sock_extended_err e = { .ee_origin = SO_EE_ORIGIN_NONE };
	int one = 1, i;

	conn_open(r);
	CLIENT(r) {
		memset(buf, 'z', sizeof(buf));
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
		CHECK(r, send(r->c, buf, sizeof(buf), MSG_ZEROCOPY) == sizeof(buf));
	}
	SERVER(r) {
		CHECK(r, recv_all(r->s, in, sizeof(in)) == sizeof(in));
		CHECK(r, memchr(in, 0, sizeof(in)) == NULL);
	}
	meet(r);
	CLIENT(r) {
		for (i = 0; i < 500 && recvmsg(r->c, &m, MSG_ERRQUEUE) < 0; i++)
			poll(NULL, 0, 10);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		CHECK(r, c != NULL && ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
					(c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)));
		if (c)
			memcpy(&e, CMSG_DATA(c), sizeof(e));
		CHECK(r, e.ee_origin == SO_EE_ORIGIN_ZEROCOPY && e.ee_info == 0);
	}
	conn_close(r);
}

/* Pages of a program's into a pipe, and from there into the connection. */
static void vmsplice_out(struct role *r)
{
	static char page[4096] __attribute__((aligned(4096))), in[4096];
	struct iovec v = { .iov_base = page, .iov_len = sizeof(page) };
	int p[2];

	conn_open(r);
	CLIENT(r) {
		memset(page, 'v', sizeof(page));
		MUST(r, pipe2(p, O_CLOEXEC));
		TRY(r, -EBADF, vmsplice(r->c, &v, 1, 0));
		TRY(r, 4096, vmsplice(p[1], &v, 1, 0));
		TRY(r, 4096, splice(p[0], NULL, r->c, NULL, 4096, 0));
		MUST(r, close(p[0]));
		MUST(r, close(p[1]));
	}
	SERVER(r) {
		TRY(r, 4096, recv_all(r->s, in, sizeof(in)));
		CHECK(r, in[0] == 'v' && in[4095] == 'v');
	}
	conn_close(r);
}

static void not_possible(struct role *r)
{
	int file;

	conn_open(r);
	CLIENT(r) {
		file = file_new(r, 100);
		TRY(r, -EINVAL, copy_file_range(file, NULL, r->c, NULL, 10, 0));
		TRY(r, -EINVAL, tee(r->c, r->c, 10, 0));
		TRY(r, -EINVAL, splice(r->c, NULL, r->c, NULL, 10, 0));
		SHOW(r, sendfile(file, r->c, NULL, 10));
		TRY(r, -EINVAL, ftruncate(r->c, 0));
		TRY(r, -EINVAL, fsync(r->c));
		TRY(r, 0, close(file));
	}
	conn_close(r);
}

const struct conf_case sendfile_cases[] = {
	{ "sendfile-whole", whole_file, TOGETHER },
	{ "sendfile-offset", with_offset, 0 },
	{ "sendfile-after-header", after_header, 0 },
	{ "sendfile-nonblocking", nonblocking, WAIT_POLL },
	{ "splice-out", splice_out, 0 },
	{ "splice-in", splice_in, 0 },
	{ "splice-bulk", splice_bulk, TOGETHER },
	{ "splice-vmsplice", vmsplice_out, 0 },
	{ "splice-zero-copy", zero_copy, TOGETHER },
	{ "splice-not-possible", not_possible, 0 },
	{ NULL, NULL, 0 }
};
