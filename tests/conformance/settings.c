/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Options that change what a connection is: set before there is a ring and after, inherited, undone. */
#include "conform.h"

#include <linux/errqueue.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef SO_PEEK_OFF
#define SO_PEEK_OFF 42
#endif

struct setting {
	int level, name;
	const char *text;
	int value;
	bool varies;	/* the kernel answers with something of the machine's */
};

#define SET(level, name, value) { level, name, #name, value, false }
#define SET_V(level, name, value) { level, name, #name, value, true }

/* With all of them a stream is what it was. */
static const struct setting settings[] = {
	SET(SOL_SOCKET, SO_KEEPALIVE, 1), SET(SOL_SOCKET, SO_REUSEADDR, 1),
	SET(SOL_SOCKET, SO_REUSEPORT, 1), SET(SOL_SOCKET, SO_BROADCAST, 1),
	SET(SOL_SOCKET, SO_DONTROUTE, 0), SET(SOL_SOCKET, SO_PRIORITY, 3),
	SET(SOL_SOCKET, SO_MARK, 0), SET(SOL_SOCKET, SO_SNDBUF, 30000),
	SET(SOL_SOCKET, SO_RCVBUF, 40000), SET(SOL_SOCKET, SO_SNDLOWAT, 5),
	SET(SOL_SOCKET, SO_RCVLOWAT, 1), SET(SOL_SOCKET, SO_ERROR, 1),
	SET(SOL_SOCKET, SO_TYPE, 1), SET(SOL_SOCKET, SO_ZEROCOPY, 1),
	SET(SOL_SOCKET, SO_BUSY_POLL, 0), SET_V(SOL_SOCKET, SO_INCOMING_CPU, 0),
	SET(SOL_SOCKET, SO_TIMESTAMP, 0), SET(SOL_SOCKET, SO_OOBINLINE, 0),
	SET(SOL_SOCKET, SO_LOCK_FILTER, 0), SET(SOL_SOCKET, SO_DETACH_FILTER, 0),
	SET(SOL_SOCKET, SO_MAX_PACING_RATE, -1), SET(SOL_SOCKET, SO_NOFCS, 0),
	SET(SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1), SET(SOL_SOCKET, SO_PASSCRED, 1),
	SET(SOL_SOCKET, SO_RXQ_OVFL, 1), SET(SOL_SOCKET, SO_TXREHASH, 1),
	SET(SOL_SOCKET, SO_BUF_LOCK, 3), SET(SOL_SOCKET, SO_RESERVE_MEM, 0),
	SET(IPPROTO_TCP, TCP_NODELAY, 1), SET_V(IPPROTO_TCP, TCP_MAXSEG, 500),
	SET(IPPROTO_TCP, TCP_CORK, 0), SET(IPPROTO_TCP, TCP_KEEPIDLE, 33),
	SET(IPPROTO_TCP, TCP_KEEPINTVL, 22), SET(IPPROTO_TCP, TCP_KEEPCNT, 5),
	SET(IPPROTO_TCP, TCP_SYNCNT, 4), SET(IPPROTO_TCP, TCP_LINGER2, 3),
	SET(IPPROTO_TCP, TCP_DEFER_ACCEPT, 0), SET(IPPROTO_TCP, TCP_WINDOW_CLAMP, 50000),
	SET_V(IPPROTO_TCP, TCP_QUICKACK, 1), SET(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1),
	SET(IPPROTO_TCP, TCP_THIN_DUPACK, 1), SET(IPPROTO_TCP, TCP_USER_TIMEOUT, 54321),
	SET(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 100000), SET(IPPROTO_TCP, TCP_SAVE_SYN, 0),
	SET_V(IPPROTO_TCP, TCP_TIMESTAMP, 5), SET(IPPROTO_TCP, TCP_INQ, 0),
	SET(IPPROTO_TCP, TCP_TX_DELAY, 0), SET(IPPROTO_TCP, TCP_REPAIR_QUEUE, 0),
	SET(IPPROTO_IP, IP_TOS, 16), SET(IPPROTO_IP, IP_TTL, 44),
	SET(IPPROTO_IP, IP_RECVERR, 1), SET(IPPROTO_IP, IP_MTU_DISCOVER, 2),
	SET(IPPROTO_IP, IP_FREEBIND, 1), SET(IPPROTO_IP, IP_RECVTOS, 1),
	SET(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1),
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static void setting_set(struct role *r, int fd, const struct setting *s)
{
	char label[64];
	int rc;

	errno = 0;
	rc = setsockopt(fd, s->level, s->name, &s->value, sizeof(s->value));
	snprintf(label, sizeof(label), "setsockopt %s", s->text);
	transcript_result(&r->t, label, rc ? -errno : rc, rc, errno);
}

static void setting_show(struct role *r, int fd, const struct setting *s)
{
	char label[64];
	int value = 0, rc;
	socklen_t len = sizeof(value);

	errno = 0;
	rc = getsockopt(fd, s->level, s->name, &value, &len);
	snprintf(label, sizeof(label), "getsockopt %s", s->text);
	transcript_result(&r->t, label, rc ? -errno : rc, rc, errno);
	if (rc == 0 && !s->varies)
		NOTE(r, "  value %d, length %d", value, (int)len);
}

/* A word there and back. */
static void talk(struct role *r, int words)
{
	char buf[8];
	long wrong = 0;

	for (int i = 0; i < words; i++) {
		CLIENT(r)
			wrong += send(r->c, "hello", 5, 0) != 5;
		SERVER(r)
			wrong += recv(r->s, buf, 5, MSG_WAITALL) != 5 || send(r->s, buf, 5, 0) != 5;
		CLIENT(r)
			wrong += recv(r->c, buf, 5, MSG_WAITALL) != 5 || memcmp(buf, "hello", 5) != 0;
	}
	TRY(r, 0, wrong);
}

/* Each is set, a word goes, and it is still what was set: without a ring, with one. */
static void set_then_read(struct role *r)
{
	conn_open(r);
	for (int i = 0; i < SETTINGS; i++) {
		CLIENT(r)
			setting_set(r, r->c, &settings[i]);
		talk(r, 1);
		CLIENT(r)
			setting_show(r, r->c, &settings[i]);
	}
	talk(r, 100);
	CLIENT(r)
		for (int i = 0; i < SETTINGS; i++)
			setting_show(r, r->c, &settings[i]);
	conn_close(r);
}

/* The kernel's route is forgotten by some options, until something is sent. */
static void route(struct role *r)
{
	static const struct setting resets[] = {
		SET(IPPROTO_IP, IP_TOS, 8), SET(SOL_SOCKET, SO_MARK, 0), SET(IPPROTO_IPV6, IPV6_TCLASS, 8),
	}, told[] = {
		SET_V(IPPROTO_IP, IP_MTU, 0), SET_V(IPPROTO_IPV6, IPV6_MTU, 0),
	};

	conn_open(r);
	for (int i = 0; i < 6; i++) {
		CLIENT(r) {
			setting_set(r, r->c, &resets[i % 3]);
			setting_show(r, r->c, &told[i / 3]);
		}
		talk(r, 2);
		CLIENT(r)
			setting_show(r, r->c, &told[i / 3]);
	}
	talk(r, 10);
	conn_close(r);
}

/* All of them are set on the listener and on the socket that connects: a ring changes none. */
static void set_before(struct role *r)
{
	struct sockaddr_storage sa;

	listener_open(r);
	SERVER(r)
		for (int i = 0; i < SETTINGS; i++)
			setting_set(r, r->listener, &settings[i]);
	meet(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		for (int i = 0; i < SETTINGS; i++)
			setting_set(r, r->c, &settings[i]);
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r)
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
	if (r->ring)
		conn_warm(r);
	meet(r);
	for (int i = 0; i < SETTINGS; i++) {
		CLIENT(r)
			setting_show(r, r->c, &settings[i]);
		SERVER(r)
			setting_show(r, r->s, &settings[i]);
	}
	talk(r, 1);
	conn_close(r);
}

/* What changes a stream is inherited from the listener too: timeouts, marks, urgent data in line. */
static void inherited(struct role *r)
{
	struct timeval tv = { .tv_usec = 100000 };
	struct linger lg = { 0 };
	socklen_t len = sizeof(lg);
	char buf[16];
	int on = 1, mark = 4, v = 0;

	listener_open(r);
	SERVER(r) {
		TRY(r, 0, setsockopt(r->listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		TRY(r, 0, setsockopt(r->listener, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)));
		TRY(r, 0, setsockopt(r->listener, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
		TRY(r, 0, setsockopt(r->listener, SOL_SOCKET, SO_LINGER,
				     &(struct linger){ 1, 7 }, sizeof(lg)));
	}
	meet(r);
	conn_more(r, &r->s, &r->c);
	talk(r, 200);
	SERVER(r) {
		TRY(r, -EAGAIN, recv(r->s, buf, 16, 0));
		TRY(r, 0, getsockopt(r->s, SOL_SOCKET, SO_LINGER, &lg, &len));
		TRY(r, 7, lg.l_linger);
		len = sizeof(v);
		TRY(r, 0, getsockopt(r->s, SOL_SOCKET, SO_RCVLOWAT, &v, &len));
		TRY(r, 4, v);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 2, send(r->c, "ab", 2, 0));
	SERVER(r) {
		TRY(r, 2, readable_await(r->s, 2));
		quiet_check(r, r->s, POLLIN);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 2, send(r->c, "cd", 2, MSG_OOB));
	SERVER(r) {
		poll_show(r, "server", POLLIN, (short)(event_await(r->s, POLLIN) & POLLIN));
		SHOW(r, recv(r->s, buf, 16, 0));	/* to the mark */
		SHOW(r, recv(r->s, buf, 16, 0));
	}
	conn_close(r);
}

static int option_int(int fd, int level, int name, int v)
{
	return setsockopt(fd, level, name, &v, sizeof(v));
}

static int filter_set(int fd, unsigned int verdict)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, verdict) };
	struct sock_fprog prog = { .len = 1, .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* One that lets all pass; then one that drops, for a while: what it has dropped comes again. */
static void filter(struct role *r)
{
	char buf[16];

	conn_open(r);
	SERVER(r)
		TRY(r, 0, filter_set(r->s, 0xffffffff));
	talk(r, 20);
	meet(r);
	SERVER(r)
		TRY(r, 0, filter_set(r->s, 0));
	meet(r);
	CLIENT(r)
		TRY(r, 5, send(r->c, "again", 5, 0));
	SERVER(r) {
		quiet_check(r, r->s, POLLIN);
		TRY(r, 0, option_int(r->s, SOL_SOCKET, SO_DETACH_FILTER, 0));
		TRY(r, 5, recv(r->s, buf, 16, 0));
	}
	meet(r);
	talk(r, 5);
	conn_close(r);
}

/* The first filter of all drops: nothing of ours may hang on what it has dropped. */
static void filter_drops(struct role *r)
{
	char buf[16];
	long long start;

	conn_open(r);
	SERVER(r) {
		start = now_ms();
		TRY(r, 0, filter_set(r->s, 0));
		CHECK(r, now_ms() - start < 500);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 5, send(r->c, "again", 5, 0));
	SERVER(r) {
		quiet_check(r, r->s, POLLIN);
		TRY(r, 0, option_int(r->s, SOL_SOCKET, SO_DETACH_FILTER, 0));
		TRY(r, 5, recv(r->s, buf, 16, 0));
	}
	meet(r);
	talk(r, 5);
	conn_close(r);
}

/* Repair mode: the queues are looked at, no byte is sent or lost, and all goes on. */
static void repair(struct role *r)
{
	char buf[16] = "";
	unsigned int seq = 0;
	socklen_t len = sizeof(seq);
	int able = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 3, send(r->c, "abc", 3, 0));
	SERVER(r) {
		TRY(r, 3, readable_await(r->s, 3));
		able = option_int(r->s, IPPROTO_TCP, TCP_REPAIR, 1) == 0;
		if (able) {
			TRY(r, 0, option_int(r->s, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE));
			TRY(r, 0, getsockopt(r->s, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, &len));
			SHOW(r, recv(r->s, buf, 16, MSG_PEEK | MSG_DONTWAIT));
			TRY(r, 0, option_int(r->s, IPPROTO_TCP, TCP_REPAIR, -1));
		}
		TRY(r, 3, recv(r->s, buf, 16, 0));
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 16, 0));
	talk(r, 5);
	conn_close(r);
}

/* Protocols on top, and signatures: set, refused, or not there; the stream goes on. */
static void on_top(struct role *r)
{
	char ulp[16] = "";
	socklen_t len = sizeof(ulp);

	conn_open(r);
	CLIENT(r) {
		SHOW(r, setsockopt(r->c, IPPROTO_TCP, TCP_ULP, "espintcp", 9));
		TRY(r, -ENOENT, setsockopt(r->c, IPPROTO_TCP, TCP_ULP, "nothing", 8));
		SHOW(r, getsockopt(r->c, IPPROTO_TCP, TCP_ULP, ulp, &len));
		SHOW(r, setsockopt(r->c, IPPROTO_TCP, TCP_MD5SIG, ulp, 4));
		SHOW(r, setsockopt(r->c, 282, 1, ulp, sizeof(ulp)));	/* SOL_TLS without TLS */
		SHOW(r, setsockopt(r->c, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
		len = sizeof(ulp);
		TRY(r, 0, getsockopt(r->c, IPPROTO_TCP, TCP_CONGESTION, ulp, &len));
		TRY(r, 0, strcmp(ulp, "reno"));
	}
	talk(r, 20);
	conn_close(r);
}

/* MSG_PEEK goes on from where the last one ended. */
static void peek_offset(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 8, send(r->c, "01234567", 8, 0));
	SERVER(r) {
		TRY(r, 8, readable_await(r->s, 8));
		SHOW(r, option_int(r->s, SOL_SOCKET, SO_PEEK_OFF, 2));
		SHOW(r, recv(r->s, buf, 3, MSG_PEEK));
		NOTE(r, "  %.3s", buf);
		SHOW(r, recv(r->s, buf, 3, MSG_PEEK));
		NOTE(r, "  %.3s", buf);
		SHOW(r, recv(r->s, buf, 4, 0));
		SHOW(r, recv(r->s, buf, 16, MSG_PEEK | MSG_DONTWAIT));
		SHOW(r, option_int(r->s, SOL_SOCKET, SO_PEEK_OFF, -1));
		SHOW(r, recv(r->s, buf, 16, 0));
	}
	meet(r);
	talk(r, 5);
	conn_close(r);
}

/* It reads: a small one by copying. */
static void zero_copy_receive(struct role *r)
{
	struct tcp_zerocopy_receive z = { 0 };
	socklen_t len = sizeof(z);
	char copy[64] = "", buf[8];

	conn_open(r);
	CLIENT(r)
		TRY(r, 10, send(r->c, "0123456789", 10, 0));
	SERVER(r) {
		void *m = mmap(NULL, 1 << 16, PROT_READ, MAP_SHARED, r->s, 0);

		TRY(r, 10, readable_await(r->s, 10));
		CHECK(r, m != MAP_FAILED);
		z.address = (uintptr_t)m;
		z.length = 4096;
		z.copybuf_address = (uintptr_t)copy;
		z.copybuf_len = sizeof(copy);
		SHOW(r, getsockopt(r->s, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &z, &len));
		NOTE(r, "  mapped %u, copied %d, inq %u, to be read %u, %s", z.length, z.copybuf_len, z.inq,
		     z.recv_skip_hint, copy);
		munmap(m, 1 << 16);
		SHOW(r, recv(r->s, buf, 8, MSG_DONTWAIT));
	}
	meet(r);
	talk(r, 5);
	conn_close(r);
}

/* connect() and the first bytes in one call, or connect() put off to the first write. */
static void fast_open(struct role *r)
{
	struct sockaddr_storage sa;
	char buf[16];

	listener_open(r);
	SERVER(r)
		SHOW(r, option_int(r->listener, IPPROTO_TCP, TCP_FASTOPEN, 5));
	meet(r);
	for (int way = 0; way < 2; way++) {
		CLIENT(r) {
			loopback_addr(&sa, r->port);
			r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
			if (way) {
				SHOW(r, option_int(r->c, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1));
				SHOW(r, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
				TRY(r, 5, write(r->c, "first", 5));
			} else {
				SHOW(r, sendto(r->c, "first", 5, MSG_FASTOPEN, (struct sockaddr *)&sa, sizeof(sa)));
			}
		}
		SERVER(r) {
			r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
			TRY(r, 5, recv(r->s, buf, 5, MSG_WAITALL));
		}
		talk(r, 300);
		conn_close(r);
	}
}

/* Multipath TCP carries a stream as well, and is none of ours. */
static void multipath(struct role *r)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int able = -1;

	SERVER(r) {
		r->listener = socket(conf_family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP);
		able = r->listener >= 0;
		if (!able)
			r->listener = (int)MUST(r, socket(conf_family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
		loopback_addr(&sa, 0);
		MUST(r, bind(r->listener, (struct sockaddr *)&sa, sizeof(sa)));
		MUST(r, listen(r->listener, 128));
		MUST(r, getsockname(r->listener, (struct sockaddr *)&sa, &len));
		r->port = addr_port(&sa);
		tell(r, r->port);
		tell(r, able);
	}
	CLIENT(r) {
		if (!r->server) {
			r->port = hear(r);
			able = (int)hear(r);
		}
		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, able ? IPPROTO_MPTCP : 0));
		MUST(r, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r)
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
	talk(r, 300);
	conn_close(r);
}

/* A mark on what is unsent: a full connection, then room when it has been read. */
static void unsent_mark(struct role *r)
{
	static char bufs[2][65536];	/* a role's own */
	char *buf = bufs[r->server];
	long taken = 0, n;

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		TRY(r, 0, option_int(r->c, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 50000));
		while ((n = send(r->c, buf, sizeof(bufs[0]), 0)) > 0)
			taken += n;
		CHECK(r, n == -1 && errno == EAGAIN);
		tell(r, taken);
	}
	SERVER(r) {
		if (!r->client)
			taken = hear(r);
		while (taken > 0 && (n = recv(r->s, buf, sizeof(bufs[0]), 0)) > 0)
			taken -= n;
		TRY(r, 0, taken);
	}
	meet(r);
	CLIENT(r)
		poll_show(r, "client", POLLOUT, (short)event_await(r->c, POLLOUT));
	conn_close(r);
}

static atomic_int told_fd, told;

static void on_io(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)uc;
	told_fd = si->si_fd;
	told++;
}

/* A signal for what comes, with the number of who has it. */
static void signal_driven(struct role *r)
{
	struct sigaction sa = { .sa_sigaction = on_io, .sa_flags = SA_SIGINFO | SA_RESTART };
	char buf[8];
	int i;

	conn_open(r);
	SERVER(r) {
		MUST(r, sigaction(SIGRTMIN + 5, &sa, NULL));
		TRY(r, 0, fcntl(r->s, F_SETOWN, getpid()));
		TRY(r, 0, fcntl(r->s, F_SETSIG, SIGRTMIN + 5));
		TRY(r, 0, fcntl(r->s, F_SETFL, O_ASYNC | O_NONBLOCK));
		told = 0;
		CHECK(r, fcntl(r->s, F_GETOWN) == getpid());
		CHECK(r, fcntl(r->s, F_GETSIG) == SIGRTMIN + 5);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		for (i = 0; i < 500 && !told; i++)
			poll(NULL, 0, 10);
		CHECK(r, told > 0 && told_fd == r->s);
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 1, read(r->s, buf, 8));
		TRY(r, 0, fcntl(r->s, F_SETFL, 0));
	}
	meet(r);
	talk(r, 20);
	conn_close(r);
}

static struct tcp_info info_of(int fd)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len);
	return ti;
}

/* What it says was sent, acked and received is what the program has moved. */
static void counts_told(struct role *r)
{
	struct tcp_info a = { 0 }, b = { 0 }, as = { 0 }, bs = { 0 };
	char buf[10000] = "";

	conn_open(r);
	talk(r, 1);
	CLIENT(r) {
		drained_await(r->c);
		a = info_of(r->c);
	}
	SERVER(r) {
		drained_await(r->s);
		as = info_of(r->s);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 10000, send_all(r->c, buf, 10000));
	SERVER(r) {
		TRY(r, 10000, recv_all(r->s, buf, 10000));
		TRY(r, 100, send(r->s, buf, 100, 0));
		drained_await(r->s);
		bs = info_of(r->s);
		TRY(r, 10000, bs.tcpi_bytes_received - as.tcpi_bytes_received);
		TRY(r, 100, bs.tcpi_bytes_sent - as.tcpi_bytes_sent);
		TRY(r, 100, bs.tcpi_bytes_acked - as.tcpi_bytes_acked);
	}
	CLIENT(r) {
		TRY(r, 100, recv_all(r->c, buf, 100));
		drained_await(r->c);
		b = info_of(r->c);
		TRY(r, 10000, b.tcpi_bytes_sent - a.tcpi_bytes_sent);
		TRY(r, 10000, b.tcpi_bytes_acked - a.tcpi_bytes_acked);
		TRY(r, 100, b.tcpi_bytes_received - a.tcpi_bytes_received);
		TRY(r, 0, b.tcpi_notsent_bytes);
		TRY(r, 0, b.tcpi_unacked);
	}
	conn_close(r);
}

/* From the first byte on: the whole of the connection is told. */
static void counts_whole(struct role *r)
{
	long total = 0, wrong = 0;
	struct tcp_info ti;
	char buf[200] = "";

	conn_open(r);
	if (r->ring)
		goto out;	/* what warming up moves differs from run to run */
	for (int i = 0; i < 400; i++) {
		size_t n = 1 + (size_t)i % 200;

		CLIENT(r)
			wrong += send(r->c, buf, n, 0) != (ssize_t)n;
		SERVER(r)
			wrong += recv_all(r->s, buf, n) != (long)n || send(r->s, buf, n, 0) != (ssize_t)n;
		CLIENT(r)
			wrong += recv_all(r->c, buf, n) != (long)n;
		total += (long)n;
	}
	TRY(r, 0, wrong);
	CLIENT(r) {
		drained_await(r->c);
		ti = info_of(r->c);
		TRY(r, total, ti.tcpi_bytes_sent);
		TRY(r, total + 1, ti.tcpi_bytes_acked);		/* the SYN is one */
		TRY(r, total, ti.tcpi_bytes_received);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		event_await(r->s, POLLRDHUP);
		ti = info_of(r->s);
		TRY(r, total + 1, ti.tcpi_bytes_received);	/* the FIN is one */
		TRY(r, total, ti.tcpi_bytes_sent);
	}
out:
	conn_close(r);
}

const struct conf_case settings_cases[] = {
	{ "settings-set-then-read", set_then_read, 0 },
	{ "settings-set-before", set_before, 0 },
	{ "settings-route", route, 0 },
	{ "settings-inherited", inherited, COLD },
	{ "settings-filter", filter, 0 },
	{ "settings-filter-drops", filter_drops, 0 },
	{ "settings-repair", repair, 0 },
	{ "settings-on-top", on_top, 0 },
	{ "settings-peek-offset", peek_offset, 0 },
	{ "settings-zero-copy-receive", zero_copy_receive, 0 },
	{ "settings-fast-open", fast_open, COLD },
	{ "settings-multipath", multipath, COLD },
	{ "settings-unsent-mark", unsent_mark, 0 },
	{ "settings-signal-driven", signal_driven, 0 },
	{ "settings-counts-told", counts_told, 0 },
	{ "settings-counts-whole", counts_whole, COLD },
	{ NULL, NULL, 0 }
};
