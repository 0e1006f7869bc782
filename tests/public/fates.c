/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fates.c - what sidestep(7) says of a call, seen on a connection that is on a ring
 *
 * For each call: a connection is brought onto a ring, 64 bytes lie there to be
 * read, the call is made, and a line says its name, where the connection's bytes go
 * then (3: both ways by the ring), and why not by the ring.  test_fates
 * compares with the manual.
 */
#define _GNU_SOURCE
#include <aio.h>
#include <arpa/inet.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sidestep/sidestep.h"

enum { THERE = 64, MESSAGE = 200, MOST = 200000, BOTH = SIDESTEP_TX_RING | SIDESTEP_RX_RING };

static int fd, other, file, ep, pipes[2];
static char buf[256];
static struct iovec vec = { buf, 8 };
static struct sockaddr_storage sa;
static socklen_t len;
static struct timespec zero;

static void die(const char *what)
{
	perror(what);
	exit(99);
}

static void pair_open(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	len = sizeof(a);
	if (bind(l, (struct sockaddr *)&a, len) || listen(l, 8) || getsockname(l, (struct sockaddr *)&a, &len))
		die("listen");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	other = accept(l, NULL, NULL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(l);
}

static void message(int from, int to)
{
	char m[MESSAGE] = "";

	if (send(from, m, sizeof(m), 0) != MESSAGE || recv(to, m, sizeof(m), MSG_WAITALL) != MESSAGE)
		die("message");
}

static void warm(void)
{
	for (int i = 0; i < MOST && (sidestep_fd_path(fd) != BOTH || sidestep_fd_path(other) != BOTH); i++) {
		message(fd, other);
		message(other, fd);
	}
	if (sidestep_fd_path(fd) != BOTH)
		die("no ring");
	if (send(other, buf, THERE, 0) != THERE)
		die("send");
}

static void show(const char *name)
{
	printf("%s %d %s\n", name, sidestep_fd_path(fd), sidestep_fd_reason(fd));
	fflush(stdout);
}

static void pair_close(void)
{
	char m[4096];

	shutdown(fd, SHUT_WR);
	while (recv(other, m, sizeof(m), 0) > 0)
		;
	close(other);
	while (recv(fd, m, sizeof(m), 0) > 0)
		;
	close(fd);
}

static __attribute__((format(printf, 1, 2))) int print_v(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	int n = vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

static void aio_await(struct aiocb *cb)
{
	while (aio_error(cb) == EINPROGRESS)
		aio_suspend((const struct aiocb *const[]){ cb }, 1, NULL);
}

#define POLLED	(&(struct pollfd){ .fd = fd, .events = POLLIN })
#define MSG	(&(struct msghdr){ .msg_iov = &vec, .msg_iovlen = 1 })
#define MMSG	(&(struct mmsghdr){ .msg_hdr = { .msg_iov = &vec, .msg_iovlen = 1 } })
#define EVENT	(&(struct epoll_event){ .events = EPOLLIN })
#define ZERO_TV	(&(struct timeval){ 0 })

static fd_set *read_set(void)
{
	static fd_set s;

	FD_ZERO(&s);
	FD_SET(fd, &s);
	return &s;
}

/* CALL(name, what is done) */
#define CALLS(CALL) \
	CALL(read, read(fd, buf, 8)) \
	CALL(readv, readv(fd, &vec, 1)) \
	CALL(recv, recv(fd, buf, 8, 0)) \
	CALL(recvfrom, recvfrom(fd, buf, 8, 0, NULL, NULL)) \
	CALL(recvmsg, recvmsg(fd, MSG, 0)) \
	CALL(recvmmsg, recvmmsg(fd, MMSG, 1, 0, NULL)) \
	CALL(preadv2, preadv2(fd, &vec, 1, -1, 0)) \
	CALL(preadv64v2, preadv64v2(fd, &vec, 1, -1, 0)) \
	CALL(write, write(fd, buf, 8)) \
	CALL(writev, writev(fd, &vec, 1)) \
	CALL(send, send(fd, buf, 8, 0)) \
	CALL(sendto, sendto(fd, buf, 8, 0, NULL, 0)) \
	CALL(sendmsg, sendmsg(fd, MSG, 0)) \
	CALL(sendmmsg, sendmmsg(fd, MMSG, 1, 0)) \
	CALL(pwritev2, pwritev2(fd, &vec, 1, -1, 0)) \
	CALL(pwritev64v2, pwritev64v2(fd, &vec, 1, -1, 0)) \
	CALL(sendfile, sendfile(fd, file, &(off_t){ 0 }, 8)) \
	CALL(sendfile64, sendfile64(fd, file, &(off64_t){ 0 }, 8)) \
	CALL(splice, (splice(fd, NULL, pipes[1], NULL, 8, 0), splice(pipes[0], NULL, fd, NULL, 8, 0))) \
	CALL(tee, tee(fd, pipes[1], 8, 0)) \
	CALL(vmsplice, vmsplice(fd, &vec, 1, 0)) \
	CALL(copy_file_range, copy_file_range(file, &(off64_t){ 0 }, fd, NULL, 8, 0)) \
	CALL(connect, connect(fd, (struct sockaddr *)&sa, sizeof(sa))) \
	CALL(accept, accept(fd, NULL, NULL)) \
	CALL(accept4, accept4(fd, NULL, NULL, 0)) \
	CALL(listen, listen(fd, 1)) \
	CALL(bind, bind(fd, (struct sockaddr *)&sa, sizeof(sa))) \
	CALL(getsockname, getsockname(fd, (struct sockaddr *)&sa, &len)) \
	CALL(getpeername, getpeername(fd, (struct sockaddr *)&sa, &len)) \
	CALL(getsockopt, getsockopt(fd, IPPROTO_TCP, TCP_INFO, buf, &len)) \
	CALL(setsockopt, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 0 }, sizeof(int))) \
	CALL(dup, close(dup(fd))) \
	CALL(dup2, (dup2(fd, 99), close(99))) \
	CALL(dup3, (dup3(fd, 99, O_CLOEXEC), close(99))) \
	CALL(fcntl, fcntl(fd, F_SETFL, O_NONBLOCK)) \
	CALL(fcntl64, fcntl64(fd, F_GETFL)) \
	CALL(ioctl, ioctl(fd, SIOCOUTQ, buf)) \
	CALL(fstat, fstat(fd, (struct stat *)(void *)buf)) \
	CALL(fstat64, fstat64(fd, (struct stat64 *)(void *)buf)) \
	CALL(syscall, syscall(SYS_read, fd, buf, 8)) \
	CALL(poll, poll(POLLED, 1, 0)) \
	CALL(ppoll, ppoll(POLLED, 1, &zero, NULL)) \
	CALL(select, select(fd + 1, read_set(), NULL, NULL, ZERO_TV)) \
	CALL(pselect, pselect(fd + 1, read_set(), NULL, NULL, &zero, NULL)) \
	CALL(epoll_create, close(epoll_create(1))) \
	CALL(epoll_create1, close(epoll_create1(0))) \
	CALL(epoll_ctl, epoll_ctl(ep, EPOLL_CTL_ADD, fd, EVENT)) \
	CALL(epoll_wait, (epoll_ctl(ep, EPOLL_CTL_ADD, fd, EVENT), epoll_wait(ep, EVENT, 1, 0))) \
	CALL(epoll_pwait, (epoll_ctl(ep, EPOLL_CTL_ADD, fd, EVENT), epoll_pwait(ep, EVENT, 1, 0, NULL))) \
	CALL(epoll_pwait2, (epoll_ctl(ep, EPOLL_CTL_ADD, fd, EVENT), epoll_pwait2(ep, EVENT, 1, &zero, NULL))) \
	CALL(fdopen, fclose(fdopen(dup(fd), "r"))) \
	CALL(dprintf, dprintf(fd, "%d", 7)) \
	CALL(vdprintf, print_v("%d", 7)) \
	CALL(backtrace_symbols_fd, (backtrace_symbols_fd((void *[]){ buf }, 1, fd), 0)) \
	CALL(aio_read, (aio_read(&cb), aio_await(&cb), 0)) \
	CALL(aio_read64, (aio_read64((struct aiocb64 *)(void *)&cb), aio_await(&cb), 0)) \
	CALL(aio_write, (aio_write(&cb), aio_await(&cb), 0)) \
	CALL(aio_write64, (aio_write64((struct aiocb64 *)(void *)&cb), aio_await(&cb), 0)) \
	CALL(lio_listio, lio_listio(LIO_WAIT, (struct aiocb *const[]){ &cb }, 1, NULL)) \
	CALL(lio_listio64, lio_listio64(LIO_WAIT, (struct aiocb64 *const[]){ (void *)&cb }, 1, NULL))

static struct aiocb cb;

static void try_one(const char *name, int which)
{
	int n = 0;
	long ignored = 0;

	pair_open();
	warm();
	ep = epoll_create1(EPOLL_CLOEXEC);
	cb = (struct aiocb){ .aio_fildes = fd, .aio_buf = buf, .aio_nbytes = 8, .aio_lio_opcode = LIO_READ };
	len = sizeof(buf) - 8;
#define CALL(call, what) if (which == n++) ignored = (long)(what);
	CALLS(CALL)
#undef CALL
	(void)ignored;
	show(name);
	close(ep);
	pair_close();
}

int main(void)
{
	static const char *const names[] = {
#define CALL(name, what) #name,
		CALLS(CALL)
#undef CALL
	};

	if (!sidestep_present() || pipe(pipes))
		return 2;
	sa.ss_family = AF_INET;
	file = memfd_create("file", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 4096))
		die("memfd_create");
	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		try_one(names[i], i);
	return 0;
}
