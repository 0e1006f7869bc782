/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer_stream.c - messages one way, as fast as they go
 *
 * A stream is a row of rounds: eight bytes with a length, that many bytes in
 * messages, and eight bytes back with the number of bytes received so far,
 * which must be right.  Rounds grow until the warm-up is over; then they are
 * measured, each from its length to the receiver's answer: one that is long
 * enough for the time asked for, or some more if it was over sooner than the
 * warm-up had promised.  A round of length 0 ends it.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES	65536

int stream_server(const struct peer_opts *o)
{
	size_t size = o->bytes > READ_BYTES ? o->bytes : READ_BYTES;
	int listener = peer_listen(o->port);
	int fd = peer_accept(listener);
	char *buf = peer_alloc(size);
	uint64_t left, total = 0;

	while (peer_recv(fd, &left, sizeof(left)) && left) {
		while (left) {
			ssize_t r = recv(fd, buf, left < size ? left : size, 0);

			if (r <= 0)
				peer_die("recv");
			left -= (uint64_t)r;
			total += (uint64_t)r;
		}
		peer_send(fd, &total, sizeof(total));
	}
	close(fd);
	close(listener);
	free(buf);
	return 0;
}

struct stream {
	int fd;
	char *buf;
	size_t bytes;
	uint64_t total;
};

/* Return: duration in ns of a round of n messages. */
static uint64_t stream_round(struct stream *s, uint64_t n)
{
	uint64_t length = n * s->bytes, answer;
	uint64_t start = peer_now_ns();

	peer_send(s->fd, &length, sizeof(length));
	for (uint64_t i = 0; i < n; i++)
		peer_send(s->fd, s->buf, s->bytes);
	if (!peer_recv(s->fd, &answer, sizeof(answer)))
		peer_die("recv");
	s->total += length;
	if (answer != s->total) {
		fprintf(stderr, "sidestep-bench: stream: sent %llu bytes, received %llu\n",
			(unsigned long long)s->total, (unsigned long long)answer);
		exit(1);
	}
	return peer_now_ns() - start;
}

/* Return: the number of messages that take about as long as asked for. */
static uint64_t warm_up(struct stream *s, double seconds)
{
	uint64_t start = peer_now_ns(), took, n = 1 + READ_BYTES / s->bytes;

	for (;;) {
		took = stream_round(s, n);
		if (peer_now_ns() - start >= PEER_WARM_NS && took >= PEER_WARM_NS / 10)
			break;
		if (took < PEER_WARM_NS / 4)
			n *= 2;
	}
	return 1 + (uint64_t)((double)n * seconds * 1e9 / (double)took);
}

int stream_client(const struct peer_opts *o)
{
	struct stream s = { peer_connect(o->port), peer_alloc(o->bytes), o->bytes, 0 };
	uint64_t n = warm_up(&s, o->seconds), end = 0, sent = 0;
	double secs = 0;

	if (o->messages)
		n = (uint64_t)o->messages;
	do {
		secs += (double)stream_round(&s, n) / 1e9;
		sent += n;
	} while (!o->messages && secs < 0.7 * o->seconds);
	peer_send(s.fd, &end, sizeof(end));
	close(s.fd);
	printf("messages %.1f\nbytes %.1f\n", (double)sent / secs,
	       (double)sent * (double)o->bytes / secs);
	peer_print_ops(s.total / s.bytes);
	free(s.buf);
	return 0;
}
