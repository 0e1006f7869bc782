/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * cred.c - who is at the other end of a Unix socket
 *
 * SO_PEERCRED is filled in by the kernel at connect() or listen() and cannot
 * be forged.  But a user who has no number in our user namespace is shown as
 * the overflow uid, and so are all others of his kind: that number, and to be
 * careful any number in a namespace that does not map all users, is no proof.
 */
#define _GNU_SOURCE		/* struct ucred */
#include <fcntl.h>
#include <string.h>

#include "base/privfd.h"
#include "base/sys.h"
#include "meet/meet.h"

#define OVERFLOW_UID 65534u

static ssize_t file_read(const char *path, char *buf, size_t size)
{
	int fd = PRIVFD_NEW(sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
	ssize_t n;

	if (fd < 0)
		return fd;
	n = sys_read(fd, buf, size - 1);
	privfd_close(fd);
	if (n >= 0)
		buf[n] = 0;
	return n;
}

/* The next number of a text; *p moves behind it. */
static uint64_t number(const char **p)
{
	uint64_t v = 0;

	while (**p == ' ' || **p == '\t')
		++*p;
	while (**p >= '0' && **p <= '9')
		v = v * 10 + (uint64_t)(*(*p)++ - '0');
	return v;
}

static uid_t overflow_uid(void)
{
	char buf[32];
	const char *p = buf;

	if (file_read("/proc/sys/kernel/overflowuid", buf, sizeof(buf)) <= 0)
		return OVERFLOW_UID;
	return (uid_t)number(&p);
}

/* "0 0 4294967295": each user has his own number here, as in the first namespace. */
static bool all_uids_mapped(void)
{
	char buf[128];
	const char *p = buf;

	if (file_read("/proc/thread-self/uid_map", buf, sizeof(buf)) <= 0)
		return false;
	return number(&p) == 0 && number(&p) == 0 && number(&p) == 4294967295u && *p == '\n';
}

bool meet_uid_proves(uid_t uid)
{
	return uid != (uid_t)-1 && uid != overflow_uid() && all_uids_mapped();
}

int meet_peer_uid(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);
	int ret = sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);

	*uid = cred.uid;
	*pid = cred.pid;
	if (ret < 0)
		return ret;
	return meet_uid_proves(cred.uid) ? 0 : -ENODATA;
}
