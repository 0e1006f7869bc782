/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* kinmsg.c - see kinmsg.h */
#define _GNU_SOURCE
#include "sock/kinmsg.h"

#include <string.h>
#include <sys/socket.h>

#include "base/privfd.h"
#include "base/sys.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int with_fd(int to, const void *p, size_t len, int fd)
{
	struct iovec iov = { (void *)(uintptr_t)p, len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control ctl;
	ssize_t n;

	if (fd >= 0) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.align.cmsg_len = CMSG_LEN(sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&ctl.align), &fd, sizeof(fd));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int));
	}
	do
		n = sys_sendmsg(to, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n == -EINTR);
	return n < 0 ? (int)n : 0;
}

int kin_send(int to, const struct kin_msg *m, int fd)
{
	return with_fd(to, m, sizeof(*m), fd);
}

int kin_reply_send(int to, const struct kin_reply *r, int fd)
{
	return with_fd(to, r, sizeof(*r), fd);
}

static int and_fd(int from, void *p, size_t len, int *fd)
{
	struct iovec iov = { p, len };
	union control ctl;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl,
			     .msg_controllen = sizeof(ctl) };
	ssize_t n;

	*fd = -1;
	privfd_begin();
	do
		n = sys_recvmsg(from, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n == -EINTR);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int))) {
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
		*fd = privfd_adopt(*fd);
	}
	privfd_end();
	if (n == -EAGAIN)
		return -EAGAIN;
	if (n <= 0)	/* a reset: we had said something that nobody has read */
		return 0;
	return n == (ssize_t)len ? 1 : -EPROTO;
}

int kin_recv(int from, struct kin_msg *m, int *fd)
{
	return and_fd(from, m, sizeof(*m), fd);
}

int kin_reply_recv(int from, struct kin_reply *r, int *fd)
{
	return and_fd(from, r, sizeof(*r), fd);
}

int kin_pair(int sv[2])
{
	privfd_begin();
	int err = (int)sys4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv);

	if (!err) {
		sv[0] = privfd_adopt(sv[0]);
		sv[1] = privfd_adopt(sv[1]);
	}
	privfd_end();
	if (err)
		return err;
	if (sv[0] >= 0 && sv[1] >= 0)
		return 0;
	privfd_close(sv[0]);
	privfd_close(sv[1]);
	return -EMFILE;
}
