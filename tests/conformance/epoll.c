/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* epoll: modes, masks, membership, nesting, errnos. */
#include "conform.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

static void level(struct role *r)
{
	char buf[8];
	int ep;

	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "data", 4, 0));
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 77));
		set_expect(r, ep, EPOLLIN, 77);
		set_expect(r, ep, EPOLLIN, 77);
		TRY(r, 2, read(r->s, buf, 2));
		set_expect(r, ep, EPOLLIN, 77);
		TRY(r, 2, read(r->s, buf, 8));
		set_quiet(r, ep);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void edge(struct role *r)
{
	char buf[16];
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLET, 1));
		set_quiet(r, ep);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "data", 4, 0));
	SERVER(r) {
		set_expect(r, ep, EPOLLIN, 1);
		set_quiet(r, ep);
		TRY(r, 2, read(r->s, buf, 2));
		set_quiet(r, ep);	/* a partial read is no news */
	}
	meet(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "more", 4, 0));
	SERVER(r) {
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 6, readable_await(r->s, 6));
		TRY(r, 6, read(r->s, buf, 16));
		TRY(r, -EAGAIN, recv(r->s, buf, 16, MSG_DONTWAIT));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	SERVER(r) {
		set_expect(r, ep, EPOLLIN, 1);
		set_quiet(r, ep);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void edge_mod_rearms(struct role *r)
{
	int ep;

	conn_open(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "data", 4, 0));
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 4, readable_await(r->s, 4));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLET, 1));
		set_expect(r, ep, EPOLLIN, 1);
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN | EPOLLET, 2));
		set_expect(r, ep, EPOLLIN, 2);
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN | EPOLLOUT | EPOLLET, 3));
		set_expect(r, ep, EPOLLIN | EPOLLOUT, 3);
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN, 4));
		set_expect(r, ep, EPOLLIN, 4);
		set_expect(r, ep, EPOLLIN, 4);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

/* Nothing has happened since the edge was told.  (Where it is told again all the same: run.) */
static void edge_out_once(struct role *r)
{
	int ep;

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLOUT | EPOLLET, 1));
		set_expect(r, ep, EPOLLOUT, 1);
		set_quiet(r, ep);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

/*
 * Who was given room for a part is told when there is more, however fast that is read.
 * By its flag, or by its descriptor's.
 */
static void edge_out_parts(struct role *r)
{
	enum { PIECE = 300000, ALL = 200 * PIECE };
	static char out[PIECE], in[20000];
	struct epoll_event ev;
	long done = 0, n = 0;
	int ep;

	conn_open(r);
	CLIENT(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLOUT | EPOLLET, 1));
		for (; done < ALL; done += n > 0 ? n : 0) {
			if (done > ALL / 2)
				nonblock_set(r, r->c);
			size_t left = (size_t)(ALL - done);

			n = send(r->c, out, left < PIECE ? left : PIECE, done > ALL / 2 ? 0 : MSG_DONTWAIT);
			if (n < 0 && errno != EAGAIN)
				MUST(r, n);
			if (n < PIECE && n < (long)left && epoll_wait(ep, &ev, 1, 5000) != 1)
				give_up(r, "no edge");
		}
		TRY(r, ALL, done);
		TRY(r, 0, close(ep));
	}
	SERVER(r) {
		while (done < ALL)
			done += MUST(r, recv(r->s, in, sizeof(in), 0));
		TRY(r, ALL, done);
	}
	conn_close(r);
}

/* OUT comes once after a full buffer has been drained. */
static void edge_out(struct role *r)
{
	static char out[65536], in[65536];
	long taken = 0, n;
	int ep = -1;

	conn_open(r);
	CLIENT(r) {
		nonblock_set(r, r->c);
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLOUT | EPOLLET, 1));
		set_expect(r, ep, EPOLLOUT, 1);
		while ((n = send(r->c, out, sizeof(out), 0)) > 0)
			taken += n;
		tell(r, taken);
	}
	SERVER(r) {
		if (!r->client)
			taken = hear(r);
		while (taken > 0) {
			n = recv(r->s, in, taken < (long)sizeof(in) ? (size_t)taken : sizeof(in), 0);
			if (n <= 0)
				break;
			taken -= n;
		}
		CHECK(r, taken == 0);
	}
	meet(r);
	CLIENT(r) {
		set_expect(r, ep, EPOLLOUT, 1);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void oneshot(struct role *r)
{
	char buf[8];
	int ep = -1;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "1", 1, 0));
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLONESHOT, 1));
		set_expect(r, ep, EPOLLIN, 1);
		set_quiet(r, ep);
		TRY(r, 1, read(r->s, buf, 8));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "2", 1, 0));
	SERVER(r) {
		TRY(r, 1, readable_await(r->s, 1));
		set_quiet(r, ep);
		TRY(r, -EEXIST, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN | EPOLLONESHOT, 2));
		set_expect(r, ep, EPOLLIN, 2);
		set_quiet(r, ep);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
	SERVER(r) {
		event_await(r->s, POLLRDHUP);
		set_quiet(r, ep);	/* disarmed: not even HUP */
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void remove_and_add(struct role *r)
{
	int ep;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLET, 1));
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_DEL, r->s, NULL));
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLET, 2));
		set_expect(r, ep, EPOLLIN, 2);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 0));
		TRY(r, -ENOENT, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 0));
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void errnos(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	volatile int minus = -1;
	int ep, file = (int)MUST(r, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));

	conn_open(r);
	CLIENT(r) {
		ep = set_new(r);
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, -EEXIST, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, -EFAULT, epoll_ctl(ep, EPOLL_CTL_MOD, r->c, NULL));
		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_DEL, r->c, NULL));
		TRY(r, -ENOENT, epoll_ctl(ep, EPOLL_CTL_DEL, r->c, NULL));
		TRY(r, -ENOENT, epoll_ctl(ep, EPOLL_CTL_MOD, r->c, &ev));
		TRY(r, -EINVAL, epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev));
		TRY(r, -EINVAL, epoll_ctl(r->c, EPOLL_CTL_ADD, ep, &ev));
		TRY(r, -EPERM, epoll_ctl(ep, EPOLL_CTL_ADD, file, &ev));
		TRY(r, -EBADF, epoll_ctl(ep, EPOLL_CTL_ADD, 999, &ev));
		TRY(r, -EBADF, epoll_ctl(999, EPOLL_CTL_ADD, r->c, &ev));
		TRY(r, -EINVAL, epoll_ctl(ep, 99, r->c, &ev));
		TRY(r, -EINVAL, epoll_wait(ep, &ev, 0, 0));
		TRY(r, -EINVAL, epoll_wait(ep, &ev, minus, 0));
		TRY(r, -EBADF, epoll_wait(999, &ev, 1, 0));
		TRY(r, -EINVAL, epoll_wait(r->c, &ev, 1, 0));
		TRY(r, -EINVAL, epoll_create1(-1));
		TRY(r, -EINVAL, epoll_create(0));
		TRY(r, 0, close(ep));
	}
	conn_close(r);
	close(file);
}

static void masks(struct role *r)
{
	char buf[8];
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, 0, 9));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 4, send(r->c, "data", 4, 0));
	SERVER(r) {
		TRY(r, 4, readable_await(r->s, 4));
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLRDHUP, 9));
		set_quiet(r, ep);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	SERVER(r) {
		set_expect(r, ep, EPOLLRDHUP, 9);
		TRY(r, 4, read(r->s, buf, 8));
		set_expect(r, ep, EPOLLRDHUP, 9);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, 0, 9));
		set_quiet(r, ep);
		TRY(r, 0, shutdown(r->s, SHUT_WR));
		set_expect(r, ep, EPOLLHUP, 9);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void nested(struct role *r)
{
	struct pollfd p;
	char buf[8];
	int in, out;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		in = set_new(r);
		out = set_new(r);
		TRY(r, 0, set_ctl(in, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(out, EPOLL_CTL_ADD, in, EPOLLIN, 2));
		set_expect(r, out, EPOLLIN, 2);
		set_expect(r, in, EPOLLIN, 1);
		p = (struct pollfd){ .fd = out, .events = POLLIN };
		TRY(r, 1, poll(&p, 1, 1000));
		TRY(r, 1, read(r->s, buf, 8));
		TRY(r, 0, poll(&p, 1, 0));
		set_quiet(r, out);
		TRY(r, -ELOOP, set_ctl(in, EPOLL_CTL_ADD, out, EPOLLIN, 3));
		TRY(r, 0, close(in));
		TRY(r, 0, close(out));
	}
	conn_close(r);
}

/* A sleeper in the outer set wakes by what happens in the inner one. */
static void nested_wakes(struct role *r)
{
	int in, out;

	conn_open(r);
	SERVER(r) {
		in = set_new(r);
		out = set_new(r);
		TRY(r, 0, set_ctl(in, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(out, EPOLL_CTL_ADD, in, EPOLLIN, 2));
		meet(r);
		set_expect(r, out, EPOLLIN, 2);
		TRY(r, 0, close(in));
		TRY(r, 0, close(out));
	}
	CLIENT(r) {
		meet(r);
		poll(NULL, 0, 10);
		TRY(r, 1, send(r->c, "x", 1, 0));
	}
	conn_close(r);
}

static void set_in_poll_sleeps(struct role *r)
{
	struct pollfd p;

	conn_open(r);
	SERVER(r) {
		p = (struct pollfd){ .fd = set_new(r), .events = POLLIN };
		TRY(r, 0, set_ctl(p.fd, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		meet(r);
		TRY(r, 1, poll(&p, 1, 10000));
		set_expect(r, p.fd, EPOLLIN, 1);
		TRY(r, 0, close(p.fd));
	}
	CLIENT(r) {
		meet(r);
		poll(NULL, 0, 10);
		TRY(r, 1, send(r->c, "x", 1, 0));
	}
	conn_close(r);
}

static void dup_of_set(struct role *r)
{
	int ep, copy;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		ep = set_new(r);
		copy = (int)MUST(r, dup(ep));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		set_expect(r, copy, EPOLLIN, 1);
		TRY(r, -EEXIST, set_ctl(copy, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, close(ep));
		set_expect(r, copy, EPOLLIN, 1);
		TRY(r, 0, set_ctl(copy, EPOLL_CTL_DEL, r->s, 0, 0));
		set_quiet(r, copy);
		TRY(r, 0, close(copy));
	}
	conn_close(r);
}

/* The last close takes the fd out of the set; a dup keeps it in. */
static void close_leaves_set(struct role *r)
{
	int ep, s2 = -1, c2 = -1, copy;

	conn_open(r);
	conn_more(r, &s2, &c2);
	CLIENT(r) {
		TRY(r, 1, send(r->c, "x", 1, 0));
		TRY(r, 1, send(c2, "x", 1, 0));
	}
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 1, readable_await(s2, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, s2, EPOLLIN | EPOLLONESHOT, 2));
		copy = (int)MUST(r, dup(r->s));
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(s2));
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, -EBADF, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 0));
		TRY(r, 0, close(copy));
		set_quiet(r, ep);
		TRY(r, 0, close(ep));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 0, close(r->c));
		TRY(r, 0, close(c2));
	}
}

/* fd and its dup are two members. */
static void dup_in_set(struct role *r)
{
	struct epoll_event ev[4];
	int ep, copy;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		ep = set_new(r);
		copy = (int)MUST(r, dup(r->s));
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, copy, EPOLLIN, 2));
		TRY(r, 2, epoll_wait(ep, ev, 4, 1000));
		TRY(r, 3, ev[0].data.u64 + ev[1].data.u64);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, copy, 0, 0));
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 0, close(copy));
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void two_sets(struct role *r)
{
	char buf[8];
	int a, b;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		a = set_new(r);
		b = set_new(r);
		TRY(r, 0, set_ctl(a, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLET, 1));
		TRY(r, 0, set_ctl(b, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLOUT, 2));
		set_expect(r, a, EPOLLIN, 1);
		set_expect(r, b, EPOLLIN | EPOLLOUT, 2);
		TRY(r, 1, read(r->s, buf, 8));
		set_quiet(r, a);
		set_expect(r, b, EPOLLOUT, 2);
		TRY(r, 0, close(a));
		TRY(r, 0, close(b));
	}
	conn_close(r);
}

static void timeouts(struct role *r)
{
	struct timespec ts = { .tv_nsec = 50000000 };
	struct epoll_event ev;
	long long start;
	int ep;

	conn_open(r);
	CLIENT(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN, 1));
		start = now_ms();
		TRY(r, 0, epoll_wait(ep, &ev, 1, 0));
		CHECK(r, now_ms() - start < 40);
		start = now_ms();
		TRY(r, 0, epoll_wait(ep, &ev, 1, 50));
		CHECK(r, now_ms() - start >= 49);
		start = now_ms();
		TRY(r, 0, epoll_pwait(ep, &ev, 1, 50, NULL));
		CHECK(r, now_ms() - start >= 49);
		start = now_ms();
		TRY(r, 0, epoll_pwait2(ep, &ev, 1, &ts, NULL));
		CHECK(r, now_ms() - start >= 49);
		CHECK(r, now_ms() - start < 1000);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

static void mixed(struct role *r)
{
	struct itimerspec its = { .it_value.tv_nsec = 1000000 };
	int ep, pipes[2], event, timer, n, i;
	struct epoll_event ev[8];
	unsigned long seen = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		ep = set_new(r);
		MUST(r, pipe2(pipes, O_CLOEXEC));
		event = (int)MUST(r, eventfd(1, EFD_CLOEXEC));
		timer = (int)MUST(r, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
		MUST(r, timerfd_settime(timer, 0, &its, NULL));
		MUST(r, write(pipes[1], "p", 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, event, EPOLLIN, 4));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, timer, EPOLLIN, 8));
		while (seen != 15 && (n = epoll_wait(ep, ev, 8, 5000)) > 0)
			for (i = 0; i < n; i++)
				seen |= ev[i].data.u64;
		TRY(r, 15, seen);
		MUST(r, close(ep));
		MUST(r, close(pipes[0]));
		MUST(r, close(pipes[1]));
		MUST(r, close(event));
		MUST(r, close(timer));
	}
	conn_close(r);
}

/* One at a time: each of the ready ones comes before any comes again. */
static void one_at_a_time(struct role *r)
{
	enum { CONNS = 5 };
	int s[CONNS], c[CONNS], ep, i;
	struct epoll_event ev;
	unsigned int seen = 0;

	conn_open(r);
	for (i = 0; i < CONNS; i++) {
		conn_more(r, &s[i], &c[i]);
		CLIENT(r)
			MUST(r, send(c[i], "x", 1, 0));
	}
	SERVER(r) {
		ep = set_new(r);
		for (i = 0; i < CONNS; i++) {
			event_await(s[i], POLLIN);
			MUST(r, set_ctl(ep, EPOLL_CTL_ADD, s[i], EPOLLIN, (uint64_t)i));
		}
		for (i = 0; i < CONNS; i++) {
			TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
			seen |= 1u << ev.data.u32;
		}
		TRY(r, 31, seen);
		MUST(r, close(ep));
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

struct adder {
	int ep, fd;
};

static void *adder_main(void *arg)
{
	struct adder *a = arg;

	poll(NULL, 0, 10);	/* the waiter is asleep by now, probably */
	set_ctl(a->ep, EPOLL_CTL_ADD, a->fd, EPOLLIN, 5);
	return NULL;
}

static void add_wakes(struct role *r)
{
	struct adder a;
	pthread_t th;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	meet(r);
	SERVER(r) {
		a = (struct adder){ .ep = set_new(r), .fd = r->s };
		TRY(r, 1, readable_await(r->s, 1));
		MUST(r, -pthread_create(&th, NULL, adder_main, &a));
		set_expect(r, a.ep, EPOLLIN, 5);
		pthread_join(th, NULL);
		TRY(r, 0, close(a.ep));
	}
	conn_close(r);
}

static void *mod_main(void *arg)
{
	struct adder *a = arg;

	poll(NULL, 0, 10);
	set_ctl(a->ep, EPOLL_CTL_MOD, a->fd, EPOLLOUT, 6);
	return NULL;
}

static void mod_wakes(struct role *r)
{
	struct adder a;
	pthread_t th;

	conn_open(r);
	SERVER(r) {
		a = (struct adder){ .ep = set_new(r), .fd = r->s };
		TRY(r, 0, set_ctl(a.ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 5));
		MUST(r, -pthread_create(&th, NULL, mod_main, &a));
		set_expect(r, a.ep, EPOLLOUT, 6);
		pthread_join(th, NULL);
		TRY(r, 0, close(a.ep));
	}
	conn_close(r);
}

static void exclusive(struct role *r)
{
	int ep;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLEXCLUSIVE, 1));
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, -EINVAL, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 0));
		TRY(r, -EINVAL, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLEXCLUSIVE | EPOLLONESHOT, 1));
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

/* 50 connections, one server set; each carries 20 requests and replies. */
static void server_fifty(struct role *r)
{
	enum { CONNS = 50, ROUNDS = 20 };
	int s[CONNS], c[CONNS], ep = -1, i, n, round;
	struct epoll_event ev[16];
	long wrong = 0, served;
	char buf[64];

	conn_open(r);
	SERVER(r)
		ep = set_new(r);
	for (i = 0; i < CONNS; i++) {
		conn_more(r, &s[i], &c[i]);
		SERVER(r) {
			nonblock_set(r, s[i]);
			MUST(r, set_ctl(ep, EPOLL_CTL_ADD, s[i], EPOLLIN | EPOLLET, (uint64_t)i));
		}
	}
	for (round = 0; round < ROUNDS; round++) {
		CLIENT(r)
			for (i = 0; i < CONNS; i++)
				wrong += send(c[i], &i, sizeof(i), 0) != sizeof(i);
		SERVER(r) {
			for (served = 0; served < CONNS && (n = epoll_wait(ep, ev, 16, 5000)) > 0;)
				for (i = 0; i < n; i++, served++)
					if (read(s[ev[i].data.u32], buf, 4) != 4 ||
					    write(s[ev[i].data.u32], buf, 4) != 4)
						wrong++;
			wrong += served != CONNS;
		}
		CLIENT(r)
			for (i = 0; i < CONNS; i++)
				wrong += recv(c[i], buf, 64, 0) != 4 || memcmp(buf, &i, 4) != 0;
	}
	TRY(r, 0, wrong);
	meet(r);
	for (i = 0; i < CONNS; i++) {
		SERVER(r)
			MUST(r, close(s[i]));
		CLIENT(r)
			MUST(r, close(c[i]));
	}
	SERVER(r)
		MUST(r, close(ep));
	conn_close(r);
}

/* Made before any fd is connected: events of the fresh socket, then of the rest. */
static void added_before_connect(struct role *r)
{
	struct epoll_event ev;
	int ep = -1;

	listener_open(r);
	CLIENT(r) {
		struct sockaddr_storage sa = { 0 };

		loopback_addr(&sa, r->port);
		ep = set_new(r);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM | SOCK_NONBLOCK, 0));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN | EPOLLOUT | EPOLLET, 1));
		TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
		epoll_show(r, "fresh", EPOLLOUT | EPOLLHUP, ev.events);
		connect(r->c, (struct sockaddr *)&sa, sizeof(sa));
		set_expect(r, ep, EPOLLOUT, 1);
	}
	SERVER(r)
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
	meet(r);
	SERVER(r)
		TRY(r, 1, send(r->s, "x", 1, 0));
	CLIENT(r) {
		set_expect(r, ep, EPOLLIN | EPOLLOUT, 1);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

/* An entry is one, also once its connection is over and it has nothing more to say. */
static void exclusive_again(struct role *r)
{
	static __thread char buf[20000];

	conn_open(r);
	CLIENT(r)
		TRY(r, (long)sizeof(buf), send_all(r->c, buf, sizeof(buf)));
	meet(r);
	SERVER(r) {
		TRY(r, (long)sizeof(buf), readable_await(r->s, sizeof(buf)));
		TRY(r, 0, close(r->s));		/* over unread bytes: a reset */
	}
	CLIENT(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));

		event_settled(r->c, POLLHUP, POLLHUP);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLOUT, 1));
		TRY(r, -EEXIST, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLEXCLUSIVE, 1));
		TRY(r, -EINVAL, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLEXCLUSIVE | EPOLLONESHOT, 1));
		TRY(r, -EINVAL, set_ctl(ep, EPOLL_CTL_MOD, r->c, EPOLLEXCLUSIVE, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, r->c, 0, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN | EPOLLEXCLUSIVE, 1));
		TRY(r, -EEXIST, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN, 1));
		TRY(r, -EINVAL, set_ctl(ep, EPOLL_CTL_MOD, r->c, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, r->c, 0, 1));
		close(ep);
		TRY(r, 0, close(r->c));
	}
}

const struct conf_case epoll_cases[] = {
	{ "epoll-level", level, WAIT_EPOLL },
	{ "epoll-edge", edge, WAIT_EPOLL },
	{ "epoll-edge-mod", edge_mod_rearms, WAIT_EPOLL },
	{ "epoll-edge-out", edge_out, WAIT_EPOLL },
	{ "epoll-edge-out-once", edge_out_once, WAIT_EPOLL },
	{ "epoll-edge-out-parts", edge_out_parts, WAIT_EPOLL | TOGETHER },
	{ "epoll-oneshot", oneshot, WAIT_EPOLL },
	{ "epoll-remove-and-add", remove_and_add, WAIT_EPOLL },
	{ "epoll-errnos", errnos, WAIT_EPOLL },
	{ "epoll-masks", masks, WAIT_EPOLL },
	{ "epoll-nested", nested, WAIT_EPOLL },
	{ "epoll-nested-wakes", nested_wakes, TOGETHER | WAIT_EPOLL },
	{ "epoll-in-poll-sleeps", set_in_poll_sleeps, TOGETHER | WAIT_EPOLL },
	{ "epoll-dup-of-set", dup_of_set, WAIT_EPOLL },
	{ "epoll-close-leaves-set", close_leaves_set, WAIT_EPOLL },
	{ "epoll-dup-in-set", dup_in_set, WAIT_EPOLL },
	{ "epoll-two-sets", two_sets, WAIT_EPOLL },
	{ "epoll-timeouts", timeouts, WAIT_EPOLL },
	{ "epoll-mixed", mixed, WAIT_EPOLL },
	{ "epoll-one-at-a-time", one_at_a_time, WAIT_EPOLL },
	{ "epoll-add-wakes", add_wakes, WAIT_EPOLL },
	{ "epoll-mod-wakes", mod_wakes, WAIT_EPOLL },
	{ "epoll-exclusive", exclusive, WAIT_EPOLL },
	{ "epoll-fifty-conns", server_fifty, WAIT_EPOLL },
	{ "epoll-before-connect", added_before_connect, COLD },
	{ "epoll-exclusive-again", exclusive_again, 0 },
	{ NULL, NULL, 0 }
};
