/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * message.c - recvmsg, sendmsg and their plurals
 *
 * Over a local socket these pass descriptors (SCM_RIGHTS).  One of ours on its
 * way out leaves the ring first: the receiver holds a kernel socket and
 * nothing else.  One that comes in has a new number, so an entry left behind
 * under that goes.
 */
#include <string.h>

#include "preload/door.h"

/* call each(fd) for every descriptor in the control part of msg */
static void rights_each(const struct msghdr *msg, void (*each)(int fd))
{
	struct msghdr *m = (struct msghdr *)(uintptr_t)msg;	/* CMSG_NXTHDR only reads */

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len < CMSG_LEN(0))
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			each(fd);
		}
	}
}

static void passed_on(int fd)
{
	if (door_tracked(fd))
		DOOR_ASIDE(sock_foreign(fd, REASON_FD_PASSED));
}

static void came_in(int fd)
{
	door_over(fd);
}

static bool has_control(const struct msghdr *msg)
{
	return msg && msg->msg_control && msg->msg_controllen >= sizeof(struct cmsghdr);
}

ssize_t door_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_recvmsg, (fd, msg, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_recvmsg(fd, msg, flags));
	ssize_t ret = real.recvmsg(fd, msg, flags);
	if (ret >= 0 && has_control(msg))
		rights_each(msg, came_in);
	return ret;
}

int door_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_recvmmsg, (fd, msgs, n, flags, timeout));
	if (door_tracked(fd))
		return DOOR_RET(sock_recvmmsg(fd, msgs, n, flags, timeout));
	int ret = real.recvmmsg(fd, msgs, n, flags, timeout);
	for (int i = 0; i < ret; i++)
		if (has_control(&msgs[i].msg_hdr))
			rights_each(&msgs[i].msg_hdr, came_in);
	return ret;
}

ssize_t door_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_sendmsg, (fd, msg, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_sendmsg(fd, msg, flags));
	if (door_on() && has_control(msg))
		rights_each(msg, passed_on);
	return real.sendmsg(fd, msg, flags);
}

int door_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_sendmmsg, (fd, msgs, n, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_sendmmsg(fd, msgs, n, flags));
	for (unsigned i = 0; i < n && door_on(); i++)
		if (has_control(&msgs[i].msg_hdr))
			rights_each(&msgs[i].msg_hdr, passed_on);
	return real.sendmmsg(fd, msgs, n, flags);
}
