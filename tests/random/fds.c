/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Calls on the descriptor and the socket as such: copies, ends, options. */
#include "actor.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "tests/lib/rights.h"

/* Put a file in its place, and close that. */
static int cover(int fd)
{
	int file = open("/dev/null", O_RDWR | O_CLOEXEC), r = dup2(file, fd);

	close(file);
	return r == fd ? close(fd) : -1;
}

/* Hand it to ourselves. */
static int by_message(int fd)
{
	int ends[2], r = -1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	if (rights_send(ends[0], fd) == 1)
		r = rights_recv(ends[1], 0);
	close(ends[0]);
	close(ends[1]);
	return r;
}

static int by_pidfd(int fd)
{
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), r = (int)syscall(SYS_pidfd_getfd, self, fd, 0);

	close(self);
	return r;
}

/* close PLACE HOW: 0 close, 1 close_range, 2 a file over it, 3 fclose, 4 by the system call */
static void close_any(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), r;

	mark();
	r = o->a[1] == 1 ? close_range((unsigned int)fd, (unsigned int)fd, 0) :
	    o->a[1] == 2 ? cover(fd) :
	    o->a[1] == 3 ? fclose(fdopen(fd, "r+")) :
	    o->a[1] == 4 ? (int)syscall(SYS_close, fd) : close(fd);
	say_result(e, o, r, "");
	fd_put(e, o->a[0], -1);
}

/* shutdown PLACE HOW */
static void shutdown_any(struct end *e, const struct op *o)
{
	int r;

	mark();
	r = shutdown(fd_at(e, o->a[0]), (int)o->a[1]);
	say_result(e, o, r, "");
}

/* dup PLACE NEW HOW: 0 dup, 1 F_DUPFD, 2 F_DUPFD_CLOEXEC, 3 dup2, 4 dup3: these two onto NEW; 5 a message, 6 a pidfd */
static void dup_any(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), to = fd_at(e, o->a[1]), r;
	bool onto = o->a[2] == 3 || o->a[2] == 4;

	mark();
	r = o->a[2] == 0 ? dup(fd) :
	    o->a[2] == 1 ? fcntl(fd, F_DUPFD, 100) :
	    o->a[2] == 2 ? fcntl(fd, F_DUPFD_CLOEXEC, 60) :
	    o->a[2] == 3 ? dup2(fd, to) :
	    o->a[2] == 4 ? dup3(fd, to, O_CLOEXEC) :
	    o->a[2] == 5 ? by_message(fd) : by_pidfd(fd);
	say_result(e, o, r < 0 ? -1 : 0, onto && r != to ? " elsewhere" : "");
	fd_put(e, o->a[1], r);
}

/* nonblock PLACE ON HOW: 0 fcntl, 1 FIONBIO */
static void nonblock_any(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), on = (int)o->a[1], fl = fcntl(fd, F_GETFL), r;

	mark();
	r = o->a[2] ? ioctl(fd, FIONBIO, &on) : fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK);
	say_result(e, o, r, "");
}

/* setopt PLACE LEVEL NAME KIND A B: kind, 0 int, 1 struct linger, 2 struct timeval */
static void setopt_any(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), level = (int)o->a[1], name = (int)o->a[2], n = (int)o->a[4], r;
	struct linger lg = { (int)o->a[4], (int)o->a[5] };
	struct timeval tv = { o->a[4], o->a[5] };

	mark();
	r = o->a[3] == 0 ? setsockopt(fd, level, name, &n, sizeof(n)) :
	    o->a[3] == 1 ? setsockopt(fd, level, name, &lg, sizeof(lg)) :
			   setsockopt(fd, level, name, &tv, sizeof(tv));
	say_result(e, o, r, "");
}

/* getopt PLACE LEVEL NAME SHOWN LENGTH: shown, how many bytes of it are the same in each run */
static void getopt_any(struct end *e, const struct op *o)
{
	unsigned char val[256] = { 0 };
	socklen_t len = (socklen_t)o->a[4];
	char more[128];
	int r, i, used, err;

	mark();
	r = getsockopt(fd_at(e, o->a[0]), (int)o->a[1], (int)o->a[2], val, &len);
	err = errno;
	used = snprintf(more, sizeof(more), " %u:", len);
	for (i = 0; i < o->a[3] && i < (int)len && used < 120; i++)
		used += snprintf(more + used, sizeof(more) - (size_t)used, "%02x", val[i]);
	errno = err;
	say_result(e, o, r, more);
}

/*
 * count PLACE WHICH: 0 FIONREAD, 1 SIOCOUTQ, 2 SIOCATMARK.  Of SIOCOUTQ the end is
 * told: bytes that go to the kernel again (mode retreat) are acked once more.
 */
static void count_any(struct end *e, const struct op *o)
{
	static const unsigned long req[] = { FIONREAD, SIOCOUTQ, SIOCATMARK };
	int n = -1, r, tries = 0;
	char more[24];

	do {
		if (tries)
			poll(NULL, 0, 1);
		mark();
		r = ioctl(fd_at(e, o->a[0]), req[o->a[1]], &n);
	} while (o->a[1] == 1 && n > 0 && ++tries < 300);
	snprintf(more, sizeof(more), " %d", n);
	say_result(e, o, r, more);
}

static int name_get(int fd, bool peer, struct sockaddr_in6 *sa, socklen_t *len)
{
	return peer ? getpeername(fd, (struct sockaddr *)sa, len) : getsockname(fd, (struct sockaddr *)sa, len);
}

/* names PLACE PEER: the server's port is known, the client's is not */
static void names_any(struct end *e, const struct op *o)
{
	struct sockaddr_in6 sa = { 0 };
	socklen_t len = sizeof(sa);
	char more[64];
	int r;

	mark();
	r = name_get(fd_at(e, o->a[0]), o->a[1] != 0, &sa, &len);
	snprintf(more, sizeof(more), " family %d length %u%s", sa.sin6_family, len,
		 ntohs(sa.sin6_port) == e->r->port ? " the listener's port" : "");
	say_result(e, o, r, more);
}

static long odd_call(int fd, long which)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct stat st;
	char byte = 0;

	switch (which) {
	case 0: return connect(fd, (struct sockaddr *)&sa, sizeof(sa));
	case 1: return bind(fd, (struct sockaddr *)&sa, sizeof(sa));
	case 2: return listen(fd, 4);
	case 3: return accept(fd, NULL, NULL);
	case 4: return lseek(fd, 0, SEEK_CUR);
	case 5: return fsync(fd);
	case 6: return ftruncate(fd, 0);
	case 7: return pread(fd, &byte, 1, 0);
	case 8: return pwrite(fd, &byte, 1, 0);
	case 9: return isatty(fd) ? 1 : -1;
	case 10: return fstat(fd, &st) == 0 ? (long)(st.st_mode & S_IFMT) : -1;
	case 11: return shutdown(fd, 7);
	case 12: return fcntl(fd, F_GETFL);
	case 13: return fcntl(fd, F_GETFD);
	case 14: return fcntl(fd, F_SETFD, FD_CLOEXEC);
	case 15: return recv(fd, &byte, 1, MSG_ERRQUEUE);
	case 16: return send(fd, NULL, 0, 0);
	case 17: return recv(fd, NULL, 0, MSG_DONTWAIT);
	case 18: return writev(fd, NULL, 0);
	case 19: return readv(fd, NULL, 0);
	case 20: return epoll_ctl(fd, EPOLL_CTL_ADD, fd, NULL);
	case 21: return ioctl(fd, 0x12345, &byte);
	case 22: return sockatmark(fd);
	default: return writev(fd, bad_pointer(), 1);
	}
}

/* odd PLACE WHICH: calls that a connected socket refuses, or that mean nothing */
static void odd_any(struct end *e, const struct op *o)
{
	long r;

	mark();
	r = odd_call(fd_at(e, o->a[0]), o->a[1]);
	say_result(e, o, r, "");
}

const struct call fd_calls[] = {
	{ "close", close_any },
	{ "shutdown", shutdown_any },
	{ "dup", dup_any },
	{ "nonblock", nonblock_any },
	{ "setopt", setopt_any },
	{ "getopt", getopt_any },
	{ "count", count_any },
	{ "names", names_any },
	{ "odd", odd_any },
	{ NULL, NULL }
};
