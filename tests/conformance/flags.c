/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* MSG_* flags of send and recv. */
#include "conform.h"

#include <netinet/in.h>

/* Open, and let the client have "0123456789" to read. */
static void open_with_ten(struct role *r)
{
	conn_open(r);
	SERVER(r)
		TRY(r, 10, send(r->s, "0123456789", 10, 0));
	meet(r);
	CLIENT(r)
		TRY(r, 10, readable_await(r->c, 10));
}

static void peek(struct role *r)
{
	char buf[16] = "";

	open_with_ten(r);
	CLIENT(r) {
		TRY(r, 4, recv(r->c, buf, 4, MSG_PEEK));
		TRY(r, 10, recv(r->c, buf, 16, MSG_PEEK));
		CHECK(r, memcmp(buf, "0123456789", 10) == 0);
		TRY(r, 10, readable_await(r->c, 10));
		TRY(r, 6, recv(r->c, buf, 6, 0));
		TRY(r, 4, recv(r->c, buf, 16, MSG_PEEK));
		CHECK(r, memcmp(buf, "6789", 4) == 0);
		TRY(r, 4, recv(r->c, buf, 16, 0));
		TRY(r, -EAGAIN, recv(r->c, buf, 16, MSG_PEEK | MSG_DONTWAIT));
	}
	conn_close(r);
}

static void peek_blocks(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	SERVER(r)
		TRY(r, 3, send(r->s, "abc", 3, 0));
	CLIENT(r) {
		TRY(r, 3, recv(r->c, buf, 16, MSG_PEEK));
		TRY(r, 3, recv(r->c, buf, 16, 0));
	}
	conn_close(r);
}

static void peek_eof(struct role *r)
{
	char buf[16] = "";

	open_with_ten(r);
	SERVER(r)
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	CLIENT(r) {
		TRY(r, 10, recv(r->c, buf, 16, MSG_PEEK));
		TRY(r, 10, recv(r->c, buf, 16, 0));
		TRY(r, 0, recv(r->c, buf, 16, MSG_PEEK));
		TRY(r, 0, recv(r->c, buf, 16, 0));
	}
	conn_close(r);
}

static void waitall(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	SERVER(r) {
		TRY(r, 4, send(r->s, "0123", 4, 0));
		meet(r);
		TRY(r, 6, send(r->s, "456789", 6, 0));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 10, recv(r->c, buf, 10, MSG_WAITALL));
		CHECK(r, memcmp(buf, "0123456789", 10) == 0);
	}
	conn_close(r);
}

static void waitall_eof(struct role *r)
{
	char buf[32] = "";

	open_with_ten(r);
	SERVER(r)
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	CLIENT(r) {
		TRY(r, 10, recv(r->c, buf, 32, MSG_WAITALL));
		TRY(r, 0, recv(r->c, buf, 32, MSG_WAITALL));
	}
	conn_close(r);
}

static void waitall_dontwait(struct role *r)
{
	char buf[32] = "";

	open_with_ten(r);
	CLIENT(r) {
		TRY(r, 10, recv(r->c, buf, 32, MSG_WAITALL | MSG_DONTWAIT));
		TRY(r, -EAGAIN, recv(r->c, buf, 32, MSG_WAITALL | MSG_DONTWAIT));
	}
	conn_close(r);
}

static void waitall_peek(struct role *r)
{
	char buf[32] = "";

	open_with_ten(r);
	CLIENT(r) {
		TRY(r, 8, recv(r->c, buf, 8, MSG_WAITALL | MSG_PEEK));
		TRY(r, 10, recv(r->c, buf, 10, MSG_WAITALL));
	}
	conn_close(r);
}

static void dontwait(struct role *r)
{
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, -EAGAIN, recv(r->c, buf, 16, MSG_DONTWAIT));
		TRY(r, 3, send(r->c, "abc", 3, MSG_DONTWAIT));
	}
	SERVER(r) {
		TRY(r, 3, recv(r->s, buf, 16, 0));
		TRY(r, -EAGAIN, recv(r->s, buf, 16, MSG_DONTWAIT));
	}
	conn_close(r);
}

/* On a TCP socket MSG_TRUNC throws bytes away instead of copying them. */
static void truncate_flag(struct role *r)
{
	char buf[16] = "";

	open_with_ten(r);
	CLIENT(r) {
		TRY(r, 3, recv(r->c, NULL, 3, MSG_TRUNC));
		TRY(r, 2, recv(r->c, buf, 2, MSG_TRUNC));
		CHECK(r, buf[0] == '\0');
		TRY(r, 5, recv(r->c, buf, 16, MSG_PEEK | MSG_TRUNC));
		TRY(r, 5, recv(r->c, buf, 16, 0));
		CHECK(r, memcmp(buf, "56789", 5) == 0);
	}
	conn_close(r);
}

static void errqueue(struct role *r)
{
	char buf[16];

	open_with_ten(r);
	CLIENT(r) {
		TRY(r, -EAGAIN, recv(r->c, buf, 16, MSG_ERRQUEUE));
		TRY(r, 10, recv(r->c, buf, 16, 0));
	}
	conn_close(r);
}

static void more(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	CLIENT(r) {
		TRY(r, 4, send(r->c, "head", 4, MSG_MORE));
		TRY(r, 4, send(r->c, "tail", 4, 0));
	}
	SERVER(r) {
		TRY(r, 8, readable_await(r->s, 8));
		TRY(r, 8, recv(r->s, buf, 16, 0));
		CHECK(r, memcmp(buf, "headtail", 8) == 0);
	}
	conn_close(r);
}

/* Nobody sends the tail: the head comes out all the same, within 200 ms. */
static void more_alone(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "head", 4, MSG_MORE));
	SERVER(r)
		TRY(r, 4, recv(r->s, buf, 16, 0));
	conn_close(r);
}

static void recvfrom_address(struct role *r)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char buf[16];

	open_with_ten(r);
	CLIENT(r) {
		memset(&sa, 0x5a, sizeof(sa));
		SHOW(r, recvfrom(r->c, buf, 4, 0, (struct sockaddr *)&sa, &len));
		SHOW(r, len);
		SHOW(r, sa.ss_family);
		TRY(r, 6, recvfrom(r->c, buf, 16, 0, NULL, NULL));
	}
	conn_close(r);
}

static void sendto_address(struct role *r)
{
	struct sockaddr_storage sa;
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		loopback_addr(&sa, 9);
		SHOW(r, sendto(r->c, "abc", 3, 0, (struct sockaddr *)&sa, sizeof(sa)));
		TRY(r, 3, sendto(r->c, "def", 3, 0, NULL, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r)
		SHOW(r, recv(r->s, buf, 16, MSG_WAITALL));
	conn_close(r);
}

static void unusual(struct role *r)
{
	char buf[16];

	open_with_ten(r);
	CLIENT(r) {
		TRY(r, 2, recv(r->c, buf, 2, MSG_CMSG_CLOEXEC));
		TRY(r, 2, recv(r->c, buf, 2, MSG_NOSIGNAL));
		TRY(r, -EINVAL, recv(r->c, buf, 2, MSG_OOB));
		TRY(r, 6, recv(r->c, buf, 16, 0));
		TRY(r, 1, send(r->c, "a", 1, MSG_EOR));
		TRY(r, 1, send(r->c, "b", 1, MSG_DONTROUTE));
		TRY(r, 1, send(r->c, "c", 1, MSG_CONFIRM));
	}
	SERVER(r)
		TRY(r, 3, recv(r->s, buf, 3, MSG_WAITALL));
	conn_close(r);
}

/* A look finds all that a peer has left that is gone, wherever it lies. */
static void peek_after_reset(struct role *r)
{
	static __thread char buf[40000];
	ssize_t i;

	conn_open(r);
	SERVER(r)
		TRY(r, 6, send(r->s, "unread", 6, 0));
	CLIENT(r) {
		memset(buf, 'a', sizeof(buf));
		TRY(r, 6, readable_await(r->c, 6));
		TRY(r, 100, send(r->c, buf, 100, 0));
		poll(NULL, 0, 8);		/* fault retreat: it comes back to the kernel */
		memset(buf, 'b', sizeof(buf));
		TRY(r, 30000, send(r->c, buf, 30000, 0));
		drained_await(r->c);
		TRY(r, 0, close(r->c));
	}
	meet(r);
	SERVER(r) {
		event_settled(r->s, 0, POLLHUP);
		TRY(r, 30100, recv(r->s, buf, sizeof(buf), MSG_PEEK));
		for (i = 0; i < 30100 && buf[i] == (i < 100 ? 'a' : 'b'); i++)
			;
		TRY(r, 30100, i);
		TRY(r, 30100, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, -ECONNRESET, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
}

/*
 * What waits for more goes with the next write, whatever way that takes.  Warming up goes
 * ahead of its reader and off the ring, so that a round may be the first on it again.
 */
static void more_is_over(struct role *r)
{
	char buf[1001] = "";
	int i, k, wrong;

	for (k = 0; k < 6; k++) {
		conn_open(r);
		wrong = 0;
		for (i = 0; i < 4; i++) {
			SERVER(r) {
				wrong += send(r->s, buf, 1000, MSG_MORE) != 1000;
				event_await(r->s, POLLOUT);	/* hears of its ring */
				wrong += send(r->s, buf, 1, 0) != 1;
			}
			meet(r);
			CLIENT(r) {
				wrong += readable_await(r->c, 1001) != 1001;
				wrong += recv(r->c, buf, sizeof(buf), MSG_DONTWAIT) != 1001;
			}
			meet(r);
		}
		TRY(r, 0, wrong);
		conn_close(r);
	}
}

const struct conf_case flags_cases[] = {
	{ "flags-peek", peek, 0 },
	{ "flags-peek-blocks", peek_blocks, 0 },
	{ "flags-peek-eof", peek_eof, 0 },
	{ "flags-waitall", waitall, TOGETHER },
	{ "flags-waitall-eof", waitall_eof, 0 },
	{ "flags-waitall-dontwait", waitall_dontwait, 0 },
	{ "flags-waitall-peek", waitall_peek, 0 },
	{ "flags-dontwait", dontwait, 0 },
	{ "flags-trunc", truncate_flag, 0 },
	{ "flags-errqueue", errqueue, 0 },
	{ "flags-more", more, 0 },
	{ "flags-more-alone", more_alone, 0 },
	{ "flags-more-is-over", more_is_over, WAIT_POLL },
	{ "flags-recvfrom-address", recvfrom_address, 0 },
	{ "flags-sendto-address", sendto_address, 0 },
	{ "flags-unusual", unusual, 0 },
	{ "flags-peek-after-reset", peek_after_reset, 0 },
	{ NULL, NULL, 0 }
};
