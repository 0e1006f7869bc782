/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Errnos of calls that cannot work, and none where they do. */
#include "conform.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static void bad_number(struct role *r)
{
	struct iovec v = { 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	char buf[8] = "";
	int n, fd;

	CLIENT(r) {
		for (fd = -1; fd < 1000; fd += 1000) {
			TRY(r, -EBADF, read(fd, buf, 8));
			TRY(r, -EBADF, write(fd, buf, 8));
			TRY(r, -EBADF, recv(fd, buf, 8, 0));
			TRY(r, -EBADF, send(fd, buf, 8, 0));
			TRY(r, -EBADF, readv(fd, &v, 1));
			TRY(r, -EBADF, sendmsg(fd, &m, 0));
			TRY(r, -EBADF, recvmsg(fd, &m, 0));
			TRY(r, -EBADF, shutdown(fd, SHUT_WR));
			TRY(r, -EBADF, close(fd));
			TRY(r, -EBADF, dup(fd));
			TRY(r, -EBADF, fcntl(fd, F_GETFL));
			TRY(r, -EBADF, ioctl(fd, FIONREAD, &n));
			TRY(r, -EBADF, listen(fd, 1));
			TRY(r, -EBADF, accept(fd, NULL, NULL));
		}
	}
}

static void closed_number(struct role *r)
{
	char buf[8];

	conn_open(r);
	meet(r);
	CLIENT(r) {
		TRY(r, 0, close(r->c));
		TRY(r, -EBADF, close(r->c));
		TRY(r, -EBADF, recv(r->c, buf, 8, 0));
		TRY(r, -EBADF, send(r->c, buf, 8, 0));
		TRY(r, -EBADF, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		TRY(r, 0, recv(r->s, buf, 8, 0));
		TRY(r, 0, close(r->s));
	}
}

static void not_connected(struct role *r)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char buf[8];
	int fd;

	CLIENT(r) {
		fd = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		TRY(r, -ENOTCONN, recv(fd, buf, 8, 0));
		TRY(r, -ENOTCONN, read(fd, buf, 8));
		TRY(r, -EPIPE, send(fd, "x", 1, MSG_NOSIGNAL));
		TRY(r, -ENOTCONN, shutdown(fd, SHUT_WR));
		TRY(r, -ENOTCONN, getpeername(fd, (struct sockaddr *)&sa, &len));
		TRY(r, -EINVAL, accept(fd, NULL, NULL));
		TRY(r, 0, close(fd));
	}
}

static void on_listener(struct role *r)
{
	char buf[8];

	conn_open(r);
	SERVER(r) {
		TRY(r, -ENOTCONN, recv(r->listener, buf, 8, 0));
		TRY(r, -EPIPE, send(r->listener, "x", 1, MSG_NOSIGNAL));
		nonblock_set(r, r->listener);
		TRY(r, -EAGAIN, accept(r->listener, NULL, NULL));
	}
	conn_close(r);
}

static void not_a_socket(struct role *r)
{
	char buf[8];
	int p[2];

	CLIENT(r) {
		MUST(r, pipe2(p, O_CLOEXEC));
		TRY(r, -ENOTSOCK, send(p[1], "x", 1, 0));
		TRY(r, -ENOTSOCK, recv(p[0], buf, 1, 0));
		TRY(r, -ENOTSOCK, shutdown(p[1], SHUT_WR));
		TRY(r, -ENOTSOCK, accept(p[0], NULL, NULL));
		TRY(r, 0, close(p[0]));
		TRY(r, 0, close(p[1]));
	}
}

/* errno after a success is what it was before. */
static void untouched(struct role *r)
{
	struct pollfd p;
	char buf[8];
	int wrong = 0;

#define KEEPS(call) (errno = 4242, (void)!(call), wrong += errno != 4242)
	conn_open(r);
	CLIENT(r) {
		KEEPS(send(r->c, "abc", 3, 0));
		KEEPS(write(r->c, "abc", 3));
		KEEPS(recv(r->c, buf, 3, 0));
		KEEPS(read(r->c, buf, 3));
	}
	SERVER(r) {
		p = (struct pollfd){ .fd = r->s, .events = POLLOUT };
		KEEPS(send(r->s, "abc", 3, 0));
		KEEPS(write(r->s, "def", 3));
		KEEPS(recv(r->s, buf, 3, MSG_WAITALL));
		KEEPS(recv(r->s, buf, 3, MSG_PEEK));
		KEEPS(poll(&p, 1, 0));
		KEEPS(fcntl(r->s, F_GETFL));
	}
	TRY(r, 0, wrong);
#undef KEEPS
	conn_close(r);
}

const struct conf_case errors_cases[] = {
	{ "errors-bad-number", bad_number, COLD },
	{ "errors-closed-number", closed_number, 0 },
	{ "errors-not-connected", not_connected, COLD },
	{ "errors-on-listener", on_listener, 0 },
	{ "errors-not-a-socket", not_a_socket, COLD },
	{ "errors-untouched", untouched, TOGETHER },
	{ NULL, NULL, 0 }
};
