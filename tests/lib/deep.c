/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * deep PLUGIN PART - a connection of the program's, of which a plug-in does a part
 *
 * The plug-in is this file again, built with -DPLUGIN -shared, and loaded with
 * RTLD_DEEPBIND: its calls are libc's own, whoever is preloaded.  PART is what it
 * does at both ends: all (waits, reads, writes), writes, waits, or none.  Rounds of
 * messages there and back between a parent and its child; each byte is looked at.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <unistd.h>

struct calls {
	ssize_t (*in)(int fd, void *buf, size_t n);
	ssize_t (*out)(int fd, const void *buf, size_t n);
	int (*wait)(struct pollfd *p, nfds_t n, int ms);
};

#ifdef PLUGIN
/* By name, so that the dynamic linker looks each up where it looks for a plug-in. */
const struct calls plugin = { read, write, poll };
#else
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { ROUNDS = 3000, MOST = 3000 };

static struct calls calls = { read, write, poll };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void plugin_load(const char *path, const char *part)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	const struct calls *its = lib ? dlsym(lib, "plugin") : NULL;

	if (!its) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	if (strcmp(part, "all") == 0)
		calls = *its;
	else if (strcmp(part, "writes") == 0)
		calls.out = its->out;
	else if (strcmp(part, "waits") == 0)
		calls.wait = its->wait;
}

static void take(int fd, unsigned char *buf, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t k;

	for (size_t done = 0; done < n; done += (size_t)k) {
		if (calls.wait(&p, 1, 20000) != 1)
			fail("poll");
		k = calls.in(fd, buf + done, n - done);
		if (k <= 0)
			fail("read");
	}
}

static void give(int fd, const unsigned char *buf, size_t n)
{
	ssize_t k;

	for (size_t done = 0; done < n; done += (size_t)k) {
		k = calls.out(fd, buf + done, n - done);
		if (k <= 0)
			fail("write");
	}
}

static void rounds(int fd, int first)
{
	static unsigned char out[MOST], in[MOST];

	for (int i = 0; i < ROUNDS; i++) {
		size_t n = 1 + (size_t)i * 7 % MOST;

		memset(out, i, n);
		if (first)
			give(fd, out, n);
		take(fd, in, n);
		if (memcmp(in, out, n) != 0)
			fail("other bytes came");
		if (!first)
			give(fd, out, n);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, status;
	socklen_t len = sizeof(sa);

	if (argc != 3)
		return 2;
	plugin_load(argv[1], argv[2]);
	if (bind(l, (struct sockaddr *)&sa, len) || listen(l, 5) || getsockname(l, (struct sockaddr *)&sa, &len))
		fail("listen");
	pid_t pid = fork();
	if (pid == 0) {
		close(l);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&sa, len))
			fail("connect");
		rounds(fd, 1);
		return 0;
	}
	fd = accept(l, NULL, NULL);
	if (fd < 0)
		fail("accept");
	rounds(fd, 0);
	return waitpid(pid, &status, 0) == pid ? status != 0 : 1;
}
#endif
