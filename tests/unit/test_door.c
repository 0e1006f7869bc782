/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_door.c - what each exported function tells the rooms below
 *
 * The door is linked into this program, over rooms that only write down what
 * they hear (tests/unit/door holds their headers).  T is a descriptor that
 * counts as tracked and is not open: whatever reaches the kernel with it fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/privfd.h"
#include "preload/door.h"
#include "tests/lib/rights.h"

#define T 900

/* the compiler does not know it by this name */
extern __typeof__(door_vfork) door_vfork __attribute__((returns_twice));

bool double_tracked[1024];
bool double_active;

static char heard[512];
static long answer;

__attribute__((format(printf, 1, 2))) static long hear(const char *fmt, ...)
{
	size_t n = strlen(heard);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(heard + n, sizeof(heard) - n, fmt, ap);
	va_end(ap);
	errno = ENOTTY;		/* a room may; the program must not see it */
	return answer;
}

/* one that hears NAME(fd) and gives the answer */
#define HEARS(ret, name, fd, ...) \
	ret name(__VA_ARGS__) { return (ret)hear(#name "(%d) ", (int)(fd)); }
#define HEARS_VOID(name, format, value, ...) \
	void name(__VA_ARGS__) { hear(#name format " ", value); }

HEARS(ssize_t, sock_read, fd, int fd, void *buf, size_t n)
HEARS(ssize_t, sock_readv, fd, int fd, const struct iovec *iov, int cnt)
HEARS(ssize_t, sock_preadv2, fd, int fd, const struct iovec *iov, int cnt, off_t off, int flags)
HEARS(ssize_t, sock_recv, fd, int fd, void *buf, size_t n, int flags)
HEARS(ssize_t, sock_recvfrom, fd, int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len)
HEARS(ssize_t, sock_recvmsg, fd, int fd, struct msghdr *msg, int flags)
HEARS(int, sock_recvmmsg, fd, int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t)
HEARS(ssize_t, sock_write, fd, int fd, const void *buf, size_t n)
HEARS(ssize_t, sock_writev, fd, int fd, const struct iovec *iov, int cnt)
HEARS(ssize_t, sock_pwritev2, fd, int fd, const struct iovec *iov, int cnt, off_t off, int flags)
HEARS(ssize_t, sock_send, fd, int fd, const void *buf, size_t n, int flags)
HEARS(ssize_t, sock_sendto, fd, int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr, socklen_t len)
HEARS(ssize_t, sock_sendmsg, fd, int fd, const struct msghdr *msg, int flags)
HEARS(int, sock_sendmmsg, fd, int fd, struct mmsghdr *msgs, unsigned n, int flags)
HEARS(ssize_t, sock_sendfile, out, int out, int in, off_t *off, size_t n)
HEARS(ssize_t, sock_splice, in, int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags)
HEARS(ssize_t, sock_tee, in, int in, int out, size_t n, unsigned flags)
HEARS(ssize_t, sock_vmsplice, fd, int fd, const struct iovec *iov, size_t cnt, unsigned flags)
HEARS(int, sock_close, fd, int fd)
HEARS(int, sock_shutdown, fd, int fd, int how)
HEARS(int, sock_ioctl, fd, int fd, unsigned long req, void *arg)
HEARS(int, sock_setsockopt, fd, int fd, int level, int name, const void *val, socklen_t len)
HEARS(int, sock_getsockopt, fd, int fd, int level, int name, void *val, socklen_t *len)
HEARS(int, sock_connect, fd, int fd, const struct sockaddr *addr, socklen_t len)
HEARS(int, sock_listen, fd, int fd, int backlog)
HEARS_VOID(sock_foreign, "(%d)", fd, int fd, enum reason why)
HEARS_VOID(sock_created, "(%d)", fd, int fd, int domain, int type, int protocol)
HEARS_VOID(sock_purge, "(%d)", fd, int fd)
HEARS_VOID(sock_adopt, "(%d)", fd, int fd)
HEARS_VOID(sock_came_in, "(%d)", fd, int fd)
HEARS_VOID(sock_adopt_all, "%s", "", void)
HEARS_VOID(process_start, "(%d)", envp != NULL, char *const *envp)
HEARS_VOID(process_exec_failed, "(%d)", err, int err)
HEARS_VOID(process_exit, "(%d)", status, int status)
bool process_leaves(int status) { hear("process_leaves(%d) ", status); return false; }
HEARS_VOID(process_sandbox, "(%s)", reason_name(why), enum reason why)
static uint32_t mark = 1;
uint32_t *process_mark = &mark;
HEARS_VOID(process_seal, "%s", "", void)
bool process_make_room(void) { hear("process_make_room "); return false; }
HEARS_VOID(process_fork_prepare, "%s", "", void)
HEARS_VOID(process_fork_parent, "%s", "", void)

void process_fork_child(void)
{
	hear("process_fork_child ");
	mark = 1;
}

HEARS_VOID(process_spawn_prepare, "%s", "", void)
HEARS_VOID(process_vfork_gives, "%d", fd, int fd)
HEARS_VOID(process_spawn_done, "%s", "", void)
HEARS_VOID(process_exec_prepare, "(%s)", argv[0], char *const *argv, char *const *envp)
HEARS_VOID(ready_epoll_created, "%s", "", int ep)

int sock_fcntl(int fd, int cmd, long arg) { return (int)hear("sock_fcntl(%d,%d,%ld) ", fd, cmd, arg); }
int sock_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags, bool is_accept4)
{
	return (int)hear("sock_accept4(%d,%d,%d) ", fd, flags, is_accept4);
}
void sock_duped(int fd, int to) { hear("sock_duped(%d,%d) ", fd, to); }
int sock_dup(int fd, int to, int flags, int (*dup)(int fd, int to, int flags))
{
	hear("sock_dup(%d,%d) ", fd, to);
	return dup(fd, to, flags);
}
int sock_close_range(unsigned first, unsigned last, int (*close)(unsigned first, unsigned last))
{
	hear("sock_close_range(%u,%u) ", first, last);
	return close(first, last);
}

static long ms(const struct timespec *t) { return t ? t->tv_sec * 1000 + t->tv_nsec / 1000000 : -1; }

int ready_poll(enum call_id call, struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	return (int)hear("ready_poll(%s,%ld,%d) ", call_name(call), ms(timeout), mask != NULL);
}
int ready_select(enum call_id call, int n, fd_set *r, fd_set *w, fd_set *e, struct timespec *timeout, const sigset_t *mask)
{
	hear("ready_select(%s,%ld,%d) ", call_name(call), ms(timeout), mask != NULL);
	if (timeout)
		*timeout = (struct timespec){ 0, 7000 };
	return (int)answer;
}
int ready_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev) { return (int)hear("ready_epoll_ctl(%d,%d,%d) ", ep, op, fd); }
int ready_epoll_wait(enum call_id call, int ep, struct epoll_event *ev, int max, const struct timespec *timeout, const sigset_t *mask)
{
	return (int)hear("ready_epoll_wait(%s,%d,%ld,%d) ", call_name(call), ep, ms(timeout), mask != NULL);
}

static int reset(void **state)
{
	memset(double_tracked, 0, sizeof(double_tracked));
	double_tracked[T] = true;
	double_active = false;
	heard[0] = '\0';
	answer = 0;
	return 0;
}

/* the call tells exactly this, answers what the room does, and errno is the bracket's */
#define TELLS(call, text) do { \
	heard[0] = '\0'; \
	answer = 5; \
	errno = 42; \
	long _ret = (long)(call); \
	int _err = errno; \
	if (_ret != 5 || _err != 42 || strcmp(heard, text " ") != 0) \
		fail_msg("%s: %ld, errno %d, \"%s\"", #call, _ret, _err, heard); \
	answer = -ECONNRESET; \
	errno = 42; \
	_ret = (long)(call); \
	_err = errno; \
	if (_ret != -1 || _err != ECONNRESET) \
		fail_msg("%s failing: %ld, errno %d", #call, _ret, _err); \
} while (0)

/* the call is made by libc alone */
#define TELLS_NOTHING(call, ret) do { \
	heard[0] = '\0'; \
	long _ret = (long)(call); \
	if (_ret != (ret) || heard[0]) \
		fail_msg("%s: %ld, \"%s\"", #call, _ret, heard); \
} while (0)

#define HEARD(text) assert_string_equal(heard, text)

static void tracked_goes_to_the_room(void **state)
{
	char b[4];
	struct iovec iov = { b, 4 };
	struct msghdr msg = { 0 };
	struct mmsghdr mm = { 0 };
	socklen_t len = 4;

	TELLS(door_read(T, b, 1), "sock_read(900)");
	TELLS(door___read_chk(T, b, 4, 4), "sock_read(900)");
	TELLS(door_readv(T, &iov, 1), "sock_readv(900)");
	TELLS(door_preadv2(T, &iov, 1, -1, 0), "sock_preadv2(900)");
	TELLS(door_preadv64v2(T, &iov, 1, -1, 0), "sock_preadv2(900)");
	TELLS(door_recv(T, b, 1, 0), "sock_recv(900)");
	TELLS(door___recv_chk(T, b, 1, 4, 0), "sock_recv(900)");
	TELLS(door_recvfrom(T, b, 1, 0, NULL, NULL), "sock_recvfrom(900)");
	TELLS(door___recvfrom_chk(T, b, 1, 4, 0, NULL, NULL), "sock_recvfrom(900)");
	TELLS(door_recvmsg(T, &msg, 0), "sock_recvmsg(900)");
	TELLS(door_recvmmsg(T, &mm, 1, 0, NULL), "sock_recvmmsg(900)");
	TELLS(door_write(T, b, 1), "sock_write(900)");
	TELLS(door_writev(T, &iov, 1), "sock_writev(900)");
	TELLS(door_pwritev2(T, &iov, 1, -1, 0), "sock_pwritev2(900)");
	TELLS(door_send(T, b, 1, 0), "sock_send(900)");
	TELLS(door_sendto(T, b, 1, 0, NULL, 0), "sock_sendto(900)");
	TELLS(door_sendmsg(T, &msg, 0), "sock_sendmsg(900)");
	TELLS(door_sendmmsg(T, &mm, 1, 0), "sock_sendmmsg(900)");
	TELLS(door_sendfile(T, 0, NULL, 1), "sock_sendfile(900)");
	TELLS(door_sendfile64(T, 0, NULL, 1), "sock_sendfile(900)");
	TELLS(door_splice(T, NULL, 1, NULL, 1, 0), "sock_splice(900)");
	TELLS(door_splice(1, NULL, T, NULL, 1, 0), "sock_splice(1)");
	TELLS(door_tee(1, T, 1, 0), "sock_tee(1)");
	TELLS(door_vmsplice(T, &iov, 1, 0), "sock_vmsplice(900)");
	TELLS(door_close(T), "sock_close(900)");
	TELLS(door_shutdown(T, 1), "sock_shutdown(900)");
	TELLS(door_fcntl(T, F_SETFL, (long)O_NONBLOCK), "sock_fcntl(900,4,2048)");
	TELLS(door_fcntl64(T, F_GETFL, 0L), "sock_fcntl(900,3,0)");
	TELLS(door_ioctl(T, 1, b), "sock_ioctl(900)");
	TELLS(door_setsockopt(T, 1, 1, b, 4), "sock_setsockopt(900)");
	TELLS(door_getsockopt(T, 1, 1, b, &len), "sock_getsockopt(900)");
	TELLS(door_connect(T, NULL, 0), "sock_connect(900)");
	TELLS(door_listen(T, 1), "sock_listen(900)");
	TELLS(door_accept(T, NULL, NULL), "sock_accept4(900,0,0)");
	TELLS(door_accept4(T, NULL, NULL, 2048), "sock_accept4(900,2048,1)");
	TELLS(door_syscall(SYS_close, (long)T), "sock_close(900)");
}

static void untracked_goes_to_libc(void **state)
{
	char b[4];
	int fd = door_open("/dev/zero", O_RDWR), pair[2];

	TELLS_NOTHING(door_read(fd, b, 4), 4);
	TELLS_NOTHING(door_write(fd, b, 4), 4);
	TELLS_NOTHING(door_fcntl(fd, F_GETFD), 0);
	TELLS_NOTHING(door_fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
	TELLS_NOTHING(door_fcntl(fd, F_GETFD), FD_CLOEXEC);
	TELLS_NOTHING(door_fstat(fd, &(struct stat){ 0 }), 0);
	TELLS_NOTHING(door_fstat64(fd, &(struct stat64){ 0 }), 0);
	TELLS_NOTHING(door_preadv2(T, &(struct iovec){ b, 4 }, 1, 0, 0), -1);
	TELLS_NOTHING(door_close(fd), 0);
	TELLS_NOTHING(door_read(fd, b, 4), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(door_socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	TELLS_NOTHING(door_send(pair[0], "abc", 3, 0), 3);
	TELLS_NOTHING(door_recv(pair[1], b, 4, 0), 3);
	door_close(pair[0]);
	door_close(pair[1]);
}

static void new_numbers_are_told(void **state)
{
	char want[64];
	int fd, sv[2];

	fd = door_socket(AF_INET, SOCK_STREAM, 0);
	snprintf(want, sizeof(want), "sock_created(%d) ", fd);
	HEARD(want);
	door_close(fd);
	heard[0] = '\0';
	assert_int_equal(door_open("/dev/null", O_RDONLY), fd);
	snprintf(want, sizeof(want), "sock_purge(%d) ", fd);
	HEARD(want);
	door_close(fd);
	heard[0] = '\0';
	assert_int_equal(door_pipe(sv), 0);
	snprintf(want, sizeof(want), "sock_purge(%d) sock_purge(%d) ", sv[0], sv[1]);
	HEARD(want);
	door_close(sv[0]);
	door_close(sv[1]);
	assert_int_equal(fd = (int)sysn6(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0, 0), sv[0]);
	heard[0] = '\0';
	assert_int_equal(door_listen(fd, 1), 0);
	snprintf(want, sizeof(want), "sock_adopt(%d) ", fd);
	HEARD(want);
	door_close(fd);
	heard[0] = '\0';
	assert_int_equal(door_listen(fd, 1), -1);
	HEARD("");
	assert_int_equal(door_epoll_create1(0), fd);
	snprintf(want, sizeof(want), "sock_purge(%d) ready_epoll_created ", fd);
	HEARD(want);
	door_close(fd);
	heard[0] = '\0';
	assert_int_equal(door_open("/no/such", O_RDONLY), -1);
	HEARD("");
}

static void descriptors_that_come_are_told(void **state)
{
	struct rights g;
	char want[64];
	int sv[2], fd;

	assert_int_equal(door_socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	rights_make(&g, sv[0]);
	assert_int_equal(door_sendmsg(sv[0], &g.m, 0), 1);
	heard[0] = '\0';
	rights_make(&g, -1);
	assert_int_equal(door_recvmsg(sv[1], &g.m, 0), 1);
	fd = rights_fd(&g);
	snprintf(want, sizeof(want), "sock_came_in(%d) ", fd);
	HEARD(want);
	door_close(fd);
	door_close(sv[0]);
	door_close(sv[1]);
}

static void dup_is_told_of_what_is_known(void **state)
{
	int fd = door_open("/dev/null", O_RDONLY);
	char want[96];

	heard[0] = '\0';
	assert_int_equal(door_dup2(fd, T), T);
	snprintf(want, sizeof(want), "sock_dup(%d,900) ", fd);
	HEARD(want);
	heard[0] = '\0';
	assert_int_equal(door_dup2(777, T), -1);
	assert_int_equal(errno, EBADF);
	HEARD("sock_dup(777,900) ");
	TELLS_NOTHING(door_dup2(fd, 901), 901);
	TELLS_NOTHING(door_dup2(777, 901), -1);
	assert_int_equal(errno, EBADF);
	TELLS_NOTHING(door_dup2(fd, fd), fd);
	TELLS_NOTHING(door_dup3(fd, T, 1), -1);
	TELLS_NOTHING(door_dup3(fd, fd, 0), -1);
	heard[0] = '\0';
	int copy = door_fcntl(fd, F_DUPFD_CLOEXEC, 50);
	snprintf(want, sizeof(want), "sock_duped(%d,%d) ", fd, copy);
	HEARD(want);
	heard[0] = '\0';
	assert_int_equal(door_close_range((unsigned)copy, (unsigned)copy, 0), 0);
	snprintf(want, sizeof(want), "sock_close_range(%d,%d) ", copy, copy);
	HEARD(want);
	TELLS_NOTHING(door_close_range(9, 3, 0), -1);
	TELLS_NOTHING(door_close_range(9, 9, 1 << 20), -1);
	sys_close(T);
	sys_close(901);
	door_close(fd);
}

static void waits_reach_the_room_only_while_it_is_active(void **state)
{
	struct timespec ts = { 1, 500000000 };
	struct timeval tv = { 1, 500000 };
	struct epoll_event ev;
	sigset_t mask;

	sigemptyset(&mask);
	TELLS_NOTHING(door_poll(NULL, 0, 0), 0);
	TELLS_NOTHING(door_epoll_wait(-1, &ev, 1, 0), -1);
	double_active = true;
	TELLS(door_poll(NULL, 0, 1500), "ready_poll(poll,1500,0)");
	TELLS(door_poll(NULL, 0, -1), "ready_poll(poll,-1,0)");
	TELLS(door___poll_chk(NULL, 0, 0, 0), "ready_poll(poll,0,0)");
	TELLS(door_ppoll(NULL, 0, &ts, &mask), "ready_poll(ppoll,1500,1)");
	TELLS(door_select(0, NULL, NULL, NULL, NULL), "ready_select(select,-1,0)");
	TELLS(door_pselect(0, NULL, NULL, NULL, &ts, &mask), "ready_select(pselect,1500,1)");
	assert_int_equal(ts.tv_nsec, 500000000);
	TELLS(door_epoll_wait(3, &ev, 1, -7), "ready_epoll_wait(epoll_wait,3,-1,0)");
	TELLS(door_epoll_pwait(3, &ev, 1, 20, &mask), "ready_epoll_wait(epoll_pwait,3,20,1)");
	TELLS(door_epoll_pwait2(3, &ev, 1, &ts, NULL), "ready_epoll_wait(epoll_pwait2,3,1500,0)");
	TELLS(door_epoll_ctl(3, EPOLL_CTL_ADD, 4, &ev), "ready_epoll_ctl(3,1,4)");
	heard[0] = '\0';
	answer = 0;
	assert_int_equal(door_select(0, NULL, NULL, NULL, &tv), 0);
	HEARD("ready_select(select,1500,0) ");
	assert_int_equal(tv.tv_sec, 0);
	assert_int_equal(tv.tv_usec, 7);
	tv.tv_usec = -1;
	TELLS_NOTHING(door_select(0, NULL, NULL, NULL, &tv), -1);
	assert_int_equal(errno, EINVAL);
}

static void uses_past_the_library_are_foreign(void **state)
{
	char b[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr msg = { .msg_control = b, .msg_controllen = sizeof(b) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	struct aiocb cb = { .aio_fildes = T };
	int t = T;

	assert_null(door_fdopen(T, "r"));
	HEARD("sock_foreign(900) ");
	heard[0] = '\0';
	door_dprintf(T, "%d", 1);
	HEARD("sock_foreign(900) ");
	heard[0] = '\0';
	door_syscall(SYS_read, (long)T, b, 1L);
	HEARD("sock_foreign(900) ");
	heard[0] = '\0';
	cb.aio_reqprio = -1;		/* refused before anything starts */
	door_aio_read(&cb);
	HEARD("sock_foreign(900) ");
	heard[0] = '\0';
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &t, sizeof(t));
	door_sendmsg(777, &msg, 0);
	HEARD("sock_foreign(900) ");
}

static void own_descriptors_look_closed(void **state)
{
	int fd = privfd_adopt((int)sys3(SYS_open, "/dev/null", O_RDONLY, 0)), other = privfd_adopt((int)sys3(SYS_open, "/dev/null", O_RDONLY, 0));

	TELLS_NOTHING(door_close(fd), -1);
	assert_int_equal(errno, EBADF);
	TELLS_NOTHING(door_fcntl(fd, F_GETFD), -1);
	TELLS_NOTHING(door_dup(fd), -1);
	TELLS_NOTHING(door_dup2(0, fd), -1);
	TELLS_NOTHING(door_dup2(fd, 0), -1);
	TELLS_NOTHING(door_dup2(fd, fd), -1);
	TELLS_NOTHING(door_dup3(0, fd, 0), -1);
	TELLS_NOTHING(door_epoll_ctl(3, EPOLL_CTL_ADD, fd, NULL), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(sys_fcntl(0, F_DUPFD, other + 1), other + 1);
	assert_int_equal(door_close_range((unsigned)fd, (unsigned)other, 0), 0);
	assert_true(sys_fcntl(fd, F_GETFD, 0) >= 0);
	assert_int_equal(door_close_range((unsigned)fd, (unsigned)other + 1, 0), 0);
	assert_true(sys_fcntl(fd, F_GETFD, 0) >= 0 && sys_fcntl(other, F_GETFD, 0) >= 0);
	assert_int_equal(sys_fcntl(other + 1, F_GETFD, 0), -EBADF);
	/* not to a library that we have called, and that has one of them */
	section_enter();
	assert_int_equal(door_ioctl(fd, FIOCLEX), 0);
	section_leave();
	privfd_close(fd);
	privfd_close(other);
}

static void vfork_child_touches_nothing(void **state)
{
	int st;
	pid_t pid = door_vfork();

	if (pid == 0) {
		/* what it hears, the parent would find */
		door_close(T);
		door_close(door_dup2(0, 50));
		door__exit(7);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(WEXITSTATUS(st), 7);
	HEARD("process_spawn_prepare process_spawn_done ");
	assert_int_equal(door_vfork_depth, 0);
	TELLS(door_close(T), "sock_close(900)");
}

static void processes_are_told(void **state)
{
	char name[] = "prog", *argv[] = { name, NULL };
	pid_t pid = fork();
	int st;

	if (pid == 0)
		sys1(SYS_exit_group, strcmp(heard, "process_fork_prepare process_fork_child ") != 0);
	waitpid(pid, &st, 0);
	assert_int_equal(st, 0);
	HEARD("process_fork_prepare process_fork_parent ");
	heard[0] = '\0';
	assert_int_equal(door_execv("/no/such", argv), -1);
	assert_int_equal(errno, ENOENT);
	HEARD("process_exec_prepare(prog) process_exec_failed(2) ");
	heard[0] = '\0';
	assert_int_equal(door_system("exit 3"), 3 << 8);
	HEARD("process_spawn_prepare process_spawn_done ");
	heard[0] = '\0';
	assert_int_equal(door_unshare(0), 0);
	HEARD("process_sandbox(sandbox) ");
	TELLS_NOTHING(door_prctl(PR_GET_DUMPABLE), 1);
	TELLS_NOTHING(door_prctl(PR_SET_SECCOMP, 2 /* filter */, 0), -1);
	TELLS_NOTHING(door_syscall(SYS_seccomp, 0L /* strict */, 1L, 0L), -1);
	TELLS_NOTHING(door_syscall(SYS_seccomp, 1L /* filter */, 0L, 0L), -1);
}

/* A fork handler before ours, or a child that nobody has told of, is the first to call. */
static void stray_children_are_told(void **state)
{
	uint32_t depth = section.depth;

	mark = 0;
	assert_int_equal(door_fcntl(0, F_GETFD), 0);
	HEARD("process_fork_child ");
	assert_int_equal(section.depth, depth);
	heard[0] = '\0';
	door_fork_prepare();
	mark = 0;
	assert_int_equal(door_fcntl(0, F_GETFD), 0);
	door_fork_child();
	HEARD("process_fork_prepare process_fork_child ");
	assert_int_equal(section.depth, depth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(tracked_goes_to_the_room, reset),
		cmocka_unit_test_setup(untracked_goes_to_libc, reset),
		cmocka_unit_test_setup(new_numbers_are_told, reset),
		cmocka_unit_test_setup(descriptors_that_come_are_told, reset),
		cmocka_unit_test_setup(dup_is_told_of_what_is_known, reset),
		cmocka_unit_test_setup(waits_reach_the_room_only_while_it_is_active, reset),
		cmocka_unit_test_setup(uses_past_the_library_are_foreign, reset),
		cmocka_unit_test_setup(own_descriptors_look_closed, reset),
		cmocka_unit_test_setup(vfork_child_touches_nothing, reset),
		cmocka_unit_test_setup(processes_are_told, reset),
		cmocka_unit_test_setup(stray_children_are_told, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
