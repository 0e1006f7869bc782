/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer_conns.c - echo over many connections, an epoll loop at both ends
 *
 * The client keeps one message under way on each connection.  A connection
 * whose message comes back in pieces keeps the pieces in its own buffer.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS	256

struct conn {
	int fd;
	size_t have;
	uint64_t sent_ns;
	char *buf;
};

static void watch(int ep, struct conn *c)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev))
		peer_die("epoll_ctl");
}

static struct conn *conn_new(int ep, int fd, size_t bytes)
{
	struct conn *c = peer_alloc(sizeof(*c));

	c->fd = fd;
	c->have = 0;
	c->sent_ns = 0;
	c->buf = peer_alloc(bytes);
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		peer_die("fcntl");
	watch(ep, c);
	return c;
}

static void conn_free(struct conn *c)
{
	close(c->fd);
	free(c->buf);
	free(c);
}

/* Return: 1 a whole message, 0 not yet, -1 the end of the stream. */
static int conn_read(struct conn *c, size_t bytes)
{
	ssize_t r = recv(c->fd, c->buf + c->have, bytes - c->have, 0);

	if (r == 0)
		return -1;
	if (r < 0 && errno != EAGAIN)
		peer_die("recv");
	if (r > 0)
		c->have += (size_t)r;
	if (c->have < bytes)
		return 0;
	c->have = 0;
	return 1;
}

/* One message a connection is under way, so there is room for it, unless it
 * is larger than the buffers of a socket: then wait. */
static void conn_write(struct conn *c, size_t bytes)
{
	struct pollfd room = { c->fd, POLLOUT, 0 };
	size_t done = 0;

	while (done < bytes) {
		ssize_t r = send(c->fd, c->buf + done, bytes - done, MSG_NOSIGNAL);

		if (r > 0) {
			done += (size_t)r;
			continue;
		}
		if (errno != EAGAIN)
			peer_die("send");
		poll(&room, 1, -1);
	}
}

/* Return: whether the client has more to ask. */
static int serve(struct conn *c, size_t bytes, long *open_conns)
{
	int got = conn_read(c, bytes);
	int more = 1;

	if (got < 0) {
		conn_free(c);
		(*open_conns)--;
	} else if (got) {
		more = c->buf[0] != MSG_LAST;
		conn_write(c, bytes);
	}
	return more;
}

int conns_server(const struct peer_opts *o)
{
	struct conn door = { .fd = -1 };
	struct epoll_event ev[EVENTS];
	int ep = epoll_create1(EPOLL_CLOEXEC), more = 1;
	long open_conns = 0;

	peer_files_limit(o->conns + 64);
	door.fd = peer_listen(o->port);
	watch(ep, &door);
	while (more || open_conns) {
		int n = epoll_wait(ep, ev, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;

			if (c != &door) {
				more &= serve(c, o->bytes, &open_conns);
				continue;
			}
			conn_new(ep, peer_accept(door.fd), o->bytes);
			open_conns++;
		}
	}
	close(door.fd);
	close(ep);
	return 0;
}

static void ask(struct conn *c, size_t bytes, uint64_t now)
{
	c->sent_ns = now;
	conn_write(c, bytes);
}

/* Take answers until `until`; ask again on each as long as `again`.
 * Return: answers taken. */
static long exchange(int ep, const struct peer_opts *o, uint64_t until, int again,
		     long most, struct hist *h)
{
	struct epoll_event ev[EVENTS];
	long answers = 0;

	while (answers < most) {
		int n = epoll_wait(ep, ev, EVENTS, -1);
		uint64_t now = peer_now_ns();

		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;
			int got = conn_read(c, o->bytes);

			if (got < 0) {
				errno = ECONNRESET;
				peer_die("recv");
			}
			if (!got)
				continue;
			answers++;
			hist_add(h, now - c->sent_ns);
			if (again)
				ask(c, o->bytes, peer_now_ns());
		}
		if (again && now >= until)
			break;
	}
	return answers;
}

int conns_client(const struct peer_opts *o)
{
	static struct hist warm, h;
	struct conn **c = peer_alloc((size_t)o->conns * sizeof(struct conn *));
	int ep = epoll_create1(EPOLL_CLOEXEC);
	uint64_t start, took;
	long n, warmed;

	peer_files_limit(o->conns + 64);
	for (long i = 0; i < o->conns; i++) {
		c[i] = conn_new(ep, peer_connect(o->port), o->bytes);
		ask(c[i], o->bytes, peer_now_ns());
	}
	warmed = exchange(ep, o, peer_now_ns() + PEER_WARM_NS + (uint64_t)o->conns * 1000000,
			  1, INT64_MAX, &warm);
	start = peer_now_ns();
	n = exchange(ep, o, start + (uint64_t)(o->seconds * 1e9), 1,
		     o->messages ? o->messages : INT64_MAX, &h);
	took = peer_now_ns() - start;
	exchange(ep, o, 0, 0, o->conns, &warm);
	c[0]->buf[0] = MSG_LAST;
	ask(c[0], o->bytes, 0);
	exchange(ep, o, 0, 0, 1, &warm);
	for (long i = 0; i < o->conns; i++)
		conn_free(c[i]);
	free(c);
	printf("messages %.1f\np50 %.3f\np99 %.3f\n", (double)n * 1e9 / (double)took,
	       hist_percentile(&h, 0.5) / 1e3, hist_percentile(&h, 0.99) / 1e3);
	peer_print_ops((uint64_t)(n + warmed + o->conns + 1));
	peer_print_trips(&h);
	return 0;
}
