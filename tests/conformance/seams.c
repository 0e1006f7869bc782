/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What random sequences (tests/random) have found: mostly where a stream goes from kernel to ring or back. */
#include "conform.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { MUCH = 38198, EVERY_BIT = 0xffff & ~0x20 };

/* All that was written shows itself to one who looks before he takes any. */
static void unread_shows(struct role *r)
{
	static __thread char buf[2 * MUCH];

	conn_open(r);
	SERVER(r) {
		TRY(r, 4198, send(r->s, buf, 4198, 0));
		TRY(r, 1000, send(r->s, buf, 1000, 0));
		TRY(r, 33000, send(r->s, buf, 33000, 0));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, MUCH, readable_await(r->c, MUCH));
		TRY(r, MUCH, recv(r->c, buf, sizeof(buf), MSG_PEEK));
		TRY(r, MUCH, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
		TRY(r, -EAGAIN, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
	}
	conn_close(r);
}

/* A set of epoll in poll(), behind a connection. */
static void set_behind_conn(struct role *r)
{
	conn_open(r);
	SERVER(r)
		TRY(r, 5, send(r->s, "hello", 5, 0));
	meet(r);
	CLIENT(r) {
		struct epoll_event ev = { .events = EPOLLIN };
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct pollfd p[2] = { { .fd = r->c, .events = POLLPRI }, { .fd = ep, .events = POLLIN } };
		char buf[8];

		TRY(r, 5, readable_await(r->c, 5));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, 1, poll(p, 2, 0));
		poll_show(r, "set", POLLIN, p[1].revents);
		TRY(r, 5, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, poll(p, 2, 0));
		MUST(r, close(ep));
	}
	conn_close(r);
}

/* The peer is gone; what is written earns a reset. */
static void reset_earn(struct role *r)
{
	conn_open(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	meet(r);
	CLIENT(r) {
		event_settled(r->c, POLLIN | POLLRDHUP, POLLRDHUP);
		TRY(r, 3, send(r->c, "abc", 3, MSG_NOSIGNAL));
		event_settled(r->c, 0, POLLHUP);
	}
}

static void reset_bits(struct role *r)
{
	reset_earn(r);
	CLIENT(r) {
		struct pollfd p = { .fd = r->c, .events = (short)EVERY_BIT };

		TRY(r, 1, poll(&p, 1, 0));
		TRY(r, 0, p.revents & (POLLWRBAND | POLLRDBAND));
		TRY(r, 0, close(r->c));
	}
}

static void recvmmsg_error(struct role *r)
{
	reset_earn(r);
	CLIENT(r) {
		char buf[8];
		struct iovec v = { buf, sizeof(buf) };
		struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };

		TRY(r, -EPIPE, recvmmsg(r->c, &m, 1, 0, NULL));
		TRY(r, 1, recvmmsg(r->c, &m, 1, 0, NULL));
		TRY(r, 0, m.msg_len);
		TRY(r, 0, close(r->c));
	}
}

/* Options that the ring does not have: the kernel reads, as it would have all the time. */
static void kernel_reads(struct role *r)
{
	int one = 1;

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, setsockopt(r->c, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
	meet(r);
	SERVER(r)
		TRY(r, 25, send(r->s, "aaaaaaaaaabbbbbbbbbbccccc", 25, 0));
	meet(r);
	CLIENT(r) {
		char buf[25], control[64];
		struct iovec v[25];
		struct msghdr h = { .msg_iov = v, .msg_iovlen = 20, .msg_control = control, .msg_controllen = sizeof(control) };
		int i;

		for (i = 0; i < 25; i++)
			v[i] = (struct iovec){ buf + i, 1 };
		TRY(r, 25, readable_await(r->c, 25));
		TRY(r, 20, recvmsg(r->c, &h, MSG_DONTWAIT | MSG_PEEK));
		TRY(r, CMSG_SPACE(sizeof(int)), h.msg_controllen);
		TRY(r, 20, readv(r->c, v, 20));
		TRY(r, 5, readv(r->c, v, 20));
	}
	conn_close(r);
}

/* One call ends both ways of which the other is over already. */
static void shut_both_last(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		TRY(r, 0, close(r->c));
	meet(r);
	SERVER(r) {
		event_settled(r->s, POLLIN | POLLRDHUP, POLLRDHUP);
		TRY(r, 0, shutdown(r->s, SHUT_RDWR));
		TRY(r, 0, close(r->s));
	}
}

/* The mark is above what there is: what comes later, records too, makes no noise. */
static void lowat_above_unread(struct role *r)
{
	static __thread char buf[8192];
	int lowat = 5000;

	conn_open(r);
	SERVER(r)
		TRY(r, 4196, send(r->s, buf, 4196, 0));
	meet(r);
	CLIENT(r) {
		long long start = now_ms();

		TRY(r, 4196, readable_await(r->c, 4196));
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)));
		TRY(r, 4196, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
		CHECK(r, now_ms() - start < 2500);
	}
	conn_close(r);
}

/* Bytes that left by splice() are not waited for: not by poll, and not by a child. */
static void spliced_is_gone(struct role *r)
{
	conn_open(r);
	SERVER(r)
		TRY(r, 3, send(r->s, "abc", 3, 0));
	meet(r);
	CLIENT(r) {
		struct pollfd p = { .fd = r->c, .events = POLLIN };
		char byte = 0;
		int pipes[2], status = 0;
		pid_t pid;

		TRY(r, 3, readable_await(r->c, 3));
		MUST(r, pipe2(pipes, O_CLOEXEC));
		TRY(r, 3, splice(r->c, NULL, pipes[1], NULL, 3, 0));
		TRY(r, 0, poll(&p, 1, 0));
		pid = fork();
		if (pid == 0)
			_exit(recv(r->c, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN ? 0 : 1);
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		close(pipes[0]);
		close(pipes[1]);
	}
	conn_close(r);
}

/* An end was told, and then its sender goes over unread bytes: what was sent, and the end. */
static void reset_behind_fin(struct role *r)
{
	char buf[16];

	conn_open(r);
	SERVER(r)
		TRY(r, 4, send(r->s, "left", 4, 0));
	meet(r);
	CLIENT(r) {
		TRY(r, 4, readable_await(r->c, 4));
		TRY(r, 3, send(r->c, "end", 3, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 3, readable_await(r->s, 3));
		event_settled(r->s, POLLIN | POLLRDHUP, POLLRDHUP);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, close(r->c));
	meet(r);
	SERVER(r) {
		event_settled(r->s, 0, POLLHUP);
		TRY(r, 3, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
}

/* The client's peer is gone over unread bytes: a reset, and 6 bytes before it. */
static void reset_come(struct role *r)
{
	conn_open(r);
	SERVER(r)
		TRY(r, 6, send(r->s, "before", 6, 0));
	CLIENT(r) {
		TRY(r, 6, readable_await(r->c, 6));
		TRY(r, 6, send(r->c, "unread", 6, 0));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r)
		event_settled(r->c, 0, POLLHUP);
}

/* Who has nothing to send is told of the error as well, but for a vector of nothing. */
static void error_by_nothing(struct role *r)
{
	struct iovec none = { 0 };

	reset_come(r);
	CLIENT(r) {
		TRY(r, 0, writev(r->c, &none, 0));
		TRY(r, -ECONNRESET, send(r->c, "", 0, MSG_NOSIGNAL));
		TRY(r, -EPIPE, send(r->c, "", 0, MSG_NOSIGNAL));
		TRY(r, 0, close(r->c));
	}
}

static void error_by_splice(struct role *r)
{
	reset_come(r);
	CLIENT(r) {
		int p[2];

		MUST(r, pipe(p));
		MUST(r, write(p[1], "x", 1));
		TRY(r, -ECONNRESET, splice(p[0], NULL, r->c, NULL, 1, 0));
		close(p[0]);
		close(p[1]);
		TRY(r, 0, close(r->c));
	}
}

/* recv() of no bytes waits once, and is content with any end of that. */
static void recv_of_nothing(struct role *r)
{
	struct timeval tv = { .tv_usec = 20000 };

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		TRY(r, 0, recv(r->c, NULL, 0, 0));
		TRY(r, -EAGAIN, recv(r->c, NULL, 0, MSG_DONTWAIT));
	}
	conn_close(r);
}

/* The reader has become one that no ring is for; its writer does not know, and switches. */
/* After SHUT_RD a look at what comes behind what a splice() has left. */
static void spliced_look(struct role *r)
{
	static __thread char buf[4096];

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_RD));
	meet(r);
	SERVER(r)
		TRY(r, 1460, send(r->s, buf, 1460, 0));
	CLIENT(r) {
		int p[2];

		TRY(r, 1460, readable_await(r->c, 1460));
		MUST(r, pipe(p));
		TRY(r, 105, splice(r->c, NULL, p[1], NULL, 105, 0));
		close(p[0]);
		close(p[1]);
	}
	meet(r);
	SERVER(r) {
		TRY(r, 1560, send(r->s, buf, 1560, 0));
		drained_await(r->s);
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 2915, recv(r->c, buf, 2915, MSG_PEEK | MSG_DONTWAIT));
		TRY(r, 2915, recv(r->c, buf, sizeof(buf), 0));
	}
	conn_close(r);
}

/* A message, where the peer of a connection that has gone back for good comes to the ring once more. */
static void message_behind_switch(struct role *r)
{
	enum { ALL = 8100, SPLICED = 3000, MORE = 20000 };
	static __thread char buf[ALL + MORE];
	struct iovec v = { buf, 100 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	conn_open(r);
	SERVER(r)
		TRY(r, ALL, send(r->s, buf, ALL, 0));
	CLIENT(r) {
		int p[2];

		TRY(r, ALL, readable_await(r->c, ALL));
		MUST(r, pipe(p));
		TRY(r, SPLICED, splice(r->c, NULL, p[1], NULL, SPLICED, 0));
		close(p[0]);
		close(p[1]);
		TRY(r, 100, recvmsg(r->c, &m, 0));
	}
	meet(r);
	SERVER(r) {
		TRY(r, MORE, send(r->s, buf, MORE, 0));
		TRY(r, 10, send(r->s, buf, 10, 0));
		drained_await(r->s);
	}
	meet(r);
	v.iov_len = sizeof(buf);
	CLIENT(r) {
		TRY(r, ALL - SPLICED - 100 + MORE + 10, recvmsg(r->c, &m, MSG_DONTWAIT));
		TRY(r, -EAGAIN, recv(r->c, buf, 1, MSG_DONTWAIT));
	}
	conn_close(r);
}

static void refused_shows(struct role *r)
{
	static __thread char buf[4096];
	int i;

	conn_open(r);
	CLIENT(r)
		TRY(r, 10, send(r->c, buf, 10, 0));
	meet(r);
	SERVER(r) {
		int p[2];

		TRY(r, 10, readable_await(r->s, 10));
		MUST(r, pipe(p));
		TRY(r, 3, splice(r->s, NULL, p[1], NULL, 3, 0));
		close(p[0]);
		close(p[1]);
	}
	for (i = 0; i < 8; i++) {
		meet(r);
		CLIENT(r) {
			TRY(r, 500, send(r->c, buf, 500, 0));
			TRY(r, 2000, send(r->c, buf, 2000, 0));
			drained_await(r->c);
		}
		meet(r);
		SERVER(r)
			TRY(r, 2500 + (i ? 0 : 7), recv(r->s, buf, sizeof(buf), 0));
	}
	conn_close(r);
}

/* ... to all who look without waiting, too: each of them is the first to look in its turn. */
static void refused_seen(struct role *r)
{
	static __thread char buf[8192];
	struct epoll_event ev = { .events = EPOLLIN };
	int i, ep = -1;

	conn_open(r);
	CLIENT(r)
		TRY(r, 10, send(r->c, buf, 10, 0));
	meet(r);
	SERVER(r) {
		int p[2];

		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		TRY(r, 10, readable_await(r->s, 10));
		MUST(r, pipe(p));
		TRY(r, 10, splice(r->s, NULL, p[1], NULL, 10, 0));
		close(p[0]);
		close(p[1]);
	}
	for (i = 0; i < 40; i++) {
		meet(r);
		CLIENT(r) {
			TRY(r, 500, send(r->c, buf, 500, 0));
			TRY(r, 3000, send(r->c, buf, 3000, 0));
			drained_await(r->c);
		}
		meet(r);
		SERVER(r) {
			struct pollfd p = { .fd = r->s, .events = POLLIN };
			int n = 0;

			if (i % 5 == 0)
				TRY(r, 1, poll(&p, 1, 0));
			if (i % 5 == 1)
				TRY(r, 1, epoll_wait(ep, &ev, 1, 0));
			if (i % 5 == 2)
				TRY(r, 3500, recv(r->s, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT));
			if (i % 5 == 3) {
				TRY(r, 0, ioctl(r->s, FIONREAD, &n));
				TRY(r, 3500, n);
			}
			TRY(r, 3500, recv(r->s, buf, sizeof(buf), MSG_DONTWAIT));
		}
	}
	SERVER(r)
		MUST(r, close(ep));
	conn_close(r);
}

/* An end that the program gave itself before there was a ring is not its peer's. */
static void shut_rd_cold(struct role *r)
{
	char buf[1000] = "";
	int i;

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_RD));
	for (i = 0; i < 20; i++) {
		meet(r);
		SERVER(r)
			TRY(r, 1000, send(r->s, buf, sizeof(buf), 0));
		meet(r);
		CLIENT(r) {
			TRY(r, 1000, readable_await(r->c, 1000));
			TRY(r, 1000, recv(r->c, buf, sizeof(buf), 0));
			TRY(r, 1000, send(r->c, buf, sizeof(buf), 0));
		}
		SERVER(r) {
			TRY(r, 1000, recv(r->s, buf, sizeof(buf), MSG_WAITALL));
			poll(NULL, 0, 1);	/* rings are made in the background */
		}
	}
	conn_close(r);
}

/* The kernel hears of SHUT_RD, too, once all is there that was to come, read or not. */
static void shut_rd_unread(struct role *r, bool shut_first)
{
	static __thread char buf[8000];
	int one = 1;

	conn_open(r);
	SERVER(r)
		TRY(r, 8000, send(r->s, buf, sizeof(buf), 0));
	meet(r);
	CLIENT(r) {
		struct epoll_event ev = { .events = EPOLLRDHUP };
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct pollfd p = { .fd = ep, .events = POLLIN };

		TRY(r, 8000, readable_await(r->c, 8000));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, 0, poll(&p, 1, 0));
		if (shut_first)
			TRY(r, 0, shutdown(r->c, SHUT_RD));
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)));
		if (!shut_first)
			TRY(r, 0, shutdown(r->c, SHUT_RD));
		TRY(r, 1, poll(&p, 1, 1000));
		TRY(r, 8000, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		MUST(r, close(ep));
	}
	conn_close(r);
}

static void shut_rd_then_back(struct role *r)
{
	shut_rd_unread(r, true);
}

static void shut_rd_once_back(struct role *r)
{
	shut_rd_unread(r, false);
}

/* Both ways are over, behind bytes that the peer has not read: what it sends earns a reset. */
static void shut_both_over_sent(struct role *r)
{
	conn_open(r);
	SERVER(r) {
		TRY(r, 4, send(r->s, "sent", 4, 0));
		TRY(r, 0, shutdown(r->s, SHUT_RDWR));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 4, readable_await(r->c, 4));
		event_settled(r->c, POLLRDHUP, POLLRDHUP);
		TRY(r, 3, send(r->c, "abc", 3, 0));
		poll_show(r, "client", POLLHUP, (short)(event_settled(r->c, 0, POLLHUP) & POLLHUP));
	}
	meet(r);
	SERVER(r) {
		poll_show(r, "server", POLLERR | POLLHUP, (short)event_settled(r->s, 0, POLLERR | POLLHUP));
		TRY(r, -ECONNRESET, recv(r->s, NULL, 0, 0));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r)
		TRY(r, 0, close(r->c));
}

/* Asked back for a set that others look into, what came before a reset can still be read. */
static void reset_then_set(struct role *r)
{
	static __thread char buf[64];

	reset_come(r);
	CLIENT(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct pollfd p = { .fd = ep, .events = POLLIN };
		struct epoll_event ev = { .events = EPOLLIN };

		TRY(r, 0, poll(&p, 1, 0));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, 6, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		close(ep);
		TRY(r, 0, close(r->c));
	}
}

/* ... and an edge, told by the kernel: taking the error is no news. */
static void reset_edge_once(struct role *r)
{
	static __thread char buf[40000];
	int ep;

	conn_open(r);
	SERVER(r) {	/* more than a ring takes, and read late: by the kernel */
		TRY(r, (long)sizeof(buf), send(r->s, buf, sizeof(buf), 0));
		drained_await(r->s);
	}
	CLIENT(r) {
		TRY(r, (long)sizeof(buf), readable_await(r->c, sizeof(buf)));
		TRY(r, (long)sizeof(buf), recv(r->c, buf, sizeof(buf), MSG_WAITALL));
		TRY(r, 1, send(r->c, "u", 1, 0));
	}
	SERVER(r) {
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		event_await(r->c, 0);
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
		TRY(r, EPOLLIN | EPOLLERR | EPOLLHUP, ev.events);
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, epoll_wait(ep, &ev, 1, 50));
		close(ep);
		TRY(r, 0, close(r->c));
	}
}

/* A look at all that is asked for waits until it is there. */
static void peek_all(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	SERVER(r)
		TRY(r, 4, send(r->s, "1234", 4, 0));
	meet(r);
	CLIENT(r)
		TRY(r, 4, readable_await(r->c, 4));
	meet(r);
	SERVER(r) {
		poll(NULL, 0, 30);	/* the client is in its call, or not yet: it is the same */
		TRY(r, 6, send(r->s, "567890", 6, 0));
	}
	CLIENT(r) {
		TRY(r, 10, recv(r->c, buf, 10, MSG_PEEK | MSG_WAITALL));
		TRY(r, 10, recv(r->c, buf, sizeof(buf), 0));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 2, send(r->s, "ab", 2, 0));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 10, MSG_PEEK | MSG_WAITALL));
	conn_close(r);
}

static int state_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? -1 : info.tcpi_state;
}

/* TCP_INFO says the state that both know of, unread bytes or not. */
static void state_told(struct role *r)
{
	conn_open(r);
	CLIENT(r) {
		TRY(r, 4, send(r->c, "sent", 4, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		drained_await(r->c);
		TRY(r, TCP_FIN_WAIT2, state_of(r->c));
	}
	meet(r);
	SERVER(r) {
		event_settled(r->s, POLLRDHUP, POLLRDHUP);
		TRY(r, TCP_CLOSE_WAIT, state_of(r->s));
	}
	conn_close(r);
}

/* select() has no set for an end of which only exceptions are asked. */
static void select_except_over(struct role *r)
{
	reset_come(r);
	CLIENT(r) {
		struct timeval tv = { .tv_usec = 30000 };
		long long start = now_ms();
		fd_set set;

		FD_ZERO(&set);
		FD_SET(r->c, &set);
		TRY(r, 0, select(r->c + 1, NULL, NULL, &set, &tv));
		CHECK(r, now_ms() - start >= 29);
		TRY(r, 0, close(r->c));
	}
}

/* A mark above what is unread, which was in a ring, and above what comes. */
static void lowat_not_reached(struct role *r)
{
	int lowat = 5000;

	conn_open(r);
	SERVER(r)
		TRY(r, 1, send(r->s, "a", 1, 0));
	meet(r);
	CLIENT(r) {
		TRY(r, 1, readable_await(r->c, 1));
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)));
		quiet_check(r, r->c, POLLIN);
	}
	conn_close(r);
}

/* One shot says all that there is to say. */
static void oneshot_after_reset(struct role *r)
{
	char buf[8];

	conn_open(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	meet(r);
	CLIENT(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct epoll_event ev = { .events = EPOLLIN | EPOLLET | EPOLLONESHOT };

		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 3, send(r->c, "abc", 3, 0));
		event_settled(r->c, 0, POLLHUP);
		TRY(r, -EPIPE, send(r->c, "abc", 3, MSG_NOSIGNAL));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
		epoll_show(r, "event", EPOLLIN | EPOLLHUP, ev.events);
		close(ep);
		TRY(r, 0, close(r->c));
	}
}

/* The one shot was a child's. */
static void oneshot_of_child(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "sent", 4, 0));
	meet(r);
	SERVER(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC)), go[2], status = 0;
		struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT };
		char byte;
		pid_t pid;

		MUST(r, pipe(go));
		pid = fork();
		if (pid == 0) {
			if (read(go[0], &byte, 1) != 1)
				_exit(2);
			_exit(epoll_wait(ep, &ev, 1, 1000) == 1 ? 0 : 1);
		}
		TRY(r, 4, readable_await(r->s, 4));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		MUST(r, write(go[1], "g", 1));
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		TRY(r, 0, epoll_wait(ep, &ev, 1, 20));
		close(go[0]);
		close(go[1]);
		close(ep);
	}
	conn_close(r);
}

/* A reset behind an end, on the kernel's side of a connection that had a ring: what reads 0 has an error all the same. */
static void error_behind_end(struct role *r)
{
	int one = 1, none = 0;

	conn_open(r);
	SERVER(r) {
		TRY(r, 0, ioctl(r->s, FIOASYNC, &one));		/* from here on the kernel's */
		TRY(r, 0, ioctl(r->s, FIOASYNC, &none));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, close(r->c));
	SERVER(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
		char byte;

		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		poll_show(r, "end", POLLRDHUP, (short)(event_settled(r->s, POLLRDHUP, POLLRDHUP) & POLLRDHUP));
		TRY(r, 1, send(r->s, "x", 1, 0));
		poll_show(r, "reset", POLLHUP, (short)(event_settled(r->s, 0, POLLHUP) & POLLHUP));
		TRY(r, 0, recv(r->s, &byte, 1, 0));
		TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
		epoll_show(r, "event", EPOLLIN | EPOLLERR | EPOLLHUP, ev.events);
		TRY(r, 0, epoll_wait(ep, &ev, 1, 20));
		close(ep);
		TRY(r, 0, close(r->s));
	}
}

/* Where the program reads no more, TCP_INQ is told with nothing as well: 0, or that there is no room for it. */
static void inq_after_shut_rd(struct role *r)
{
	int one = 1;

	conn_open(r);
	SERVER(r) {
		union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } control;
		char buf[8];
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

		TRY(r, 0, setsockopt(r->s, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
		TRY(r, 0, shutdown(r->s, SHUT_RD));
		TRY(r, 0, recvmsg(r->s, &m, MSG_DONTWAIT));
		TRY(r, MSG_CTRUNC, m.msg_flags);
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		TRY(r, 0, recvmsg(r->s, &m, 0));
		TRY(r, 0, m.msg_flags);
		TRY(r, (long)sizeof(control), m.msg_controllen);
		TRY(r, 0, *(int *)(void *)CMSG_DATA(&control.h));
	}
	conn_close(r);
}

/* A read of so many bytes, and what TCP_INQ adds to it. */
struct counted {
	long n;
	size_t controllen;
	int inq;
};

static struct counted inq_recv(int fd, void *buf, size_t n)
{
	union { struct cmsghdr h; char room[64]; } control = { .room = "" };
	struct iovec v = { buf, n };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	long got = recvmsg(fd, &h, 0);

	return (struct counted){ got < 0 ? -errno : got, h.msg_controllen, *(int *)(void *)CMSG_DATA(&control.h) };
}

/* What TCP_INQ adds comes with bytes that were in a ring when their sender went. */
static void inq_at_end(struct role *r)
{
	reset_come(r);
	CLIENT(r) {
		char buf[4];
		int one = 1;

		TRY(r, 0, setsockopt(r->c, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
		struct counted m = inq_recv(r->c, buf, sizeof(buf));
		TRY(r, 4, m.n);
		TRY(r, CMSG_SPACE(sizeof(int)), m.controllen);
		TRY(r, 2, m.inq);
		TRY(r, 0, close(r->c));
	}
}

/* Who was told HUP of a reset is told of it by a read that does not wait. */
static void reset_read(struct role *r, bool shut)
{
	char buf[16];

	conn_open(r);
	unread_left(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	CLIENT(r) {
		event_settled(r->c, 0, POLLHUP);
		if (shut)
			TRY(r, -ENOTCONN, shutdown(r->c, SHUT_RDWR));
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
		TRY(r, 0, close(r->c));
	}
}

static void reset_read_at_once(struct role *r)
{
	reset_read(r, false);
}

/* ... also where an end of both ways, which says ENOTCONN, comes between. */
static void reset_read_behind_shutdown(struct role *r)
{
	reset_read(r, true);
}

/* A retreat writes to the kernel what has been read from the ring meanwhile: nothing is unread for that. */
static void read_not_unread(struct role *r)
{
	static __thread char buf[400000];
	int i, n, wrong = 0;

	conn_open(r);
	for (i = 0; i < 25; i++) {
		SERVER(r)
			wrong += send_all(r->s, buf, sizeof(buf)) != sizeof(buf);
		CLIENT(r) {
			wrong += recv_all(r->c, buf, sizeof(buf)) != sizeof(buf);
			wrong += ioctl(r->c, FIONREAD, &n) || n;
		}
		meet(r);
		SERVER(r)
			wrong += send(r->s, buf, 7, 0) != 7;
		CLIENT(r) {
			wrong += readable_await(r->c, 7) != 7;
			wrong += recv(r->c, buf, sizeof(buf), MSG_DONTWAIT) != 7;
		}
		meet(r);
	}
	TRY(r, 0, wrong);
	conn_close(r);
}

static void inq_read(struct role *r, long n)
{
	char buf[4];
	struct counted m = inq_recv(r->c, buf, sizeof(buf));

	TRY(r, n, m.n);
	SHOW(r, m.inq);
}

/* A reset is nothing to go on reading for. */
static void inq_before_reset(struct role *r)
{
	int one = 1;

	reset_come(r);
	CLIENT(r) {
		TRY(r, 0, setsockopt(r->c, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
		inq_read(r, 4);
		inq_read(r, 2);
		TRY(r, -ECONNRESET, recv(r->c, &one, 1, 0));
		TRY(r, 0, close(r->c));
	}
}

/* ... but an end before it is. */
static void inq_end_and_reset(struct role *r)
{
	int one = 1;

	conn_open(r);
	unread_left(r);
	SERVER(r) {
		TRY(r, 6, send(r->s, "before", 6, 0));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	CLIENT(r)
		TRY(r, POLLRDHUP, event_settled(r->c, POLLRDHUP, POLLRDHUP));
	meet(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	CLIENT(r) {
		event_settled(r->c, 0, POLLHUP);
		TRY(r, 0, setsockopt(r->c, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
		inq_read(r, 4);
		inq_read(r, 2);
		inq_read(r, 0);
		TRY(r, 0, close(r->c));
	}
}

/* Less than SO_RCVLOWAT, which sends it back to the kernel, and the end behind it. */
static void lowat_at_end(struct role *r)
{
	static __thread char buf[10000];
	int lowat = 5000;

	conn_open(r);
	SERVER(r) {
		TRY(r, 556, send(r->s, buf, 556, 0));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	CLIENT(r) {
		TRY(r, POLLRDHUP, event_settled(r->c, POLLRDHUP, POLLRDHUP));
		TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)));
		TRY(r, 556, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
	}
	conn_close(r);
}

/* A listener's TCP_INQ is that of who comes by it. */
static void inq_inherited(struct role *r)
{
	char buf[10] = "";
	int one = 1;

	listener_open(r);
	SERVER(r)
		TRY(r, 0, setsockopt(r->listener, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
	meet(r);
	conn_open(r);
	CLIENT(r)
		TRY(r, 10, send(r->c, buf, 10, 0));
	SERVER(r) {
		TRY(r, 10, readable_await(r->s, 10));
		struct counted m = inq_recv(r->s, buf, 4);
		TRY(r, 4, m.n);
		TRY(r, CMSG_SPACE(sizeof(int)), m.controllen);
		TRY(r, 6, m.inq);
	}
	conn_close(r);
}

/* How much is left, told with each read, wherever a switch falls; at the end, too. */
static void inq_counted(struct role *r)
{
	static __thread char buf[1000];
	int i, one = 1;

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, setsockopt(r->c, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
	for (i = 1; i <= 21; i++) {
		SERVER(r) {
			TRY(r, 1000, send(r->s, buf, 1000, 0));
			if (i == 21)
				TRY(r, 0, shutdown(r->s, SHUT_WR));
			drained_await(r->s);
		}
		meet(r);
		CLIENT(r) {
			if (i == 21)
				TRY(r, POLLRDHUP, event_settled(r->c, POLLRDHUP, POLLRDHUP));
			struct counted m = inq_recv(r->c, buf, 100);
			SHOW(r, m.n);
			SHOW(r, m.controllen);
			SHOW(r, m.inq);
			TRY(r, 1, send(r->c, "b", 1, 0));
			poll(NULL, 0, 2);	/* rings are made in the background */
		}
		meet(r);
	}
	conn_close(r);
}

/* ... and behind an urgent byte, where a switch has been seen and is not met yet. */
static void inq_over_urgent(struct role *r)
{
	enum { FIRST = 24000, MORE = 1000, TIMES = 5, LAST = 10000 };
	static __thread char buf[FIRST];
	int i, one = 1;

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, setsockopt(r->c, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
	SERVER(r) {
		TRY(r, FIRST, send_all(r->s, buf, FIRST));	/* more than its ring takes */
		for (i = 0; i < TIMES; i++) {
			drained_await(r->s);
			poll(NULL, 0, 5);	/* it goes to the ring again, some time */
			TRY(r, MORE, send(r->s, buf, MORE, 0));
		}
		TRY(r, 1, send(r->s, "!", 1, MSG_OOB));
		TRY(r, LAST, send_all(r->s, buf, LAST));
		drained_await(r->s);
	}
	meet(r);
	CLIENT(r) {
		struct counted m = inq_recv(r->c, buf, 100);
		TRY(r, 100, m.n);
		TRY(r, FIRST + TIMES * MORE + 1 + LAST - 100, m.inq);
	}
	conn_close(r);
}

/* What is unread stands there for who counts it and who looks, wherever a switch falls. */
static void counted_at_once(struct role *r)
{
	static __thread char buf[20000];
	int i, n = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "a", 1, 0));
	SERVER(r)
		TRY(r, 1, recv(r->s, buf, 1, 0));
	for (i = 1; i <= 20; i++) {
		SERVER(r) {
			TRY(r, 1000, send(r->s, buf, 1000, 0));
			drained_await(r->s);
		}
		meet(r);
		CLIENT(r) {
			TRY(r, 0, ioctl(r->c, FIONREAD, &n));
			TRY(r, 1000 * i, n);
			TRY(r, 1000 * i, recv(r->c, buf, sizeof(buf), MSG_PEEK));
			TRY(r, 1, send(r->c, "b", 1, 0));
			poll(NULL, 0, 2);	/* rings are made in the background */
		}
		meet(r);
	}
	conn_close(r);
}

/* Most of what was written has been read, and does not fill the kernel's buffer once more. */
static void little_comes_back(struct role *r)
{
	char *buf = calloc(1, 300000);
	int p[2];

	if (!buf)
		give_up(r, "calloc");
	conn_open(r);
	CLIENT(r)
		TRY(r, 300000, send_all(r->c, buf, 300000));
	SERVER(r)
		TRY(r, 295000, recv_all(r->s, buf, 295000));
	meet(r);
	SERVER(r) {
		MUST(r, pipe(p));
		TRY(r, 100, splice(r->s, NULL, p[1], NULL, 100, 0));
		close(p[0]);
		close(p[1]);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 3500, send(r->c, buf, 3500, 0));
	meet(r);
	SERVER(r)
		TRY(r, 8400, readable_await(r->s, 8400));
	conn_close(r);
	free(buf);
}

/* The first read of a child brings what its parent's would. */
static void control_in_child(struct role *r)
{
	int one = 1, status = 0;
	pid_t pid;

	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "sent", 4, 0));
	meet(r);
	SERVER(r) {
		TRY(r, 4, readable_await(r->s, 4));
		TRY(r, 0, setsockopt(r->s, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
		pid = fork();
		if (pid == 0) {
			char buf[4], control[64];
			struct iovec v = { buf, sizeof(buf) };
			struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
					    .msg_controllen = sizeof(control) };

			_exit(recvmsg(r->s, &h, 0) == 4 && h.msg_controllen == CMSG_SPACE(sizeof(int)) ? 0 : 1);
		}
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
	}
	conn_close(r);
}

/* An urgent byte that nobody took is unread. */
static void close_over_urgent(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r)
		TRY(r, 1, send(r->s, "u", 1, MSG_OOB));
	meet(r);
	CLIENT(r) {
		event_settled(r->c, POLLPRI, POLLPRI);
		TRY(r, 0, close(r->c));
	}
	meet(r);
	SERVER(r) {
		event_settled(r->s, POLLIN | POLLRDHUP, POLLHUP);
		TRY(r, -ECONNRESET, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
}

/* A second connection, warmed up as the first was. */
static void conn_another(struct role *r, int *s, int *c)
{
	int first_s = r->s, first_c = r->c;

	conn_more(r, &r->s, &r->c);
	if (r->ring)
		conn_warm(r);
	*s = r->s;
	*c = r->c;
	r->s = first_s;
	r->c = first_c;
}

/* Reading is over here, and a child has used the connection since. */
static void shut_rd_and_child(struct role *r)
{
	int s = -1, c = -1, status = 0;

	conn_open(r);
	conn_another(r, &s, &c);
	SERVER(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC)), set = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
		struct pollfd p[2] = { { .fd = r->s, .events = POLLIN | POLLRDHUP }, { .fd = s, .events = POLLIN } };

		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		TRY(r, 0, shutdown(r->s, SHUT_RD));
		pid_t pid = fork();
		if (pid == 0)
			_exit(ioctl(r->s, SIOCOUTQ, &status));
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		TRY(r, 1, poll(p, 2, 0));
		poll_show(r, "first", POLLIN | POLLRDHUP, p[0].revents);
		poll_show(r, "other", 0, p[1].revents);
		TRY(r, 1, epoll_wait(ep, &ev, 1, 0));
		epoll_show(r, "before", EPOLLIN | EPOLLRDHUP, ev.events);
		TRY(r, 0, epoll_ctl(set, EPOLL_CTL_ADD, r->s, &ev));
		TRY(r, 1, epoll_wait(set, &ev, 1, 0));
		epoll_show(r, "after", EPOLLIN | EPOLLRDHUP, ev.events);
		TRY(r, 0, recv(r->s, &status, 1, 0));
		MUST(r, close(ep));
		MUST(r, close(set));
		MUST(r, close(s));
	}
	meet(r);
	CLIENT(r)
		MUST(r, close(c));
	conn_close(r);
}

/* The server's writer has gone to a ring, behind bytes that nobody has read; a reset is to come, for 6 unread. */
static void ring_begun_behind_unread(struct role *r)
{
	char buf[2000] = "";
	int i;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "a", 1, 0));
	SERVER(r) {
		TRY(r, 1, recv(r->s, buf, 1, 0));
		TRY(r, 2000, send(r->s, buf, 2000, 0));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 2000, readable_await(r->c, 2000));
		for (i = 0; i < 50; i++) {	/* rings are made in the background */
			TRY(r, 1, recv(r->c, buf, 1, 0));
			poll(NULL, 0, 2);
		}
	}
	meet(r);
	SERVER(r)
		TRY(r, 1000, send(r->s, buf, 1000, 0));
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	meet(r);
	SERVER(r)
		TRY(r, 6, readable_await(r->s, 6));
}

static void looked_at_after_reset(struct role *r)
{
	static __thread char buf[4000];

	ring_begun_behind_unread(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	meet(r);
	CLIENT(r) {
		event_settled(r->c, 0, POLLHUP);
		TRY(r, 2950, recv(r->c, buf, sizeof(buf), MSG_PEEK));
		TRY(r, 2950, recv(r->c, buf, sizeof(buf), MSG_PEEK | MSG_WAITALL));
		TRY(r, 2000, recv(r->c, buf, 2000, MSG_PEEK));
		TRY(r, 2950, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->c));
	}
}

#if defined(__x86_64__)
/* The same of one that is killed: what there is of it is seen as it is read. */
static void looked_at_after_death(struct role *r)
{
	static __thread char buf[4000];

	ring_begun_behind_unread(r);
	meet(r);
	SERVER(r) {
		long ret;

		close(r->listener);
		__asm__ __volatile__("syscall" : "=a"(ret) : "a"(SYS_exit_group), "D"(0L) : "rcx", "r11", "memory");
		__builtin_unreachable();
	}
	CLIENT(r) {
		long look, all;

		event_settled(r->c, 0, POLLHUP);
		look = recv(r->c, buf, sizeof(buf), MSG_PEEK);
		all = recv(r->c, buf, sizeof(buf), MSG_PEEK | MSG_WAITALL);
		CHECK(r, look == all);
		CHECK(r, recv(r->c, buf, sizeof(buf), 0) == all);
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->c));
	}
}
#endif

#if defined(__x86_64__)
/* The kernel's state of a connection, asked past every library. */
static int raw_state(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	register long level_info __asm__("rdx") = TCP_INFO;
	register void *at __asm__("r10") = &info;
	register socklen_t *room __asm__("r8") = &len;
	long ret;

	__asm__ __volatile__("syscall" : "=a"(ret)
			     : "a"(SYS_getsockopt), "D"((long)fd), "S"((long)IPPROTO_TCP), "r"(level_info),
			       "r"(at), "r"(room) : "rcx", "r11", "memory");
	return ret ? -1 : info.tcpi_state;
}

/* The server is killed over unread bytes; its client goes on at the moment when the kernel knows. */
static void death_come(struct role *r)
{
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	meet(r);
	SERVER(r) {
		long ret;

		close(r->listener);
		__asm__ __volatile__("syscall" : "=a"(ret) : "a"(SYS_exit_group), "D"(0L) : "rcx", "r11", "memory");
		__builtin_unreachable();
	}
	CLIENT(r) {
		const char *fault = getenv("SIDESTEP_FAULT");
		long long end = now_ms() + 5000;

		while (raw_state(r->c) == TCP_ESTABLISHED && now_ms() < end)
			;
		/* where no memory is shared an end is judged a little later (doc/PROGRESS.md) */
		if (fault && strstr(fault, "far"))
			event_settled(r->c, 0, POLLHUP);
	}
}

/* A call that does not wait finds a death that has been. */
static void death_in_set(struct role *r)
{
	conn_open(r);
	CLIENT(r) {
		int ep = set_new(r);
		struct epoll_event ev = { 0 };

		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN | EPOLLRDHUP, 0));
		TRY(r, 0, epoll_wait(ep, &ev, 1, 0));
		death_come(r);
		TRY(r, 1, epoll_wait(ep, &ev, 1, 0));
		epoll_show(r, "event", EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP, ev.events);
		MUST(r, close(ep));
		TRY(r, 0, close(r->c));
	}
	SERVER(r)
		death_come(r);
}

static void death_read(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r)
		TRY(r, -EAGAIN, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
	death_come(r);
	CLIENT(r) {
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
		TRY(r, 0, close(r->c));
	}
}
#endif

/* Both ways are over, and a child reads what there is. */
static void shut_both_and_child(struct role *r)
{
	static __thread char buf[30000];
	int status = 0;

	conn_open(r);
	SERVER(r)
		TRY(r, 30000, send(r->s, buf, sizeof(buf), 0));
	meet(r);
	CLIENT(r) {
		TRY(r, 30000, readable_await(r->c, 30000));
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
	}
	meet(r);
	SERVER(r)
		event_settled(r->s, POLLIN | POLLRDHUP, POLLRDHUP);
	meet(r);
	CLIENT(r) {
		pid_t pid = (pid_t)MUST(r, fork());

		if (pid == 0)
			_exit(recv_all(r->c, buf, sizeof(buf)) == sizeof(buf) && recv(r->c, buf, 1, 0) == 0 ? 0 : 1);
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
	}
	conn_close(r);
}

/* The client shuts both ways over six bytes that it has not read. */
static void shut_over_unread(struct role *r)
{
	SERVER(r)
		TRY(r, 6, send(r->s, "unread", 6, 0));
	meet(r);
	CLIENT(r) {
		TRY(r, 6, readable_await(r->c, 6));
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
	}
}

/* Both ways are shut over unread bytes: what comes then earns a reset, and they can still be read. */
static void shut_both_over_unread(struct role *r)
{
	char buf[16];

	conn_open(r);
	shut_over_unread(r);
	meet(r);
	SERVER(r) {
		TRY(r, 0, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 4, send(r->s, "more", 4, 0));
		event_settled(r->s, 0, POLLHUP);
		TRY(r, -EPIPE, send(r->s, "more", 4, MSG_NOSIGNAL));
		TRY(r, 0, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		poll_show(r, "reset", POLLIN | POLLERR | POLLHUP | POLLRDHUP,
			  (short)event_settled(r->c, POLLIN | POLLRDHUP, POLLERR | POLLHUP));
		TRY(r, 3, recv(r->c, buf, 3, 0));
		TRY(r, 3, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -EPIPE, send(r->c, "a", 1, MSG_NOSIGNAL));
		TRY(r, 0, close(r->c));
	}
}

/* The same of who reads on before it comes, and of who sees the reset first by its own call. */
static void shut_both_and_read(struct role *r)
{
	char buf[16];

	conn_open(r);
	shut_over_unread(r);
	CLIENT(r) {
		TRY(r, 2, recv(r->c, buf, 2, 0));
		TRY(r, 4, recv(r->c, buf, sizeof(buf), MSG_PEEK));
	}
	meet(r);
	SERVER(r) {
		TRY(r, 4, send(r->s, "more", 4, 0));
		event_settled(r->s, 0, POLLHUP);
		TRY(r, 0, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 4, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->c));
	}
}

/* ... and of who never sends any more: nothing is lost by it. */
static void shut_both_then_end(struct role *r)
{
	char buf[16];

	conn_open(r);
	shut_over_unread(r);
	meet(r);
	SERVER(r) {
		TRY(r, 0, recv(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 6, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->c));
	}
}

/* A reset that came before the fork is there for the child, and for the parent if nobody was told. */
static void reset_before_fork(struct role *r)
{
	char byte;
	int status = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	meet(r);
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		event_settled(r->c, 0, POLLHUP);
		pid_t pid = (pid_t)MUST(r, fork());

		if (pid == 0) {
			struct pollfd p = { .fd = r->c, .events = POLLIN };

			if (poll(&p, 1, 0) != 1 || p.revents != (POLLIN | POLLERR | POLLHUP))
				_exit(3);
			if (recv(r->c, &byte, 1, 0) != -1 || errno != ECONNRESET)
				_exit(1);
			_exit(recv(r->c, &byte, 1, 0) == 0 ? 0 : 2);
		}
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		TRY(r, 0, close(r->c));
	}
}

static void reset_left_by_child(struct role *r)
{
	reset_come(r);
	CLIENT(r) {
		char buf[16];
		int status = 0;

		event_settled(r->c, 0, POLLHUP);
		TRY(r, 6, recv(r->c, buf, sizeof(buf), 0));
		pid_t pid = (pid_t)MUST(r, fork());

		if (pid == 0) {
			struct pollfd p = { .fd = r->c };

			_exit(poll(&p, 1, 0) == 1 && p.revents == (POLLERR | POLLHUP) ? 0 : 1);
		}
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->c));
	}
}

/* One byte that waits for more, by splice() or by a child: is it seen to be on its way? */
static int one_held_back(struct role *r, bool child)
{
	int p[2], n = -1, tries;

	MUST(r, pipe(p));
	MUST(r, write(p[1], "a", 1));
	MUST(r, splice(p[0], NULL, r->c, NULL, 1, 0));
	for (tries = 0; tries < 10; tries++) {
		drained_await(r->c);	/* or an ack would let it go */
		long long start = now_ms();
		pid_t pid = child ? (pid_t)MUST(r, fork()) : 0;

		if (child && pid == 0)
			_exit(send(r->c, "a", 1, MSG_MORE) == 1 ? 0 : 1);
		if (child) {
			MUST(r, waitpid(pid, NULL, 0));
		} else {
			MUST(r, write(p[1], "a", 1));
			MUST(r, splice(p[0], NULL, r->c, NULL, 1, SPLICE_F_MORE));
		}
		MUST(r, ioctl(r->c, SIOCOUTQ, &n));
		if (now_ms() - start < 150)	/* TCP holds it for 200 ms */
			break;
	}
	close(p[0]);
	close(p[1]);
	return n;
}

/* What others have written is behind what the library has, and waits. */
static void held_back_is_seen(struct role *r)
{
	char buf[64];

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "b", 1, 0));
	SERVER(r)
		TRY(r, 1, recv(r->s, buf, 1, 0));
	meet(r);
	CLIENT(r) {
		TRY(r, 1, one_held_back(r, false));
		TRY(r, 1, one_held_back(r, true));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		while (recv(r->s, buf, sizeof(buf), 0) > 0)
			;
	}
	conn_close(r);
}

const struct conf_case seams_cases[] = {
	{ "seam-unread-shows", unread_shows, WAIT_EPOLL },
	{ "seam-set-behind-conn", set_behind_conn, WAIT_EPOLL },
	{ "seam-reset-bits", reset_bits, 0 },
	{ "seam-recvmmsg-error", recvmmsg_error, 0 },
	{ "seam-kernel-reads", kernel_reads, 0 },
	{ "seam-shut-both-last", shut_both_last, 0 },
	{ "seam-lowat-above-unread", lowat_above_unread, 0 },
	{ "seam-spliced-is-gone", spliced_is_gone, PROCESS },
	{ "seam-reset-behind-fin", reset_behind_fin, 0 },
	{ "seam-error-by-nothing", error_by_nothing, 0 },
	{ "seam-held-back-is-seen", held_back_is_seen, PROCESS },
	{ "seam-error-by-splice", error_by_splice, 0 },
	{ "seam-recv-of-nothing", recv_of_nothing, 0 },
	{ "seam-refused-shows", refused_shows, 0 },
	{ "seam-spliced-look", spliced_look, 0 },
	{ "seam-message-behind-switch", message_behind_switch, 0 },
	{ "seam-refused-seen", refused_seen, 0 },
	{ "seam-shut-rd-cold", shut_rd_cold, TOGETHER },
	{ "seam-shut-rd-then-back", shut_rd_then_back, WAIT_EPOLL },
	{ "seam-shut-rd-once-back", shut_rd_once_back, WAIT_EPOLL },
	{ "seam-shut-both-over-sent", shut_both_over_sent, 0 },
	{ "seam-reset-then-set", reset_then_set, 0 },
	{ "seam-reset-edge-once", reset_edge_once, 0 },
	{ "seam-peek-all", peek_all, TOGETHER },
	{ "seam-state-told", state_told, 0 },
	{ "seam-select-except-over", select_except_over, 0 },
	{ "seam-lowat-not-reached", lowat_not_reached, 0 },
	{ "seam-oneshot-after-reset", oneshot_after_reset, 0 },
	{ "seam-oneshot-of-child", oneshot_of_child, PROCESS },
	{ "seam-inq-at-end", inq_at_end, 0 },
	{ "seam-reset-read-at-once", reset_read_at_once, 0 },
	{ "seam-reset-read-behind-shutdown", reset_read_behind_shutdown, 0 },
	{ "seam-read-not-unread", read_not_unread, TOGETHER },
	{ "seam-inq-before-reset", inq_before_reset, 0 },
	{ "seam-inq-end-and-reset", inq_end_and_reset, 0 },
	{ "seam-error-behind-end", error_behind_end, PROCESS },
	{ "seam-inq-after-shut-rd", inq_after_shut_rd, 0 },
	{ "seam-lowat-at-end", lowat_at_end, 0 },
	{ "seam-inq-inherited", inq_inherited, 0 },
	{ "seam-inq-counted", inq_counted, 0 },
	{ "seam-inq-over-urgent", inq_over_urgent, 0 },
	{ "seam-counted-at-once", counted_at_once, 0 },
	{ "seam-little-comes-back", little_comes_back, TOGETHER },
	{ "seam-close-over-urgent", close_over_urgent, 0 },
	{ "seam-control-in-child", control_in_child, PROCESS },
	{ "seam-shut-rd-and-child", shut_rd_and_child, PROCESS },
	{ "seam-looked-at-after-reset", looked_at_after_reset, 0 },
#if defined(__x86_64__)
	{ "seam-looked-at-after-death", looked_at_after_death, PROCESS | UNCOUNTED },
	{ "seam-death-in-set", death_in_set, PROCESS | UNCOUNTED },
	{ "seam-death-read", death_read, PROCESS | UNCOUNTED },
#endif
	{ "seam-shut-both-and-child", shut_both_and_child, PROCESS },
	{ "seam-shut-both-over-unread", shut_both_over_unread, 0 },
	{ "seam-shut-both-and-read", shut_both_and_read, 0 },
	{ "seam-shut-both-then-end", shut_both_then_end, 0 },
	{ "seam-reset-before-fork", reset_before_fork, PROCESS },
	{ "seam-reset-left-by-child", reset_left_by_child, PROCESS },
	{ NULL, NULL, 0 }
};
