/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fdecho: full-duplex echo of any number of bytes, each one checked.
 *
 *	fdecho server PORT|0 [--once] [--any] [--shared]
 *	fdecho client HOST PORT BYTES [--block BYTES] [--style blocking|nonblock-poll|epoll]
 *
 * The client writes a recomputable stream and at the same time reads it back,
 * so a byte that is lost, repeated, swapped or wrong is found at its place.
 * Sizes of single writes and reads are random, up to --block.  The server
 * echoes what comes until EOF, then closes; it prints its port first.  Several
 * that are --shared may have the same port.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/pattern.h"

enum { SEED = 77, BLOCK_MAX = 1 << 20 };
enum style { STYLE_BLOCKING, STYLE_POLL, STYLE_EPOLL };

static size_t block_bytes = 64 << 10;
static enum style style;
static bool once, any_host, shared;

struct run {
	int fd, ep;
	uint64_t total, sent, got;
	uint64_t out_rand, in_rand;
	unsigned char *out, *in;
	size_t out_len, out_done;	/* piece in out that is being written */
	const char *wrong;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "fdecho: %s: %s\n", what, strerror(errno));
	exit(2);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static size_t random_size(uint64_t *state, uint64_t most)
{
	uint64_t n = pattern_rand(state) % block_bytes + 1;

	return (size_t)(n < most ? n : most);
}

/* Return: 1 progress, 0 would block or nothing to do, -1 broken. */
static int run_write(struct run *r)
{
	ssize_t n;

	if (r->sent == r->total)
		return 0;
	if (r->out_done == r->out_len) {
		r->out_len = random_size(&r->out_rand, r->total - r->sent);
		r->out_done = 0;
		pattern_fill(r->out, r->out_len, r->sent, SEED);
	}
	n = send(r->fd, r->out + r->out_done, r->out_len - r->out_done, MSG_NOSIGNAL);
	if (n < 0) {
		if (errno == EAGAIN)
			return 0;
		r->wrong = "send failed";
		return -1;
	}
	r->out_done += (size_t)n;
	r->sent += (uint64_t)n;
	if (r->sent == r->total && shutdown(r->fd, SHUT_WR) < 0)
		r->wrong = "shutdown failed";
	return 1;
}

/*
 * A wrong byte: from which place of the stream does it come?  That tells a
 * lost piece from a repeated one.
 */
static void whence(const char *who, const unsigned char *buf, size_t n, size_t at, uint64_t off)
{
	unsigned char want[16];
	const uint64_t reach = 4 << 20;
	uint64_t here = off + at;

	fprintf(stderr, "%s: wrong byte at %llu", who, (unsigned long long)here);
	for (uint64_t k = 0; n - at >= sizeof(want) && k < 2 * reach; k++) {
		uint64_t from = here + (k & 1 ? (k + 1) / 2 : -(k / 2));

		if (from > here + reach)
			continue;
		pattern_fill(want, sizeof(want), from, SEED);
		if (memcmp(want, buf + at, sizeof(want)) == 0) {
			fprintf(stderr, ", is that of %llu (%+lld), %zu bytes in hand",
				(unsigned long long)from, (long long)(from - here), n - at);
			break;
		}
	}
	fprintf(stderr, "\n");
}

/* Return: as run_write(). */
static int run_read(struct run *r)
{
	ssize_t n = recv(r->fd, r->in, random_size(&r->in_rand, block_bytes), 0);

	if (n < 0) {
		if (errno == EAGAIN)
			return 0;
		r->wrong = "recv failed";
		return -1;
	}
	if (n == 0) {
		if (r->got != r->total && !r->wrong)	/* an error is told once */
			r->wrong = "stream ended early";
		return -1;
	}
	if (r->got + (uint64_t)n > r->total) {
		r->wrong = "more bytes than were sent";
		return -1;
	}
	long at = pattern_check(r->in, (size_t)n, r->got, SEED);
	if (at >= 0) {
		r->wrong = "wrong byte";
		whence("client", r->in, (size_t)n, (size_t)at, r->got);
		return -1;
	}
	r->got += (uint64_t)n;
	return 1;
}

static void *writer_main(void *arg)
{
	struct run *r = arg;

	while (run_write(r) > 0)
		;
	return NULL;
}

static void drive_blocking(struct run *r)
{
	pthread_t th;

	if (pthread_create(&th, NULL, writer_main, r) != 0)
		die("pthread_create");
	while (run_read(r) > 0)
		;
	if (r->wrong)
		shutdown(r->fd, SHUT_RDWR);	/* wakes the writer */
	pthread_join(th, NULL);
}

static void wait_events(struct run *r)
{
	struct pollfd p = { .fd = r->fd, .events = POLLIN };
	struct epoll_event ev;

	if (r->sent < r->total)
		p.events |= POLLOUT;
	if ((style == STYLE_EPOLL ? epoll_wait(r->ep, &ev, 1, -1) : poll(&p, 1, -1)) < 0 &&
	    errno != EINTR)
		die("wait");
}

static void drive_events(struct run *r)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int in, out;

	if (fcntl(r->fd, F_SETFL, fcntl(r->fd, F_GETFL) | O_NONBLOCK) < 0)
		die("fcntl");
	r->ep = epoll_create1(EPOLL_CLOEXEC);
	if (r->ep < 0 || epoll_ctl(r->ep, EPOLL_CTL_ADD, r->fd, &ev) < 0)
		die("epoll");
	/* as an event loop begins; a program that never waits where it can be
	 * seen is given no grant to be switched */
	wait_events(r);
	for (;;) {
		out = run_write(r);
		in = run_read(r);
		if (in < 0 || out < 0)
			break;
		if (in == 0 && out == 0)
			wait_events(r);
	}
	close(r->ep);
}

static int client_connect(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *a;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &list) != 0)
		die(host);
	for (a = list; a; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
			break;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	if (fd < 0)
		die("connect");
	return fd;
}

static int client(const char *host, const char *port, const char *bytes)
{
	struct run r = { .total = strtoull(bytes, NULL, 0), .out_rand = 1, .in_rand = 2 };
	double start, spent;

	r.fd = client_connect(host, port);
	r.out = malloc(block_bytes);
	r.in = malloc(block_bytes);
	if (!r.out || !r.in)
		die("malloc");
	start = now_s();
	if (style == STYLE_BLOCKING)
		drive_blocking(&r);
	else
		drive_events(&r);
	spent = now_s() - start;
	close(r.fd);
	if (r.wrong || r.sent != r.total || r.got != r.total) {
		printf("WRONG: %s; sent %" PRIu64 " got %" PRIu64 " of %" PRIu64 "\n",
		       r.wrong ? r.wrong : "incomplete", r.sent, r.got, r.total);
		return 1;
	}
	printf("ok %" PRIu64 " bytes each way in %.3f s\n", r.total, spent);
	return 0;
}

/* Echo until EOF.  Return: 0, or -1 if the connection broke. */
static int echo(int fd, unsigned char *buf)
{
	bool look = getenv("FDECHO_CHECK");	/* the server looks, too */
	ssize_t n, k, done;
	uint64_t got = 0;

	while ((n = read(fd, buf, BLOCK_MAX)) > 0) {
		long at = look ? pattern_check(buf, (size_t)n, got, SEED) : -1;

		if (at >= 0) {
			whence("server", buf, (size_t)n, (size_t)at, got);
			return -1;
		}
		got += (uint64_t)n;
		for (done = 0; done < n; done += k) {
			k = send(fd, buf + done, (size_t)(n - done), MSG_NOSIGNAL);
			if (k < 0)
				return -1;
		}
	}
	return n == 0 ? 0 : -1;
}

static void *echo_main(void *arg)
{
	int fd = (int)(intptr_t)arg, rc;
	unsigned char *buf = malloc(BLOCK_MAX);

	rc = buf ? echo(fd, buf) : -1;
	close(fd);
	free(buf);
	return (void *)(intptr_t)rc;
}

static int server(const char *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	int ls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, on = 1;
	pthread_t th;

	if (any_host)
		sa.sin_addr.s_addr = htonl(INADDR_ANY);
	sa.sin_port = htons((uint16_t)atoi(port));
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (shared)
		setsockopt(ls, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (ls < 0 || bind(ls, (struct sockaddr *)&sa, len) < 0 || listen(ls, 128) < 0 ||
	    getsockname(ls, (struct sockaddr *)&sa, &len) < 0)
		die("listen");
	printf("%d\n", ntohs(sa.sin_port));
	fflush(stdout);
	while ((fd = accept(ls, NULL, NULL)) >= 0 || errno == EINTR || errno == ECONNABORTED) {
		if (fd < 0)
			continue;
		if (once)
			return echo_main((void *)(intptr_t)fd) ? 1 : 0;
		if (pthread_create(&th, NULL, echo_main, (void *)(intptr_t)fd) != 0)
			die("pthread_create");
		pthread_detach(th);
	}
	die("accept");
}

static int usage(void)
{
	fprintf(stderr,
		"usage: fdecho server PORT|0 [--once] [--any] [--shared]\n"
		"       fdecho client HOST PORT BYTES [--block BYTES] "
		"[--style blocking|nonblock-poll|epoll]\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "block", required_argument, NULL, 'b' },
		{ "style", required_argument, NULL, 's' },
		{ "once", no_argument, NULL, '1' },
		{ "any", no_argument, NULL, 'a' },
		{ "shared", no_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 }
	};
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (o == 'b')
			block_bytes = strtoul(optarg, NULL, 0);
		else if (o == 's')
			style = optarg[0] == 'b' ? STYLE_BLOCKING :
				optarg[0] == 'n' ? STYLE_POLL : STYLE_EPOLL;
		else if (o == '1')
			once = true;
		else if (o == 'a')
			any_host = true;
		else if (o == 'r')
			shared = true;
		else
			return usage();
	}
	argv += optind;
	argc -= optind;
	if (!block_bytes || block_bytes > BLOCK_MAX)
		return usage();
	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[0], "server") == 0)
		return server(argv[1]);
	if (argc == 4 && strcmp(argv[0], "client") == 0)
		return client(argv[1], argv[2], argv[3]);
	return usage();
}
