/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer_connect.c - connect, request, reply, close, and again
 *
 * The client closes first, as an HTTP/1.0 client would after a reply of known
 * length; the server closes when it reads the end of the stream.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARM_NS	(PEER_WARM_NS / 3)

/* Return: whether the client wants more connections served. */
static int serve_one(int listener, char *buf, size_t n)
{
	int fd = peer_accept(listener);
	int more = 1;

	while (peer_recv(fd, buf, n)) {
		if (buf[0] == MSG_LAST)
			more = 0;
		peer_send(fd, buf, n);
	}
	close(fd);
	return more;
}

int connect_server(const struct peer_opts *o)
{
	int listener = peer_listen(o->port);
	char *buf = peer_alloc(o->bytes);

	while (serve_one(listener, buf, o->bytes))
		;
	close(listener);
	free(buf);
	return 0;
}

static void call_once(const struct peer_opts *o, char *buf, char kind)
{
	int fd = peer_connect(o->port);

	buf[0] = kind;
	peer_send(fd, buf, o->bytes);
	if (!peer_recv(fd, buf, o->bytes) || buf[0] != kind) {
		fprintf(stderr, "sidestep-bench: connect: wrong reply\n");
		exit(1);
	}
	close(fd);
}

int connect_client(const struct peer_opts *o)
{
	static struct hist h;
	char *buf = peer_alloc(o->bytes);
	uint64_t start = peer_now_ns(), now, last, length = (uint64_t)(o->seconds * 1e9);
	long n = 0, warm = 1;

	for (; peer_now_ns() - start < WARM_NS; warm++)
		call_once(o, buf, MSG_GO_ON);
	start = last = peer_now_ns();
	do {
		call_once(o, buf, MSG_GO_ON);
		now = peer_now_ns();
		hist_add(&h, now - last);
		last = now;
		n++;
	} while (o->messages ? n < o->messages : now - start < length);
	call_once(o, buf, MSG_LAST);
	printf("calls %.1f\np50 %.3f\np99 %.3f\n", (double)n * 1e9 / (double)(last - start),
	       hist_percentile(&h, 0.5) / 1e3, hist_percentile(&h, 0.99) / 1e3);
	peer_print_ops((uint64_t)(n + warm));
	peer_print_trips(&h);
	free(buf);
	return 0;
}
