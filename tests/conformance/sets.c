/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* epoll sets in select and in one another, changed and closed under a waiter, with others beside. */
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

struct waiter {
	int ep;			/* or the descriptor that is polled */
	atomic_int tid, n;
	struct epoll_event ev;
	struct pollfd p;
	pthread_t th;
};

static void *in_set(void *arg)
{
	struct waiter *w = arg;

	w->tid = (pid_t)syscall(SYS_gettid);
	w->n = epoll_wait(w->ep, &w->ev, 1, 10000);
	return NULL;
}

static void *in_poll(void *arg)
{
	struct waiter *w = arg;

	w->p = (struct pollfd){ .fd = w->ep, .events = POLLIN };
	w->tid = (pid_t)syscall(SYS_gettid);
	w->n = poll(&w->p, 1, 10000);
	return NULL;
}

/* Started, and very probably asleep. */
static void waiter_start(struct role *r, struct waiter *w, void *(*how)(void *), int fd)
{
	memset(w, 0, sizeof(*w));
	w->ep = fd;
	w->n = -2;
	MUST(r, -pthread_create(&w->th, NULL, how, w));
	while (!w->tid)
		sched_yield();
	poll(NULL, 0, 10);
}

static int select_one(int fd, int ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	return select(fd + 1, &in, NULL, NULL, &tv);
}

/* Of a number that another thread sleeps on, which is the point: threads.c tells race detectors. */
static __attribute__((noinline)) int close_under_waiter(int fd)
{
	return close(fd);
}

/* A set is readable to select() while it has an event to tell. */
static void in_select(struct role *r)
{
	char buf[8];
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, select_one(ep, 0));
		TRY(r, 0, select_one(ep, 30));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		TRY(r, 1, select_one(ep, 10000));
		TRY(r, 1, select_one(ep, 0));
		TRY(r, 1, read(r->s, buf, 8));
		TRY(r, 0, select_one(ep, 0));
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

/* One that sleeps in select() on a set, which is in another set as well. */
static void in_select_sleeps(struct role *r)
{
	int in, out;

	conn_open(r);
	SERVER(r) {
		in = set_new(r);
		out = set_new(r);
		TRY(r, 0, set_ctl(in, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(out, EPOLL_CTL_ADD, in, EPOLLIN, 2));
		meet(r);
		TRY(r, 1, select_one(out, 10000));
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

/* The entry of a set in a set may be edge-triggered or one shot; three deep. */
static void nested_modes(struct role *r)
{
	int in = -1, mid = -1, out = -1;
	char buf[8];

	conn_open(r);
	SERVER(r) {
		in = set_new(r);
		mid = set_new(r);
		out = set_new(r);
		TRY(r, 0, set_ctl(in, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(mid, EPOLL_CTL_ADD, in, EPOLLIN, 2));
		TRY(r, 0, set_ctl(out, EPOLL_CTL_ADD, mid, EPOLLIN | EPOLLET, 3));
		set_quiet(r, out);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		set_expect(r, out, EPOLLIN, 3);
		set_quiet(r, out);
		set_expect(r, mid, EPOLLIN, 2);
		TRY(r, 0, set_ctl(out, EPOLL_CTL_MOD, mid, EPOLLIN | EPOLLONESHOT, 4));
		set_expect(r, out, EPOLLIN, 4);
		set_quiet(r, out);
		TRY(r, 1, read(r->s, buf, 8));
		TRY(r, 0, set_ctl(out, EPOLL_CTL_MOD, mid, EPOLLIN, 5));
		set_quiet(r, out);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "y", 1, 0));
	SERVER(r) {
		set_expect(r, out, EPOLLIN, 5);
		MUST(r, close(in));
		MUST(r, close(mid));
		MUST(r, close(out));
	}
	conn_close(r);
}

/* A waiter hears nothing more of what another thread has taken out. */
static void del_under_waiter(struct role *r)
{
	struct waiter w;
	int ep = -1, end = -1;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		end = (int)MUST(r, eventfd(0, EFD_CLOEXEC));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, end, EPOLLIN, 2));
		waiter_start(r, &w, in_set, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 0));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		TRY(r, 1, readable_await(r->s, 1));
		poll(NULL, 0, 20);
		TRY(r, 8, write(end, &(uint64_t){ 1 }, 8));
		pthread_join(w.th, NULL);
		TRY(r, 1, w.n);
		TRY(r, 2, w.ev.data.u64);
		TRY(r, 0, close(end));
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

/* Who sleeps in a set goes on sleeping when its number is closed, and wakes by what is in it. */
static void closed_under_waiter(struct role *r)
{
	struct waiter w;
	int ep;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 7));
		waiter_start(r, &w, in_set, ep);
		TRY(r, 0, close_under_waiter(ep));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		pthread_join(w.th, NULL);
		TRY(r, 1, w.n);
		TRY(r, 7, w.ev.data.u64);
	}
	conn_close(r);
}

/* poll() sleeps on for a connection whose last number another thread closes, and then finds no number. */
static void closed_under_poll(struct role *r)
{
	struct waiter w;

	conn_open(r);
	SERVER(r) {
		waiter_start(r, &w, in_poll, r->s);
		TRY(r, 0, close_under_waiter(r->s));
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		pthread_join(w.th, NULL);
		TRY(r, 1, w.n);
		poll_show(r, "server", POLLNVAL, w.p.revents);
	}
	meet(r);
	CLIENT(r)
		TRY(r, 0, close(r->c));
}

/* A number is closed, with a dup left or not, and given to the next connection. */
static void number_again(struct role *r)
{
	int ep = -1, s2 = -1, c2 = -1, s3 = -1, c3 = -1, copy = -1, number = -1, n, i;
	struct epoll_event ev[4];
	uint64_t tags = 0;

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		number = r->s;
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		copy = (int)MUST(r, dup(r->s));
		TRY(r, 0, close(r->s));
	}
	conn_more(r, &s2, &c2);
	SERVER(r) {
		CHECK(r, s2 == number);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, s2, EPOLLIN, 2));
		TRY(r, -EEXIST, set_ctl(ep, EPOLL_CTL_ADD, s2, EPOLLIN, 2));
	}
	meet(r);
	CLIENT(r) {
		TRY(r, 1, send(r->c, "x", 1, 0));
		TRY(r, 1, send(c2, "x", 1, 0));
	}
	SERVER(r) {
		TRY(r, 1, readable_await(copy, 1));
		TRY(r, 1, readable_await(s2, 1));
		TRY(r, 2, n = epoll_wait(ep, ev, 4, 5000));
		for (i = 0; i < n; i++)
			tags += ev[i].data.u64;
		TRY(r, 3, tags);
		TRY(r, 0, close(s2));
		TRY(r, 0, close(copy));
		set_quiet(r, ep);
	}
	meet(r);
	conn_more(r, &s3, &c3);
	CLIENT(r)
		TRY(r, 1, send(c3, "y", 1, 0));
	SERVER(r) {
		CHECK(r, s3 == number);
		TRY(r, 1, readable_await(s3, 1));
		set_quiet(r, ep);
		TRY(r, -ENOENT, set_ctl(ep, EPOLL_CTL_MOD, s3, EPOLLIN, 3));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, s3, EPOLLIN, 3));
		set_expect(r, ep, EPOLLIN, 3);
		MUST(r, close(ep));
		MUST(r, close(s3));
	}
	meet(r);
	CLIENT(r) {
		MUST(r, close(r->c));
		MUST(r, close(c2));
		MUST(r, close(c3));
	}
}

/* One event at a time: two connections and two others, all ready; each gets its turn soon. */
static void fair(struct role *r)
{
	int ep, s2 = -1, c2 = -1, p[2], event, i;
	struct epoll_event ev;
	unsigned int seen;

	conn_open(r);
	conn_more(r, &s2, &c2);
	CLIENT(r) {
		TRY(r, 1, send(r->c, "x", 1, 0));
		TRY(r, 1, send(c2, "x", 1, 0));
	}
	SERVER(r) {
		ep = set_new(r);
		MUST(r, pipe2(p, O_CLOEXEC));
		event = (int)MUST(r, eventfd(1, EFD_CLOEXEC));
		MUST(r, write(p[1], "x", 1));
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 1, readable_await(s2, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 0));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, s2, EPOLLIN, 2));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, event, EPOLLIN, 3));
		for (int round = 0; round < 3; round++) {
			for (seen = 0, i = 0; i < 8; i++) {
				MUST(r, epoll_wait(ep, &ev, 1, 5000));
				seen |= 1u << ev.data.u32;
			}
			TRY(r, 15, seen);
		}
		MUST(r, close(ep));
		MUST(r, close(p[0]));
		MUST(r, close(p[1]));
		MUST(r, close(event));
		MUST(r, close(s2));
	}
	meet(r);
	CLIENT(r)
		MUST(r, close(c2));
	conn_close(r);
}

/* Whatever can be waited for stands beside a stream that is never empty, and is told of. */
static void all_kinds(struct role *r)
{
	int ep = set_new(r), p[2], timer, signals, events, udp, child, watch, file;
	struct itimerspec its = { .it_value.tv_nsec = 1000000 };
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct epoll_event ev[2];
	unsigned int seen = 0;
	char buf[64];
	sigset_t set;

	conn_open(r);
	CLIENT(r)
		TRY(r, 64, send(r->c, buf, sizeof(buf), 0));
	SERVER(r) {
		TRY(r, 64, readable_await(r->s, 64));
		MUST(r, pipe2(p, O_CLOEXEC));
		events = (int)MUST(r, eventfd(0, EFD_CLOEXEC));
		timer = (int)MUST(r, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
		sigemptyset(&set);
		sigaddset(&set, SIGUSR2);
		MUST(r, -pthread_sigmask(SIG_BLOCK, &set, NULL));
		signals = (int)MUST(r, signalfd(-1, &set, SFD_CLOEXEC));
		udp = (int)MUST(r, socket(conf_family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
		loopback_addr(&sa, 0);
		MUST(r, bind(udp, (struct sockaddr *)&sa, sizeof(sa)));
		MUST(r, getsockname(udp, (struct sockaddr *)&sa, &len));
		watch = (int)MUST(r, inotify_init1(IN_CLOEXEC));
		MUST(r, inotify_add_watch(watch, "/proc/self/exe", IN_OPEN));
		pid_t pid = (pid_t)syscall(SYS_fork);
		if (pid == 0)
			syscall(SYS_exit_group, 0);
		child = (int)MUST(r, syscall(SYS_pidfd_open, pid, 0));
		const int fds[] = { r->s, p[0], events, timer, signals, udp, watch, child };

		for (unsigned int i = 0; i < 8; i++)
			TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, fds[i], EPOLLIN, i));
		MUST(r, write(p[1], "x", 1));
		MUST(r, eventfd_write(events, 1));
		MUST(r, timerfd_settime(timer, 0, &its, NULL));
		MUST(r, kill(getpid(), SIGUSR2));
		MUST(r, sendto(udp, "x", 1, 0, (struct sockaddr *)&sa, sizeof(sa)));
		file = (int)MUST(r, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
		MUST(r, close(file));
		for (long long end = now_ms() + 5000; seen != 0xff && now_ms() < end;)
			for (int i = 0, n = epoll_wait(ep, ev, 2, 5000); i < n; i++)
				seen |= 1u << ev[i].data.u32;
		TRY(r, 0xff, seen);
		waitpid(pid, NULL, 0);
		for (unsigned int i = 1; i < 8; i++)
			MUST(r, close(fds[i]));
		MUST(r, close(p[1]));
	}
	MUST(r, close(ep));
	conn_close(r);
}

/* In two sets with EPOLLEXCLUSIVE: one sleeper at least wakes, and what it leaves the other finds. */
static void exclusive_pair(struct role *r)
{
	struct waiter w[2];
	char buf[8];
	int i;

	conn_open(r);
	SERVER(r) {
		for (i = 0; i < 2; i++) {
			int ep = set_new(r);

			TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN | EPOLLEXCLUSIVE, 5));
			waiter_start(r, &w[i], in_set, ep);
		}
	}
	meet(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		TRY(r, 1, readable_await(r->s, 1));
		for (i = 0; i < 100 && w[0].n == -2 && w[1].n == -2; i++)
			poll(NULL, 0, 50);
		CHECK(r, w[0].n == 1 || w[1].n == 1);
		for (i = 0; i < 2; i++)		/* a sleeper that was left out looks again */
			TRY(r, 0, set_ctl(w[i].ep, EPOLL_CTL_DEL, r->s, 0, 0) +
				  set_ctl(w[i].ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 5));
		for (i = 0; i < 2; i++) {
			pthread_join(w[i].th, NULL);
			TRY(r, 1, w[i].n);
			TRY(r, 5, w[i].ev.data.u64);
			TRY(r, 0, close(w[i].ep));
		}
		TRY(r, 1, read(r->s, buf, 8));
	}
	conn_close(r);
}

/* epoll_pwait2() has times of its own, and errors of its own. */
static void pwait2(struct role *r)
{
	struct timespec bad = { .tv_nsec = 1000000000 }, zero = { 0 }, part = { .tv_nsec = 20500000 };
	struct epoll_event ev;
	struct timespec a, b;
	int ep;

	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "x", 1, 0));
	SERVER(r) {
		char buf[8];

		ep = set_new(r);
		TRY(r, 1, readable_await(r->s, 1));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		TRY(r, 1, epoll_pwait2(ep, &ev, 1, NULL, NULL));
		TRY(r, 1, epoll_pwait2(ep, &ev, 1, &zero, NULL));
		TRY(r, -EINVAL, epoll_pwait2(ep, &ev, 1, &bad, NULL));
		TRY(r, -EINVAL, epoll_pwait2(ep, &ev, 0, &zero, NULL));
		TRY(r, -EBADF, epoll_pwait2(999, &ev, 1, &zero, NULL));
		TRY(r, 1, read(r->s, buf, 8));
		TRY(r, 0, epoll_pwait2(ep, &ev, 1, &zero, NULL));
		clock_gettime(CLOCK_MONOTONIC, &a);
		TRY(r, 0, epoll_pwait2(ep, &ev, 1, &part, NULL));
		clock_gettime(CLOCK_MONOTONIC, &b);
		CHECK(r, (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 20500000);
		TRY(r, 0, close(ep));
	}
	conn_close(r);
}

enum { ROUNDS = 400 };

/* Wait in one of the ways.  Return: whether it says readable. */
static bool says_readable(struct role *r, int ep, int way)
{
	struct epoll_event ev;

	switch (way) {
	case 0:
		return event_await(r->s, POLLIN) & POLLIN;
	case 1:
		return select_one(r->s, 5000) == 1;
	default:
		return epoll_wait(ep, &ev, 1, 5000) == 1 && ev.events & EPOLLIN;
	}
}

/* Readable means that a read does not block, also while the connection changes its way. */
static void never_false(struct role *r)
{
	long empty = 0, late = 0, wrong = 0;
	int ep = -1, i, n;
	char buf[16];

	conn_open(r);
	SERVER(r) {
		ep = set_new(r);
		MUST(r, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
	}
	for (i = 0; i < ROUNDS; i++) {
		CLIENT(r)
			wrong += send(r->c, &i, sizeof(i), 0) != sizeof(i);
		SERVER(r) {
			late += !says_readable(r, ep, i % 3);
			n = (int)recv(r->s, buf, sizeof(buf), MSG_DONTWAIT);
			empty += n == -1 && errno == EAGAIN;
			if (n == -1)
				n = (int)recv(r->s, buf, sizeof(buf), 0);
			wrong += n != 4 || memcmp(buf, &i, 4) != 0;
			wrong += send(r->s, buf, 4, 0) != 4;
		}
		CLIENT(r)
			wrong += recv(r->c, buf, sizeof(buf), 0) != 4 || memcmp(buf, &i, 4) != 0;
	}
	TRY(r, 0, wrong);
	TRY(r, 0, empty);
	TRY(r, 0, late);
	SERVER(r)
		TRY(r, 0, close(ep));
	conn_close(r);
}

const struct conf_case sets_cases[] = {
	{ "sets-in-select", in_select, WAIT_EPOLL },
	{ "sets-in-select-sleeps", in_select_sleeps, TOGETHER | WAIT_EPOLL },
	{ "sets-nested-modes", nested_modes, WAIT_EPOLL },
	{ "sets-del-under-waiter", del_under_waiter, WAIT_EPOLL },
	{ "sets-closed-under-waiter", closed_under_waiter, WAIT_EPOLL },
	{ "sets-closed-under-poll", closed_under_poll, WAIT_POLL },
	{ "sets-number-again", number_again, WAIT_EPOLL | PROCESS },
	{ "sets-fair", fair, WAIT_EPOLL },
	{ "sets-all-kinds", all_kinds, PROCESS | WAIT_EPOLL },
	{ "sets-exclusive-pair", exclusive_pair, WAIT_EPOLL },
	{ "sets-pwait2", pwait2, WAIT_EPOLL },
	{ "sets-never-false", never_false, WAIT_POLL },
	{ NULL, NULL, 0 }
};
