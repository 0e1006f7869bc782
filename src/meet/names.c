/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * names.c - abstract Unix names of a TCP port
 *
 * "\0sidestep/1/4/6379/0": layout version, family, port, index.  Abstract
 * names belong to the network namespace, need no directory, and vanish with
 * their last descriptor.  Anybody may take one, so a name proves nothing, and
 * it holds no uid: the holder's is asked of the kernel (cred.c).
 */
#include <string.h>

#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"
#include "meet/meet.h"

#define BACKLOG 64
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static char *put_uint(char *p, unsigned v)
{
	char digits[10];
	int n = 0;

	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	while (n)
		*p++ = digits[--n];
	return p;
}

int meet_name(struct sockaddr_un *sa, int family, uint16_t port, unsigned i)
{
	static const char head[] = "sidestep/1/";
	char *p = sa->sun_path;

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	*p++ = 0;
	memcpy(p, head, sizeof(head) - 1);
	p += sizeof(head) - 1;
	*p++ = family == AF_INET6 ? '6' : '4';
	*p++ = '/';
	p = put_uint(p, port);
	*p++ = '/';
	p = put_uint(p, i);
	return (int)(p - (char *)sa);
}

bool meet_forbidden(int err)
{
	/* the last two: systemd's RestrictAddressFamilies, and filters that play an old kernel */
	return err == -EACCES || err == -EPERM || err == -EAFNOSUPPORT || err == -ENOSYS;
}

int meet_rights(int fd, bool on)
{
	int val = on;

	return sys_setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &val, sizeof(val));
}

/* A kernel without SO_PASSRIGHTS leaves them allowed: msg.c closes them. */
int meet_socket(void)
{
	int fd = PRIVFD_NEW(sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	if (fd >= 0)
		meet_rights(fd, false);
	return fd;
}

static int bind_lowest(int fd, int family, uint16_t port, unsigned *index)
{
	for (unsigned i = 0; i < MEET_NAMES; i++) {
		struct sockaddr_un sa;
		int len = meet_name(&sa, family, port, i);
		int ret = (int)sys3(SYS_bind, fd, &sa, len);

		if (ret == -EADDRINUSE)
			continue;
		if (ret == 0)
			*index = i;
		return ret;
	}
	return -EADDRINUSE;
}

int meet_listen(int family, uint16_t port, unsigned *index)
{
	unsigned i = 0;
	int fd = meet_socket(), ret;

	if (fd < 0)
		return fd;
	ret = bind_lowest(fd, family, port, &i);
	if (ret == 0)
		ret = (int)sys2(SYS_listen, fd, BACKLOG);
	if (ret < 0) {
		privfd_close(fd);
		return ret;
	}
	if (index)
		*index = i;
	return fd;
}

/* Of a Unix socket a nonblocking connect is done or has failed when it returns. */
int meet_connect_fd(int fd, int family, uint16_t port, unsigned i)
{
	struct sockaddr_un sa;
	int len = meet_name(&sa, family, port, i);

	return (int)sys3(SYS_connect, fd, &sa, len);
}

int meet_connect(int family, uint16_t port, unsigned i)
{
	int fd = meet_socket(), ret;

	if (fd < 0)
		return fd;
	ret = meet_connect_fd(fd, family, port, i);
	if (ret == 0)
		return fd;
	privfd_close(fd);
	return ret;
}
