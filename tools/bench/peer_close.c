/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer_close.c - how long close() takes
 *
 * The client warms up a batch of connections, by turns, for an attach takes
 * its time; then it closes them one after the other and times each close().  The server has been told to leave them alone and,
 * as the workload wants it, is stopped for the time, or has not read what the
 * client has written until it was refused more.  Over a connection of its own
 * it hears when to read them to their ends.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 16, ROUNDS = 100, MESSAGE = 256, BULK = 64 * 1024, BULKS = 8 };

#define MSG_BULK	'b'	/* BULK bytes follow, no answer */
#define MSG_LEAVE	'n'	/* answered; nothing is read until the end */

/* Return: what kind of message it was. */
static char serve_one(int fd, char *buf)
{
	if (!peer_recv(fd, buf, MESSAGE))
		peer_die("the client has gone");
	char kind = buf[0];

	if (kind == MSG_BULK)
		peer_recv(fd, buf, BULK);
	else
		peer_send(fd, buf, MESSAGE);
	return kind;
}

static void serve_batch(int listener, int *fds, char *buf)
{
	char kind;

	for (int i = 0; i < BATCH; i++)
		fds[i] = peer_accept(listener);
	do
		for (int i = 0; i < BATCH; i++)
			kind = serve_one(fds[i], buf);
	while (kind != MSG_LEAVE);
}

static void read_to_end(int fd, char *buf)
{
	while (recv(fd, buf, BULK, 0) > 0)
		;
	close(fd);
}

int close_server(const struct peer_opts *o)
{
	int listener = peer_listen(o->port), control = peer_accept(listener), fds[BATCH];
	char *buf = peer_alloc(BULK);
	long pid = getpid();

	peer_send(control, &pid, sizeof(pid));
	do {
		serve_batch(listener, fds, buf);
		peer_recv(control, buf, 1);
		char kind = buf[0];

		for (int i = 0; i < BATCH; i++)
			read_to_end(fds[i], buf);
		buf[0] = kind;
		peer_send(control, buf, 1);
	} while (buf[0] != MSG_LAST);
	close(control);
	free(buf);
	return 0;
}

static void talk(int fd, char kind, char *buf)
{
	buf[0] = kind;
	peer_send(fd, buf, MESSAGE);
	if (kind == MSG_BULK)
		peer_send(fd, buf, BULK);
	else
		peer_recv(fd, buf, MESSAGE);
}

static void warm_batch(const struct peer_opts *o, int *fds, char *buf)
{
	for (int i = 0; i < BATCH; i++)
		fds[i] = peer_connect(o->port);
	for (int r = 0; r <= ROUNDS + BULKS; r++)
		for (int i = 0; i < BATCH; i++)
			talk(fds[i], r < ROUNDS		? MSG_GO_ON
				     : r < ROUNDS + BULKS ? MSG_BULK
							: MSG_LEAVE, buf);
}

static void fill(int fd, char *buf)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (send(fd, buf, BULK, MSG_NOSIGNAL) > 0)
		;
	if (errno != EAGAIN)
		peer_die("send");
}

static void batch(const struct peer_opts *o, enum close_peer peer, pid_t pid, struct hist *h,
		  char *buf)
{
	int fds[BATCH];

	warm_batch(o, fds, buf);
	for (int i = 0; i < BATCH && peer == PEER_FULL; i++)
		fill(fds[i], buf);
	if (peer == PEER_FROZEN)
		kill(pid, SIGSTOP);
	for (int i = 0; i < BATCH; i++) {
		uint64_t start = peer_now_ns();

		close(fds[i]);
		hist_add(h, peer_now_ns() - start);
	}
	if (peer == PEER_FROZEN)
		kill(pid, SIGCONT);
}

int close_client(const struct peer_opts *o, enum close_peer peer)
{
	static struct hist warm, h;
	int control = peer_connect(o->port);
	char *buf = peer_alloc(BULK), kind;
	uint64_t start = 0, length = (uint64_t)(o->seconds * 1e9);
	long pid = 0;

	peer_recv(control, &pid, sizeof(pid));
	for (int i = 0, last = 0; !last; i++) {
		batch(o, peer, (pid_t)pid, i ? &h : &warm, buf);
		if (!i)
			start = peer_now_ns();
		last = i && peer_now_ns() - start >= length;
		kind = last ? MSG_LAST : MSG_GO_ON;
		peer_send(control, &kind, 1);
		peer_recv(control, &kind, 1);
	}
	printf("p50 %.3f\np99 %.3f\n", hist_percentile(&h, 0.5) / 1e3,
	       hist_percentile(&h, 0.99) / 1e3);
	free(buf);
	close(control);
	return 0;
}
