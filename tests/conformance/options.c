/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Socket options, ioctls, timeouts: readable, settable, and of effect. */
#include "conform.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/time.h>

struct option_name {
	int level, name;
	const char *text;
	bool varies;	/* do not print the value */
};

#define OPT(level, name, varies) { level, name, #name, varies }

static const struct option_name option_names[] = {
	OPT(SOL_SOCKET, SO_TYPE, false), OPT(SOL_SOCKET, SO_PROTOCOL, false),
	OPT(SOL_SOCKET, SO_DOMAIN, false), OPT(SOL_SOCKET, SO_ERROR, false),
	OPT(SOL_SOCKET, SO_ACCEPTCONN, false), OPT(SOL_SOCKET, SO_REUSEADDR, false),
	OPT(SOL_SOCKET, SO_REUSEPORT, false), OPT(SOL_SOCKET, SO_KEEPALIVE, false),
	OPT(SOL_SOCKET, SO_OOBINLINE, false), OPT(SOL_SOCKET, SO_BROADCAST, false),
	OPT(SOL_SOCKET, SO_DONTROUTE, false), OPT(SOL_SOCKET, SO_RCVLOWAT, false),
	OPT(SOL_SOCKET, SO_SNDLOWAT, false), OPT(SOL_SOCKET, SO_PRIORITY, false),
	OPT(SOL_SOCKET, SO_TIMESTAMP, false), OPT(SOL_SOCKET, SO_MARK, false),
	OPT(SOL_SOCKET, SO_ZEROCOPY, false), OPT(SOL_SOCKET, SO_SNDBUF, true),
	OPT(SOL_SOCKET, SO_RCVBUF, true), OPT(SOL_SOCKET, SO_INCOMING_CPU, true),
	OPT(SOL_SOCKET, SO_BUSY_POLL, false), OPT(SOL_SOCKET, SO_COOKIE, true),
	OPT(IPPROTO_TCP, TCP_NODELAY, false), OPT(IPPROTO_TCP, TCP_CORK, false),
	OPT(IPPROTO_TCP, TCP_MAXSEG, true), OPT(IPPROTO_TCP, TCP_KEEPIDLE, false),
	OPT(IPPROTO_TCP, TCP_KEEPINTVL, false), OPT(IPPROTO_TCP, TCP_KEEPCNT, false),
	OPT(IPPROTO_TCP, TCP_SYNCNT, false), OPT(IPPROTO_TCP, TCP_LINGER2, true),
	OPT(IPPROTO_TCP, TCP_DEFER_ACCEPT, false), OPT(IPPROTO_TCP, TCP_QUICKACK, true),
	OPT(IPPROTO_TCP, TCP_USER_TIMEOUT, false), OPT(IPPROTO_TCP, TCP_CONGESTION, true),
	OPT(IPPROTO_TCP, TCP_NOTSENT_LOWAT, true), OPT(IPPROTO_TCP, TCP_FASTOPEN, false),
	OPT(IPPROTO_IP, IP_TOS, false), OPT(IPPROTO_IP, IP_TTL, true),
	OPT(IPPROTO_TCP, 250, false), OPT(99, 1, false),
};

static void all_readable(struct role *r)
{
	const struct option_name *o;
	char label[64];
	size_t i;

	conn_open(r);
	CLIENT(r) {
		for (i = 0; i < sizeof(option_names) / sizeof(option_names[0]); i++) {
			int value[16] = { 0 };
			socklen_t len = sizeof(value);
			int rc;

			o = &option_names[i];
			errno = 0;
			rc = getsockopt(r->c, o->level, o->name, value, &len);
			snprintf(label, sizeof(label), "getsockopt %d %s", o->level, o->text);
			transcript_result(&r->t, label, rc ? -errno : rc, rc, errno);
			if (rc == 0 && !o->varies)
				NOTE(r, "  value %d, length %d", value[0], (int)len);
		}
	}
	conn_close(r);
}

static int get_int(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, level, name, &v, &len) ? -1 : v;
}

static int set_int(int fd, int level, int name, int v)
{
	return setsockopt(fd, level, name, &v, sizeof(v));
}

static void set_before_connect(struct role *r)
{
	struct sockaddr_storage sa;

	listener_open(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		TRY(r, 0, set_int(r->c, SOL_SOCKET, SO_SNDBUF, 20000));
		TRY(r, 0, set_int(r->c, SOL_SOCKET, SO_RCVBUF, 30000));
		TRY(r, 0, set_int(r->c, SOL_SOCKET, SO_KEEPALIVE, 1));
		TRY(r, 0, set_int(r->c, IPPROTO_TCP, TCP_NODELAY, 1));
		TRY(r, 0, set_int(r->c, IPPROTO_TCP, TCP_KEEPIDLE, 77));
		TRY(r, 0, set_int(r->c, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345));
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r)
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
	if (r->ring)
		conn_warm(r);
	CLIENT(r) {
		TRY(r, 40000, get_int(r->c, SOL_SOCKET, SO_SNDBUF));
		TRY(r, 60000, get_int(r->c, SOL_SOCKET, SO_RCVBUF));
		TRY(r, 1, get_int(r->c, SOL_SOCKET, SO_KEEPALIVE));
		TRY(r, 1, get_int(r->c, IPPROTO_TCP, TCP_NODELAY));
		TRY(r, 77, get_int(r->c, IPPROTO_TCP, TCP_KEEPIDLE));
		TRY(r, 12345, get_int(r->c, IPPROTO_TCP, TCP_USER_TIMEOUT));
	}
	conn_close(r);
}

static void nodelay_and_cork(struct role *r)
{
	char buf[64];
	int i;

	conn_open(r);
	for (i = 0; i < 20; i++) {
		CLIENT(r) {
			MUST(r, set_int(r->c, IPPROTO_TCP, i % 4 < 2 ? TCP_NODELAY : TCP_CORK, i % 2));
			MUST(r, send(r->c, "message", 7, 0));
			TRY(r, i % 2, get_int(r->c, IPPROTO_TCP, i % 4 < 2 ? TCP_NODELAY : TCP_CORK));
			MUST(r, set_int(r->c, IPPROTO_TCP, TCP_CORK, 0));
		}
		SERVER(r)
			TRY(r, 7, recv(r->s, buf, 7, MSG_WAITALL));
	}
	conn_close(r);
}

/* A corked head leaves with its tail when the cork is pulled. */
static void cork(struct role *r)
{
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, set_int(r->c, IPPROTO_TCP, TCP_CORK, 1));
		TRY(r, 4, send(r->c, "head", 4, 0));
		TRY(r, 4, send(r->c, "tail", 4, 0));
		TRY(r, 0, set_int(r->c, IPPROTO_TCP, TCP_CORK, 0));
	}
	SERVER(r) {
		TRY(r, 8, readable_await(r->s, 8));
		TRY(r, 8, read(r->s, buf, 16));
	}
	conn_close(r);
}

static void receive_timeout(struct role *r)
{
	struct timeval tv = { .tv_usec = 100000 }, got = { 0 };
	socklen_t len = sizeof(got);
	long long start;
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		TRY(r, 0, getsockopt(r->c, SOL_SOCKET, SO_RCVTIMEO, &got, &len));
		SHOW(r, got.tv_sec * 1000000 + got.tv_usec);
		start = now_ms();
		TRY(r, -EAGAIN, recv(r->c, buf, 16, 0));
		CHECK(r, now_ms() - start >= 95 && now_ms() - start < 1000);
		start = now_ms();
		TRY(r, -EAGAIN, read(r->c, buf, 16));
		CHECK(r, now_ms() - start >= 95 && now_ms() - start < 1000);
	}
	meet(r);
	SERVER(r)
		TRY(r, 4, send(r->s, "part", 4, 0));
	CLIENT(r) {
		start = now_ms();
		TRY(r, 4, readable_await(r->c, 4));
		TRY(r, 4, recv(r->c, buf, 16, MSG_WAITALL));
		CHECK(r, now_ms() - start >= 95);
		tv.tv_usec = 0;
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		TRY(r, -EAGAIN, recv(r->c, buf, 16, MSG_DONTWAIT));
	}
	conn_close(r);
}

static void send_timeout(struct role *r)
{
	struct timeval tv = { .tv_usec = 100000 };
	static char buf[1 << 20];
	long long start;
	ssize_t n;
	int tries;

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
		for (tries = 0; tries < 100; tries++) {
			start = now_ms();
			n = send(r->c, buf, sizeof(buf), 0);
			if (n < 0)
				break;
		}
		CHECK(r, n == -1 && errno == EAGAIN);
		CHECK(r, now_ms() - start >= 95 && now_ms() - start < 1000);
	}
	conn_close(r);
}

/* Bytes below the mark do not make a socket readable. */
static void receive_lowat(struct role *r)
{
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, set_int(r->c, SOL_SOCKET, SO_RCVLOWAT, 8));
		TRY(r, 8, get_int(r->c, SOL_SOCKET, SO_RCVLOWAT));
	}
	meet(r);
	SERVER(r)
		TRY(r, 4, send(r->s, "0123", 4, 0));
	CLIENT(r) {
		TRY(r, 4, readable_await(r->c, 4));
		quiet_check(r, r->c, POLLIN);
	}
	meet(r);
	SERVER(r)
		TRY(r, 4, send(r->s, "4567", 4, 0));
	CLIENT(r) {
		poll_show(r, "client", POLLIN, (short)event_await(r->c, POLLIN));
		TRY(r, 8, recv(r->c, buf, 16, 0));
	}
	conn_close(r);
}

static int tcp_state(int fd)
{
	struct tcp_info ti;
	socklen_t len = sizeof(ti);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) ? -1 : ti.tcpi_state;
}

static int state_await(int fd, int state)
{
	long long end = now_ms() + 5000;

	while (tcp_state(fd) != state && now_ms() < end)
		poll(NULL, 0, 1);
	return tcp_state(fd);
}

static void states(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		TRY(r, TCP_ESTABLISHED, tcp_state(r->c));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		TRY(r, TCP_LISTEN, tcp_state(r->listener));
		TRY(r, 0, recv(r->s, buf, 4, 0));
		TRY(r, TCP_CLOSE_WAIT, state_await(r->s, TCP_CLOSE_WAIT));
	}
	meet(r);
	CLIENT(r)
		TRY(r, TCP_FIN_WAIT2, state_await(r->c, TCP_FIN_WAIT2));
	meet(r);
	SERVER(r) {
		TRY(r, 0, shutdown(r->s, SHUT_WR));
		TRY(r, TCP_CLOSE, state_await(r->s, TCP_CLOSE));
	}
	conn_close(r);
}

static int queued(int fd, unsigned long what)
{
	int n = -1;

	return ioctl(fd, what, &n) ? -1 : n;
}

static void queue_lengths(struct role *r)
{
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, queued(r->c, FIONREAD));
		TRY(r, 0, queued(r->c, SIOCOUTQ));
		TRY(r, 0, queued(r->c, SIOCOUTQNSD));
		TRY(r, 10, send(r->c, "0123456789", 10, 0));
	}
	SERVER(r) {
		TRY(r, 10, readable_await(r->s, 10));
		TRY(r, 10, queued(r->s, FIONREAD));
		TRY(r, 3, read(r->s, buf, 3));
		TRY(r, 7, queued(r->s, SIOCINQ));
		TRY(r, 7, read(r->s, buf, 16));
		TRY(r, 0, queued(r->s, FIONREAD));
	}
	meet(r);
	CLIENT(r) {
		drained_await(r->c);
		TRY(r, 0, queued(r->c, SIOCOUTQ));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		event_await(r->s, POLLRDHUP);
		SHOW(r, queued(r->s, FIONREAD));
		TRY(r, -EINVAL, queued(r->listener, FIONREAD));
	}
	conn_close(r);
}

static void names(struct role *r)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, getpeername(r->c, (struct sockaddr *)&sa, &len));
		CHECK(r, addr_port(&sa) == r->port && len == (sa.ss_family == AF_INET ? 16 : 28));
		TRY(r, 0, getsockname(r->c, (struct sockaddr *)&sa, &len));
		CHECK(r, addr_is_loopback(&sa));
		tell(r, addr_port(&sa));
	}
	SERVER(r) {
		long theirs = r->client ? addr_port(&sa) : hear(r);

		len = 4;
		TRY(r, 0, getpeername(r->s, (struct sockaddr *)&sa, &len));
		SHOW(r, len);
		TRY(r, 0, getpeername(r->s, (struct sockaddr *)&sa, &len));
		CHECK(r, addr_port(&sa) == theirs);
		TRY(r, 0, shutdown(r->s, SHUT_WR));
		TRY(r, 0, getpeername(r->s, (struct sockaddr *)&sa, &len));
	}
	conn_close(r);
}

static void bad_arguments(struct role *r)
{
	socklen_t len = 2;
	int v = 0;

	conn_open(r);
	CLIENT(r) {
		SHOW(r, getsockopt(r->c, SOL_SOCKET, SO_TYPE, &v, &len));
		SHOW(r, len);
		TRY(r, -EFAULT, getsockopt(r->c, SOL_SOCKET, SO_TYPE, &v, bad_pointer()));
		TRY(r, -EFAULT, setsockopt(r->c, IPPROTO_TCP, TCP_NODELAY, bad_pointer(), 4));
		TRY(r, -EINVAL, setsockopt(r->c, IPPROTO_TCP, TCP_NODELAY, &v, 1));
		TRY(r, -ENOPROTOOPT, setsockopt(r->c, IPPROTO_TCP, 250, &v, 4));
		TRY(r, -ENOTTY, ioctl(r->c, 0x5413, &v));
	}
	conn_close(r);
}

const struct conf_case options_cases[] = {
	{ "options-all-readable", all_readable, 0 },
	{ "options-before-connect", set_before_connect, 0 },
	{ "options-nodelay-and-cork", nodelay_and_cork, 0 },
	{ "options-cork", cork, 0 },
	{ "options-receive-timeout", receive_timeout, 0 },
	{ "options-send-timeout", send_timeout, 0 },
	{ "options-receive-lowat", receive_lowat, 0 },
	{ "options-states", states, 0 },
	{ "options-queue-lengths", queue_lengths, 0 },
	{ "options-names", names, 0 },
	{ "options-bad-arguments", bad_arguments, 0 },
	{ NULL, NULL, 0 }
};
