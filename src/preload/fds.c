/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fds.c - calls that make, copy, rename and close descriptors
 *
 * The library's own descriptors (base/privfd.h) look closed from here: close()
 * of one says EBADF, as for a number that is not open; dup2() onto one says
 * EBADF too, since its owner, perhaps asleep on it, cannot be told of a new
 * number; close_range() goes around them.  In a vfork child the descriptors
 * are the child's copies and may go.
 */
#include <limits.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/privfd.h"
#include "preload/door.h"

/* In a section it is no program that asks: libibverbs, which we have called, has some. */
static bool looks_closed(int fd)
{
	if (likely(!privfd_is(fd)) || section.depth || !door_hides())
		return false;
	errno = EBADF;
	return true;
}

void door_settle(int *fds, int n, int min)
{
	if (!door_on())
		return;
	DOOR_ASIDE({
		for (int i = 0; i < n; i++)	/* while the numbers are still ours */
			sock_purge(fds[i]);
		privfd_settle(fds, n, min);
	});
}

int door_socket(int domain, int type, int protocol)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_socket, (domain, type, protocol));
	int fd = door_lowest(DOOR_NUMBER(real.socket(domain, type, protocol)), 0);
	if (fd >= 0 && door_on())
		DOOR_ASIDE(sock_created(fd, domain, type, protocol));
	return fd;
}

int door_listen(int fd, int backlog)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_listen, (fd, backlog));
	if (door_tracked(fd))
		return DOOR_RET(sock_listen(fd, backlog));
	int ret = real.listen(fd, backlog);
	if (ret == 0 && door_on())
		DOOR_ASIDE(sock_adopt(fd));
	return ret;
}

int door_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_accept, (fd, addr, len));
	if (door_tracked(fd))
		return DOOR_RET(sock_accept4(fd, addr, len, 0, false));
	return door_fresh(DOOR_NUMBER(real.accept(fd, addr, len)));
}

int door_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_accept4, (fd, addr, len, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_accept4(fd, addr, len, flags, true));
	return door_fresh(DOOR_NUMBER(real.accept4(fd, addr, len, flags)));
}

static int fresh_pair(int ret, int *sv)
{
	if (ret == 0) {
		if (unlikely(privfd_moved()))
			door_settle(sv, 2, 0);
		door_over(sv[0]);
		door_over(sv[1]);
	}
	return ret;
}

int door_socketpair(int domain, int type, int protocol, int sv[2])
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_socketpair, (domain, type, protocol, sv));
	return fresh_pair(DOOR_NUMBER(real.socketpair(domain, type, protocol, sv)), sv);
}

int door_pipe(int sv[2])
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_pipe2, (sv, 0));
	return fresh_pair(DOOR_NUMBER(real.pipe(sv)), sv);
}
DOOR_ALIAS(__pipe, pipe)

int door_pipe2(int sv[2], int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_pipe2, (sv, flags));
	return fresh_pair(DOOR_NUMBER(real.pipe2(sv, flags)), sv);
}

/* a new mask for an old one makes none */
int door_signalfd(int fd, const sigset_t *mask, int flags)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	int ret = real.signalfd(fd, mask, flags);
	return fd == -1 ? door_fresh(ret) : ret;
}

int door_close(int fd)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_close, (fd));
	if (door_known(fd))
		return DOOR_RET(sock_close(fd));
	if (looks_closed(fd))
		return -1;
	privfd_quiet();
	return real.close(fd);
}
DOOR_ALIAS(__close, close)

/* the pieces of [first, last] between our own descriptors */
static int close_around(unsigned first, unsigned last, int flags)
{
	while (first <= last) {
		int mine = first <= INT_MAX ? privfd_next((int)first) : -1;
		unsigned end = mine >= 0 && (unsigned)mine <= last ? (unsigned)mine - 1 : last;
		bool rest = mine < 0 || (unsigned)mine > last;

		if (end + 1 > first || rest) {
			int ret = real.close_range(first, end, flags);

			if (ret < 0 || rest)
				return ret;
		}
		first = (unsigned)mine + 1;
	}
	return 0;
}

static int close_pieces(unsigned first, unsigned last)
{
	return close_around(first, last, 0) < 0 ? -errno : 0;
}

int door_close_range(unsigned first, unsigned last, int flags)
{
	const int known = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;

	if (!door_up())
		return (int)DOOR_RAW(SYS_close_range, (first, last, flags));
	if (!door_hides() || first > last || (flags & ~known))
		return real.close_range(first, last, flags);
	privfd_quiet();
	if (!flags && door_on())
		return DOOR_RET(sock_close_range(first, last, close_pieces));
	if (flags & CLOSE_RANGE_CLOEXEC)	/* ours are so already */
		return real.close_range(first, last, flags);
	return close_around(first, last, flags);
}

/* kernels before 5.9 */
static void close_each(int low)
{
	struct rlimit rl;

	if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &rl) < 0)
		return;
	for (int fd = low; (rlim_t)fd < MIN(rl.rlim_cur, (rlim_t)1 << 20); fd++)
		door_close(fd);
}

void door_closefrom(int low)
{
	unsigned first = (unsigned)MAX(low, 0);

	DOOR_ASIDE(if (door_close_range(first, ~0u, 0) < 0 && errno == ENOSYS)
			   close_each((int)first));
}

int door_dup(int fd)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_dup, (fd));
	if (looks_closed(fd))
		return -1;
	door_vfork_gives(fd);
	privfd_quiet();
	int to = door_lowest(DOOR_NUMBER(real.dup(fd)), 0);
	if (to >= 0 && door_on())
		DOOR_ASIDE(sock_duped(fd, to));
	return to;
}

/*
 * A number that is not open could be ours for a moment: then no window may open
 * until the call is over, which closes nothing and so does not wait.
 */
static bool dup_hold(int to)
{
	if (!ld_rlx(&privfd_windows))
		return false;
	section_enter();
	privfd_hold();
	if (sys_fcntl(to, F_GETFD, 0) < 0)
		return true;
	privfd_release();
	section_leave();
	return false;
}

/* flags: of dup3(); less than 0: dup2().  Return: to, or -errno. */
static int dup_only(int fd, int to, int flags)
{
	bool held = dup_hold(to);
	int ret = flags < 0 ? real.dup2(fd, to) : real.dup3(fd, to, flags);

	if (ret < 0)
		ret = -errno;
	if (held) {
		privfd_release();
		section_leave();
	}
	return ret;
}

static int dup_onto(int fd, int to, int flags)
{
	if (looks_closed(fd) || looks_closed(to))
		return -1;
	int ret = door_known(fd) || door_known(to) ? DOOR_RET(sock_dup(fd, to, flags, dup_only))
						   : dup_only(fd, to, flags);
	if (ret < -1)
		errno = -ret;
	if (ret >= 0 && to <= 2)	/* stdio's own three write and read past us */
		door_foreign(to);
	return ret < 0 ? -1 : ret;
}

int door_dup2(int fd, int to)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_dup3, (fd, to, 0));
	door_vfork_gives(fd);
	if (!door_on() || fd == to)
		return looks_closed(fd) ? -1 : real.dup2(fd, to);
	return dup_onto(fd, to, -1);
}
DOOR_ALIAS(__dup2, dup2)

int door_dup3(int fd, int to, int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_dup3, (fd, to, flags));
	door_vfork_gives(fd);
	if (!door_on() || fd == to || (flags & ~O_CLOEXEC))
		return real.dup3(fd, to, flags);
	return dup_onto(fd, to, flags);
}

typedef int (*fcntl_fn)(int fd, int cmd, ...);

/* every argument of fcntl() is an int or a pointer: a long carries both */
static int fcntl_by(fcntl_fn through, int fd, int cmd, long arg)
{
	if (looks_closed(fd))
		return -1;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC || (cmd == F_SETFD && !(arg & FD_CLOEXEC)))
		door_vfork_gives(fd);
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) {
		privfd_quiet();
		int to = door_lowest(DOOR_NUMBER(through(fd, cmd, arg)), (int)arg);

		if (to >= 0 && door_on())
			DOOR_ASIDE(sock_duped(fd, to));
		return to;
	}
	if (door_tracked(fd))
		return DOOR_RET(sock_fcntl(fd, cmd, arg));
	return through(fd, cmd, arg);
}

int door_fcntl(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	long arg = va_arg(ap, long);
	va_end(ap);
	if (!door_up())
		return (int)DOOR_RAW(SYS_fcntl, (fd, cmd, arg));
	return fcntl_by(real.fcntl, fd, cmd, arg);
}
DOOR_ALIAS(__fcntl, fcntl)

int door_fcntl64(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	long arg = va_arg(ap, long);
	va_end(ap);
	if (!door_up())
		return (int)DOOR_RAW(SYS_fcntl, (fd, cmd, arg));
	return fcntl_by(real.fcntl64, fd, cmd, arg);
}

/* Who looks which numbers are open asks so, if not by fcntl(). */
int door_fstat(int fd, struct stat *st)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_fstat, (fd, st));
	return looks_closed(fd) ? -1 : real.fstat(fd, st);
}

int door_fstat64(int fd, struct stat64 *st)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_fstat, (fd, st));
	return looks_closed(fd) ? -1 : real.fstat64(fd, st);
}

/* programs linked before glibc 2.33 */
int door___fxstat(int version, int fd, struct stat *st)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_fstat, (fd, st));
	return looks_closed(fd) ? -1 : real.__fxstat(version, fd, st);
}

int door___fxstat64(int version, int fd, struct stat64 *st)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_fstat, (fd, st));
	return looks_closed(fd) ? -1 : real.__fxstat64(version, fd, st);
}

int door_ioctl(int fd, unsigned long req, ...)
{
	va_list ap;

	va_start(ap, req);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (!door_up())
		return (int)DOOR_RAW(SYS_ioctl, (fd, req, arg));
	if (req == FIONCLEX)
		door_vfork_gives(fd);
	if (door_tracked(fd))
		return DOOR_RET(sock_ioctl(fd, req, arg));
	if (looks_closed(fd))
		return -1;
	return real.ioctl(fd, req, arg);
}
