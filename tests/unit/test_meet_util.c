/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_util.c - see test_meet_util.h */
#define _GNU_SOURCE
#include "test_meet_util.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

uint64_t test_now_ns = 1000000000;

static socklen_t loopback(struct sockaddr_storage *sa, int family, uint16_t port)
{
	struct sockaddr_in6 *in6 = (void *)sa;
	struct sockaddr_in *in = (void *)sa;

	memset(sa, 0, sizeof(*sa));
	sa->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		in->sin_port = htons(port);
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*in);
	}
	in6->sin6_port = htons(port);
	in6->sin6_addr = in6addr_loopback;
	return sizeof(*in6);
}

void tcp_listen(struct tcp_pair *p, enum tcp_kind kind)
{
	struct sockaddr_storage sa;
	socklen_t len = loopback(&sa, kind == TCP_V4 ? AF_INET : AF_INET6, 0);
	int off = 0;

	p->client = p->server = -1;
	p->listener = socket(sa.ss_family, SOCK_STREAM, 0);
	assert_true(p->listener >= 0);
	if (kind == TCP_MAPPED) {
		((struct sockaddr_in6 *)(void *)&sa)->sin6_addr = in6addr_any;
		assert_int_equal(setsockopt(p->listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
	}
	assert_int_equal(bind(p->listener, (void *)&sa, len), 0);
	assert_int_equal(listen(p->listener, 16), 0);
	len = sizeof(sa);
	assert_int_equal(getsockname(p->listener, (void *)&sa, &len), 0);
	p->port = ntohs(kind == TCP_V4 ? ((struct sockaddr_in *)(void *)&sa)->sin_port :
					 ((struct sockaddr_in6 *)(void *)&sa)->sin6_port);
	p->tuple.family = kind == TCP_V6 ? AF_INET6 : AF_INET;
}

void fd_tuple(int fd, struct meet_tuple *t)
{
	struct sockaddr_storage l = { 0 }, r = { 0 };
	socklen_t len = sizeof(l);

	assert_int_equal(getsockname(fd, (void *)&l, &len), 0);
	len = sizeof(r);
	assert_int_equal(getpeername(fd, (void *)&r, &len), 0);
	assert_int_equal(meet_tuple_set(t, &l, &r), 0);
}

void tcp_connect(struct tcp_pair *p)
{
	struct sockaddr_storage sa;
	socklen_t len = loopback(&sa, p->tuple.family, p->port);

	p->client = socket(sa.ss_family, SOCK_STREAM, 0);
	assert_int_equal(connect(p->client, (void *)&sa, len), 0);
	fd_tuple(p->client, &p->tuple);
}

void tcp_accept(struct tcp_pair *p)
{
	p->server = accept(p->listener, NULL, NULL);
	assert_true(p->server >= 0);
}

void tcp_open(struct tcp_pair *p, enum tcp_kind kind)
{
	tcp_listen(p, kind);
	tcp_connect(p);
	tcp_accept(p);
}

void tcp_close(struct tcp_pair *p)
{
	close(p->listener);
	if (p->client >= 0)
		close(p->client);
	if (p->server >= 0)
		close(p->server);
}

unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int loop_watch(void *arg, int fd, uint32_t events, void (*fn)(void *, uint32_t), void *ctx)
{
	struct poll_loop *l = arg;

	if (l->n == LOOP_FDS)
		return -ENOSPC;
	for (unsigned i = 0; i < l->n; i++)
		assert_int_not_equal(l->w[i].fd, fd);
	l->w[l->n].fd = fd;
	l->w[l->n].events = events;
	l->w[l->n].fn = fn;
	l->w[l->n++].ctx = ctx;
	return 0;
}

static int loop_find(const struct poll_loop *l, int fd)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->w[i].fd == fd)
			return (int)i;
	return -1;
}

static void loop_unwatch(void *arg, int fd)
{
	struct poll_loop *l = arg;
	int i = loop_find(l, fd);

	assert_true(i >= 0);		/* each watch is taken back just once */
	l->w[i] = l->w[--l->n];
}

static uint64_t loop_now(void)
{
	return test_now_ns;
}

void poll_loop_init(struct poll_loop *l)
{
	memset(l, 0, sizeof(*l));
	l->ops = (struct meet_loop){ l, loop_watch, loop_unwatch, loop_now };
}

unsigned poll_loop_once(struct poll_loop *l, int ms)
{
	struct pollfd p[LOOP_FDS];
	unsigned n = l->n, ran = 0;

	for (unsigned i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = l->w[i].fd, .events = (short)l->w[i].events };
	if (poll(p, n, ms) <= 0)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		int at = p[i].revents ? loop_find(l, p[i].fd) : -1;

		if (at < 0)
			continue;
		l->w[at].fn(l->w[at].ctx, (uint32_t)p[i].revents);
		ran++;
	}
	return ran;
}
