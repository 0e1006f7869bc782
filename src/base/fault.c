/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fault.c - see fault.h */
#define _GNU_SOURCE
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/config.h"
#include "base/log.h"
#include "base/util.h"

int fault_armed;
int fault_device_armed;

static uint32_t allocs, calls, device_ops;

void fault_arm(void)
{
	fault_armed = config.fault.fail_alloc || config.fault.fail_call;
	fault_device_armed = config.fault.fail_mr != 0;
	allocs = calls = device_ops = 0;
}

static const struct {
	long nr;
	int err;
} allocating[] = {
	{ SYS_mmap, ENOMEM },
	{ SYS_memfd_create, ENOMEM },
	{ SYS_ftruncate, ENOMEM },
	{ SYS_fallocate, ENOSPC },
	{ SYS_madvise, ENOMEM },
};

/*
 * Not here: what cannot fail (close, munmap, futex, getpid, shutdown of what is
 * ours), waits, and reads and writes that only fail with the object itself.
 */
static const struct {
	long nr;
	int err;
} failing[] = {
	{ SYS_socket, EMFILE },
	{ SYS_accept4, EMFILE },
	{ SYS_eventfd2, EMFILE },
	{ SYS_epoll_create1, ENFILE },
	{ SYS_openat, ENFILE },
	{ SYS_bind, ENOMEM },
	{ SYS_listen, EADDRINUSE },
	{ SYS_connect, ENOMEM },
	{ SYS_sendmsg, ENOBUFS },
	{ SYS_getsockopt, ENOBUFS },
	{ SYS_setsockopt, ENOMEM },
	{ SYS_getsockname, ENOBUFS },
	{ SYS_getpeername, ENOBUFS },
	{ SYS_ioctl, EPERM },
	{ SYS_fstat, ENOMEM },
	{ SYS_fstatfs, ENOSYS },
	{ SYS_readlinkat, EACCES },
	{ SYS_getrandom, ENOSYS },
	{ SYS_prlimit64, EPERM },
	{ SYS_prctl, EPERM },
	{ SYS_clone3, EAGAIN },
};

/* Those whose arguments decide. */
static int err_by_argument(long nr, long b, long c, long d)
{
	switch (nr) {
	case SYS_sendto:		/* a full socket; of netlink, no memory */
		return d & MSG_NOSIGNAL ? EAGAIN : ENOBUFS;
	case SYS_recvmsg:		/* descriptors may come with it: no read of the program's */
		return c & MSG_CMSG_CLOEXEC ? ENOMEM : 0;
	case SYS_epoll_ctl:
		return b == EPOLL_CTL_ADD ? ENOSPC : b == EPOLL_CTL_MOD ? ENOMEM : 0;
	case SYS_fcntl:
		return b == F_DUPFD_CLOEXEC ? EMFILE : b == F_ADD_SEALS ? EPERM :
		       b == F_GET_SEALS ? EINVAL : 0;
	default:
		return 0;
	}
}

static long strike(uint32_t *n, uint32_t when, long nr, int err)
{
	if (add_rlx(n, 1) != when)
		return 0;
	log_error("fault: call %ld, number %u of its kind, fails with %d", nr, when, err);
	return -err;
}

long fault_sys(long nr, long b, long c, long d)
{
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(allocating); i++)
		if (allocating[i].nr == nr)
			return strike(&allocs, config.fault.fail_alloc, nr, allocating[i].err);
	for (size_t i = 0; i < ARRAY_SIZE(failing); i++)
		if (failing[i].nr == nr)
			return strike(&calls, config.fault.fail_call, nr, failing[i].err);
	err = err_by_argument(nr, b, c, d);
	return err ? strike(&calls, config.fault.fail_call, nr, err) : 0;
}

int fault_thread(void)
{
	return fault_armed ? (int)fault_sys(SYS_clone3, 0, 0, 0) : 0;
}

bool fault_device_strikes(void)
{
	if (add_rlx(&device_ops, 1) != config.fault.fail_mr)
		return false;
	log_error("fault: operation %u of the device fails", config.fault.fail_mr);
	return true;
}
