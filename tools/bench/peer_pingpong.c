/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer_pingpong.c - one message out, the same message back, blocking
 *
 * The first 200 round trips of the warm-up are a millisecond apart, so that an
 * attach falls between the same two messages each time: the number of system
 * calls before it is then the same in each run (`sidestep-bench syscalls`).
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PACED_TRIPS	200
#define WARM_TRIPS	2000

int pingpong_server(const struct peer_opts *o)
{
	int listener = peer_listen(o->port);
	int fd = peer_accept(listener);
	char *buf = peer_alloc(o->bytes);

	while (peer_recv(fd, buf, o->bytes))
		peer_send(fd, buf, o->bytes);
	close(fd);
	close(listener);
	free(buf);
	return 0;
}

static void trip(int fd, char *buf, size_t n)
{
	peer_send(fd, buf, n);
	if (!peer_recv(fd, buf, n)) {
		fprintf(stderr, "sidestep-bench: pingpong: the server has hung up\n");
		exit(1);
	}
}

/* Return: trips made. */
static uint64_t warm_up(const struct peer_opts *o, int fd, char *buf)
{
	uint64_t end = peer_now_ns() + (uint64_t)(o->warm * 1e9), trips = 0;
	struct timespec pace = { 0, 1000000 };

	for (; trips < PACED_TRIPS; trips++) {
		trip(fd, buf, o->bytes);
		nanosleep(&pace, NULL);
	}
	for (; o->warm ? peer_now_ns() < end : trips < PACED_TRIPS + WARM_TRIPS; trips++)
		trip(fd, buf, o->bytes);
	return trips;
}

int pingpong_client(const struct peer_opts *o)
{
	static struct hist h;
	int fd = peer_connect(o->port);
	char *buf = peer_alloc(o->bytes);
	uint64_t start, now, last, length = (uint64_t)(o->seconds * 1e9);
	uint64_t warm = warm_up(o, fd, buf);
	long n = 0;

	start = last = peer_now_ns();
	do {
		trip(fd, buf, o->bytes);
		now = peer_now_ns();
		hist_add(&h, now - last);
		last = now;
		n++;
	} while (o->messages ? n < o->messages : now - start < length);
	close(fd);
	printf("p50 %.3f\np99 %.3f\np99.9 %.3f\nround-trips %.1f\n",
	       hist_percentile(&h, 0.5) / 1e3, hist_percentile(&h, 0.99) / 1e3,
	       hist_percentile(&h, 0.999) / 1e3,
	       (double)n * 1e9 / (double)(last - start));
	peer_print_ops(warm + (uint64_t)n);
	peer_print_trips(&h);
	free(buf);
	return 0;
}
