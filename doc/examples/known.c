/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * known.c - a client that knows sidestep: it asks for a ring, and says which
 * way its bytes went.  It links without the library:
 *
 *	cc $(pkg-config --cflags sidestep) -o known known.c
 *	sidestep ./known HOST PORT	(an echo server listens there)
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sidestep/sidestep.h>

#define ROUNDS 2000

static int connect_to(const char *host, const char *port)
{
	const struct addrinfo want = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *a;

	if (getaddrinfo(host, port, &want, &a) != 0)
		return -1;
	int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
	if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(a);
	return fd;
}

/* One message there and back.  Return: 0 or -1. */
static int say(int fd)
{
	char buf[64];
	size_t got = 0;

	memset(buf, 'x', sizeof(buf));
	if (write(fd, buf, sizeof(buf)) != (ssize_t)sizeof(buf))
		return -1;
	while (got < sizeof(buf)) {
		ssize_t n = read(fd, buf + got, sizeof(buf) - got);

		if (n <= 0)
			return -1;
		got += (size_t)n;
	}
	return 0;
}

static void tell(int fd)
{
	struct sidestep_stats s;

	if (!sidestep_present()) {
		puts("not under sidestep: all bytes by TCP");
		return;
	}
	if (sidestep_fd_stats(fd, &s, sizeof(s)) != 0) {
		perror("sidestep_fd_stats");
		return;
	}
	printf("sidestep %s: %llu bytes by ring (%s), %llu by TCP; why not: %s\n",
	       sidestep_version(), (unsigned long long)s.ring_tx_bytes,
	       s.rnic ? s.rnic : "none", (unsigned long long)s.kernel_tx_bytes,
	       sidestep_fd_reason(fd));
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? connect_to(argv[1], argv[2]) : -1;

	if (fd < 0) {
		fprintf(stderr, "usage: known HOST PORT\n");
		return 2;
	}
	if (sidestep_present() && sidestep_fd_attach(fd) != 0)
		perror("sidestep_fd_attach");	/* it stays on TCP, which works as well */
	for (int i = 0; i < ROUNDS; i++)
		if (say(fd) != 0)
			return 1;
	tell(fd);
	return close(fd);
}
