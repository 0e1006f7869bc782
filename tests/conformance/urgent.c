/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Urgent data: MSG_OOB, POLLPRI, SO_OOBINLINE, SIOCATMARK. */
#include "conform.h"

#include <sys/ioctl.h>

static int at_mark(int fd)
{
	int v = -1;

	return ioctl(fd, SIOCATMARK, &v) ? -1 : v;
}

static void out_of_band(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	CLIENT(r) {
		TRY(r, 3, send(r->c, "abc", 3, 0));
		TRY(r, 1, send(r->c, "!", 1, MSG_OOB));
		TRY(r, 3, send(r->c, "def", 3, 0));
	}
	SERVER(r) {
		poll_show(r, "server", POLLPRI, (short)event_await(r->s, POLLPRI));
		TRY(r, 1, recv(r->s, buf, 16, MSG_OOB));
		CHECK(r, buf[0] == '!');
		SHOW(r, recv(r->s, buf, 16, MSG_OOB));
		TRY(r, 0, at_mark(r->s));
		TRY(r, 3, recv(r->s, buf, 16, 0));
		TRY(r, 1, at_mark(r->s));
		TRY(r, 3, recv(r->s, buf, 3, MSG_WAITALL));
		CHECK(r, memcmp(buf, "def", 3) == 0);
		TRY(r, 0, at_mark(r->s));
	}
	conn_close(r);
}

static void in_line(struct role *r)
{
	char buf[16] = "";
	int on = 1;

	conn_open(r);
	SERVER(r)
		TRY(r, 0, setsockopt(r->s, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	meet(r);
	CLIENT(r) {
		TRY(r, 4, send(r->c, "abc!", 4, MSG_OOB));
		TRY(r, 3, send(r->c, "def", 3, 0));
	}
	SERVER(r) {
		TRY(r, 7, readable_await(r->s, 7));
		TRY(r, -EINVAL, recv(r->s, buf, 16, MSG_OOB));
		TRY(r, 3, recv(r->s, buf, 16, 0));
		TRY(r, 1, at_mark(r->s));
		TRY(r, 4, recv(r->s, buf, 4, MSG_WAITALL));
		CHECK(r, memcmp(buf, "!def", 4) == 0);
	}
	conn_close(r);
}

static void to_server_and_back(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "A", 1, MSG_OOB));
	SERVER(r) {
		poll_show(r, "server", POLLPRI, (short)event_await(r->s, POLLPRI));
		TRY(r, 1, recv(r->s, buf, 1, MSG_OOB));
		TRY(r, 1, send(r->s, "B", 1, MSG_OOB));
	}
	CLIENT(r) {
		poll_show(r, "client", POLLPRI, (short)event_await(r->c, POLLPRI));
		TRY(r, 1, recv(r->c, buf, 1, MSG_OOB));
		TRY(r, 4, send(r->c, "then", 4, 0));
	}
	SERVER(r)
		TRY(r, 4, recv(r->s, buf, 4, MSG_WAITALL));
	conn_close(r);
}

/* An urgent byte that nobody has asked for is gone once a read has come to the end behind it. */
static void not_asked_for(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	SERVER(r) {
		TRY(r, 3, send(r->s, "abc", 3, 0));
		TRY(r, 1, send(r->s, "!", 1, MSG_OOB));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		poll_show(r, "end", POLLIN | POLLPRI | POLLRDHUP,
			  (short)event_settled(r->c, POLLIN | POLLPRI | POLLRDHUP, POLLPRI | POLLRDHUP));
		TRY(r, 3, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), MSG_PEEK));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -EINVAL, recv(r->c, buf, sizeof(buf), MSG_OOB));
		poll_show(r, "over", POLLIN | POLLRDHUP, (short)event_await(r->c, POLLIN | POLLPRI | POLLRDHUP));
		TRY(r, 0, at_mark(r->c));
		TRY(r, 0, close(r->c));
	}
}

/* ... and can be asked for as long as none has. */
static void asked_for_at_end(struct role *r)
{
	char buf[16] = "";

	conn_open(r);
	SERVER(r) {
		TRY(r, 1, send(r->s, "!", 1, MSG_OOB));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	meet(r);
	CLIENT(r) {
		event_settled(r->c, POLLPRI | POLLRDHUP, POLLPRI | POLLRDHUP);
		TRY(r, 0, recv(r->c, buf, sizeof(buf), MSG_PEEK));
		TRY(r, 0, recv(r->c, buf, 0, 0));
		TRY(r, 1, recv(r->c, buf, sizeof(buf), MSG_OOB | MSG_PEEK));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), MSG_PEEK));
		TRY(r, 1, recv(r->c, buf, sizeof(buf), MSG_OOB));
		TRY(r, -EINVAL, recv(r->c, buf, sizeof(buf), MSG_OOB));
		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
	}
	conn_close(r);
}

/* An end that is closed answers an urgent byte as any other. */
static void to_who_has_closed(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	meet(r);
	CLIENT(r) {
		long long begun;

		TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		begun = now_ms();
		TRY(r, 1, send(r->c, "!", 1, MSG_OOB));
		event_settled(r->c, 0, POLLHUP);
		CHECK(r, now_ms() < begun + 1000);
		TRY(r, -EPIPE, send(r->c, "!", 1, MSG_OOB | MSG_NOSIGNAL));
		TRY(r, 0, close(r->c));
	}
}

/* The same where there was one before. */
static void to_who_has_closed_again(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "!", 1, MSG_OOB));
	SERVER(r) {
		event_settled(r->s, POLLPRI, POLLPRI);
		TRY(r, -EAGAIN, recv(r->s, buf, 1, MSG_DONTWAIT));
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		long long begun = now_ms();

		event_settled(r->c, POLLRDHUP, POLLRDHUP);
		TRY(r, 1, send(r->c, "!", 1, MSG_OOB));
		event_settled(r->c, 0, POLLHUP);
		CHECK(r, now_ms() < begun + 1000);
		TRY(r, 0, close(r->c));
	}
}

/* A single shot tells of bytes and of an urgent one that has come behind them. */
static void in_one_shot(struct role *r)
{
	static __thread char buf[1000];
	int ep = -1, i;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLPRI | EPOLLONESHOT, 1));
	}
	meet(r);
	CLIENT(r) {
		for (i = 0; i < 4; i++)
			TRY(r, 1000, send(r->c, buf, 1000, 0));
		TRY(r, 1, send(r->c, "!", 1, MSG_OOB));
		TRY(r, 1, send(r->c, "b", 1, 0));
		drained_await(r->c);
	}
	meet(r);
	SERVER(r) {
		struct epoll_event ev = { 0 };

		event_await(r->s, POLLPRI);
		TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
		epoll_show(r, "shot", EPOLLIN | EPOLLPRI, ev.events);
		MUST(r, close(ep));
	}
	conn_close(r);
}

const struct conf_case urgent_cases[] = {
	{ "urgent-out-of-band", out_of_band, 0 },
	{ "urgent-in-line", in_line, 0 },
	{ "urgent-both-ways", to_server_and_back, 0 },
	{ "urgent-not-asked-for", not_asked_for, 0 },
	{ "urgent-asked-for-at-end", asked_for_at_end, 0 },
	{ "urgent-to-who-has-closed", to_who_has_closed, 0 },
	{ "urgent-in-one-shot", in_one_shot, 0 },
	{ "urgent-to-who-has-closed-again", to_who_has_closed_again, 0 },
	{ NULL, NULL, 0 }
};
