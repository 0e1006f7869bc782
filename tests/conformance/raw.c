/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls that a preload library does not see, or sees under other names: raw
 * system calls from the first byte on, fortified and 64-bit aliases of libc.
 */
#include "conform.h"

#include <dlfcn.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "tests/lib/pattern.h"
#include "tests/lib/rights.h"

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

/* Waits that go past libc, on a connection that was read and waited for by libc. */

#if defined(__x86_64__)
static long past_libc(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = 8;
	long ret;

	__asm__ __volatile__("syscall" : "=a"(ret)
			     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return ret;
}
#define ARG(x) ((long)(uintptr_t)(x))

/* What the library says of a connection that a wait began with on the ring. */
static bool receives_by_ring(struct role *r, int fd)
{
	int (*fd_path)(int);

	*(void **)&fd_path = dlsym(RTLD_DEFAULT, "sidestep_fd_path");
	return r->ring && fd_path && !getenv("CONFORM_UNPAIRED") && !getenv("SIDESTEP_FAULT") &&
	       (fd_path(fd) & 2);
}

static void reason_check(struct role *r, int fd, const char *want)
{
	const char *(*fd_reason)(int);

	*(void **)&fd_reason = dlsym(RTLD_DEFAULT, "sidestep_fd_reason");
	if (strcmp(fd_reason(fd), want)) {
		NOTE(r, "reason %s  WRONG", fd_reason(fd));
		r->t.failures++;
	}
}

enum { UNSEEN_ROUNDS = 3 };

static void unseen(struct role *r, long (*wait)(int ep, struct pollfd *p), const char *reason)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p;
	char buf[8];
	int i, ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		p = (struct pollfd){ .fd = r->s, .events = POLLIN };
		nonblock_set(r, r->s);
		TRY(r, -EAGAIN, recv(r->s, buf, 8, 0));
	}
	meet(r);
	for (i = 0; i < UNSEEN_ROUNDS; i++) {
		CLIENT(r)
			TRY(r, 1, send(r->c, "x", 1, 0));
		SERVER(r) {
			/* a record may wake it for nothing */
			long n = -EAGAIN;
			bool ring = receives_by_ring(r, r->s);

			while (n == -EAGAIN && wait(ep, &p) == 1)
				n = recv(r->s, buf, 8, 0) == -1 ? -errno : 1;
			if (ring)
				reason_check(r, r->s, reason);
			TRY(r, 1, n);
			TRY(r, 1, send(r->s, "y", 1, 0));
		}
		CLIENT(r)
			TRY(r, 1, recv(r->c, buf, 8, 0));
	}
	SERVER(r)
		MUST(r, close(ep));
	conn_close(r);
}

static long wait_epoll(int ep, struct pollfd *p)
{
	struct epoll_event ev;

	(void)p;
	return past_libc(SYS_epoll_pwait, ep, ARG(&ev), 1, -1, 0);
}

static void unseen_epoll(struct role *r)
{
	unseen(r, wait_epoll, "unseen-waiter");
}

static long wait_poll(int ep, struct pollfd *p)
{
	(void)ep;
	return past_libc(SYS_ppoll, ARG(p), 1, 0, 0, 0);
}

static void unseen_poll(struct role *r)
{
	unseen(r, wait_poll, "unseen-waiter");
}

static long wait_select(int ep, struct pollfd *p)
{
	fd_set in;

	(void)ep;
	FD_ZERO(&in);
	FD_SET(p->fd, &in);
	return past_libc(SYS_select, p->fd + 1, ARG(&in), 0, 0, 0);
}

static void unseen_select(struct role *r)
{
	unseen(r, wait_select, "unseen-waiter");
}

/* The set is waited for by another. */
static long wait_nested(int ep, struct pollfd *p)
{
	struct pollfd q = { .fd = ep, .events = POLLIN };

	(void)p;
	return past_libc(SYS_ppoll, ARG(&q), 1, 0, 0, 0);
}

static void unseen_nested(struct role *r)
{
	unseen(r, wait_nested, "unseen-waiter");
}

/* A waiter for a time, or for a signal, comes back to us by itself. */
static long wait_time(int ep, struct pollfd *p)
{
	struct timespec ts = { .tv_nsec = 300000000 };

	(void)ep;
	past_libc(SYS_nanosleep, ARG(&ts), 0, 0, 0, 0);
	return poll(p, 1, -1);
}

static void unseen_sleeper(struct role *r)
{
	unseen(r, wait_time, "none");
}

/* Room is what it waits for: the other end reads all and says so. */
static void unseen_out(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	static char out[4096], in[65536];
	long sent = 0, got = 0, k;
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		nonblock_set(r, r->s);
		while (sent < 8 << 20) {
			k = send(r->s, out, sent % 4096 ? 4096 - (size_t)sent % 4096 : 4096, 0);
			if (k > 0)
				sent += k;
			else if (past_libc(SYS_epoll_pwait, ep, ARG(&ev), 1, -1, 0) != 1)
				break;
		}
		MUST(r, shutdown(r->s, SHUT_WR));
	}
	CLIENT(r) {
		while ((k = recv(r->c, in, sizeof(in), 0)) > 0)
			got += k;
		TRY(r, 8 << 20, got);
	}
	SERVER(r)
		MUST(r, close(ep));
	conn_close(r);
}

/* OUT is asked for while there is room all the time. */
static void unseen_out_at_once(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		TRY(r, 1, past_libc(SYS_epoll_pwait, ep, ARG(&ev), 1, -1, 0));
		epoll_show(r, "out", EPOLLOUT, ev.events);
		MUST(r, close(ep));
	}
	conn_close(r);
}
#endif

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

/* One by SCM_RIGHTS, to ourselves. */
static int copy_by_message(struct role *r, int fd)
{
	struct rights out, in;
	int ends[2];

	rights_make(&out, fd);
	rights_make(&in, -1);
	MUST(r, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	MUST(r, syscall(SYS_sendmsg, ends[0], &out.m, 0));
	MUST(r, syscall(SYS_recvmsg, ends[1], &in.m, 0));
	MUST(r, close(ends[0]));
	MUST(r, close(ends[1]));
	return rights_fd(&in);
}

static int copy_by_plural(struct role *r, int fd)
{
	struct rights out, in;
	int ends[2];

	rights_make(&out, fd);
	rights_make(&in, -1);
	MUST(r, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	MUST(r, syscall(SYS_sendmmsg, ends[0], &(struct mmsghdr){ .msg_hdr = out.m }, 1, 0));
	MUST(r, syscall(SYS_recvmmsg, ends[1], &(struct mmsghdr){ .msg_hdr = in.m }, 1, 0, NULL));
	MUST(r, close(ends[0]));
	MUST(r, close(ends[1]));
	return rights_fd(&in);
}

static int copy_by_pidfd(struct role *r, int fd)
{
	int self = (int)MUST(r, syscall(SYS_pidfd_open, getpid(), 0));
	int to = (int)MUST(r, syscall(SYS_pidfd_getfd, self, fd, 0));

	MUST(r, close(self));
	return to;
}

static int copy_by_number(struct role *r, int fd)
{
	return (int)MUST(r, syscall(SYS_dup, fd));
}

static void nothing_left(struct role *r, int fd)
{
	int n = -1;
	char byte;

	TRY(r, 0, ioctl(fd, FIONREAD, &n));
	CHECK(r, n == 0);
	quiet_check(r, fd, POLLIN);
	TRY(r, -EAGAIN, recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT));
}

/* Who waits by a copy of a set hears of what is in it, and of what comes into it. */
static void copied_set(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = -1, first = -1, to = -1;
	char buf[4];

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		first = copy_by_message(r, ep);
		MUST(r, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 7));
		to = copy_by_pidfd(r, ep);
	}
	CLIENT(r) TRY(r, 4, send(r->c, "four", 4, 0));
	meet(r);
	SERVER(r) {
		CHECK(r, readable_await(r->s, 4) == 4);
		TRY(r, 1, epoll_wait(to, &ev, 1, 0));
		CHECK(r, ev.events == EPOLLIN && ev.data.u64 == 7);
		TRY(r, 1, epoll_wait(first, &ev, 1, 0));
		TRY(r, 4, recv(r->s, buf, 4, 0));
		TRY(r, 0, epoll_wait(first, &ev, 1, 0));
		TRY(r, 0, close(ep));
		TRY(r, 0, close(to));
	}
	meet(r);
	CLIENT(r) TRY(r, 4, send(r->c, "more", 4, 0));
	meet(r);
	SERVER(r) {
		CHECK(r, readable_await(r->s, 4) == 4);
		TRY(r, 1, epoll_wait(first, &ev, 1, 0));
		TRY(r, 4, recv(r->s, buf, 4, 0));
		TRY(r, 0, close(first));
	}
	conn_close(r);
}

/* What is set by a copy, or by number, holds for the first descriptor. */
static void set_elsewhere(struct role *r)
{
	struct timeval tv = { 0, 20000 };
	int to = -1, on = 1, off = 0;
	char byte;

	conn_open(r);
	SERVER(r) {
		to = copy_by_message(r, r->s);
		TRY(r, 0, ioctl(to, FIONBIO, &on));
		TRY(r, -EAGAIN, read(r->s, &byte, 1));
		TRY(r, 0, ioctl(to, FIONBIO, &off));
		TRY(r, 0, setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		TRY(r, -EAGAIN, read(r->s, &byte, 1));
		TRY(r, 0, close(to));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 0, syscall(SYS_ioctl, r->c, FIONBIO, &on));
		TRY(r, -EAGAIN, recv(r->c, &byte, 1, 0));
	}
	conn_close(r);
}

/* What was read by number is not told of by name. */
static void read_by_number(struct role *r)
{
	char buf[8] = "";

	conn_open(r);
	CLIENT(r) TRY(r, 4, send(r->c, "left", 4, 0));
	SERVER(r) {
		CHECK(r, readable_await(r->s, 4) == 4);
		TRY(r, 4, syscall(SYS_read, r->s, buf, sizeof(buf)));
		nothing_left(r, r->s);
	}
	meet(r);
	conn_close(r);
}

/* Both numbers are the one connection's, whatever made the second. */
static void copied(struct role *r, int (*copy)(struct role *r, int fd))
{
	char buf[8] = "";
	int to = -1, n = -1;

	conn_open(r);
	CLIENT(r) TRY(r, 4, send(r->c, "left", 4, 0));
	SERVER(r) {
		CHECK(r, readable_await(r->s, 4) == 4);
		to = copy(r, r->s);
		CHECK(r, readable_await(to, 4) == 4);
		TRY(r, 3, recv(to, buf, 3, 0));
		TRY(r, 0, ioctl(r->s, FIONREAD, &n));
		CHECK(r, n == 1);
		TRY(r, 1, recv(to, buf + 3, sizeof(buf) - 3, 0));
		CHECK(r, memcmp(buf, "left", 4) == 0);
		nothing_left(r, r->s);
		TRY(r, 3, send(to, "one", 3, 0));
		TRY(r, 3, send(r->s, "two", 3, 0));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 6, recv(r->c, buf, 6, MSG_WAITALL));
		CHECK(r, memcmp(buf, "onetwo", 6) == 0);
		TRY(r, 5, send(r->c, "again", 5, 0));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 2, recv(r->s, buf, 2, 0));
		TRY(r, 3, recv(to, buf, 3, 0));
		TRY(r, 0, close(to));
	}
	conn_close(r);
}

static void copied_number(struct role *r)
{
	copied(r, copy_by_number);
}

static void copied_message(struct role *r)
{
	copied(r, copy_by_message);
}

static void copied_plural(struct role *r)
{
	copied(r, copy_by_plural);
}

static void copied_pidfd(struct role *r)
{
	copied(r, copy_by_pidfd);
}

const struct conf_case raw_cases[] = {
	{ "raw-copied-set", copied_set, 0 },
	{ "raw-set-elsewhere", set_elsewhere, 0 },
	{ "raw-read-whole", read_by_number, 0 },
	{ "raw-copied-number", copied_number, 0 },
	{ "raw-copied-message", copied_message, 0 },
	{ "raw-copied-plural", copied_plural, 0 },
	{ "raw-copied-pidfd", copied_pidfd, 0 },
	{ "raw-reads", raw_reads, TOGETHER },
	{ "raw-writes", raw_writes, TOGETHER },
	{ "raw-poll", raw_poll, TOGETHER },
	{ "raw-epoll", raw_epoll, TOGETHER },
	{ "raw-all", raw_all, TOGETHER },
#if defined(__x86_64__)
	{ "raw-unseen-epoll", unseen_epoll, WAIT_EPOLL | TOGETHER },
	{ "raw-unseen-poll", unseen_poll, WAIT_POLL | TOGETHER },
	{ "raw-unseen-select", unseen_select, WAIT_SELECT | TOGETHER },
	{ "raw-unseen-nested", unseen_nested, WAIT_EPOLL | TOGETHER },
	{ "raw-unseen-sleeper", unseen_sleeper, WAIT_POLL | TOGETHER },
	{ "raw-unseen-out", unseen_out, WAIT_EPOLL | TOGETHER },
	{ "raw-unseen-out-at-once", unseen_out_at_once, WAIT_EPOLL | TOGETHER },
#endif
	{ "aliases-fortified", fortified, 0 },
	{ "aliases-64", aliases_64, 0 },
	{ NULL, NULL, 0 }
};
