/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* poll, ppoll, select, pselect: timeouts, mixed sets, odd arguments. */
#include "conform.h"

#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>

static void timeouts(struct role *r)
{
	struct timespec ts = { .tv_nsec = 50000000 };
	struct timeval tv = { .tv_usec = 50000 };
	long long start;
	struct pollfd p;
	fd_set in;

	conn_open(r);
	CLIENT(r) {
		p = (struct pollfd){ .fd = r->c, .events = POLLIN };
		start = now_ms();
		TRY(r, 0, poll(&p, 1, 0));
		CHECK(r, now_ms() - start < 40);
		start = now_ms();
		TRY(r, 0, poll(&p, 1, 50));
		CHECK(r, now_ms() - start >= 49);
		start = now_ms();
		TRY(r, 0, ppoll(&p, 1, &ts, NULL));
		CHECK(r, now_ms() - start >= 49);
		CHECK(r, ts.tv_nsec == 50000000);
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		start = now_ms();
		TRY(r, 0, select(r->c + 1, &in, NULL, NULL, &tv));
		CHECK(r, now_ms() - start >= 49);
		CHECK(r, tv.tv_sec == 0 && tv.tv_usec == 0);
		CHECK(r, !FD_ISSET(r->c, &in));
		FD_SET(r->c, &in);
		start = now_ms();
		TRY(r, 0, pselect(r->c + 1, &in, NULL, NULL, &ts, NULL));
		CHECK(r, now_ms() - start >= 49);
		CHECK(r, ts.tv_nsec == 50000000);
		CHECK(r, now_ms() - start < 1000);
	}
	conn_close(r);
}

static void time_left(struct role *r)
{
	struct timeval tv = { .tv_sec = 5 };
	fd_set in;

	conn_open(r);
	SERVER(r)
		TRY(r, 1, send(r->s, "x", 1, 0));
	CLIENT(r) {
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		TRY(r, 1, select(r->c + 1, &in, NULL, NULL, &tv));
		CHECK(r, tv.tv_sec <= 5 && tv.tv_sec >= 3);
	}
	conn_close(r);
}

static void mixed_poll(struct role *r)
{
	int pipes[2], event = (int)MUST(r, eventfd(0, EFD_CLOEXEC));
	int udp = (int)MUST(r, socket(AF_INET, SOCK_DGRAM, 0)), timer;
	struct itimerspec its = { .it_value.tv_nsec = 1000000 };
	char buf[8];

	MUST(r, pipe2(pipes, O_CLOEXEC));
	timer = (int)MUST(r, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		struct pollfd p[] = {
			{ .fd = pipes[0], .events = POLLIN }, { .fd = r->s, .events = POLLIN },
			{ .fd = event, .events = POLLIN }, { .fd = udp, .events = POLLIN | POLLOUT },
			{ .fd = -1, .events = POLLIN, .revents = 7 }, { .fd = timer, .events = POLLIN },
			{ .fd = 999, .events = POLLIN }, { .fd = pipes[1], .events = POLLOUT },
		};

		event_await(r->s, POLLIN);
		TRY(r, 4, poll(p, 8, 1000));
		poll_show(r, "stream", POLLIN, p[1].revents);
		poll_show(r, "udp", POLLOUT, p[3].revents);
		poll_show(r, "negative", 0, p[4].revents);
		poll_show(r, "not open", POLLNVAL, p[6].revents);
		poll_show(r, "pipe", POLLOUT, p[7].revents);
		TRY(r, 1, recv(r->s, buf, 8, 0));
		TRY(r, 1, write(pipes[1], "p", 1));
		TRY(r, 0, eventfd_write(event, 1));
		TRY(r, 0, timerfd_settime(timer, 0, &its, NULL));
		TRY(r, 1, poll(&p[5], 1, 5000));
		TRY(r, 3, poll(p, 3, 0) + poll(&p[5], 1, 0));
		poll_show(r, "stream", 0, p[1].revents);
	}
	conn_close(r);
	close(pipes[0]);
	close(pipes[1]);
	close(event);
	close(udp);
	close(timer);
}

/* The stream is busy all the time; the others get their turn. */
static void nobody_starves(struct role *r)
{
	int pipes[2], served = 0, i;
	char buf[256];

	MUST(r, pipe2(pipes, O_CLOEXEC));
	conn_open(r);
	SERVER(r)
		MUST(r, write(pipes[1], "p", 1));
	for (i = 0; i < 500; i++) {
		CLIENT(r)
			MUST(r, send(r->c, "tick", 4, 0));
		SERVER(r) {
			struct pollfd p[] = { { .fd = r->s, .events = POLLIN },
					      { .fd = pipes[0], .events = POLLIN } };

			MUST(r, poll(p, 2, 5000));
			served += (p[1].revents & POLLIN) != 0;
			if (p[0].revents & POLLIN)
				MUST(r, recv(r->s, buf, sizeof(buf), 0));
		}
	}
	SERVER(r)
		TRY(r, 500, served);
	meet(r);
	SERVER(r)
		while (recv(r->s, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
	conn_close(r);
	close(pipes[0]);
	close(pipes[1]);
}

static void mixed_select(struct role *r)
{
	int pipes[2];
	fd_set in, out;

	MUST(r, pipe2(pipes, O_CLOEXEC));
	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		int max = pipes[1] > r->s ? pipes[1] : r->s;

		event_await(r->s, POLLIN);
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_SET(pipes[0], &in);
		FD_SET(r->s, &in);
		FD_SET(r->s, &out);
		FD_SET(pipes[1], &out);
		TRY(r, 3, select(max + 1, &in, &out, NULL, NULL));
		CHECK(r, FD_ISSET(r->s, &in) && FD_ISSET(r->s, &out));
		CHECK(r, !FD_ISSET(pipes[0], &in) && FD_ISSET(pipes[1], &out));
	}
	conn_close(r);
	close(pipes[0]);
	close(pipes[1]);
}

static void odd_arguments(struct role *r)
{
	struct pollfd p[3];
	struct timespec bad = { .tv_nsec = 2000000000 };
	fd_set in;
	int closed;

	conn_open(r);
	CLIENT(r) {
		p[0] = p[1] = (struct pollfd){ .fd = r->c, .events = POLLOUT };
		p[2] = (struct pollfd){ .fd = r->c, .events = POLLIN };
		TRY(r, 2, poll(p, 3, 0));
		poll_show(r, "same fd twice", POLLOUT, p[1].revents);
		TRY(r, 0, poll(NULL, 0, 1));
		TRY(r, 0, poll(p, 0, 0));
		TRY(r, -EINVAL, ppoll(p, 1, &bad, NULL));
		TRY(r, -EFAULT, poll(bad_pointer(), 1, 0));
		TRY(r, 0, select(0, NULL, NULL, NULL, &(struct timeval){ 0 }));
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		TRY(r, -EINVAL, select(-1, &in, NULL, NULL, &(struct timeval){ 0 }));
		closed = (int)MUST(r, dup(r->c));
		MUST(r, close(closed));
		FD_SET(closed, &in);
		TRY(r, -EBADF, select(closed + 1, &in, NULL, NULL, &(struct timeval){ 0 }));
		CHECK(r, FD_ISSET(r->c, &in));
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		TRY(r, 0, select(r->c, &in, NULL, NULL, &(struct timeval){ 0 }));
		TRY(r, -EINVAL, select(r->c + 1, &in, NULL, NULL, &(struct timeval){ .tv_sec = -1 }));
	}
	conn_close(r);
}

/* RDNORM and WRNORM are the same news by older names. */
static void normal_bits(struct role *r)
{
	struct pollfd p;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		event_await(r->s, POLLIN);
		p = (struct pollfd){ .fd = r->s, .events = POLLRDNORM | POLLWRNORM };
		TRY(r, 1, poll(&p, 1, 0));
		CHECK(r, p.revents == (POLLRDNORM | POLLWRNORM));
		p.events = POLLRDBAND | POLLWRBAND;
		SHOW(r, poll(&p, 1, 0));
		SHOW(r, p.revents);
	}
	conn_close(r);
}

static void many_conns(struct role *r)
{
	enum { CONNS = 30 };
	int s[CONNS], c[CONNS], i, ready;
	struct pollfd p[CONNS];

	conn_open(r);
	for (i = 0; i < CONNS; i++)
		conn_more(r, &s[i], &c[i]);
	CLIENT(r)
		for (i = 0; i < CONNS; i += 3)
			MUST(r, send(c[i], "x", 1, 0));
	meet(r);
	SERVER(r) {
		for (i = 0; i < CONNS; i++)
			p[i] = (struct pollfd){ .fd = s[i], .events = POLLIN };
		for (i = 0; i < CONNS; i += 3)
			event_await(s[i], POLLIN);
		TRY(r, 10, poll(p, CONNS, 5000));
		for (i = ready = 0; i < CONNS; i++)
			ready += p[i].revents == POLLIN && i % 3 == 0;
		TRY(r, 10, ready);
	}
	meet(r);
	for (i = 0; i < CONNS; i++) {
		SERVER(r)
			MUST(r, close(s[i]));
		CLIENT(r)
			MUST(r, close(c[i]));
	}
	conn_close(r);
}

const struct conf_case select_cases[] = {
	{ "wait-timeouts", timeouts, 0 },
	{ "wait-time-left", time_left, WAIT_SELECT },
	{ "wait-mixed-poll", mixed_poll, WAIT_POLL },
	{ "wait-mixed-select", mixed_select, WAIT_SELECT },
	{ "wait-nobody-starves", nobody_starves, WAIT_POLL },
	{ "wait-odd-arguments", odd_arguments, 0 },
	{ "wait-normal-bits", normal_bits, 0 },
	{ "wait-many-conns", many_conns, 0 },
	{ NULL, NULL, 0 }
};
