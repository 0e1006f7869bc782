/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer.h - the two ends of the built-in workloads
 *
 * Each end is a process of its own, `sidestep-bench peer ROLE [OPTIONS]`, an
 * ordinary TCP program that knows nothing of sidestep.  A client prints its
 * figures as lines "NAME VALUE"; a server serves until its client says that
 * it is done and then exits normally.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "stats.h"

struct peer_opts {
	int port;
	size_t bytes;		/* of a message */
	long conns;
	long messages;		/* 0: for as long as seconds */
	double seconds;
	double warm;		/* pingpong: seconds before those; 0: so many trips */
};

/* First byte of a message: what the server does after it has answered it. */
#define MSG_GO_ON	'g'
#define MSG_LAST	'l'

#define PEER_WARM_NS	300000000ull	/* before measuring: attach is over by then */

int pingpong_server(const struct peer_opts *o);
int pingpong_client(const struct peer_opts *o);
int stream_server(const struct peer_opts *o);
int stream_client(const struct peer_opts *o);
int connect_server(const struct peer_opts *o);
int connect_client(const struct peer_opts *o);
enum close_peer { PEER_IDLE, PEER_FROZEN, PEER_FULL };
int close_server(const struct peer_opts *o);
int close_client(const struct peer_opts *o, enum close_peer peer);
int conns_server(const struct peer_opts *o);
int conns_client(const struct peer_opts *o);
int idle_server(const struct peer_opts *o);
int idle_client(const struct peer_opts *o);

/* Sockets on 127.0.0.1, or on --address; each ends the process with a message when it fails. */
int peer_listen(int port);
int peer_accept(int listener);
int peer_connect(int port);

/* All of n bytes; end the process on an error.  peer_recv: 0 at the end of
 * the stream before the first byte, else n. */
void peer_send(int fd, const void *buf, size_t n);
size_t peer_recv(int fd, void *buf, size_t n);

/* The lines that tell how many operations there were in all, warm-up included,
 * and how long each of those that were timed took. */
void peer_print_ops(uint64_t n);
void peer_print_trips(const struct hist *h);

void *peer_alloc(size_t n);
void peer_files_limit(long wanted);
_Noreturn void peer_die(const char *what);

static inline uint64_t peer_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* `sidestep-bench peer ...`; return the exit status. */
int peer_main(int argc, char **argv);

#endif
