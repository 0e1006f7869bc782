/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer_idle.c - what a connection costs that does nothing
 *
 * Traffic, then a silence, then one more message.  Each end takes its CPU time
 * (all its threads) over the silence; the server puts its own into the last
 * answer, and the client prints both.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIPS	20000

struct idle_msg {
	char kind;		/* MSG_LAST: the silence begins after the answer */
	char unused[7];
	uint64_t cpu_ns;	/* of the server over the silence */
	char rest[48];
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

int idle_server(const struct peer_opts *o)
{
	int listener = peer_listen(o->port);
	int fd = peer_accept(listener);
	struct idle_msg m;
	uint64_t before = 0;

	while (peer_recv(fd, &m, sizeof(m))) {
		m.cpu_ns = before ? cpu_ns() - before : 0;
		peer_send(fd, &m, sizeof(m));
		before = m.kind == MSG_LAST ? cpu_ns() : 0;
	}
	close(fd);
	close(listener);
	return 0;
}

static void idle_trip(int fd, struct idle_msg *m, char kind)
{
	m->kind = kind;
	peer_send(fd, m, sizeof(*m));
	if (!peer_recv(fd, m, sizeof(*m)) || m->kind != kind) {
		fprintf(stderr, "sidestep-bench: idle: wrong answer\n");
		exit(1);
	}
}

int idle_client(const struct peer_opts *o)
{
	struct timespec silence = { (time_t)o->seconds, 0 };
	int fd = peer_connect(o->port);
	struct idle_msg m;
	uint64_t before, mine;

	memset(&m, 0, sizeof(m));
	for (int i = 0; i < TRIPS; i++)
		idle_trip(fd, &m, MSG_GO_ON);
	idle_trip(fd, &m, MSG_LAST);
	before = cpu_ns();
	nanosleep(&silence, NULL);
	mine = cpu_ns() - before;
	idle_trip(fd, &m, MSG_GO_ON);
	close(fd);
	printf("client %.6f\nserver %.6f\n", (double)mine / 1e6, (double)m.cpu_ns / 1e6);
	return 0;
}
