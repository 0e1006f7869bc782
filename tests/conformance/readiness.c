/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The readiness truth table: what poll, select and epoll report in each state
 * of a connection.  A state is set up once; all three fronts are asked.
 */
#include "conform.h"

#include <netinet/in.h>
#include <sys/select.h>

enum { ALL = POLLIN | POLLOUT | POLLRDHUP | POLLPRI };

static void poll_look(struct role *r, int fd, short all, short none)
{
	struct pollfd p[2] = { { .fd = fd, .events = ALL }, { .fd = fd } };

	SHOW(r, poll(p, 2, 0));
	poll_show(r, "poll all", all, p[0].revents);
	poll_show(r, "poll events=0", none, p[1].revents);
	p[0].events = POLLIN;
	poll(p, 1, 0);
	poll_show(r, "poll IN", all & (POLLIN | POLLHUP | POLLERR), p[0].revents);
	p[0].events = POLLOUT;
	poll(p, 1, 0);
	poll_show(r, "poll OUT", all & (POLLOUT | POLLHUP | POLLERR), p[0].revents);
	p[0].events = POLLRDHUP;
	poll(p, 1, 0);
	poll_show(r, "poll RDHUP", all & (POLLRDHUP | POLLHUP | POLLERR), p[0].revents);
}

/* select's sets are made of poll bits: in = IN HUP ERR, out = OUT ERR, except = PRI */
static void select_look(struct role *r, int fd, short all)
{
	fd_set in, out, except;
	int in_set, out_set, except_set;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	FD_SET(fd, &except);
	SHOW(r, select(fd + 1, &in, &out, &except, &(struct timeval){ 0 }));
	in_set = FD_ISSET(fd, &in) != 0;
	out_set = FD_ISSET(fd, &out) != 0;
	except_set = FD_ISSET(fd, &except) != 0;
	TRY(r, (all & (POLLIN | POLLHUP | POLLERR)) != 0, in_set);
	TRY(r, (all & (POLLOUT | POLLERR)) != 0, out_set);
	TRY(r, (all & POLLPRI) != 0, except_set);
}

static unsigned int epoll_one(struct role *r, int fd, unsigned int events)
{
	struct epoll_event ev = { .events = events, .data.u64 = 0x1234567890abcdef };
	int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));

	MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	ev.events = 0;
	if (epoll_wait(ep, &ev, 1, 0) == 1)
		CHECK(r, ev.data.u64 == 0x1234567890abcdef);
	MUST(r, close(ep));
	return ev.events;
}

static void epoll_look(struct role *r, int fd, short all, short none)
{
	epoll_show(r, "epoll all", (unsigned short)all, epoll_one(r, fd, ALL));
	epoll_show(r, "epoll events=0", (unsigned short)none, epoll_one(r, fd, 0));
	epoll_show(r, "epoll ET all", (unsigned short)all, epoll_one(r, fd, ALL | EPOLLET));
	epoll_show(r, "epoll IN", all & (POLLIN | POLLHUP | POLLERR), epoll_one(r, fd, EPOLLIN));
}

static void look(struct role *r, int fd, short all, short none)
{
	poll_look(r, fd, all, none);
	select_look(r, fd, all);
	epoll_look(r, fd, all, none);
}

static void await(int fd, short events)
{
	event_await(fd, events);
}

static void idle(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		look(r, r->c, POLLOUT, 0);
	SERVER(r)
		look(r, r->s, POLLOUT, 0);
	conn_close(r);
}

static void fresh(struct role *r)
{
	int fd;

	CLIENT(r) {
		fd = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		look(r, fd, POLLOUT | POLLHUP, POLLHUP);
		TRY(r, 0, close(fd));
	}
}

static void data(struct role *r)
{
	char buf[8];

	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "data", 4, 0));
	SERVER(r) {
		await(r->s, POLLIN);
		look(r, r->s, POLLIN | POLLOUT, 0);
		TRY(r, 2, recv(r->s, buf, 2, 0));
		look(r, r->s, POLLIN | POLLOUT, 0);
		TRY(r, 2, recv(r->s, buf, 8, 0));
		look(r, r->s, POLLOUT, 0);
	}
	conn_close(r);
}

static void fin(struct role *r)
{
	char buf[8];

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	SERVER(r) {
		await(r->s, POLLRDHUP);
		look(r, r->s, POLLIN | POLLOUT | POLLRDHUP, 0);
		TRY(r, 0, recv(r->s, buf, 8, 0));
		look(r, r->s, POLLIN | POLLOUT | POLLRDHUP, 0);
	}
	meet(r);
	CLIENT(r)
		look(r, r->c, POLLOUT, 0);
	conn_close(r);
}

static void data_and_fin(struct role *r)
{
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 4, send(r->c, "last", 4, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		await(r->s, POLLRDHUP);
		look(r, r->s, POLLIN | POLLOUT | POLLRDHUP, 0);
		TRY(r, 4, recv(r->s, buf, 8, 0));
		look(r, r->s, POLLIN | POLLOUT | POLLRDHUP, 0);
		TRY(r, 0, recv(r->s, buf, 8, 0));
	}
	conn_close(r);
}

static void own_shut_rd(struct role *r)
{
	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, shutdown(r->c, SHUT_RD));
		look(r, r->c, POLLIN | POLLOUT | POLLRDHUP, 0);
	}
	meet(r);
	SERVER(r)
		look(r, r->s, POLLOUT, 0);
	conn_close(r);
}

static void own_shut_rdwr(struct role *r)
{
	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
		look(r, r->c, POLLIN | POLLOUT | POLLHUP | POLLRDHUP, POLLHUP);
	}
	meet(r);
	SERVER(r) {
		await(r->s, POLLRDHUP);
		look(r, r->s, POLLIN | POLLOUT | POLLRDHUP, 0);
	}
	conn_close(r);
}

static void both_fins(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	SERVER(r) {
		await(r->s, POLLRDHUP);
		TRY(r, 0, shutdown(r->s, SHUT_WR));
		look(r, r->s, POLLIN | POLLOUT | POLLHUP | POLLRDHUP, POLLHUP);
	}
	CLIENT(r) {
		await(r->c, POLLRDHUP);
		look(r, r->c, POLLIN | POLLOUT | POLLHUP | POLLRDHUP, POLLHUP);
	}
	conn_close(r);
}

static void reset(struct role *r)
{
	struct linger lg = { .l_onoff = 1 };
	int e = 0;
	socklen_t len = sizeof(e);

	conn_open(r);
	SERVER(r) {
		TRY(r, 0, setsockopt(r->s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		await(r->c, 0);
		look(r, r->c, POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP, POLLERR | POLLHUP);
		TRY(r, 0, getsockopt(r->c, SOL_SOCKET, SO_ERROR, &e, &len));
		TRY(r, ECONNRESET, e);
		look(r, r->c, POLLIN | POLLOUT | POLLHUP | POLLRDHUP, POLLHUP);
		TRY(r, 0, getsockopt(r->c, SOL_SOCKET, SO_ERROR, &e, &len));
		TRY(r, 0, e);
		TRY(r, 0, close(r->c));
	}
}

static void refused(struct role *r)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int fd, e = 0;

	CLIENT(r) {
		int taken = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));

		loopback_addr(&sa, 0);
		MUST(r, bind(taken, (struct sockaddr *)&sa, sizeof(sa)));
		MUST(r, getsockname(taken, (struct sockaddr *)&sa, &len));
		fd = (int)MUST(r, socket(conf_family(), SOCK_STREAM | SOCK_NONBLOCK, 0));
		SHOW(r, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
		await(fd, POLLOUT);
		look(r, fd, POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP, POLLERR | POLLHUP);
		len = sizeof(e);
		TRY(r, 0, getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len));
		TRY(r, ECONNREFUSED, e);
		look(r, fd, POLLIN | POLLOUT | POLLHUP | POLLRDHUP, POLLHUP);
		TRY(r, 0, close(fd));
		TRY(r, 0, close(taken));
	}
}

static void full(struct role *r)
{
	static char out[65536], in[65536];
	long taken = 0, n;

	conn_open(r);
	CLIENT(r) {
		while ((n = send(r->c, out, sizeof(out), MSG_DONTWAIT)) > 0)
			taken += n;
		CHECK(r, errno == EAGAIN);
		tell(r, taken);
	}
	SERVER(r) {
		if (!r->client)
			taken = hear(r);
		look(r, r->s, POLLIN | POLLOUT, 0);
		while (taken > 0 && (n = recv(r->s, in, sizeof(in), MSG_DONTWAIT)) != 0) {
			if (n > 0)
				taken -= n;
			else
				await(r->s, POLLIN);
		}
		CHECK(r, taken == 0);
	}
	meet(r);
	CLIENT(r) {
		await(r->c, POLLOUT);
		look(r, r->c, POLLOUT, 0);
	}
	conn_close(r);
}

static void listening(struct role *r)
{
	listener_open(r);
	SERVER(r)
		look(r, r->listener, 0, 0);
	meet(r);
	CLIENT(r) {
		struct sockaddr_storage sa;

		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		TRY(r, 0, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r) {
		await(r->listener, POLLIN);
		look(r, r->listener, POLLIN, 0);
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
		look(r, r->listener, 0, 0);
	}
	conn_close(r);
}

/* A sleeper in each front is woken by each kind of news. */
static void sleep_in(struct role *r, int fd, int front)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN };
	fd_set in;
	int ep;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	meet(r);
	if (front == 0) {
		TRY(r, 1, poll(&p, 1, 10000));
	} else if (front == 1) {
		TRY(r, 1, select(fd + 1, &in, NULL, NULL, &(struct timeval){ .tv_sec = 10 }));
	} else {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		TRY(r, 1, epoll_wait(ep, &ev, 1, 10000));
		MUST(r, close(ep));
	}
}

static void sleepers(struct role *r)
{
	char buf[8];
	int front, round;

	conn_open(r);
	for (round = 0; round < 20; round++) {
		for (front = 0; front < 3; front++) {
			SERVER(r) {
				sleep_in(r, r->s, front);
				TRY(r, 4, recv(r->s, buf, 8, MSG_DONTWAIT));
			}
			CLIENT(r) {
				meet(r);
				if (round == 19)	/* let it fall asleep once */
					poll(NULL, 0, 20);
				MUST(r, send(r->c, "news", 4, 0));
			}
		}
	}
	SERVER(r) {
		sleep_in(r, r->s, 2);
		TRY(r, 0, recv(r->s, buf, 8, 0));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	conn_close(r);
}

/* A sleeper for POLLOUT wakes when the reader has made room. */
static void sleep_for_room(struct role *r)
{
	static char out[65536], in[65536];
	long taken = 0, n;

	conn_open(r);
	CLIENT(r) {
		while ((n = send(r->c, out, sizeof(out), MSG_DONTWAIT)) > 0)
			taken += n;
		tell(r, taken);
		poll_show(r, "client", POLLOUT, (short)event_await(r->c, POLLOUT));
	}
	SERVER(r) {
		taken = hear(r);
		while (taken > 0 && (n = recv(r->s, in, sizeof(in), 0)) > 0)
			taken -= n;
		CHECK(r, taken == 0);
	}
	conn_close(r);
}

/* Who waits, but finds room, is told of the bytes too: by poll(), select() and a set, wherever a switch falls. */
static void told_beside_room(struct role *r)
{
	char buf[100] = { 0 };
	int i, ep = -1;

	conn_open(r);
	CLIENT(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT };

		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
	}
	for (i = 0; i < 60; i++) {
		SERVER(r) {
			TRY(r, 100, send(r->s, buf, 100, 0));
			drained_await(r->s);
		}
		meet(r);
		CLIENT(r) {
			struct pollfd p = { .fd = r->c, .events = POLLIN | POLLOUT };
			struct epoll_event ev = { 0 };
			fd_set in, out;

			FD_ZERO(&in);
			FD_ZERO(&out);
			FD_SET(r->c, &in);
			FD_SET(r->c, &out);
			if (i % 3 == 0)
				TRY(r, 1, poll(&p, 1, 1000));
			else if (i % 3 == 1)
				TRY(r, 2, select(r->c + 1, &in, &out, NULL, &(struct timeval){ .tv_sec = 1 }));
			else
				TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
			if (i % 3 != 1)
				poll_show(r, "events", POLLIN | POLLOUT, (short)(p.revents | ev.events));
			TRY(r, 100, recv(r->c, buf, 100, 0));
			TRY(r, 1, send(r->c, "b", 1, 0));
			poll(NULL, 0, 2);	/* rings are made in the background */
		}
		meet(r);
	}
	CLIENT(r)
		close(ep);
	conn_close(r);
}

const struct conf_case readiness_cases[] = {
	{ "ready-fresh", fresh, COLD },
	{ "ready-idle", idle, 0 },
	{ "ready-data", data, WAIT_POLL },
	{ "ready-fin", fin, WAIT_EPOLL },
	{ "ready-data-and-fin", data_and_fin, 0 },
	{ "ready-own-shut-rd", own_shut_rd, 0 },
	{ "ready-own-shut-rdwr", own_shut_rdwr, WAIT_SELECT },
	{ "ready-both-fins", both_fins, WAIT_POLL },
	{ "ready-reset", reset, WAIT_EPOLL },
	{ "ready-refused", refused, COLD },
	{ "ready-full", full, WAIT_POLL },
	{ "ready-listening", listening, COLD },
	{ "ready-sleepers", sleepers, TOGETHER },
	{ "ready-sleep-for-room", sleep_for_room, TOGETHER | WAIT_POLL },
	{ "ready-told-beside-room", told_beside_room, WAIT_EPOLL },
	{ NULL, NULL, 0 }
};
