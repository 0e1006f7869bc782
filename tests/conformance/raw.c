/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls that a preload library does not see, or sees under other names: raw
 * system calls from the first byte on, fortified and 64-bit aliases of libc.
 */
#include "conform.h"

#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/lib/pattern.h"

enum { ROUNDS = 200, SIZE = 300 };

enum raw {
	RAW_READ = 1,	/* server reads by system calls */
	RAW_WRITE = 2,	/* ... writes */
	RAW_POLL = 4,	/* ... waits by a raw poll, reads by libc */
	RAW_EPOLL = 8,	/* ... by a raw epoll_pwait */
};

static void raw_wait(struct role *r, int fd, int ep, unsigned int how)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event ev;

	if (how & RAW_POLL)
		MUST(r, syscall(SYS_ppoll, &p, 1, NULL, NULL, 0));
	if (how & RAW_EPOLL)
		MUST(r, syscall(SYS_epoll_pwait, ep, &ev, 1, -1, NULL, 0));
}

static void raw_serve(struct role *r, unsigned int how)
{
	unsigned char buf[SIZE];
	struct epoll_event ev = { .events = EPOLLIN };
	size_t done;
	ssize_t n;
	int i, ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));

	MUST(r, syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, r->s, &ev));
	if (how & (RAW_POLL | RAW_EPOLL))
		nonblock_set(r, r->s);
	for (i = 0; i < ROUNDS; i++) {
		for (done = 0; done < SIZE; done += n > 0 ? (size_t)n : 0) {
			raw_wait(r, r->s, ep, how);
			n = how & RAW_READ ? syscall(SYS_read, r->s, buf + done, SIZE - done)
					   : read(r->s, buf + done, SIZE - done);
			if (n == 0 || (n < 0 && errno != EAGAIN))
				give_up(r, "read");
		}
		n = how & RAW_WRITE ? syscall(SYS_sendto, r->s, buf, SIZE, 0, NULL, 0)
				    : send(r->s, buf, SIZE, 0);
		MUST(r, n);
	}
	MUST(r, close(ep));
}

static void raw_play(struct role *r, unsigned int how)
{
	unsigned char out[SIZE], in[SIZE];
	long wrong = 0;
	int i;

	conn_open(r);
	SERVER(r)
		raw_serve(r, how);
	CLIENT(r) {
		for (i = 0; i < ROUNDS; i++) {
			pattern_fill(out, SIZE, (uint64_t)i * SIZE, SEED_CLIENT);
			wrong += send_all(r->c, out, SIZE) != SIZE;
			wrong += recv_all(r->c, in, SIZE) != SIZE;
			wrong += memcmp(out, in, SIZE) != 0;
			if (i > ROUNDS / 2 && i % 10 == 0)	/* time for an attach, if it comes */
				poll(NULL, 0, 2);
		}
		TRY(r, 0, wrong);
	}
	conn_close(r);
}

static void raw_reads(struct role *r)
{
	raw_play(r, RAW_READ);
}

static void raw_writes(struct role *r)
{
	raw_play(r, RAW_WRITE);
}

static void raw_poll(struct role *r)
{
	raw_play(r, RAW_POLL);
}

static void raw_epoll(struct role *r)
{
	raw_play(r, RAW_EPOLL);
}

static void raw_all(struct role *r)
{
	raw_play(r, RAW_READ | RAW_WRITE | RAW_POLL);
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags,
		       struct sockaddr *sa, socklen_t *len);
int __poll_chk(struct pollfd *p, nfds_t n, int timeout, size_t size);
int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *ss,
		size_t size);

static void fortified(struct role *r)
{
	struct pollfd p;
	char buf[8] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, send(r->c, "012345", 6, 0));
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		p = (struct pollfd){ .fd = r->s, .events = POLLIN };
		TRY(r, 1, __poll_chk(&p, 1, 1000, sizeof(p)));
		TRY(r, 1, __ppoll_chk(&p, 1, NULL, NULL, sizeof(p)));
		TRY(r, 2, __read_chk(r->s, buf, 2, sizeof(buf)));
		TRY(r, 2, __recv_chk(r->s, buf + 2, 2, sizeof(buf), 0));
		TRY(r, 2, __recvfrom_chk(r->s, buf + 4, 2, sizeof(buf), 0, NULL, NULL));
		CHECK(r, strcmp(buf, "012345") == 0);
	}
	conn_close(r);
}

static void aliases_64(struct role *r)
{
	char buf[8] = "";
	struct iovec v = { .iov_base = buf, .iov_len = 4 };
	off64_t off = 0;
	int file;

	conn_open(r);
	CLIENT(r) {
		file = (int)MUST(r, open64("/proc/self/exe", O_RDONLY | O_CLOEXEC));
		TRY(r, 4, sendfile64(r->c, file, &off, 4));
		TRY(r, 4, off);
		TRY(r, 0, close(file));
	}
	SERVER(r) {
		TRY(r, 4, readable_await(r->s, 4));
		TRY(r, -ESPIPE, pread64(r->s, buf, 4, 0));
		TRY(r, -ESPIPE, lseek64(r->s, 0, SEEK_SET));
		TRY(r, 4, preadv64v2(r->s, &v, 1, -1, 0));
		CHECK(r, memcmp(buf, "\177ELF", 4) == 0);
		TRY(r, O_RDWR, fcntl64(r->s, F_GETFL));
	}
	conn_close(r);
}

const struct conf_case raw_cases[] = {
	{ "raw-reads", raw_reads, COLD | TOGETHER },
	{ "raw-writes", raw_writes, COLD | TOGETHER },
	{ "raw-poll", raw_poll, COLD | TOGETHER },
	{ "raw-epoll", raw_epoll, COLD | TOGETHER },
	{ "raw-all", raw_all, COLD | TOGETHER },
	{ "aliases-fortified", fortified, 0 },
	{ "aliases-64", aliases_64, 0 },
	{ NULL, NULL, 0 }
};
