/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A message of one byte that carries a descriptor over a Unix socket. */
#ifndef TESTS_LIB_RIGHTS_H
#define TESTS_LIB_RIGHTS_H

#include <sys/socket.h>
#include <sys/uio.h>

struct rights {
	struct msghdr m;
	struct iovec v;
	char byte;
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
};

/* To send fd, or with -1 to receive one.  It points into itself. */
void rights_make(struct rights *g, int fd);
int rights_fd(const struct rights *g);		/* -1: none has come */

/* What sendmsg() returns. */
ssize_t rights_send(int to, int fd);
/* The descriptor, or -1.  flags: of recvmsg(). */
int rights_recv(int from, int flags);

#endif
