/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * calls.h - the one table of the libc functions that the door exports
 *
 * Everything that creates, uses, copies, waits on or closes a descriptor, or
 * makes, replaces or ends a process.  The table makes struct real_calls, the
 * regular wrappers, enum call_id and the linker's version script (build-aux
 * free: one awk line in src/preload/local.mk reads the lines below, so an entry
 * begins on a line of its own and its first three fields stand on that line).
 * tests/unit/test_preload_symbols.sh holds it against the running libc.
 *
 * X(kind, return type, name, system call, parameters, arguments)
 *   kind      data  a tracked descriptor goes to sock_NAME(same arguments)
 *             fresh returns a new descriptor; an entry left behind is removed
 *             shut  goes to sock_NAME like data, for calls that carry no bytes
 *             pass  exported so that it can be counted on, passed through
 *             own   written out by hand in src/preload
 *   system call  of the same number and order of arguments, taken while the
 *             real function is not known yet; CALL_NO_NR: there is none
 */
#ifndef BASE_CALLS_H
#define BASE_CALLS_H

#define CALL_NO_NR (-1)

#define CALLS_DATA(X) \
	X(data, ssize_t, read, SYS_read, (int fd, void *buf, size_t n), (fd, buf, n)) \
	X(own, ssize_t, __read_chk, CALL_NO_NR, (int fd, void *buf, size_t n, size_t buflen), (fd, buf, n, buflen)) \
	X(data, ssize_t, readv, SYS_readv, (int fd, const struct iovec *iov, int cnt), (fd, iov, cnt)) \
	X(own, ssize_t, preadv2, CALL_NO_NR, (int fd, const struct iovec *iov, int cnt, off_t off, int flags), (fd, iov, cnt, off, flags)) \
	X(own, ssize_t, preadv64v2, CALL_NO_NR, (int fd, const struct iovec *iov, int cnt, off_t off, int flags), (fd, iov, cnt, off, flags)) \
	X(own, ssize_t, recv, CALL_NO_NR, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags)) \
	X(own, ssize_t, __recv_chk, CALL_NO_NR, (int fd, void *buf, size_t n, size_t buflen, int flags), (fd, buf, n, buflen, flags)) \
	X(data, ssize_t, recvfrom, SYS_recvfrom, (int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len), (fd, buf, n, flags, addr, len)) \
	X(own, ssize_t, __recvfrom_chk, CALL_NO_NR, (int fd, void *buf, size_t n, size_t buflen, int flags, struct sockaddr *addr, socklen_t *len), (fd, buf, n, buflen, flags, addr, len)) \
	X(own, ssize_t, recvmsg, SYS_recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags)) \
	X(own, int, recvmmsg, SYS_recvmmsg, (int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout), (fd, msgs, n, flags, timeout)) \
	X(data, ssize_t, write, SYS_write, (int fd, const void *buf, size_t n), (fd, buf, n)) \
	X(data, ssize_t, writev, SYS_writev, (int fd, const struct iovec *iov, int cnt), (fd, iov, cnt)) \
	X(own, ssize_t, pwritev2, CALL_NO_NR, (int fd, const struct iovec *iov, int cnt, off_t off, int flags), (fd, iov, cnt, off, flags)) \
	X(own, ssize_t, pwritev64v2, CALL_NO_NR, (int fd, const struct iovec *iov, int cnt, off_t off, int flags), (fd, iov, cnt, off, flags)) \
	X(own, ssize_t, send, CALL_NO_NR, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags)) \
	X(data, ssize_t, sendto, SYS_sendto, (int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr, socklen_t len), (fd, buf, n, flags, addr, len)) \
	X(own, ssize_t, sendmsg, SYS_sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags)) \
	X(own, int, sendmmsg, SYS_sendmmsg, (int fd, struct mmsghdr *msgs, unsigned n, int flags), (fd, msgs, n, flags)) \
	X(data, ssize_t, sendfile, SYS_sendfile, (int fd, int in, off_t *off, size_t n), (fd, in, off, n)) \
	X(own, ssize_t, sendfile64, SYS_sendfile, (int fd, int in, off64_t *off, size_t n), (fd, in, off, n)) \
	X(own, ssize_t, splice, SYS_splice, (int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags), (in, inoff, out, outoff, n, flags)) \
	X(own, ssize_t, tee, SYS_tee, (int in, int out, size_t n, unsigned flags), (in, out, n, flags)) \
	X(data, ssize_t, vmsplice, SYS_vmsplice, (int fd, const struct iovec *iov, size_t cnt, unsigned flags), (fd, iov, cnt, flags)) \
	X(pass, ssize_t, copy_file_range, SYS_copy_file_range, (int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags), (in, inoff, out, outoff, n, flags))

#define CALLS_SOCKET(X) \
	X(own, int, socket, SYS_socket, (int domain, int type, int protocol), (domain, type, protocol)) \
	X(own, int, socketpair, SYS_socketpair, (int domain, int type, int protocol, int sv[2]), (domain, type, protocol, sv)) \
	X(own, int, accept, SYS_accept, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len)) \
	X(own, int, accept4, SYS_accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags), (fd, addr, len, flags)) \
	X(shut, int, connect, SYS_connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len)) \
	X(pass, int, bind, SYS_bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len)) \
	X(own, int, listen, SYS_listen, (int fd, int backlog), (fd, backlog)) \
	X(shut, int, shutdown, SYS_shutdown, (int fd, int how), (fd, how)) \
	X(shut, int, getsockopt, SYS_getsockopt, (int fd, int level, int name, void *val, socklen_t *len), (fd, level, name, val, len)) \
	X(shut, int, setsockopt, SYS_setsockopt, (int fd, int level, int name, const void *val, socklen_t len), (fd, level, name, val, len)) \
	X(pass, int, getsockname, SYS_getsockname, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len)) \
	X(pass, int, getpeername, SYS_getpeername, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len))

#define CALLS_FD(X) \
	X(own, int, close, SYS_close, (int fd), (fd)) \
	X(own, int, close_range, SYS_close_range, (unsigned first, unsigned last, int flags), (first, last, flags)) \
	X(own, void, closefrom, CALL_NO_NR, (int low), (low)) \
	X(own, int, dup, SYS_dup, (int fd), (fd)) \
	X(own, int, dup2, CALL_NO_NR, (int fd, int to), (fd, to)) \
	X(own, int, dup3, SYS_dup3, (int fd, int to, int flags), (fd, to, flags)) \
	X(own, int, fcntl, SYS_fcntl, (int fd, int cmd, ...), (fd, cmd)) \
	X(own, int, fcntl64, SYS_fcntl, (int fd, int cmd, ...), (fd, cmd)) \
	X(own, int, ioctl, SYS_ioctl, (int fd, unsigned long req, ...), (fd, req)) \
	X(own, int, fstat, SYS_fstat, (int fd, struct stat *st), (fd, st)) \
	X(own, int, fstat64, SYS_fstat, (int fd, struct stat64 *st), (fd, st)) \
	X(own, int, __fxstat, CALL_NO_NR, (int version, int fd, struct stat *st), (version, fd, st)) \
	X(own, int, __fxstat64, CALL_NO_NR, (int version, int fd, struct stat64 *st), (version, fd, st)) \
	X(own, long, syscall, CALL_NO_NR, (long nr, ...), (nr))

#define CALLS_WAIT(X) \
	X(own, int, poll, CALL_NO_NR, (struct pollfd *fds, nfds_t n, int timeout_ms), (fds, n, timeout_ms)) \
	X(own, int, __poll_chk, CALL_NO_NR, (struct pollfd *fds, nfds_t n, int timeout_ms, size_t len), (fds, n, timeout_ms, len)) \
	X(own, int, ppoll, CALL_NO_NR, (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask), (fds, n, timeout, mask)) \
	X(own, int, __ppoll_chk, CALL_NO_NR, (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t len), (fds, n, timeout, mask, len)) \
	X(own, int, select, CALL_NO_NR, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout), (n, r, w, e, timeout)) \
	X(own, int, pselect, CALL_NO_NR, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout, const sigset_t *mask), (n, r, w, e, timeout, mask)) \
	X(own, int, epoll_create, CALL_NO_NR, (int size), (size)) \
	X(own, int, epoll_create1, SYS_epoll_create1, (int flags), (flags)) \
	X(own, int, epoll_ctl, SYS_epoll_ctl, (int ep, int op, int fd, struct epoll_event *ev), (ep, op, fd, ev)) \
	X(own, int, epoll_wait, CALL_NO_NR, (int ep, struct epoll_event *ev, int max, int timeout_ms), (ep, ev, max, timeout_ms)) \
	X(own, int, epoll_pwait, CALL_NO_NR, (int ep, struct epoll_event *ev, int max, int timeout_ms, const sigset_t *mask), (ep, ev, max, timeout_ms, mask)) \
	X(own, int, epoll_pwait2, CALL_NO_NR, (int ep, struct epoll_event *ev, int max, const struct timespec *timeout, const sigset_t *mask), (ep, ev, max, timeout, mask))

/* No descriptor of ours comes from these; they end the life of a stale entry. */
#define CALLS_FRESH(X) \
	X(own, int, open, SYS_open, (const char *path, int flags, ...), (path, flags)) \
	X(own, int, open64, SYS_open, (const char *path, int flags, ...), (path, flags)) \
	X(own, int, openat, SYS_openat, (int dir, const char *path, int flags, ...), (dir, path, flags)) \
	X(own, int, openat64, SYS_openat, (int dir, const char *path, int flags, ...), (dir, path, flags)) \
	X(fresh, int, __open_2, CALL_NO_NR, (const char *path, int flags), (path, flags)) \
	X(fresh, int, __open64_2, CALL_NO_NR, (const char *path, int flags), (path, flags)) \
	X(fresh, int, __openat_2, CALL_NO_NR, (int dir, const char *path, int flags), (dir, path, flags)) \
	X(fresh, int, __openat64_2, CALL_NO_NR, (int dir, const char *path, int flags), (dir, path, flags)) \
	X(fresh, int, creat, CALL_NO_NR, (const char *path, mode_t mode), (path, mode)) \
	X(fresh, int, creat64, CALL_NO_NR, (const char *path, mode_t mode), (path, mode)) \
	X(fresh, int, open_by_handle_at, SYS_open_by_handle_at, (int dir, struct file_handle *h, int flags), (dir, h, flags)) \
	X(own, int, pipe, CALL_NO_NR, (int sv[2]), (sv)) \
	X(own, int, pipe2, SYS_pipe2, (int sv[2], int flags), (sv, flags)) \
	X(fresh, int, eventfd, SYS_eventfd2, (unsigned val, int flags), (val, flags)) \
	X(fresh, int, timerfd_create, SYS_timerfd_create, (int clock, int flags), (clock, flags)) \
	X(own, int, signalfd, CALL_NO_NR, (int fd, const sigset_t *mask, int flags), (fd, mask, flags)) \
	X(fresh, int, memfd_create, SYS_memfd_create, (const char *name, unsigned flags), (name, flags)) \
	X(fresh, int, inotify_init, CALL_NO_NR, (void), ()) \
	X(fresh, int, inotify_init1, SYS_inotify_init1, (int flags), (flags)) \
	X(fresh, int, fanotify_init, SYS_fanotify_init, (unsigned flags, unsigned event_flags), (flags, event_flags)) \
	X(fresh, int, pidfd_open, SYS_pidfd_open, (pid_t pid, unsigned flags), (pid, flags)) \
	X(own, int, pidfd_getfd, SYS_pidfd_getfd, (int pidfd, int target, unsigned flags), (pidfd, target, flags)) \
	X(fresh, int, fsopen, CALL_NO_NR, (const char *name, unsigned flags), (name, flags)) \
	X(fresh, int, fspick, CALL_NO_NR, (int dir, const char *path, unsigned flags), (dir, path, flags)) \
	X(fresh, int, fsmount, CALL_NO_NR, (int fd, unsigned flags, unsigned attrs), (fd, flags, attrs)) \
	X(fresh, int, open_tree, CALL_NO_NR, (int dir, const char *path, unsigned flags), (dir, path, flags)) \
	X(fresh, int, mkstemp, CALL_NO_NR, (char *name), (name)) \
	X(fresh, int, mkstemp64, CALL_NO_NR, (char *name), (name)) \
	X(fresh, int, mkstemps, CALL_NO_NR, (char *name, int suffix), (name, suffix)) \
	X(fresh, int, mkstemps64, CALL_NO_NR, (char *name, int suffix), (name, suffix)) \
	X(fresh, int, mkostemp, CALL_NO_NR, (char *name, int flags), (name, flags)) \
	X(fresh, int, mkostemp64, CALL_NO_NR, (char *name, int flags), (name, flags)) \
	X(fresh, int, mkostemps, CALL_NO_NR, (char *name, int suffix, int flags), (name, suffix, flags)) \
	X(fresh, int, mkostemps64, CALL_NO_NR, (char *name, int suffix, int flags), (name, suffix, flags)) \
	X(fresh, int, shm_open, CALL_NO_NR, (const char *name, int flags, mode_t mode), (name, flags, mode)) \
	X(own, int, mq_open, CALL_NO_NR, (const char *name, int flags, ...), (name, flags)) \
	X(fresh, int, __mq_open_2, CALL_NO_NR, (const char *name, int flags), (name, flags)) \
	X(fresh, int, posix_openpt, CALL_NO_NR, (int flags), (flags)) \
	X(fresh, int, getpt, CALL_NO_NR, (void), ()) \
	X(own, int, openpty, CALL_NO_NR, (int *master, int *slave, char *name, const struct termios *t, const struct winsize *w), (master, slave, name, t, w))

/* stdio and aio read and write inside libc, where nobody can step in between */
#define CALLS_STDIO(X) \
	X(own, FILE *, fdopen, CALL_NO_NR, (int fd, const char *mode), (fd, mode)) \
	X(own, FILE *, fopen, CALL_NO_NR, (const char *path, const char *mode), (path, mode)) \
	X(own, FILE *, fopen64, CALL_NO_NR, (const char *path, const char *mode), (path, mode)) \
	X(own, FILE *, freopen, CALL_NO_NR, (const char *path, const char *mode, FILE *f), (path, mode, f)) \
	X(own, FILE *, freopen64, CALL_NO_NR, (const char *path, const char *mode, FILE *f), (path, mode, f)) \
	X(own, FILE *, tmpfile, CALL_NO_NR, (void), ()) \
	X(own, FILE *, tmpfile64, CALL_NO_NR, (void), ()) \
	X(own, int, fclose, CALL_NO_NR, (FILE *f), (f)) \
	X(own, DIR *, opendir, CALL_NO_NR, (const char *path), (path)) \
	X(own, int, dprintf, CALL_NO_NR, (int fd, const char *fmt, ...), (fd, fmt)) \
	X(own, int, vdprintf, CALL_NO_NR, (int fd, const char *fmt, va_list ap), (fd, fmt, ap)) \
	X(own, int, __dprintf_chk, CALL_NO_NR, (int fd, int flag, const char *fmt, ...), (fd, flag, fmt)) \
	X(own, int, __vdprintf_chk, CALL_NO_NR, (int fd, int flag, const char *fmt, va_list ap), (fd, flag, fmt, ap)) \
	X(own, void, backtrace_symbols_fd, CALL_NO_NR, (void *const *addr, int n, int fd), (addr, n, fd)) \
	X(own, int, aio_read, CALL_NO_NR, (struct aiocb *cb), (cb)) \
	X(own, int, aio_read64, CALL_NO_NR, (struct aiocb64 *cb), (cb)) \
	X(own, int, aio_write, CALL_NO_NR, (struct aiocb *cb), (cb)) \
	X(own, int, aio_write64, CALL_NO_NR, (struct aiocb64 *cb), (cb)) \
	X(own, int, lio_listio, CALL_NO_NR, (int mode, struct aiocb *const list[], int n, struct sigevent *ev), (mode, list, n, ev)) \
	X(own, int, lio_listio64, CALL_NO_NR, (int mode, struct aiocb64 *const list[], int n, struct sigevent *ev), (mode, list, n, ev))

#define CALLS_PROCESS(X) \
	X(own, pid_t, vfork, CALL_NO_NR, (void), ()) \
	X(own, pid_t, _Fork, CALL_NO_NR, (void), ()) \
	X(own, int, clone, CALL_NO_NR, (int (*fn)(void *), void *stack, int flags, void *arg, ...), (fn, stack, flags, arg)) \
	X(own, int, daemon, CALL_NO_NR, (int nochdir, int noclose), (nochdir, noclose)) \
	X(own, int, login_tty, CALL_NO_NR, (int fd), (fd)) \
	X(own, int, posix_spawn, CALL_NO_NR, (pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const argv[], char *const envp[]), (pid, path, fa, at, argv, envp)) \
	X(own, int, posix_spawnp, CALL_NO_NR, (pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const argv[], char *const envp[]), (pid, path, fa, at, argv, envp)) \
	X(own, int, posix_spawn_file_actions_adddup2, CALL_NO_NR, (posix_spawn_file_actions_t *fa, int fd, int to), (fa, fd, to)) \
	X(own, int, system, CALL_NO_NR, (const char *cmd), (cmd)) \
	X(own, FILE *, popen, CALL_NO_NR, (const char *cmd, const char *mode), (cmd, mode)) \
	X(own, int, execve, SYS_execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp)) \
	X(own, int, execveat, SYS_execveat, (int dir, const char *path, char *const argv[], char *const envp[], int flags), (dir, path, argv, envp, flags)) \
	X(own, int, fexecve, CALL_NO_NR, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp)) \
	X(own, int, execv, CALL_NO_NR, (const char *path, char *const argv[]), (path, argv)) \
	X(own, int, execvp, CALL_NO_NR, (const char *file, char *const argv[]), (file, argv)) \
	X(own, int, execvpe, CALL_NO_NR, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp)) \
	X(own, int, execl, CALL_NO_NR, (const char *path, const char *arg, ...), (path, arg)) \
	X(own, int, execle, CALL_NO_NR, (const char *path, const char *arg, ...), (path, arg)) \
	X(own, int, execlp, CALL_NO_NR, (const char *file, const char *arg, ...), (file, arg)) \
	X(own, void, _exit, SYS_exit_group, (int status), (status)) \
	X(own, void, _Exit, SYS_exit_group, (int status), (status)) \
	X(own, int, unshare, SYS_unshare, (int flags), (flags)) \
	X(own, int, setns, SYS_setns, (int fd, int type), (fd, type)) \
	X(own, int, prctl, SYS_prctl, (int op, ...), (op)) \
	X(own, int, sigaction, CALL_NO_NR, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old)) \
	X(own, sighandler_t, signal, CALL_NO_NR, (int sig, sighandler_t handler), (sig, handler)) \
	X(own, sighandler_t, sysv_signal, CALL_NO_NR, (int sig, sighandler_t handler), (sig, handler)) \
	X(own, sighandler_t, sigset, CALL_NO_NR, (int sig, sighandler_t handler), (sig, handler)) \
	X(own, int, sigignore, CALL_NO_NR, (int sig), (sig)) \
	X(own, int, siginterrupt, CALL_NO_NR, (int sig, int interrupt), (sig, interrupt)) \
	X(own, int, pthread_setcanceltype, CALL_NO_NR, (int type, int *old), (type, old))

#define CALLS(X) \
	CALLS_DATA(X) \
	CALLS_SOCKET(X) \
	CALLS_FD(X) \
	CALLS_WAIT(X) \
	CALLS_FRESH(X) \
	CALLS_STDIO(X) \
	CALLS_PROCESS(X)

/* A(other public name in libc, table name): exported as the same function */
#define CALL_ALIASES(A) \
	A(__read, read) \
	A(__write, write) \
	A(__send, send) \
	A(__connect, connect) \
	A(__close, close) \
	A(__dup2, dup2) \
	A(__fcntl, fcntl) \
	A(__poll, poll) \
	A(__select, select) \
	A(__open, open) \
	A(__open64, open64) \
	A(__pipe, pipe) \
	A(__vfork, vfork) \
	A(__clone, clone) \
	A(__sigaction, sigaction) \
	A(bsd_signal, signal) \
	A(ssignal, signal) \
	A(__sysv_signal, sysv_signal) \
	A(__backtrace_symbols_fd, backtrace_symbols_fd) \
	A(_IO_fdopen, fdopen) \
	A(_IO_fopen, fopen) \
	A(_IO_fclose, fclose) \
	A(_IO_popen, popen)

enum call_id {
#define X(kind, ret, name, nr, params, args) CALL_##name,
	CALLS(X)
#undef X
	CALL_COUNT
};

#endif
