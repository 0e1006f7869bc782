/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The byte stream: boundaries, sizes, ping-pong. */
#include "conform.h"

#include <sys/ioctl.h>

#include "tests/lib/pattern.h"

static void hello(struct role *r)
{
	char buf[64] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 5, send(r->c, "hello", 5, 0));
	SERVER(r) {
		TRY(r, 5, recv(r->s, buf, sizeof(buf), 0));
		CHECK(r, memcmp(buf, "hello", 5) == 0);
		TRY(r, 3, send(r->s, "you", 3, 0));
	}
	CLIENT(r) {
		TRY(r, 3, recv(r->c, buf, sizeof(buf), 0));
		CHECK(r, memcmp(buf, "you", 3) == 0);
	}
	conn_close(r);
}

static void server_first(struct role *r)
{
	char buf[64] = "";

	conn_open(r);
	SERVER(r)
		TRY(r, 4, write(r->s, "220 ", 4));
	CLIENT(r) {
		TRY(r, 4, read(r->c, buf, sizeof(buf)));
		TRY(r, 4, write(r->c, "EHLO", 4));
	}
	SERVER(r)
		TRY(r, 4, read(r->s, buf, sizeof(buf)));
	conn_close(r);
}

static void zero_lengths(struct role *r)
{
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, send(r->c, "", 0, 0));
		TRY(r, 0, write(r->c, "", 0));
		TRY(r, 0, read(r->c, buf, 0));
		TRY(r, -EAGAIN, recv(r->c, buf, 0, MSG_DONTWAIT));
	}
	meet(r);
	SERVER(r) {
		quiet_check(r, r->s, POLLIN);
		TRY(r, 1, send(r->s, "x", 1, 0));
	}
	CLIENT(r) {
		TRY(r, 1, readable_await(r->c, 1));
		TRY(r, 0, recv(r->c, buf, 0, 0));
		TRY(r, 0, read(r->c, buf, 0));
		TRY(r, 1, recv(r->c, buf, 8, 0));
	}
	conn_close(r);
}

static void coalesce(struct role *r)
{
	char buf[64] = "";

	conn_open(r);
	CLIENT(r) {
		TRY(r, 5, send(r->c, "first", 5, 0));
		TRY(r, 6, send(r->c, "second", 6, 0));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 11, readable_await(r->s, 11));
		TRY(r, 11, recv(r->s, buf, sizeof(buf), 0));
		CHECK(r, strcmp(buf, "firstsecond") == 0);
	}
	conn_close(r);
}

static void split(struct role *r)
{
	char buf[64] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 10, send(r->c, "0123456789", 10, 0));
	meet(r);
	SERVER(r) {
		TRY(r, 10, readable_await(r->s, 10));
		TRY(r, 4, recv(r->s, buf, 4, 0));
		TRY(r, 1, read(r->s, buf + 4, 1));
		TRY(r, 5, readable_await(r->s, 5));
		TRY(r, 5, recv(r->s, buf + 5, sizeof(buf) - 5, 0));
		CHECK(r, strcmp(buf, "0123456789") == 0);
		TRY(r, -EAGAIN, recv(r->s, buf, 1, MSG_DONTWAIT));
	}
	conn_close(r);
}

/* Both speak at once: neither direction waits for the other. */
static void crossing(struct role *r)
{
	char buf[64] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "ping", 4, 0));
	SERVER(r)
		TRY(r, 4, send(r->s, "pong", 4, 0));
	meet(r);
	CLIENT(r)
		TRY(r, 4, recv(r->c, buf, sizeof(buf), 0));
	SERVER(r)
		TRY(r, 4, recv(r->s, buf, sizeof(buf), 0));
	conn_close(r);
}

static void pingpong(struct role *r, size_t size, int rounds)
{
	unsigned char buf[1000];
	long wrong = 0;
	int i;

	conn_open(r);
	for (i = 0; i < rounds; i++) {
		CLIENT(r) {
			pattern_fill(buf, size, (uint64_t)i * size, SEED_CLIENT);
			wrong += send_all(r->c, buf, size) != (long)size;
		}
		SERVER(r) {
			wrong += recv_all(r->s, buf, size) != (long)size;
			wrong += pattern_check(buf, size, (uint64_t)i * size, SEED_CLIENT) >= 0;
			pattern_fill(buf, size, (uint64_t)i * size, SEED_SERVER);
			wrong += send_all(r->s, buf, size) != (long)size;
		}
		CLIENT(r) {
			wrong += recv_all(r->c, buf, size) != (long)size;
			wrong += pattern_check(buf, size, (uint64_t)i * size, SEED_SERVER) >= 0;
		}
	}
	CHECK(r, wrong == 0);
	conn_close(r);
}

static void pingpong_1(struct role *r)
{
	pingpong(r, 1, 5000);
}

static void pingpong_64(struct role *r)
{
	pingpong(r, 64, 5000);
}

static void pingpong_1000(struct role *r)
{
	pingpong(r, 1000, 5000);
}

/* Sizes around every power of two that a buffer may have. */
static void edge_sizes(struct role *r)
{
	static unsigned char buf[(256 << 10) + 1];
	size_t shift, size;
	uint64_t off = 0;
	long wrong = 0;
	int d;

	conn_open(r);
	for (shift = 4; shift <= 18; shift++) {
		for (d = -1; d <= 1; d++, off += size) {
			size = ((size_t)1 << shift) + (size_t)d;
			CLIENT(r) {
				pattern_fill(buf, size, off, SEED_CLIENT);
				wrong += write(r->c, buf, size) != (ssize_t)size;
			}
			SERVER(r) {
				static unsigned char in[sizeof(buf)];

				wrong += recv(r->s, in, size, MSG_WAITALL) != (ssize_t)size;
				wrong += pattern_check(in, size, off, SEED_CLIENT) >= 0;
			}
			meet(r);
		}
	}
	CHECK(r, wrong == 0);
	conn_close(r);
}

static void read_tiny(struct role *r)
{
	static unsigned char buf[65536];
	unsigned char in[8];
	size_t off = 0, step;
	long wrong = 0;

	conn_open(r);
	CLIENT(r) {
		pattern_fill(buf, sizeof(buf), 0, SEED_CLIENT);
		TRY(r, 65536, send_all(r->c, buf, sizeof(buf)));
	}
	SERVER(r) {
		for (step = 1; off < sizeof(buf); off += step, step = step % 7 + 1) {
			if (step > sizeof(buf) - off)
				step = sizeof(buf) - off;
			wrong += recv_all(r->s, in, step) != (long)step;
			wrong += pattern_check(in, step, off, SEED_CLIENT) >= 0;
		}
		CHECK(r, wrong == 0);
	}
	conn_close(r);
}

static void write_tiny(struct role *r)
{
	unsigned char buf[8192];
	size_t i;
	long wrong = 0;

	conn_open(r);
	CLIENT(r) {
		pattern_fill(buf, sizeof(buf), 0, SEED_CLIENT);
		for (i = 0; i < sizeof(buf); i++)
			wrong += write(r->c, buf + i, 1) != 1;
		CHECK(r, wrong == 0);
	}
	meet(r);
	SERVER(r) {
		TRY(r, 8192, recv_all(r->s, buf, sizeof(buf)));
		TRY(r, -1, pattern_check(buf, sizeof(buf), 0, SEED_CLIENT));
	}
	conn_close(r);
}

/* The client says much before the server says anything; then the reverse. */
static void talk_in_turns(struct role *r)
{
	unsigned char buf[50000];
	int turn;

	conn_open(r);
	for (turn = 0; turn < 6; turn++) {
		bool client_writes = turn % 2 == 0;
		uint64_t off = (uint64_t)turn / 2 * sizeof(buf);
		int out = client_writes ? r->c : r->s, in = client_writes ? r->s : r->c;

		if (client_writes ? r->client : r->server) {
			pattern_fill(buf, sizeof(buf), off, SEED_CLIENT);
			TRY(r, 50000, send_all(out, buf, sizeof(buf)));
		}
		meet(r);
		if (client_writes ? r->server : r->client) {
			TRY(r, 50000, recv_all(in, buf, sizeof(buf)));
			TRY(r, -1, pattern_check(buf, sizeof(buf), off, SEED_CLIENT));
		}
		meet(r);
	}
	conn_close(r);
}

/* FIONREAD once it has stood still for a while; bounded. */
static int settled_await(int fd)
{
	int n = 0, was = -1, i, same = 0;

	for (i = 0; i < 500 && (same < 10 || n == 0); i++) {
		poll(NULL, 0, 2);
		ioctl(fd, FIONREAD, &n);
		same = n == was ? same + 1 : 0;
		was = n;
	}
	return n;
}

/*
 * The reader takes a little of a full ring and then waits for the writer, who
 * has room enough in a socket's buffers and must not sleep on.
 */
static void read_a_little(struct role *r)
{
	enum { TOTAL = 600 * 1024 };
	char *buf = calloc(1, TOTAL);
	int first = 0, i;

	if (!buf)
		give_up(r, "calloc");
	conn_open(r);
	for (i = 0; i < 3; i++) {
		CLIENT(r)
			TRY(r, TOTAL, send_all(r->c, buf, TOTAL));
		SERVER(r) {
			first = settled_await(r->s) / 5;
			CHECK(r, first > 0 && recv_all(r->s, buf, (size_t)first) == first);
		}
		meet(r);
		SERVER(r)
			CHECK(r, recv_all(r->s, buf, (size_t)(TOTAL - first)) == TOTAL - first);
	}
	free(buf);
	conn_close(r);
}

/* A client that never writes gets its ring as well, if rings are eager. */
static void pull(struct role *r)
{
	enum { ENOUGH = 20, AT_MOST = 400, RX = 2 };
	bool last = false, seen = false;
	char b;

	conn_open(r);
	for (int n = 0; !last; n++) {
		SERVER(r)
			MUST(r, write(r->s, "x", 1));
		CLIENT(r) {
			MUST(r, read(r->c, &b, 1));
			seen = seen || (path_of(r->c) & RX);
			last = n >= (seen ? ENOUGH : AT_MOST);
			if (n >= ENOUGH && !last)	/* the attach happens in the background */
				poll(NULL, 0, 5);
			if (!r->server)
				tell(r, last);
		}
		SERVER(r)
			if (!r->client)
				last = hear(r);
	}
	CLIENT(r)
		CHECK(r, seen);
	conn_close(r);
}

const struct conf_case stream_cases[] = {
	{ "stream-hello", hello, 0 },
	{ "stream-server-first", server_first, 0 },
	{ "stream-zero-lengths", zero_lengths, 0 },
	{ "stream-coalesce", coalesce, 0 },
	{ "stream-split", split, 0 },
	{ "stream-read-a-little", read_a_little, TOGETHER },
	{ "stream-crossing", crossing, 0 },
	{ "stream-pingpong-1", pingpong_1, 0 },
	{ "stream-pingpong-64", pingpong_64, 0 },
	{ "stream-pingpong-1000", pingpong_1000, 0 },
	{ "stream-edge-sizes", edge_sizes, TOGETHER },
	{ "stream-read-tiny", read_tiny, 0 },
	{ "stream-write-tiny", write_tiny, 0 },
	{ "stream-turns", talk_in_turns, 0 },
	{ "stream-pull", pull, COLD },
	{ NULL, NULL, 0 }
};
