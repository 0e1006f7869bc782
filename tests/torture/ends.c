/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ends ROLE ... - what was accepted arrives, then the end, whatever the writer does
 *
 *	reply-server REQUESTS	serves so many connections: an 8 MiB reply, close
 *	reply-client PORT REQUESTS MODE
 *				reads and checks the replies; MODE self: takes each
 *				connection back to the kernel at some byte of its reply
 *	fill-reader CONNS LATE_MS
 *				one thread a connection: reads so late what is there
 *	fill-writer PORT ID END	writes until EAGAIN, then END: close, exit, _exit,
 *				quick_exit, main, exec
 *
 * Servers print their port first.  Each end of a connection has been warmed up;
 * the program itself knows nothing of sidestep but sidestep_fd_path().
 * tests/torture/closing runs the roles and adds up.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/pattern.h"

enum { REPLY = 8 << 20, PIECE = 64 * 1024, ROUNDS = 200, ON_RING = 3, SEED = 7, BULK = 16 };

struct hello {
	uint32_t id;
	uint8_t path, last;
	char rest[58];
};

static long late_ms;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int path_of(int fd)
{
	int (*fd_path)(int);

	*(void **)&fd_path = dlsym(RTLD_DEFAULT, "sidestep_fd_path");
	return fd_path ? fd_path(fd) : ON_RING;
}

static int listener(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (l < 0 || bind(l, (struct sockaddr *)&sa, len) || listen(l, 1024) ||
	    getsockname(l, (struct sockaddr *)&sa, &len))
		die("listen");
	printf("%d\n", ntohs(sa.sin_port));
	fflush(stdout);
	return l;
}

static int dial(int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		die("connect");
	return fd;
}

static void put(int fd, const void *buf, size_t n)
{
	if (send(fd, buf, n, MSG_NOSIGNAL) != (ssize_t)n)
		die("send");
}

static void get(int fd, void *buf, size_t n)
{
	if (recv(fd, buf, n, MSG_WAITALL) != (ssize_t)n)
		die("recv");
}

/* Both ways in turn, so that the windows grow. */
static void bulk(int fd, bool first)
{
	static __thread unsigned char buf[PIECE];

	for (int i = 0; i < 2 * BULK; i++) {
		if ((i < BULK) == first)
			put(fd, buf, sizeof(buf));
		else
			get(fd, buf, sizeof(buf));
	}
}

/* Small messages both ways until both ends are on the ring, or long enough. */
static uint32_t warm_client(int fd, uint32_t id)
{
	struct hello h = { .id = id };

	for (int i = 0; !h.last; i++) {
		struct timespec ms = { 0, i * 20000L };

		h.path = (uint8_t)path_of(fd);
		h.last = i == ROUNDS;
		put(fd, &h, sizeof(h));
		bool here = h.path == ON_RING;
		get(fd, &h, sizeof(h));
		if (here && h.path == ON_RING && !h.last) {
			h.last = 1;
			put(fd, &h, sizeof(h));
			get(fd, &h, sizeof(h));
		} else if (!h.last) {
			nanosleep(&ms, NULL);
		}
	}
	bulk(fd, true);
	return h.id;
}

static uint32_t warm_server(int fd)
{
	struct hello h;

	do {
		get(fd, &h, sizeof(h));
		h.path = (uint8_t)path_of(fd);
		put(fd, &h, sizeof(h));
	} while (!h.last);
	bulk(fd, false);
	return h.id;
}

/* Return: bytes up to the end, all right; -1 where not. */
static long read_all(int fd, long back_at)
{
	static __thread unsigned char buf[PIECE];
	long done = 0;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (pattern_check(buf, (size_t)n, (uint64_t)done, SEED) >= 0)
			return -1;
		if (done < back_at && done + n >= back_at)	/* both ways go back to the kernel */
			setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){ 2 }, sizeof(int));
		done += n;
	}
	if (n < 0)
		fprintf(stderr, "after %ld bytes: %s\n", done, strerror(errno));
	return n < 0 ? -1 : done;
}

static void *reply_one(void *arg)
{
	static __thread unsigned char buf[PIECE];
	int fd = (int)(intptr_t)arg;

	warm_server(fd);
	for (long off = 0; off < REPLY; off += PIECE) {
		pattern_fill(buf, PIECE, (uint64_t)off, SEED);
		put(fd, buf, PIECE);
	}
	close(fd);
	return NULL;
}

/* A thread for each of n connections. */
static int serve(long n, void *(*one)(void *fd))
{
	pthread_t *t = calloc((size_t)n, sizeof(*t));
	int l = listener();

	for (long i = 0; i < n; i++) {
		int fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 || pthread_create(&t[i], NULL, one, (void *)(intptr_t)fd))
			die("accept");
	}
	for (long i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	free(t);
	return 0;
}

static int reply_client(int port, long n, const char *mode)
{
	uint64_t rnd = (uint64_t)getpid();
	long ok = 0;

	for (long i = 0; i < n; i++) {
		int fd = dial(port);
		long at = strcmp(mode, "self") ? -1 : 1 + (long)(pattern_rand(&rnd) % REPLY);

		warm_client(fd, (uint32_t)i);
		ok += read_all(fd, at) == REPLY;
		close(fd);
	}
	printf("%ld of %ld\n", ok, n);
	return ok != n;
}

static void *fill_read(void *arg)
{
	struct timespec late = { late_ms / 1000, late_ms % 1000 * 1000000 };
	int fd = (int)(intptr_t)arg;
	uint32_t id = warm_server(fd);

	nanosleep(&late, NULL);
	printf("%u %ld\n", id, read_all(fd, -1));
	close(fd);
	return NULL;
}

static long fill(int fd)
{
	static unsigned char buf[PIECE];
	long done = 0;
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	do {
		pattern_fill(buf, sizeof(buf), (uint64_t)done, SEED);
		n = send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
		done += n > 0 ? n : 0;
	} while (n > 0);
	if (errno != EAGAIN)
		die("fill");
	return done;
}

/* The rest of the process is busy with the connection when it ends. */
static void *busy(void *arg)
{
	char buf[16];

	recv((int)(intptr_t)arg, buf, sizeof(buf), 0);
	printf("a read came back: %s\n", strerror(errno));
	return NULL;
}

static int fill_writer(int port, uint32_t id, const char *end)
{
	int fd = dial(port);
	pthread_t t;

	warm_client(fd, id);
	int path = path_of(fd);
	printf("%u %ld %d\n", id, fill(fd), path);
	fflush(stdout);
	if (!strcmp(end, "close")) {
		close(fd);
		_exit(0);
	}
	if (!strcmp(end, "_exit"))
		_exit(0);
	if (!strcmp(end, "exit"))
		exit(0);
	if (!strcmp(end, "quick_exit"))
		quick_exit(0);
	if (!strcmp(end, "exec"))
		execl("/bin/true", "true", (char *)NULL);
	fcntl(fd, F_SETFL, 0);
	pthread_create(&t, NULL, busy, (void *)(intptr_t)fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit rl;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max < 65536 ? rl.rlim_max : 65536;
	setrlimit(RLIMIT_NOFILE, &rl);
	if (argc == 3 && !strcmp(argv[1], "reply-server"))
		return serve(atol(argv[2]), reply_one);
	if (argc == 5 && !strcmp(argv[1], "reply-client"))
		return reply_client(atoi(argv[2]), atol(argv[3]), argv[4]);
	if (argc == 4 && !strcmp(argv[1], "fill-reader")) {
		late_ms = atol(argv[3]);
		return serve(atol(argv[2]), fill_read);
	}
	if (argc == 5 && !strcmp(argv[1], "fill-writer"))
		return fill_writer(atoi(argv[2]), (uint32_t)atol(argv[3]), argv[4]);
	fprintf(stderr, "usage: see the head of tests/torture/ends.c\n");
	return 2;
}
