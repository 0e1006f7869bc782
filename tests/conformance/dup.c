/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Several numbers for one connection, and which numbers there are. */
#include "conform.h"

#include <netinet/in.h>
#include <sys/stat.h>

static int lowest_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void share(struct role *r)
{
	char buf[16];
	int copy;

	conn_open(r);
	SERVER(r) {
		copy = (int)MUST(r, dup(r->s));
		nonblock_set(r, copy);
		CHECK(r, fcntl(r->s, F_GETFL) & O_NONBLOCK);
		TRY(r, -EAGAIN, recv(r->s, buf, 16, 0));
		MUST(r, fcntl(r->s, F_SETFL, O_RDWR));
		CHECK(r, !(fcntl(copy, F_GETFL) & O_NONBLOCK));
		TRY(r, 3, send(copy, "one", 3, 0));
		TRY(r, 3, send(r->s, "two", 3, 0));
		TRY(r, 0, close(copy));
		TRY(r, 5, send(r->s, "three", 5, 0));
	}
	CLIENT(r)
		TRY(r, 11, recv(r->c, buf, 11, MSG_WAITALL));
	conn_close(r);
}

/* Close the first, use the second; FIN comes after the last. */
static void last_close(struct role *r)
{
	char buf[16];
	int copy = -1;

	conn_open(r);
	SERVER(r) {
		copy = (int)MUST(r, dup(r->s));
		TRY(r, 0, close(r->s));
		TRY(r, -EBADF, send(r->s, "x", 1, MSG_NOSIGNAL));
		TRY(r, 3, send(copy, "abc", 3, 0));
	}
	CLIENT(r) {
		TRY(r, 3, recv(r->c, buf, 16, 0));
		quiet_check(r, r->c, POLLIN | POLLRDHUP);
		TRY(r, 2, send(r->c, "ok", 2, 0));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 2, recv(copy, buf, 16, 0));
		TRY(r, 0, close(copy));
	}
	CLIENT(r) {
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
}

static void shutdown_by_copy(struct role *r)
{
	char buf[4];
	int copy;

	conn_open(r);
	SERVER(r) {
		copy = (int)MUST(r, dup(r->s));
		TRY(r, 0, shutdown(copy, SHUT_WR));
		TRY(r, -EPIPE, send(r->s, "x", 1, MSG_NOSIGNAL));
		TRY(r, 0, close(copy));
	}
	CLIENT(r)
		TRY(r, 0, recv(r->c, buf, 4, 0));
	conn_close(r);
}

static void kinds(struct role *r)
{
	char buf[16];

	conn_open(r);
	SERVER(r) {
		TRY(r, 90, fcntl(r->s, F_DUPFD, 90));
		TRY(r, 91, fcntl(r->s, F_DUPFD_CLOEXEC, 90));
		TRY(r, 92, dup2(r->s, 92));
		TRY(r, 93, dup3(r->s, 93, O_CLOEXEC));
		TRY(r, 0, fcntl(90, F_GETFD));
		TRY(r, FD_CLOEXEC, fcntl(91, F_GETFD));
		TRY(r, 0, fcntl(92, F_GETFD));
		TRY(r, FD_CLOEXEC, fcntl(93, F_GETFD));
		TRY(r, 90, dup2(90, 90));
		TRY(r, -EINVAL, dup3(90, 90, 0));
		TRY(r, -EINVAL, dup3(90, 94, 1));
		TRY(r, -EBADF, dup2(95, 94));
		TRY(r, -EBADF, dup2(r->s, -1));
		TRY(r, 1, write(90, "a", 1));
		TRY(r, 1, write(91, "b", 1));
		TRY(r, 1, write(92, "c", 1));
		TRY(r, 1, write(93, "d", 1));
		TRY(r, 0, close(90) | close(91) | close(92) | close(93));
		TRY(r, 1, write(r->s, "e", 1));
	}
	CLIENT(r)
		TRY(r, 5, recv(r->c, buf, 5, MSG_WAITALL));
	conn_close(r);
}

/* dup2 of something else over the only fd is a close. */
static void over_live(struct role *r)
{
	char buf[16];
	int null;

	conn_open(r);
	SERVER(r) {
		TRY(r, 4, send(r->s, "last", 4, 0));
		null = (int)MUST(r, open("/dev/null", O_RDWR | O_CLOEXEC));
		CHECK(r, dup2(null, r->s) == r->s);
		TRY(r, -ENOTSOCK, send(r->s, "x", 1, 0));
		TRY(r, 3, write(r->s, "abc", 3));
		TRY(r, 0, read(r->s, buf, 16));
		TRY(r, 0, close(null));
	}
	CLIENT(r) {
		TRY(r, 4, recv(r->c, buf, 16, MSG_WAITALL));
		TRY(r, 0, recv(r->c, buf, 16, 0));
	}
	conn_close(r);
}

/* Put one connection in the place of another. */
static void swap(struct role *r)
{
	int s2 = -1, c2 = -1;
	char buf[16] = "";

	conn_open(r);
	conn_more(r, &s2, &c2);
	CLIENT(r) {
		TRY(r, 5, send(r->c, "first", 5, 0));
		TRY(r, 6, send(c2, "second", 6, 0));
	}
	SERVER(r) {
		TRY(r, 5, recv(r->s, buf, 16, 0));
		CHECK(r, dup2(s2, r->s) == r->s);
		TRY(r, 6, recv(r->s, buf, 16, 0));
		CHECK(r, memcmp(buf, "second", 6) == 0);
		TRY(r, 0, close(s2));
		TRY(r, 3, send(r->s, "two", 3, 0));
	}
	CLIENT(r) {
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 3, recv(c2, buf, 16, 0));
		TRY(r, 0, close(c2));
	}
	conn_close(r);
}

static void lowest_number(struct role *r)
{
	int before, zero, i, s2 = -1, c2 = -1;

	conn_open(r);
	CLIENT(r) {
		before = lowest_fd();
		CHECK(r, before == r->c + 1);
		TRY(r, 0, close(r->c));
		CHECK(r, lowest_fd() == r->c);
	}
	SERVER(r) {
		before = lowest_fd();
		CHECK(r, before == r->s + 1);
		TRY(r, 0, close(r->s));
		CHECK(r, lowest_fd() == r->s);
	}
	meet(r);
	conn_more(r, &s2, &c2);
	CLIENT(r) {
		CHECK(r, c2 == r->c);
		TRY(r, 0, close(c2));
	}
	SERVER(r) {
		CHECK(r, s2 == r->s);
		TRY(r, 0, close(s2));
		TRY(r, 0, close(0));
		zero = (int)TRY(r, 0, socket(conf_family(), SOCK_STREAM, 0));
		TRY(r, 0, close(zero));
		for (i = 0; i < 3; i++)
			TRY(r, 0, close(socket(conf_family(), SOCK_STREAM, 0)));
	}
}

/* What daemons do: close everything, whatever it may be. */
static void close_everything(struct role *r, bool by_range)
{
	char buf[16];
	int fd;

	conn_open(r);
	SERVER(r) {
		TRY(r, 4, send(r->s, "last", 4, 0));
		if (by_range) {
			TRY(r, 0, close_range(3, FD_STEP - 1, 0));
		} else {
			for (fd = 3; fd < FD_STEP; fd++)
				close(fd);
		}
		TRY(r, -EBADF, send(r->s, "x", 1, MSG_NOSIGNAL));
		CHECK(r, lowest_fd() == 3);
	}
	CLIENT(r) {
		TRY(r, 4, recv(r->c, buf, 16, MSG_WAITALL));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
	meet(r);
	r->port = 0;		/* all over again */
	conn_open(r);
	CLIENT(r)
		TRY(r, 3, send(r->c, "new", 3, 0));
	SERVER(r)
		TRY(r, 3, recv(r->s, buf, 16, 0));
	conn_close(r);
}

static void close_by_range(struct role *r)
{
	close_everything(r, true);
}

static void close_by_loop(struct role *r)
{
	close_everything(r, false);
}

/* Who asks fstat() what is open finds what fcntl() says. */
static void numbers_seen(struct role *r)
{
	struct stat st;
	long differ = 0;

	conn_open(r);
	for (int fd = 0; fd < 20000; fd++)
		differ += (fstat(fd, &st) == 0) != (fcntl(fd, F_GETFD) >= 0);
	TRY(r, 0, differ);
	conn_close(r);
}

static void range_cloexec(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r) {
		TRY(r, 0, close_range((unsigned int)r->s, (unsigned int)r->s, CLOSE_RANGE_CLOEXEC));
		TRY(r, FD_CLOEXEC, fcntl(r->s, F_GETFD));
		TRY(r, 1, send(r->s, "x", 1, 0));
		TRY(r, 0, fcntl(r->s, F_SETFD, 0));
		TRY(r, 0, fcntl(r->s, F_GETFD));
	}
	CLIENT(r)
		TRY(r, 1, recv(r->c, buf, 4, 0));
	conn_close(r);
}

static void reuse_at_once(struct role *r)
{
	int i, s, c;
	char buf[8];
	long wrong = 0;

	conn_open(r);
	for (i = 0; i < 50; i++) {
		s = c = -1;
		conn_more(r, &s, &c);
		CLIENT(r)
			wrong += send(c, &i, 4, 0) != 4;
		SERVER(r) {
			wrong += recv(s, buf, 8, 0) != 4 || memcmp(buf, &i, 4) != 0;
			wrong += close(s) != 0;
		}
		CLIENT(r) {
			wrong += recv(c, buf, 8, 0) != 0;
			wrong += close(c) != 0;
		}
	}
	TRY(r, 0, wrong);
	conn_close(r);
}

const struct conf_case dup_cases[] = {
	{ "dup-share", share, 0 },
	{ "dup-last-close", last_close, 0 },
	{ "dup-shutdown-by-copy", shutdown_by_copy, 0 },
	{ "dup-kinds", kinds, 0 },
	{ "dup-over-live", over_live, 0 },
	{ "dup-swap", swap, 0 },
	{ "dup-lowest-number", lowest_number, PROCESS },
	{ "dup-close-range", close_by_range, PROCESS },
	{ "dup-close-loop", close_by_loop, PROCESS },
	{ "dup-numbers-seen", numbers_seen, PROCESS },
	{ "dup-range-cloexec", range_cloexec, 0 },
	{ "dup-reuse-at-once", reuse_at_once, 0 },
	{ NULL, NULL, 0 }
};
