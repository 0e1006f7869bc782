/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * waiters [SECONDS [CONNS]] - several threads to an epoll set: no wake-up is lost
 *
 * A child process echoes on CONNS connections with four threads on two sets;
 * all are one-shot, two of three edge-triggered too.  The parent plays ping-pong on every
 * connection from four threads, with pauses that let everybody fall asleep.
 * A round that takes longer than five seconds is a lost wake-up.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

#include "tests/lib/pattern.h"

enum { THREADS = 4, CONNS_MAX = 64, PAUSE_EVERY = 64 };

static int conns = 12, seconds = 3, fds[CONNS_MAX], sets[2];
static atomic_long rounds, failures;
static atomic_int over;

static int set_of(int i)
{
	return sets[i % 2];
}

static unsigned int mode_of(int i)
{
	return EPOLLIN | EPOLLONESHOT | (i % 3 ? EPOLLET : 0u);
}

static void arm(int i, int op)
{
	struct epoll_event ev = { .events = mode_of(i), .data.u32 = (uint32_t)i };

	if (epoll_ctl(set_of(i), op, fds[i], &ev) < 0)
		failures++;
}

/* Echo until it would block.  Return: false at the end of the stream. */
static int echo(int fd)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			failures++;
	return n < 0 && errno == EAGAIN;
}

static void *server_main(void *arg)
{
	int ep = sets[(long)arg % 2];
	struct epoll_event ev[3];

	while (!over) {
		int n = epoll_wait(ep, ev, 1 + (int)((long)arg % 3), 1000);

		for (int i = 0; i < n; i++) {
			if (echo(fds[ev[i].data.u32]))
				arm((int)ev[i].data.u32, EPOLL_CTL_MOD);
			else
				over = 1;
		}
	}
	return NULL;
}

static int play(int fd, uint64_t *rng)
{
	char out[512], in[512];
	size_t n = pattern_rand(rng) % sizeof(out) + 1, got = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	memset(out, (int)n, n);
	if (write(fd, out, n) != (ssize_t)n)
		return -1;
	while (got < n) {
		if (poll(&p, 1, 5000) != 1)
			return -1;
		ssize_t k = read(fd, in + got, n - got);

		if (k <= 0)
			return -1;
		got += (size_t)k;
	}
	return memcmp(in, out, n);
}

static void *client_main(void *arg)
{
	time_t end = time(NULL) + seconds;
	uint64_t rng = (uint64_t)(long)arg + 1;

	for (long n = 0; time(NULL) < end && !failures; n++) {
		for (int i = (int)(long)arg; i < conns; i += THREADS) {
			if (play(fds[i], &rng)) {
				fprintf(stderr, "connection %d: no answer after %ld rounds\n", i, n);
				failures++;
				return NULL;
			}
			rounds++;
		}
		if (n % PAUSE_EVERY == 0)
			poll(NULL, 0, (int)(pattern_rand(&rng) % 40));
	}
	return NULL;
}

static void run(void *(*fn)(void *))
{
	pthread_t th[THREADS];

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&th[i], NULL, fn, (void *)i))
			exit(2);
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
}

static int serve(int listener)
{
	sets[0] = epoll_create1(0);
	sets[1] = epoll_create1(0);
	for (int i = 0; i < conns; i++) {
		fds[i] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		if (fds[i] < 0)
			return 2;
		arm(i, EPOLL_CTL_ADD);
	}
	run(server_main);
	return failures != 0;
}

static int call(const struct sockaddr_in *sa)
{
	for (int i = 0; i < conns; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fds[i], (const struct sockaddr *)sa, sizeof(*sa)))
			return 2;
	}
	run(client_main);
	return failures != 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0), status = 0;

	if (argc > 1)
		seconds = atoi(argv[1]);
	if (argc > 2)
		conns = atoi(argv[2]);
	if (conns < THREADS || conns > CONNS_MAX || bind(listener, (struct sockaddr *)&sa, len) ||
	    listen(listener, CONNS_MAX) || getsockname(listener, (struct sockaddr *)&sa, &len))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	pid_t child = fork();
	if (child == 0)
		exit(serve(listener));
	close(listener);
	int bad = call(&sa);
	for (int i = 0; i < conns; i++)
		close(fds[i]);
	if (bad)
		kill(child, SIGKILL);
	waitpid(child, &status, 0);
	printf("%ld rounds, %s\n", rounds, bad || status ? "FAILED" : "ok");
	return bad || status ? 1 : 0;
}
