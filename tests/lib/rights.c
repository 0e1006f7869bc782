/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "tests/lib/rights.h"

#include <string.h>

void rights_make(struct rights *g, int fd)
{
	memset(g, 0, sizeof(*g));
	g->v = (struct iovec){ &g->byte, 1 };
	g->m = (struct msghdr){ .msg_iov = &g->v, .msg_iovlen = 1, .msg_control = &g->control,
				.msg_controllen = sizeof(g->control) };
	g->control.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&g->control.h), &fd, sizeof(fd));
}

int rights_fd(const struct rights *g)
{
	int fd;

	memcpy(&fd, CMSG_DATA(&g->control.h), sizeof(fd));
	return fd;
}

ssize_t rights_send(int to, int fd)
{
	struct rights g;

	rights_make(&g, fd);
	return sendmsg(to, &g.m, 0);
}

int rights_recv(int from, int flags)
{
	struct rights g;

	rights_make(&g, -1);
	return recvmsg(from, &g.m, flags) == 1 ? rights_fd(&g) : -1;
}
