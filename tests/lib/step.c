/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Step synchronisation; see step.h. */
#include "step.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEETING LONG_MIN	/* no value that a test would tell */

int step_pair(int fd[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd);
}

int step_tell(int fd, long value)
{
	ssize_t n;

	if (fd < 0)
		return 0;
	do
		n = send(fd, &value, sizeof(value), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == sizeof(value) ? 0 : -1;
}

static int receive(int fd, long *value)
{
	ssize_t n;

	if (fd < 0)
		return 0;
	do
		n = recv(fd, value, sizeof(*value), 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(*value) ? 0 : -1;
}

int step_hear(int fd, long *value)
{
	if (receive(fd, value) < 0)
		return -1;
	return fd >= 0 && *value == MEETING ? -1 : 0;
}

int step_meet(int fd)
{
	long v = MEETING;

	if (step_tell(fd, MEETING) < 0 || receive(fd, &v) < 0)
		return -1;
	return v == MEETING ? 0 : -1;
}
