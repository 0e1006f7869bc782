/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* callcount.c - see callcount.h */
#define _GNU_SOURCE
#include "callcount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ID_FILE	"events/raw_syscalls/sys_enter/id"

/* A tracefs that nobody sees, for those who may mount and have not. */
static int detached_tracefs(void)
{
#ifdef FSMOUNT_CLOEXEC
	int fs = fsopen("tracefs", FSOPEN_CLOEXEC), dir = -1;

	if (fs >= 0 && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		dir = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	if (fs >= 0)
		close(fs);
	return dir;
#else
	return -1;
#endif
}

static int id_open(void)
{
	int fd = open("/sys/kernel/tracing/" ID_FILE, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fd = open("/sys/kernel/debug/tracing/" ID_FILE, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		int dir = detached_tracefs();

		if (dir < 0)
			return -EACCES;
		fd = openat(dir, ID_FILE, O_RDONLY | O_CLOEXEC);
		close(dir);
	}
	return fd < 0 ? -errno : fd;
}

/* Number of the tracepoint, or -errno. */
static long tracepoint(void)
{
	static long id;
	char text[32];

	if (id > 0)
		return id;
	int fd = id_open();
	if (fd < 0)
		return fd;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	id = atol(text);
	return id > 0 ? id : -EIO;
}

int callcount_open(pid_t pid)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr),
					.disabled = 1, .inherit = 1, .enable_on_exec = 1 };
	long id = tracepoint();

	if (id < 0)
		return (int)id;
	attr.config = (uint64_t)id;
	long fd = syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int callcount_allowed(void)
{
	int fd = callcount_open(0);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

uint64_t callcount_close(int fd)
{
	uint64_t n = 0;

	if (fd >= 0 && read(fd, &n, sizeof(n)) != sizeof(n))
		n = 0;
	if (fd >= 0)
		close(fd);
	return n;
}
