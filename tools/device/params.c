/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* params.c - see params.h */
#define _GNU_SOURCE
#include "params.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fd_control {
	struct cmsghdr h;
	char buf[CMSG_SPACE(sizeof(int) * RNIC_PARAM_FDS)];
};

bool params_send(int sock, struct rnic_params *p)
{
	union fd_control c = { .buf = { 0 } };
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	bool ok;

	if (p->nfds) {
		m.msg_control = c.buf;
		m.msg_controllen = CMSG_SPACE(p->nfds * sizeof(int));
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(p->nfds * sizeof(int));
		memcpy(CMSG_DATA(&c.h), p->fds, p->nfds * sizeof(int));
	}
	ok = sendmsg(sock, &m, MSG_NOSIGNAL) == sizeof(*p);
	for (uint32_t i = 0; i < p->nfds; i++)
		close(p->fds[i]);
	return ok;
}

bool params_recv(int sock, struct rnic_params *p)
{
	union fd_control c;
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct cmsghdr *h;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof(*p))
		return false;
	h = CMSG_FIRSTHDR(&m);
	if (p->nfds && h)
		memcpy(p->fds, CMSG_DATA(h), p->nfds * sizeof(int));
	return !p->nfds || h;
}
