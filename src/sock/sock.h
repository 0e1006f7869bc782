/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sock.h - declarations that the door builds on; all return a value or -errno */
#ifndef SOCK_SOCK_H
#define SOCK_SOCK_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/reasons.h"

/* data: the descriptor (of splice and tee: either one) is tracked */
ssize_t sock_read(int fd, void *buf, size_t n);
ssize_t sock_readv(int fd, const struct iovec *iov, int cnt);
ssize_t sock_preadv2(int fd, const struct iovec *iov, int cnt, off_t off, int flags);
ssize_t sock_recv(int fd, void *buf, size_t n, int flags);
ssize_t sock_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len);
ssize_t sock_recvmsg(int fd, struct msghdr *msg, int flags);
int sock_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout);
ssize_t sock_write(int fd, const void *buf, size_t n);
ssize_t sock_writev(int fd, const struct iovec *iov, int cnt);
ssize_t sock_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off, int flags);
ssize_t sock_send(int fd, const void *buf, size_t n, int flags);
ssize_t sock_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr, socklen_t len);
ssize_t sock_sendmsg(int fd, const struct msghdr *msg, int flags);
int sock_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags);
ssize_t sock_sendfile(int out, int in, off_t *off, size_t n);
ssize_t sock_splice(int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags);
ssize_t sock_tee(int in, int out, size_t n, unsigned flags);
ssize_t sock_vmsplice(int fd, const struct iovec *iov, size_t cnt, unsigned flags);

/* control: tracked */
int sock_close(int fd);
int sock_shutdown(int fd, int how);
int sock_fcntl(int fd, int cmd, long arg);
int sock_ioctl(int fd, unsigned long req, void *arg);
int sock_setsockopt(int fd, int level, int name, const void *val, socklen_t len);
int sock_getsockopt(int fd, int level, int name, void *val, socklen_t *len);
int sock_connect(int fd, const struct sockaddr *addr, socklen_t len);
int sock_listen(int fd, int backlog);
int sock_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags, bool is_accept4);
/* used past the library from now on (stdio, aio, raw system calls) */
void sock_foreign(int fd, enum reason why);

/*
 * life: always called while the library is on.  sock_created() hears of every
 * socket, and removes an entry left behind where it is not for us; duped()
 * comes after the kernel's dup.  Where a number that others may know is made to
 * be something else, sock_dup() and sock_close_range() have that done by dup() or
 * close(), which give -errno and do not run a handler.
 */
void sock_created(int fd, int domain, int type, int protocol);
void sock_adopt(int fd);	/* it listens, and may not be known here */
void sock_came_in(int fd);	/* SCM_RIGHTS has given it */
void sock_adopt_all(void);	/* what a process begins with */
void sock_purge(int fd);
void sock_duped(int fd, int to);
int sock_dup(int fd, int to, int flags, int (*dup)(int fd, int to, int flags));
int sock_close_range(unsigned first, unsigned last, int (*close)(unsigned first, unsigned last));

#endif
