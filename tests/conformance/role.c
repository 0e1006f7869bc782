/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The vocabulary of the cases; see conform.h. */
#include "conform.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#include "tests/lib/step.h"

void give_up(struct role *r, const char *what)
{
	const char *name = strerrorname_np(errno);

	transcript_line(&r->t, "GAVE UP: %s: %s", what, name ? name : "-");
	_exit(1);
}

void meet(struct role *r)
{
	if (step_meet(r->step) < 0)
		give_up(r, "the other role is gone or elsewhere");
}

void tell(struct role *r, long value)
{
	if (step_tell(r->step, value) < 0)
		give_up(r, "the other role is gone or elsewhere");
}

long hear(struct role *r)
{
	long value = 0;

	if (step_hear(r->step, &value) < 0)
		give_up(r, "the other role is gone or elsewhere");
	return value;
}

/* CONFORM_FAMILY: nothing, 6, or mapped: a listener for both families, and a client of the old one. */
static int family_of(bool listens)
{
	const char *f = getenv("CONFORM_FAMILY");

	return f && (*f == '6' || listens) ? AF_INET6 : AF_INET;
}

int conf_family(void)
{
	return family_of(false);
}

static void addr_set(struct sockaddr_storage *sa, int family, long port)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)sa;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)sa;

	memset(sa, 0, sizeof(*sa));
	sa->ss_family = (sa_family_t)family;
	four->sin_port = htons((uint16_t)port);		/* in the same place */
	if (family == AF_INET)
		four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (conf_family() == AF_INET6)
		six->sin6_addr = in6addr_loopback;
	else
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &six->sin6_addr);
}

void loopback_addr(struct sockaddr_storage *sa, long port)
{
	addr_set(sa, conf_family(), port);
}

long addr_port(const struct sockaddr_storage *sa)
{
	return ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
}

bool addr_is_loopback(const struct sockaddr_storage *sa)
{
	struct sockaddr_storage want;

	addr_set(&want, sa->ss_family, addr_port(sa));
	return memcmp(sa, &want, sa->ss_family == AF_INET ? 16 : 28) == 0;
}

void listener_open(struct role *r)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int on = 1;

	SERVER(r) {
		addr_set(&sa, family_of(true), 0);
		r->listener = (int)MUST(r, socket(family_of(true), SOCK_STREAM | SOCK_CLOEXEC, 0));
		MUST(r, setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
		MUST(r, bind(r->listener, (struct sockaddr *)&sa, sizeof(sa)));
		MUST(r, listen(r->listener, 128));
		MUST(r, getsockname(r->listener, (struct sockaddr *)&sa, &len));
		r->port = addr_port(&sa);
		tell(r, r->port);
	}
	CLIENT(r) {
		if (!r->server)
			r->port = hear(r);
	}
}

void conn_more(struct role *r, int *s, int *c)
{
	struct sockaddr_storage sa;

	CLIENT(r) {
		loopback_addr(&sa, r->port);
		*c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		MUST(r, connect(*c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r)
		*s = (int)MUST(r, accept(r->listener, NULL, NULL));
}

void conn_open(struct role *r)
{
	if (!r->port)
		listener_open(r);
	conn_more(r, &r->s, &r->c);
	if (r->ring)
		conn_warm(r);
	meet(r);
}

void conn_close(struct role *r)
{
	meet(r);
	CLIENT(r)
		TRY(r, 0, close(r->c));
	SERVER(r)
		TRY(r, 0, close(r->s));
}

int own_fd(const struct role *r)
{
	return r->server ? r->s : r->c;
}

void nonblock_set(struct role *r, int fd)
{
	long fl = MUST(r, fcntl(fd, F_GETFL));

	MUST(r, fcntl(fd, F_SETFL, fl | O_NONBLOCK));
}

long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int readable_await(int fd, int bytes)
{
	long long end = now_ms() + 5000;
	int n = 0;

	while (ioctl(fd, FIONREAD, &n) == 0 && n < bytes && now_ms() < end)
		poll(NULL, 0, 1);
	return n;
}

void drained_await(int fd)
{
	long long end = now_ms() + 5000;
	int n = 0;

	while (ioctl(fd, SIOCOUTQ, &n) == 0 && n > 0 && now_ms() < end)
		poll(NULL, 0, 1);
}

int event_await(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 5000) > 0 ? p.revents : 0;
}

int event_settled(int fd, short events, short want)
{
	struct pollfd p = { .fd = fd, .events = events };
	long long end = now_ms() + 5000;

	do
		poll(&p, 1, 5000);
	while ((p.revents & want) != want && now_ms() < end);
	return p.revents;
}

void quiet_check(struct role *r, int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	TRY(r, 0, poll(&p, 1, 50));
}

long send_all(int fd, const void *buf, size_t n)
{
	size_t done = 0;
	ssize_t k;

	while (done < n) {
		k = send(fd, (const char *)buf + done, n - done, 0);
		if (k < 0)
			return -1;
		done += (size_t)k;
	}
	return (long)done;
}

long recv_all(int fd, void *buf, size_t n)
{
	size_t done = 0;
	ssize_t k;

	while (done < n) {
		k = recv(fd, (char *)buf + done, n - done, 0);
		if (k < 0)
			return -1;
		if (k == 0)
			break;
		done += (size_t)k;
	}
	return (long)done;
}

static const struct bit_name poll_names[] = {
	{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" },
	{ POLLHUP, "HUP" }, { POLLNVAL, "NVAL" }, { POLLRDHUP, "RDHUP" },
	{ 0, NULL }
};

void poll_show(struct role *r, const char *label, short want, short got)
{
	transcript_bits(&r->t, label, poll_names, (unsigned short)want, (unsigned short)got);
}

/* The bits of epoll and poll that matter here have the same values. */
void epoll_show(struct role *r, const char *label, unsigned int want, unsigned int got)
{
	transcript_bits(&r->t, label, poll_names, want, got);
}

int set_new(struct role *r)
{
	return (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
}

int set_ctl(int ep, int op, int fd, unsigned int events, uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	return epoll_ctl(ep, op, fd, &ev);
}

/* The one event that must be there within 5 s; its mask, checks the tag. */
void set_expect(struct role *r, int ep, unsigned int want, uint64_t tag)
{
	struct epoll_event ev[8] = { { 0 } };

	TRY(r, 1, epoll_wait(ep, ev, 8, 5000));
	epoll_show(r, "event", want, ev[0].events);
	CHECK(r, ev[0].data.u64 == tag);
}

void set_quiet(struct role *r, int ep)
{
	struct epoll_event ev;

	TRY(r, 0, epoll_wait(ep, &ev, 1, 30));
}

void unread_left(struct role *r)
{
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	SERVER(r)
		TRY(r, 6, readable_await(r->s, 6));
}
