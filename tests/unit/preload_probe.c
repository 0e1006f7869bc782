/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * preload_probe.c - calls with sharp edges, for test_preload_door.sh
 *
 * Prints value and errno of each call; the same text must come out with and
 * without the library in front.  With the argument "private" it looks for
 * descriptors of the library's instead, which plain does not have; "shut-in PROGRAM"
 * is that program behind a filter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(call) do { \
	errno = 0; \
	long _r = (long)(call); \
	int _e = errno; \
	printf("%-40s %ld %d\n", #call, _r, _e); \
} while (0)

static int tcp(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static void say_status(const char *what, pid_t pid)
{
	int st = 0;

	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		continue;
	printf("%-40s %s %d\n", what, WIFEXITED(st) ? "exit" : "signal",
	       WIFEXITED(st) ? WEXITSTATUS(st) : WTERMSIG(st));
}

static void vforks(void)
{
	int fd = tcp();
	pid_t pid = vfork();

	if (pid == 0) {
		close(fd);
		_exit(3);
	}
	say_status("vfork child closes", pid);
	SAY(fcntl(fd, F_GETFD));
	SAY(close(fd));
	pid = vfork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "exit 4", (char *)NULL);
		_exit(99);
	}
	say_status("vfork child execs", pid);
	pid = vfork();
	if (pid == 0) {
		execlp("no-such-program-anywhere", "x", (char *)NULL);
		_exit(errno == ENOENT ? 8 : 99);
	}
	say_status("vfork child fails to exec", pid);
}

static int clone_closes(void *arg)
{
	close(*(int *)arg);
	_exit(5);
}

static int clone_returns(void *arg)
{
	return 6;
}

static void clones(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int fd = tcp();

	say_status("clone, memory shared",
		   clone(clone_closes, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &fd));
	SAY(fcntl(fd, F_GETFD));
	say_status("clone, memory copied",
		   clone(clone_returns, stack + sizeof(stack), SIGCHLD, NULL));
	close(fd);
	pid_t pid = (pid_t)syscall(SYS_fork);
	if (pid == 0)
		_exit(12);
	say_status("fork by number", pid);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(13);
	say_status("clone by number", pid);
	pid = fork();
	if (pid == 0)
		quick_exit(14);
	say_status("quick_exit", pid);
}

static void execs(void)
{
	static char a7[] = "A=7", sh[] = "sh", c[] = "-c", x[] = "exit $A";
	char *env[] = { a7, NULL }, *argv[] = { sh, c, x, NULL };
	pid_t pid = fork();

	if (pid == 0) {
		execle("/bin/sh", "sh", "-c", "exit $A", (char *)NULL, env);
		_exit(99);
	}
	say_status("execle", pid);
	SAY(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, env));
	say_status("posix_spawn", pid);
	SAY(posix_spawn(&pid, "/no/such", NULL, NULL, argv, env));
	SAY(system("exit 9"));
	SAY(execv("/no/such", argv));
}

static void numbers(void)
{
	int fd = tcp(), copy;

	SAY(dup2(777, fd));
	SAY(fcntl(fd, F_GETFD));
	SAY(dup2(fd, fd) == fd);
	SAY(dup3(fd, fd, 0));
	SAY(dup3(fd, fd + 1, 1));
	SAY((copy = dup(fd)) > fd);
	SAY(fcntl(fd, F_DUPFD_CLOEXEC, 40));
	SAY(fcntl(40, F_GETFD));
	SAY(close_range(40, 40, 0));
	SAY(close(40));
	SAY(close_range(9, 3, 0));
	SAY(close_range(40, 41, 1 << 20));
	SAY(close_range(40, 41, CLOSE_RANGE_CLOEXEC));
	SAY(close(-1));
	SAY(syscall(SYS_close, copy));
	SAY(close(copy));
	SAY(syscall(99999));
	closefrom(3);
	SAY(fcntl(fd, F_GETFD));
}

static void data(void)
{
	char b[8];
	struct iovec iov = { b, sizeof(b) };
	int fd = tcp();

	SAY(read(fd, b, 1));
	SAY(write(999, b, 1));
	SAY(recv(fd, b, 1, MSG_DONTWAIT));
	SAY(preadv2(fd, &iov, 1, 0, 0));
	SAY(preadv2(fd, &iov, 1, -1, 0));
	SAY(pread(fd, b, 1, 0));
	SAY(sendmsg(fd, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, MSG_NOSIGNAL));
	SAY(splice(fd, NULL, fd, NULL, 1, 0));
	SAY(lseek(fd, 0, SEEK_SET));
	SAY(fdopen(999, "r") == NULL);
	SAY(accept(fd, NULL, NULL));
	SAY(shutdown(fd, SHUT_WR));
	close(fd);
}

static void waits(void)
{
	int fd = tcp(), ep = epoll_create1(0);
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec ts = { 0, 2000000 };
	struct timeval tv = { 0, 2000 };
	struct epoll_event ev = { .events = EPOLLIN };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(0, &set);
	SAY(poll(&p, 1, 0));
	SAY(p.revents);
	SAY(poll(NULL, 0, 1));
	SAY(ppoll(NULL, 0, &ts, NULL));
	SAY(ts.tv_nsec);
	SAY(select(0, NULL, NULL, NULL, &tv));
	SAY(tv.tv_usec);
	tv.tv_sec = -1;
	SAY(select(0, NULL, NULL, NULL, &tv));
	SAY(pselect(0, NULL, NULL, NULL, &ts, NULL));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	SAY(epoll_ctl(ep, EPOLL_CTL_DEL, 999, NULL));
	SAY(epoll_wait(ep, &ev, 1, 1));
	SAY(ev.events);
	SAY(epoll_wait(ep, &ev, 0, 1));
	SAY(epoll_pwait2(ep, &ev, 1, &ts, NULL));
	SAY(epoll_wait(fd, &ev, 1, 0));
	close(fd);
	close(ep);
}

/* the connection that travels must be a working one at the other end */
static void messages(void)
{
	int pair[2], fd = tcp(), got = -1;
	char b = 'x', control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &b, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	SAY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	SAY(sendmsg(pair[0], &msg, 0));
	close(fd);
	memset(control, 0, sizeof(control));
	SAY(recvmsg(pair[1], &msg, 0));
	memcpy(&got, CMSG_DATA(c), sizeof(got));
	SAY(read(got, &b, 1));
	SAY(close(got));
	close(pair[0]);
	close(pair[1]);
}

static void files(void)
{
	char name[] = "/tmp/sidestep-probe-XXXXXX", buf[16] = "";
	int fd = mkstemp(name);
	FILE *f;

	SAY(close(fd));
	unlink(name);
	SAY((fd = open(name, O_CREAT | O_RDWR, 0640)) >= 0);
	SAY(dprintf(fd, "%s", "abc"));
	SAY(close(fd));
	SAY((f = fopen(name, "r")) != NULL);
	SAY(fgets(buf, sizeof(buf), f) == buf);
	SAY(strcmp(buf, "abc"));
	SAY(fclose(f));
	SAY(unlink(name));
	SAY(fopen("/no/such", "r") == NULL);
	SAY((f = popen("exit 3", "r")) != NULL);
	SAY(pclose(f));
	errno = 77;
	fd = tcp();
	close(fd);
	printf("errno is left alone: %d\n", errno);
}

/* a filter that kills for calls which this child does not make itself */
static void filters(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };
	int fd = tcp(), st = 0;
	pid_t pid = fork();

	if (pid == 0) {
		char b;

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		if (read(fd, &b, 1) == 0 || close(fd) < 0 || (fd = tcp()) < 0)
			_exit(99);
		pid = fork();
		if (pid == 0)
			_exit(3);
		waitpid(pid, &st, 0);
		_exit(WIFEXITED(st) ? WEXITSTATUS(st) : 98);
	}
	say_status("under a filter, a child's exit", pid);
	close(fd);
}

/* asked of /proc, where the library does not stand in between */
static int count_open(void)
{
	struct rlimit rl;
	int n = 0;

	getrlimit(RLIMIT_NOFILE, &rl);
	for (int fd = 3; fd < (int)rl.rlim_cur && fd < 65536; fd++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n += access(path, F_OK) == 0;
	}
	return n;
}

/* what is open above 2 after closefrom(3) is the library's, and nothing gets at it */
static int private(void)
{
	struct rlimit rl;

	closefrom(3);
	int before = count_open();
	getrlimit(RLIMIT_NOFILE, &rl);
	for (int fd = 3; fd < (int)rl.rlim_cur && fd < 65536; fd++) {
		if (close(fd) == 0 || errno != EBADF)
			return 1;
		if (fcntl(fd, F_GETFD) >= 0 || dup(fd) >= 0 || fdopen(fd, "r"))
			return 2;
	}
	if (close_range(3, ~0u, 0) < 0)
		return 3;
	closefrom(3);
	for (int fd = 3; fd < (int)rl.rlim_cur && fd < 65536; fd++)
		if (dup2(2, fd) == fd && close(fd) < 0)
			return 4;
	printf("%d private, %d after\n", before, count_open());
	return before == count_open() ? 0 : 5;
}

/* Becomes a program that may ask nothing of a socket, as one that has none. */
static int shut_in(char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	int sv[2];			/* as a service has for what it prints */

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
		return 98;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	execvp(argv[0], argv);
	return 99;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && strcmp(argv[1], "private") == 0)
		return private();
	if (argc > 2 && strcmp(argv[1], "shut-in") == 0)
		return shut_in(argv + 2);
	vforks();
	clones();
	execs();
	numbers();
	data();
	waits();
	messages();
	files();
	filters();
	return 0;
}
