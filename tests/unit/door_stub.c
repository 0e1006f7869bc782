/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * door_stub.c - rooms that keep every connection in the kernel
 *
 * They track TCP sockets and count them, and do each call by a raw system
 * call: enough to see that the door itself changes nothing.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>

#include "base/counters.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "ready/ready.h"
#include "sock/fdtab.h"
#include "sock/process.h"
#include "sock/sock.h"

unsigned char fdtab_standin[FDTAB_STANDIN];
int ready_standin;

static void track(int fd, int on)
{
	if ((unsigned)fd < FDTAB_STANDIN)
		st_rlx(&fdtab_standin[fd], (unsigned char)on);
}

ssize_t sock_read(int fd, void *buf, size_t n) { return sys_read(fd, buf, n); }
ssize_t sock_readv(int fd, const struct iovec *iov, int cnt) { return sys3(SYS_readv, fd, iov, cnt); }
ssize_t sock_preadv2(int fd, const struct iovec *iov, int cnt, off_t off, int flags)
{
	return sysn6(SYS_preadv2, fd, iov, cnt, off, 0, flags);
}
ssize_t sock_recv(int fd, void *buf, size_t n, int flags) { return sys_recvfrom(fd, buf, n, flags); }
ssize_t sock_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len)
{
	return sysn6(SYS_recvfrom, fd, buf, n, flags, addr, len);
}
ssize_t sock_recvmsg(int fd, struct msghdr *msg, int flags) { return sys_recvmsg(fd, msg, flags); }
int sock_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	return (int)sys5(SYS_recvmmsg, fd, msgs, n, flags, timeout);
}
ssize_t sock_write(int fd, const void *buf, size_t n) { return sys_write(fd, buf, n); }
ssize_t sock_writev(int fd, const struct iovec *iov, int cnt) { return sys3(SYS_writev, fd, iov, cnt); }
ssize_t sock_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off, int flags)
{
	return sysn6(SYS_pwritev2, fd, iov, cnt, off, 0, flags);
}
ssize_t sock_send(int fd, const void *buf, size_t n, int flags) { return sys_sendto(fd, buf, n, flags); }
ssize_t sock_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
		    socklen_t len)
{
	return sysn6(SYS_sendto, fd, buf, n, flags, addr, len);
}
ssize_t sock_sendmsg(int fd, const struct msghdr *msg, int flags) { return sys_sendmsg(fd, msg, flags); }
int sock_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	return (int)sys4(SYS_sendmmsg, fd, msgs, n, flags);
}
ssize_t sock_sendfile(int out, int in, off_t *off, size_t n) { return sys4(SYS_sendfile, out, in, off, n); }
ssize_t sock_splice(int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags)
{
	return sysn6(SYS_splice, in, inoff, out, outoff, n, flags);
}
ssize_t sock_tee(int in, int out, size_t n, unsigned flags) { return sys4(SYS_tee, in, out, n, flags); }
ssize_t sock_vmsplice(int fd, const struct iovec *iov, size_t cnt, unsigned flags)
{
	return sys4(SYS_vmsplice, fd, iov, cnt, flags);
}

int sock_close(int fd)
{
	track(fd, 0);
	count(CNT_conns_tcp, 1);
	return sys_close(fd);
}
int sock_shutdown(int fd, int how) { return sys_shutdown(fd, how); }
int sock_fcntl(int fd, int cmd, long arg) { return sys_fcntl(fd, cmd, arg); }
int sock_ioctl(int fd, unsigned long req, void *arg) { return sys_ioctl(fd, req, arg); }
int sock_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	return sys_setsockopt(fd, level, name, val, len);
}
int sock_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	return sys_getsockopt(fd, level, name, val, len);
}
int sock_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)sys3(SYS_connect, fd, addr, len);
}
int sock_listen(int fd, int backlog) { return (int)sys2(SYS_listen, fd, backlog); }
int sock_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags, bool is_accept4)
{
	int ret = (int)(is_accept4 ? sys4(SYS_accept4, fd, addr, len, flags)
				   : sys3(SYS_accept, fd, addr, len));

	if (ret >= 0) {
		track(ret, 1);
		count(CNT_conns_total, 1);
	}
	return ret;
}
void sock_foreign(int fd, enum reason why)
{
	if (fdtab_tracked(fd))
		count_reason(why);
}
void sock_created(int fd, int domain, int type, int protocol)
{
	int tcp = (domain == AF_INET || domain == AF_INET6) &&
		  (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
		  (protocol == 0 || protocol == IPPROTO_TCP);

	track(fd, tcp);
	if (tcp)
		count(CNT_conns_total, 1);
}
void sock_purge(int fd) { track(fd, 0); }
void sock_dup_prepare(int newfd) { track(newfd, 0); }
void sock_duped(int oldfd, int newfd) { track(newfd, fdtab_tracked(oldfd)); }
void sock_close_range(unsigned first, unsigned last, int flags)
{
	for (unsigned fd = first; fd <= last && fd < FDTAB_STANDIN && !(flags & CLOSE_RANGE_CLOEXEC); fd++)
		track((int)fd, 0);
}

void process_start(char *const *envp) { ready_standin = 1; }
void process_fork_prepare(void) { }
void process_fork_parent(void) { }
void process_fork_child(void)
{
	counters_reset();
	privfd_close_all();
}
void process_exec_prepare(char *const *argv, char *const *envp) { }
void process_exec_failed(int err) { }
void process_spawn_prepare(void) { }
void process_spawn_done(void) { }
void process_exit(int status) { }
void process_sandbox(enum reason why) { count_reason(why); }

static int ms_of(const struct timespec *ts)
{
	return ts ? (int)(ts->tv_sec * 1000 + ts->tv_nsec / 1000000) : -1;
}

static int result(int ret) { return ret < 0 ? -errno : ret; }

int ready_poll(enum call_id call, struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	       const sigset_t *mask)
{
	return result(call == CALL_poll ? real.poll(fds, n, ms_of(timeout))
					: real.ppoll(fds, n, timeout, mask));
}
int ready_select(enum call_id call, int n, fd_set *r, fd_set *w, fd_set *e,
		 struct timespec *timeout, const sigset_t *mask)
{
	struct timeval tv;

	if (call != CALL_select)
		return result(real.pselect(n, r, w, e, timeout, mask));
	if (!timeout)
		return result(real.select(n, r, w, e, NULL));
	tv.tv_sec = timeout->tv_sec;
	tv.tv_usec = timeout->tv_nsec / 1000;
	int ret = result(real.select(n, r, w, e, &tv));
	timeout->tv_sec = tv.tv_sec;
	timeout->tv_nsec = tv.tv_usec * 1000;
	return ret;
}
void ready_epoll_created(int ep) { }
int ready_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	return sys_epoll_ctl(ep, op, fd, ev);
}
int ready_epoll_wait(enum call_id call, int ep, struct epoll_event *ev, int max,
		     const struct timespec *timeout, const sigset_t *mask)
{
	if (call == CALL_epoll_pwait2)
		return result(real.epoll_pwait2(ep, ev, max, timeout, mask));
	if (call == CALL_epoll_pwait)
		return result(real.epoll_pwait(ep, ev, max, ms_of(timeout), mask));
	return result(real.epoll_wait(ep, ev, max, ms_of(timeout)));
}
