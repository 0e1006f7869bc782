/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* peer.c - roles, options and socket helpers of the built-in workloads */
#define _GNU_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int close_idle_client(const struct peer_opts *o)
{
	return close_client(o, PEER_IDLE);
}

static int close_frozen_client(const struct peer_opts *o)
{
	return close_client(o, PEER_FROZEN);
}

static int close_full_client(const struct peer_opts *o)
{
	return close_client(o, PEER_FULL);
}

static const struct {
	const char *name;
	int (*run)(const struct peer_opts *o);
} roles[] = {
	{ "pingpong-server", pingpong_server },
	{ "pingpong-client", pingpong_client },
	{ "stream-server", stream_server },
	{ "stream-client", stream_client },
	{ "connect-server", connect_server },
	{ "connect-client", connect_client },
	{ "close-server", close_server },
	{ "close-client", close_idle_client },
	{ "close-frozen-server", close_server },
	{ "close-frozen-client", close_frozen_client },
	{ "close-full-server", close_server },
	{ "close-full-client", close_full_client },
	{ "conns-server", conns_server },
	{ "conns-client", conns_client },
	{ "idle-server", idle_server },
	{ "idle-client", idle_client },
};

_Noreturn void peer_die(const char *what)
{
	fprintf(stderr, "sidestep-bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

void *peer_alloc(size_t n)
{
	void *p = malloc(n);

	if (!p)
		peer_die("malloc");
	memset(p, MSG_GO_ON, n);
	return p;
}

void peer_files_limit(long wanted)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	if (r.rlim_cur < (rlim_t)wanted) {
		r.rlim_cur = (rlim_t)wanted < r.rlim_max ? (rlim_t)wanted : r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/*
 * Sockets are made without flags, and accepted by accept(): with flags, or by
 * accept4(), librspreload leaves them to the kernel, and is to be compared with.
 */
static in_addr_t address;	/* 0: 127.0.0.1 */

static struct sockaddr_in address_of(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	a.sin_addr.s_addr = address ? address : htonl(INADDR_LOOPBACK);
	return a;
}

static void no_delay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		peer_die("TCP_NODELAY");
}

int peer_listen(int port)
{
	struct sockaddr_in a = address_of(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int one = 1;

	if (fd < 0)
		peer_die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		peer_die("bind");
	if (listen(fd, 4096))
		peer_die("listen");
	return fd;
}

int peer_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		peer_die("accept");
	no_delay(fd);
	return fd;
}

int peer_connect(int port)
{
	struct sockaddr_in a = address_of(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		peer_die("socket");
	no_delay(fd);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		peer_die("connect");
	return fd;
}

void peer_send(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r < 0)
			peer_die("send");
		p += r;
		n -= (size_t)r;
	}
}

size_t peer_recv(int fd, void *buf, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = recv(fd, (char *)buf + have, n - have, 0);

		if (r < 0)
			peer_die("recv");
		if (r == 0 && have == 0)
			return 0;
		if (r == 0) {
			errno = ECONNABORTED;
			peer_die("recv");
		}
		have += (size_t)r;
	}
	return have;
}

void peer_print_ops(uint64_t n)
{
	printf("ops %llu\n", (unsigned long long)n);
}

void peer_print_trips(const struct hist *h)
{
	for (unsigned int i = 0; i < HIST_BUCKETS; i++)
		if (h->bucket[i])
			printf("trips %.0f %u\n", hist_value(i), h->bucket[i]);
}

static int set_option(struct peer_opts *o, const char *name, const char *value)
{
	if (!strcmp(name, "--port"))
		o->port = atoi(value);
	else if (!strcmp(name, "--bytes"))
		o->bytes = strtoul(value, NULL, 10);
	else if (!strcmp(name, "--conns"))
		o->conns = atol(value);
	else if (!strcmp(name, "--messages"))
		o->messages = atol(value);
	else if (!strcmp(name, "--seconds"))
		o->seconds = atof(value);
	else if (!strcmp(name, "--warm"))
		o->warm = atof(value);
	else if (strcmp(name, "--address") || inet_pton(AF_INET, value, &address) != 1)
		return -EINVAL;
	return 0;
}

int peer_main(int argc, char **argv)
{
	struct peer_opts o = { .bytes = 64, .conns = 1, .seconds = 1 };

	for (int i = 2; i + 1 < argc; i += 2) {
		if (set_option(&o, argv[i], argv[i + 1])) {
			fprintf(stderr, "sidestep-bench: peer: unknown option %s\n", argv[i]);
			return 2;
		}
	}
	for (size_t i = 0; argc > 1 && i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (!strcmp(argv[1], roles[i].name) && o.bytes > 0)
			return roles[i].run(&o);
	}
	fprintf(stderr, "sidestep-bench: peer: no such role\n");
	return 2;
}
