/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * numbers [CONNS] - descriptors that a program has not made are not to be seen
 *
 * PEERS processes connect CONNS times each; four threads play ping-pong on the
 * connections, one peer after the other, so that links are made and dropped
 * all the time.  Meanwhile a thread makes descriptors in many ways, and each
 * must get the one low number that is free; and while that is free, it is
 * EBADF for everybody.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEERS = 12, THREADS = 4, CONNS_MAX = 32, ROUNDS = 200 };

static int conns = 8, fds[PEERS * CONNS_MAX], low;
static atomic_int next_conn, over;
static atomic_long rounds, failures, looks;

static void fail(const char *what, long got)
{
	if (failures++ < 10)
		fprintf(stderr, "%s: %ld, the free number is %d\n", what, got, low);
}

static int is_low(const char *what, int fd)
{
	looks++;
	if (fd == low)
		return 1;
	fail(what, fd);
	if (fd >= 0)
		close(fd);
	return 0;
}

static void made(const char *what, int fd)
{
	if (is_low(what, fd) && close(fd))
		fail("close", errno);
}

static void is_bad(const char *what, long ret)
{
	if (ret != -1 || errno != EBADF)
		fail(what, ret == -1 ? errno : ret);
}

static void renamed(int null, const struct stat *want)
{
	struct stat is;

	if (dup2(null, low) != low || fstat(low, &is) || is.st_ino != want->st_ino ||
	    is.st_dev != want->st_dev)
		fail("dup2", errno);
	made("dup2", low);
}

static void *looker(void *arg)
{
	int null = open("/dev/null", O_RDWR), sv[2];
	struct stat st;
	char c;

	(void)arg;
	fstat(null, &st);
	low = open("/dev/null", O_RDWR);
	if (dup2(null, 900) != 900)	/* out of the way of the lowest */
		fail("dup2", errno);
	close(low);
	low = null;
	close(null);
	while (!over) {
		made("open", open("/dev/null", O_RDONLY));
		is_bad("close", close(low));
		made("socket", socket(AF_INET, SOCK_STREAM, 0));
		made("dup", dup(900));
		is_bad("read", read(low, &c, 1));
		made("F_DUPFD", fcntl(900, F_DUPFD_CLOEXEC, 0));
		made("epoll_create1", epoll_create1(0));
		is_bad("send", send(low, &c, 1, MSG_NOSIGNAL));
		made("eventfd", eventfd(0, EFD_CLOEXEC));
		renamed(900, &st);
		if (pipe(sv) == 0) {
			made("pipe", sv[0]);
			close(sv[1]);
		}
	}
	return NULL;
}

static void *player(void *arg)
{
	char c;
	int i;

	(void)arg;
	while ((i = next_conn++) < PEERS * conns) {
		for (int k = 0; k < ROUNDS; k++) {
			c = (char)k;
			if (write(fds[i], &c, 1) != 1 || read(fds[i], &c, 1) != 1 || c != (char)k)
				fail("ping-pong", errno);
			rounds++;
		}
		close(fds[i]);
	}
	return NULL;
}

static void *echo(void *arg)
{
	int fd = *(int *)arg;
	char c;

	while (read(fd, &c, 1) == 1)
		if (write(fd, &c, 1) != 1)
			break;
	close(fd);
	return NULL;
}

/* A peer with a thread a connection; over when the last is. */
static int peer(const struct sockaddr_in *sa)
{
	pthread_t th[CONNS_MAX];
	int fd[CONNS_MAX];

	for (int i = 0; i < conns; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd[i], (const struct sockaddr *)sa, sizeof(*sa)) ||
		    pthread_create(&th[i], NULL, echo, &fd[i]))
			return 2;
	}
	for (int i = 0; i < conns; i++)
		pthread_join(th[i], NULL);
	return 0;
}

static int play(int listener)
{
	pthread_t th[THREADS], look;
	int spare = open("/dev/null", O_RDONLY), too = open("/dev/null", O_RDONLY);

	for (int i = 0; i < PEERS * conns; i++) {
		fds[i] = accept(listener, NULL, NULL);
		if (fds[i] < 0)
			return 2;
	}
	close(spare);
	close(too);
	if (pthread_create(&look, NULL, looker, NULL))
		return 2;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&th[i], NULL, player, NULL))
			return 2;
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	over = 1;
	pthread_join(look, NULL);
	return failures != 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0), bad, status;

	if (argc > 1)
		conns = atoi(argv[1]);
	if (conns < 1 || conns > CONNS_MAX || bind(listener, (struct sockaddr *)&sa, len) ||
	    listen(listener, PEERS * CONNS_MAX) ||
	    getsockname(listener, (struct sockaddr *)&sa, &len))
		return 2;
	for (int i = 0; i < PEERS; i++)
		if (fork() == 0)
			exit(peer(&sa));
	bad = play(listener);
	while (wait(&status) > 0)
		bad |= status;
	printf("%ld rounds, %ld looks, %ld failures, %s\n", rounds, looks, failures,
	       bad ? "FAILED" : "ok");
	return bad ? 1 : 0;
}
