/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * recycled [SECONDS] - numbers go round between connections and libc's own sockets
 *
 * A child process echoes.  Three threads of the parent open a connection, play
 * ping-pong on it until it had time to attach, and close it; two others have
 * libc open and close sockets and files of its own (getaddrinfo, syslog, stdio)
 * on the same numbers.  No answer is another's, and nothing hangs.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

enum { CALLERS = 3, OTHERS = 2, ROUNDS = 60 };

static struct sockaddr_in sa;
static time_t end;
static atomic_long conns, lookups, failures;

static void *echo(void *arg)
{
	int fd = (int)(long)arg;
	char buf[256];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			break;
	close(fd);
	return NULL;
}

static void serve(int listener)
{
	pthread_t th;
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0)
		if (pthread_create(&th, NULL, echo, (void *)(long)fd) == 0)
			pthread_detach(th);
	_exit(1);
}

static void play(int fd, uint64_t token)
{
	uint64_t w;

	for (int i = 0; i < ROUNDS; i++) {
		token += 0x100000001u;
		if (write(fd, &token, 8) != 8 || recv(fd, &w, 8, MSG_WAITALL) != 8 || w != token) {
			fprintf(stderr, "round %d of fd %d: error %d\n", i, fd, errno);
			failures++;
			return;
		}
	}
}

static void *caller(void *arg)
{
	while (time(NULL) < end && !failures) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
			failures++;
			break;
		}
		play(fd, (uint64_t)(long)arg << 56 | (uint64_t)conns++);
		if (close(fd))
			failures++;
	}
	return NULL;
}

static void *other(void *arg)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *ai;
	char buf[1024], line[64];
	struct passwd pw, *got;

	(void)arg;
	while (time(NULL) < end && !failures) {
		if (getaddrinfo("localhost", "80", &hints, &ai) == 0)
			freeaddrinfo(ai);
		openlog("recycled", LOG_NDELAY, LOG_USER);
		syslog(LOG_DEBUG, "recycled");
		closelog();
		getpwuid_r(getuid(), &pw, buf, sizeof(buf), &got);
		FILE *f = fopen("/proc/self/comm", "re");
		if (!f || !fgets(line, sizeof(line), f) || strcmp(line, "recycled\n"))
			failures++;
		if (f)
			fclose(f);
		lookups++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t th[CALLERS + OTHERS];

	sa = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(listener, (struct sockaddr *)&sa, len) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&sa, &len))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	pid_t child = fork();
	if (child == 0)
		serve(listener);
	close(listener);
	end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 3);
	for (long i = 0; i < CALLERS + OTHERS; i++)
		if (pthread_create(&th[i], NULL, i < CALLERS ? caller : other, (void *)i))
			return 2;
	for (int i = 0; i < CALLERS + OTHERS; i++)
		pthread_join(th[i], NULL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("%ld connections, %ld lookups, %s\n", conns, lookups, failures ? "FAILED" : "ok");
	return failures != 0;
}
