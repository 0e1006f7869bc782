/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* kinmsg.c - see kinmsg.h */
#define _GNU_SOURCE
#include "sock/kinmsg.h"

#include <string.h>
#include <sys/socket.h>

#include "base/privfd.h"
#include "base/sys.h"

#define FDS_MOST	2
#define KIN_FD_ONCE	1u
#define KIN_FD_REST	2u

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FDS_MOST * sizeof(int))];
};

static int with_fds(int to, const void *p, size_t len, const int *fds, size_t n)
{
	struct iovec iov = { (void *)(uintptr_t)p, len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control ctl;
	ssize_t r;

	if (n) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.align.cmsg_len = CMSG_LEN(n * sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&ctl.align), fds, n * sizeof(int));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	do
		r = sys_sendmsg(to, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r == -EINTR);
	return r < 0 ? (int)r : 0;
}

int kin_send(int to, const struct kin_msg *m, int fd)
{
	return with_fds(to, m, sizeof(*m), &fd, fd >= 0);
}

int kin_reply_send(int to, const struct kin_reply *r, const struct kin_fds *f)
{
	struct kin_reply with = *r;
	int fds[FDS_MOST];
	size_t n = 0;

	if (f && f->once >= 0) {
		with.fds |= KIN_FD_ONCE;
		fds[n++] = f->once;
	}
	if (f && f->rest >= 0) {
		with.fds |= KIN_FD_REST;
		fds[n++] = f->rest;
	}
	return with_fds(to, &with, sizeof(with), fds, n);
}

/* fds: FDS_MOST, of which the first n are there. */
static int and_fds(int from, void *p, size_t len, int *fds, size_t *n)
{
	struct iovec iov = { p, len };
	union control ctl;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl,
			     .msg_controllen = sizeof(ctl) };
	ssize_t r;

	*n = 0;
	privfd_begin();
	do
		r = sys_recvmsg(from, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (r == -EINTR);
	struct cmsghdr *c = r > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*n = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)FDS_MOST);
		memcpy(fds, CMSG_DATA(c), *n * sizeof(int));
		for (size_t i = 0; i < *n; i++)
			fds[i] = privfd_adopt(fds[i]);
	}
	privfd_end();
	if (r == -EAGAIN)
		return -EAGAIN;
	if (r <= 0)	/* a reset: we had said something that nobody has read */
		return 0;
	return r == (ssize_t)len ? 1 : -EPROTO;
}

int kin_recv(int from, struct kin_msg *m, int *fd)
{
	int fds[FDS_MOST];
	size_t n;
	int r = and_fds(from, m, sizeof(*m), fds, &n);

	*fd = n ? fds[0] : -1;
	if (n > 1)
		privfd_close(fds[1]);
	return r;
}

int kin_reply_recv(int from, struct kin_reply *r, struct kin_fds *f)
{
	int fds[FDS_MOST];
	size_t n, i = 0;
	int err = and_fds(from, r, sizeof(*r), fds, &n);

	f->once = err == 1 && r->fds & KIN_FD_ONCE && i < n ? fds[i++] : -1;
	f->rest = err == 1 && r->fds & KIN_FD_REST && i < n ? fds[i++] : -1;
	for (; i < n; i++)
		privfd_close(fds[i]);
	return err;
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
