/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * asks.c - a program that knows sidestep asks about its connections
 *
 * asks plain	does not run under sidestep: nobody is there to ask
 * asks ring	runs under it, with SIDESTEP_ATTACH so high that only who asks
 *		gets a ring
 * asks never	runs under it, with SIDESTEP_ATTACH=never
 * Both ends of each connection are this process; a thread echoes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sidestep/sidestep.h"

#define MESSAGE 100
#define MOST 200000		/* rounds until something must have happened */

static int failed;

#define CHECK(cond) do { \
	if (!(cond)) { \
		printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #cond, errno); \
		failed = 1; \
	} } while (0)

struct pair {
	int client, server;
	pthread_t echo;
};

static void *echo(void *arg)
{
	int fd = *(int *)arg;
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			break;
	return NULL;
}

static void die(const char *what)
{
	perror(what);
	exit(99);
}

static int listener(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)a, len) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)a, &len))
		die("listen");
	return fd;
}

static void pair_open(struct pair *p)
{
	struct sockaddr_in a;
	int l = listener(&a), one = 1;

	p->client = socket(AF_INET, SOCK_STREAM, 0);
	if (p->client < 0 || connect(p->client, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	p->server = accept(l, NULL, NULL);
	if (p->server < 0)
		die("accept");
	setsockopt(p->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(p->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(l);	/* at once, as who serves one client only does: that may have a ring too */
	if (pthread_create(&p->echo, NULL, echo, &p->server))
		die("pthread_create");
}

static void pair_close(struct pair *p)
{
	shutdown(p->client, SHUT_WR);
	pthread_join(p->echo, NULL);
	close(p->client);
	close(p->server);
}

static void round_trip(int fd)
{
	char buf[MESSAGE], back[MESSAGE];
	ssize_t n, got = 0;

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (char)rand();
	if (write(fd, buf, sizeof(buf)) != (ssize_t)sizeof(buf))
		die("write");
	for (; got < MESSAGE; got += n) {
		n = read(fd, back + got, (size_t)(MESSAGE - got));
		if (n <= 0)
			die("read");
	}
	if (memcmp(buf, back, sizeof(buf)))
		die("what came back is not what was sent");
}

/* Return: the path is it, after rounds at most MOST. */
static int until(int fd, int path)
{
	for (int i = 0; i < MOST && sidestep_fd_path(fd) != path; i++)
		round_trip(fd);
	return sidestep_fd_path(fd) == path;
}

static int is(const char *a, const char *b)
{
	return a && !strcmp(a, b);
}

/* what says -1 with this errno */
#define REFUSED(call, error) (errno = 0, (call) == -1 && errno == (error))

static void ask_of_none(void)
{
	struct sidestep_stats s;
	int fresh = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
	const int none[] = { -1, udp, 0x7fffffff, STDIN_FILENO };

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		CHECK(sidestep_fd_path(none[i]) == -1);
		CHECK(!sidestep_fd_reason(none[i]));
		CHECK(REFUSED(sidestep_fd_stats(none[i], &s, sizeof(s)), EBADF));
		CHECK(REFUSED(sidestep_fd_attach(none[i]), EBADF));
		CHECK(REFUSED(sidestep_fd_retreat(none[i]), EBADF));
	}
	CHECK(sidestep_fd_path(fresh) == 0);
	CHECK(REFUSED(sidestep_fd_attach(fresh), ENOTCONN));
	CHECK(REFUSED(sidestep_fd_retreat(fresh), ENOTCONN));
	close(fresh);
	close(udp);
}

/* Who has an older or a newer header. */
static void ask_by_size(int fd)
{
	struct { struct sidestep_stats s; uint64_t more[2]; } big;
	struct { uint64_t first, second; } small = { 7, 7 };

	memset(&big, 0xff, sizeof(big));
	CHECK(sidestep_fd_stats(fd, &big.s, sizeof(big)) == 0);
	CHECK(big.s.kernel_tx_bytes > 0 && big.more[0] == 0 && big.more[1] == 0);
	CHECK(sidestep_fd_stats(fd, (struct sidestep_stats *)&small, sizeof(small.first)) == 0);
	CHECK(small.first == big.s.ring_tx_bytes && small.second == 7);
}

/* On TCP, asked for, on a ring, and back for good. */
static void ask_for_all(void)
{
	struct pair p;
	struct sidestep_stats a, b, e;

	pair_open(&p);
	CHECK(REFUSED(sidestep_fd_attach(p.server), EOPNOTSUPP));
	for (int i = 0; i < 1000; i++)
		round_trip(p.client);
	CHECK(sidestep_fd_path(p.client) == 0);
	CHECK(is(sidestep_fd_reason(p.client), "not-warm"));
	CHECK(sidestep_fd_stats(p.client, &a, sizeof(a)) == 0);
	CHECK(a.ring_tx_bytes == 0 && a.ring_rx_bytes == 0 && a.attaches == 0 && !a.rnic);
	CHECK(a.kernel_tx_bytes == 1000 * MESSAGE && a.kernel_rx_bytes == 1000 * MESSAGE);
	CHECK(!a.last_retreat && a.ring_bytes == 0);

	errno = 12345;
	CHECK(sidestep_fd_attach(p.client) == 0);
	CHECK(errno == 12345);
	CHECK(until(p.client, SIDESTEP_TX_RING | SIDESTEP_RX_RING));
	CHECK(is(sidestep_fd_reason(p.client), "none"));
	CHECK(sidestep_fd_attach(p.client) == 0);
	CHECK(sidestep_fd_stats(p.client, &a, sizeof(a)) == 0);
	for (int i = 0; i < 1000; i++)
		round_trip(p.client);
	CHECK(sidestep_fd_stats(p.client, &b, sizeof(b)) == 0);
	CHECK(b.ring_tx_bytes - a.ring_tx_bytes == 1000 * MESSAGE);
	CHECK(b.ring_rx_bytes - a.ring_rx_bytes == 1000 * MESSAGE);
	CHECK(b.attaches == 1 && b.retreats == 0 && is(b.rnic, "soft"));
	CHECK(b.ring_bytes >= 4096);
	ask_by_size(p.client);

	CHECK(sidestep_fd_retreat(p.client) == 0);
	CHECK(until(p.client, 0));
	CHECK(is(sidestep_fd_reason(p.client), "program-asked"));
	for (int i = 0; i < 1000; i++)
		round_trip(p.client);
	CHECK(sidestep_fd_path(p.client) == 0);
	CHECK(sidestep_fd_stats(p.client, &e, sizeof(e)) == 0);
	CHECK(e.ring_tx_bytes >= b.ring_tx_bytes && e.ring_rx_bytes >= b.ring_rx_bytes);
	CHECK(e.kernel_tx_bytes >= b.kernel_tx_bytes + 1000 * MESSAGE);
	CHECK(e.attaches == 1 && e.retreats == 1 && is(e.last_retreat, "program-asked"));
	CHECK(REFUSED(sidestep_fd_attach(p.client), EOPNOTSUPP));
	pair_close(&p);
}

/* Return: the ends have met, within ten seconds. */
static int meet(int fd)
{
	struct sidestep_stats s = { .rnic = NULL };

	for (int i = 0; i < 10000 && !s.rnic; i++) {
		usleep(1000);
		sidestep_fd_stats(fd, &s, sizeof(s));
	}
	return s.rnic != NULL;
}

/* Before the first byte: the ends meet, and the ring comes with the first writes. */
static void ask_at_once(void)
{
	struct pair p;

	pair_open(&p);
	CHECK(sidestep_fd_attach(p.client) == 0);
	CHECK(meet(p.client));
	CHECK(until(p.client, SIDESTEP_TX_RING | SIDESTEP_RX_RING));
	CHECK(sidestep_fd_retreat(p.server) == 0);	/* either end may */
	CHECK(until(p.client, 0));
	round_trip(p.client);
	pair_close(&p);
}

static void ask_in_vain(void)
{
	struct pair p;

	pair_open(&p);
	round_trip(p.client);
	CHECK(REFUSED(sidestep_fd_attach(p.client), EOPNOTSUPP));
	CHECK(is(sidestep_fd_reason(p.client), "config"));
	CHECK(sidestep_fd_path(p.client) == 0);
	CHECK(sidestep_fd_retreat(p.client) == 0);
	round_trip(p.client);
	pair_close(&p);
}

int main(int argc, char **argv)
{
	const char *how = argc == 2 ? argv[1] : "";

	if (!strcmp(how, "plain")) {
		CHECK(!sidestep_present());
		CHECK(!sidestep_fd_path && !sidestep_fd_reason && !sidestep_fd_stats);
		CHECK(!sidestep_fd_attach && !sidestep_fd_retreat);
		return failed;
	}
	CHECK(sidestep_present());
	if (failed)
		return failed;
	CHECK(strlen(sidestep_version()) > 0);
	if (!strcmp(how, "never")) {
		ask_in_vain();
	} else {
		ask_of_none();
		ask_for_all();
		ask_at_once();
	}
	return failed;
}
