/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Non-blocking calls: what would block, how much is taken, nothing is lost. */
#include "conform.h"

#include <netinet/in.h>
#include <sys/ioctl.h>

#include "tests/lib/pattern.h"

enum { CHUNK = 16 * 1024 };

static void would_block(struct role *r)
{
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		TRY(r, -EAGAIN, read(r->c, buf, 8));
		TRY(r, -EAGAIN, recv(r->c, buf, 8, 0));
		TRY(r, -EAGAIN, recv(r->c, buf, 8, MSG_PEEK));
		TRY(r, -EAGAIN, recv(r->c, buf, 8, MSG_WAITALL));
		TRY(r, 3, write(r->c, "abc", 3));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 3, recv(r->s, buf, 8, 0));
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r) {
		poll_show(r, "client", POLLIN, (short)event_await(r->c, POLLIN));
		TRY(r, 2, read(r->c, buf, 8));
		TRY(r, -EAGAIN, read(r->c, buf, 8));
	}
	conn_close(r);
}

/* Write until it would block.  Return: bytes taken. */
static size_t fill_up(int fd, uint64_t seed, size_t most)
{
	unsigned char buf[CHUNK];
	size_t done = 0;
	ssize_t n;

	while (done < most) {
		size_t want = most - done < CHUNK ? most - done : CHUNK;

		pattern_fill(buf, want, done, seed);
		n = write(fd, buf, want);
		if (n < 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* Read exactly total bytes of a stream and say how many were right. */
static size_t drain(int fd, uint64_t seed, size_t total)
{
	unsigned char buf[CHUNK];
	size_t done = 0;
	ssize_t n;

	while (done < total) {
		n = recv(fd, buf, total - done < CHUNK ? total - done : CHUNK, 0);
		if (n < 0 && errno == EAGAIN && event_await(fd, POLLIN))
			continue;
		if (n <= 0 || pattern_check(buf, (size_t)n, done, seed) >= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static void full_then_drain(struct role *r)
{
	size_t taken = 0, got;
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		taken = fill_up(r->c, SEED_CLIENT, 64 << 20);
		CHECK(r, errno == EAGAIN && taken >= 65536);
		tell(r, (long)taken);
	}
	SERVER(r) {
		if (!r->client)
			taken = (size_t)hear(r);
		got = drain(r->s, SEED_CLIENT, taken);
		CHECK(r, got == taken);
		TRY(r, -EAGAIN, recv(r->s, buf, 4, MSG_DONTWAIT));
	}
	meet(r);
	CLIENT(r) {
		poll_show(r, "client", POLLOUT, (short)event_await(r->c, POLLOUT));
		TRY(r, 3, write(r->c, "end", 3));
		TRY(r, 0, close(r->c));
	}
	SERVER(r) {
		TRY(r, 3, recv(r->s, buf, 4, MSG_WAITALL));
		TRY(r, 0, close(r->s));
	}
}

/* A program may count on the kernel's megabytes while the peer is busy. */
static void far_ahead(struct role *r)
{
	size_t taken = 0, got;

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		taken = fill_up(r->c, SEED_CLIENT, 3 << 20);
		CHECK(r, taken >= 65536);
		tell(r, (long)taken);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		char buf[4];

		if (!r->client)
			taken = (size_t)hear(r);
		got = drain(r->s, SEED_CLIENT, taken);
		CHECK(r, got == taken);
		TRY(r, 0, read(r->s, buf, 4));
	}
	conn_close(r);
}

/* Close with a full buffer: the reader still gets all of it, then EOF. */
static void full_then_close(struct role *r)
{
	size_t taken = 0, got;
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		taken = fill_up(r->c, SEED_CLIENT, 64 << 20);
		TRY(r, 0, close(r->c));
		tell(r, (long)taken);
	}
	SERVER(r) {
		if (!r->client)
			taken = (size_t)hear(r);
		got = drain(r->s, SEED_CLIENT, taken);
		CHECK(r, got == taken);
		TRY(r, 0, read(r->s, buf, 4));
		TRY(r, 0, close(r->s));
	}
}

/* One large non-blocking write is taken in part, never in disorder. */
static void partial_write(struct role *r)
{
	size_t total = 32 << 20;
	unsigned char *buf = malloc(total);
	ssize_t n = 0;

	if (!buf)
		give_up(r, "malloc");
	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		pattern_fill(buf, total, 0, SEED_CLIENT);
		n = write(r->c, buf, total);
		CHECK(r, n >= 4096 && n < (ssize_t)total);
		tell(r, n);
	}
	SERVER(r) {
		size_t got;

		if (!r->client)
			n = hear(r);
		got = drain(r->s, SEED_CLIENT, (size_t)n);
		CHECK(r, got == (size_t)n);
		quiet_check(r, r->s, POLLIN);
	}
	conn_close(r);
	free(buf);
}

static void dontwait_full(struct role *r)
{
	unsigned char buf[CHUNK];
	size_t taken = 0, got;
	ssize_t n;

	conn_open(r);
	CLIENT(r) {
		do {
			pattern_fill(buf, CHUNK, taken, SEED_CLIENT);
			n = send(r->c, buf, CHUNK, MSG_DONTWAIT);
			taken += n > 0 ? (size_t)n : 0;
		} while (n > 0);
		CHECK(r, errno == EAGAIN && taken >= 65536);
		tell(r, (long)taken);
	}
	SERVER(r) {
		if (!r->client)
			taken = (size_t)hear(r);
		got = drain(r->s, SEED_CLIENT, taken);
		CHECK(r, got == taken);
	}
	conn_close(r);
}

static void fionbio(struct role *r)
{
	char buf[4];
	int on = 1, off = 0;

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, ioctl(r->c, FIONBIO, &on));
		CHECK(r, fcntl(r->c, F_GETFL) & O_NONBLOCK);
		TRY(r, -EAGAIN, read(r->c, buf, 4));
		TRY(r, 0, ioctl(r->c, FIONBIO, &off));
		CHECK(r, !(fcntl(r->c, F_GETFL) & O_NONBLOCK));
	}
	meet(r);
	SERVER(r)
		TRY(r, 2, write(r->s, "ab", 2));
	CLIENT(r)
		TRY(r, 2, read(r->c, buf, 4));
	conn_close(r);
}

static void not_inherited(struct role *r)
{
	listener_open(r);
	SERVER(r)
		nonblock_set(r, r->listener);
	meet(r);
	CLIENT(r) {
		struct sockaddr_storage sa;

		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r) {
		poll_show(r, "listener", POLLIN, (short)event_await(r->listener, POLLIN));
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		CHECK(r, !(fcntl(r->s, F_GETFL) & O_NONBLOCK));
		TRY(r, -EAGAIN, accept(r->listener, NULL, NULL));
		CHECK(r, fcntl(r->s, F_GETFD) == 0);
	}
	conn_close(r);
}

static void accept4_flags(struct role *r)
{
	char buf[4];

	listener_open(r);
	CLIENT(r) {
		struct sockaddr_storage sa;

		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
		CHECK(r, fcntl(r->c, F_GETFL) & O_NONBLOCK);
		CHECK(r, fcntl(r->c, F_GETFD) == FD_CLOEXEC);
		SHOW(r, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r) {
		r->s = (int)MUST(r, accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
		CHECK(r, fcntl(r->s, F_GETFL) & O_NONBLOCK);
		CHECK(r, fcntl(r->s, F_GETFD) == FD_CLOEXEC);
		TRY(r, -EAGAIN, read(r->s, buf, 4));
		TRY(r, -EINVAL, accept4(r->listener, NULL, NULL, 1));
	}
	conn_close(r);
}

/* What the peer's kernel says has arrived is there, wherever a switch falls. */
static void drained_is_there(struct role *r)
{
	static __thread char buf[10000];
	int i;

	conn_open(r);
	for (i = 0; i < 100; i++) {
		SERVER(r) {
			TRY(r, 10000, send(r->s, buf, 10000, 0));
			drained_await(r->s);
		}
		meet(r);
		CLIENT(r) {
			TRY(r, 10000, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
			TRY(r, 1, send(r->c, "b", 1, 0));
			poll(NULL, 0, 1 + i % 3);	/* rings are made in the background */
		}
		meet(r);
	}
	conn_close(r);
}

/* Bytes of both sides of a switch are read at once, also by one who has counted them meanwhile. */
static void counted_then_read(struct role *r)
{
	static __thread char buf[10000];
	int i;

	conn_open(r);
	for (i = 0; i < 60; i++) {
		SERVER(r) {
			TRY(r, 1, send(r->s, buf, 1, 0));
			poll(NULL, 0, 5);	/* fault retreat: it comes back to the kernel */
			TRY(r, 4000, send(r->s, buf, 4000, 0));
		}
		CLIENT(r) {
			long long end = now_ms() + 5000;
			int n = 0;

			while (n < 4001 && now_ms() < end && ioctl(r->c, FIONREAD, &n) == 0)
				;
			TRY(r, 4001, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
			TRY(r, 1, send(r->c, "b", 1, 0));
		}
		meet(r);
	}
	conn_close(r);
}

const struct conf_case nonblock_cases[] = {
	{ "nonblock-would-block", would_block, WAIT_POLL },
	{ "nonblock-full-then-drain", full_then_drain, WAIT_POLL },
	{ "nonblock-far-ahead", far_ahead, WAIT_POLL },
	{ "nonblock-full-then-close", full_then_close, WAIT_POLL },
	{ "nonblock-partial-write", partial_write, WAIT_POLL },
	{ "nonblock-dontwait-full", dontwait_full, 0 },
	{ "nonblock-fionbio", fionbio, 0 },
	{ "nonblock-not-inherited", not_inherited, COLD },
	{ "nonblock-accept4-flags", accept4_flags, COLD },
	{ "nonblock-drained-is-there", drained_is_there, 0 },
	{ "nonblock-counted-then-read", counted_then_read, 0 },
	{ NULL, NULL, 0 }
};
