/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sys.h - raw system calls for the library's own use
 *
 * They return -errno, leave errno alone, are no cancellation points, are
 * async-signal-safe and never meet an interposed symbol (ours or anybody's).
 * All of them pass sys6(), where fault injection lies in wait (base/fault.h).
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include "base/fault.h"
#include "base/util.h"

#if defined(__x86_64__)
static inline long sys_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ __volatile__("syscall"
			     : "=a"(ret)
			     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long sys_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ __volatile__("svc 0"
			     : "+r"(x0)
			     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			     : "memory");
	return x0;
}
#else
#error "sys_raw6() wants this machine's system call convention"
#endif

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	long err = unlikely(fault_armed) ? fault_sys(nr, b, c, d) : 0;

	return unlikely(err) ? err : sys_raw6(nr, a, b, c, d, e, f);
}

#define sys_arg(x)	((long)(uintptr_t)(x))
#define sys0(nr)		sys6(nr, 0, 0, 0, 0, 0, 0)
#define sys1(nr, a)		sys6(nr, sys_arg(a), 0, 0, 0, 0, 0)
#define sys2(nr, a, b)		sys6(nr, sys_arg(a), sys_arg(b), 0, 0, 0, 0)
#define sys3(nr, a, b, c)	sys6(nr, sys_arg(a), sys_arg(b), sys_arg(c), 0, 0, 0)
#define sys4(nr, a, b, c, d)	sys6(nr, sys_arg(a), sys_arg(b), sys_arg(c), sys_arg(d), 0, 0)
#define sys5(nr, a, b, c, d, e)	sys6(nr, sys_arg(a), sys_arg(b), sys_arg(c), sys_arg(d), sys_arg(e), 0)
#define sysn6(nr, a, b, c, d, e, f) \
	sys6(nr, sys_arg(a), sys_arg(b), sys_arg(c), sys_arg(d), sys_arg(e), sys_arg(f))

/*
 * ThreadSanitizer must be told that what it knows of the addresses is over: its
 * builds take libc's own mmap(), behind which it stands.
 */
static inline long sys_mmap(size_t bytes, int flags, int fd)
{
#ifdef __SANITIZE_THREAD__
	long fault = unlikely(fault_armed) ? fault_sys(SYS_mmap, 0, 0, 0) : 0;
	if (fault)
		return fault;
	int saved = errno;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	long err = -errno;

	errno = saved;
	return p == MAP_FAILED ? err : (long)p;
#else
	return sysn6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
#endif
}
/* Memory of our own, zeroed; NULL: none. */
static inline void *sys_map(size_t bytes, int more_flags)
{
	long p = sys_mmap(bytes, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}
static inline void sys_unmap(void *p, size_t bytes)
{
	sys2(SYS_munmap, p, bytes);
}

static inline ssize_t sys_read(int fd, void *p, size_t n) { return sys3(SYS_read, fd, p, n); }
static inline ssize_t sys_write(int fd, const void *p, size_t n) { return sys3(SYS_write, fd, p, n); }
static inline int sys_close(int fd) { return (int)sys1(SYS_close, fd); }
static inline ssize_t sys_sendto(int fd, const void *p, size_t n, int flags)
{
	return sysn6(SYS_sendto, fd, p, n, flags, 0, 0);
}
static inline ssize_t sys_recvfrom(int fd, void *p, size_t n, int flags)
{
	return sysn6(SYS_recvfrom, fd, p, n, flags, 0, 0);
}
static inline ssize_t sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return sys3(SYS_sendmsg, fd, m, flags);
}
static inline ssize_t sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return sys3(SYS_recvmsg, fd, m, flags);
}
static inline int sys_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	return (int)sys5(SYS_getsockopt, fd, level, name, val, len);
}
/* one that is an int, and never negative; or -errno */
static inline int sys_sockopt_int(int fd, int level, int name)
{
	int val = 0;
	socklen_t len = sizeof(val);
	int err = sys_getsockopt(fd, level, name, &val, &len);

	return err ? err : val;
}
static inline int sys_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	return (int)sys5(SYS_setsockopt, fd, level, name, val, len);
}
static inline int sys_getsockname(int fd, struct sockaddr *a, socklen_t *l)
{
	return (int)sys3(SYS_getsockname, fd, a, l);
}
static inline int sys_getpeername(int fd, struct sockaddr *a, socklen_t *l)
{
	return (int)sys3(SYS_getpeername, fd, a, l);
}
static inline int sys_shutdown(int fd, int how) { return (int)sys2(SYS_shutdown, fd, how); }
static inline int sys_ioctl(int fd, unsigned long req, void *arg) { return (int)sys3(SYS_ioctl, fd, req, arg); }
static inline int sys_fcntl(int fd, int cmd, long arg) { return (int)sys3(SYS_fcntl, fd, cmd, arg); }
static inline int sys_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	return (int)sys4(SYS_epoll_ctl, ep, op, fd, ev);
}
/* the program's own request, passed on */
static inline int sys_epoll_ctl_asked(int ep, int op, int fd, struct epoll_event *ev)
{
	return (int)sys_raw6(SYS_epoll_ctl, ep, op, fd, sys_arg(ev), 0, 0);
}
/* no signal mask; timeout in milliseconds, -1 for ever */
static inline int sys_epoll_wait(int ep, struct epoll_event *ev, int max, int timeout_ms)
{
	return (int)sysn6(SYS_epoll_pwait, ep, ev, max, timeout_ms, 0, 0);
}
/* the kernel writes the time left into *ts; mask NULL leaves the mask alone */
static inline int sys_ppoll(struct pollfd *fds, nfds_t n, struct timespec *ts, const void *mask)
{
	return (int)sys5(SYS_ppoll, fds, n, ts, mask, 8);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * Memory for the pages of a mapping, so that no touch of them raises SIGBUS.
 * Return: 0 or -errno; -EINVAL: a kernel before 5.14.
 */
static inline int sys_populate(void *at, size_t n)
{
	uintptr_t from = (uintptr_t)at & ~(uintptr_t)4095;
	uintptr_t to = ((uintptr_t)at + n + 4095) & ~(uintptr_t)4095;

	return (int)sys3(SYS_madvise, from, to - from, MADV_POPULATE_WRITE);
}

/* By a call that sleepers make anyway, which a filter must let through (doc/sandbox.md). */
static inline void sys_nap(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	sys_ppoll(NULL, 0, &ts, NULL);
}
static inline int sys_futex(uint32_t *word, int op, uint32_t val, const struct timespec *ts)
{
	return (int)sysn6(SYS_futex, word, op, val, ts, 0, 0);
}
static inline int sys_getpid(void) { return (int)sys0(SYS_getpid); }
static inline int sys_gettid(void) { return (int)sys0(SYS_gettid); }

#endif
