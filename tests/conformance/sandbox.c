/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A program that shuts itself in while a connection is in use.
 *
 * The filters kill for every call that the case does not make itself, on plain
 * TCP, from there on.
 */
#include "conform.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

enum { PIECE = 1 << 16, PIECES = 16 };

static void client_talks(struct role *r, int fd)
{
	static char out[PIECE], in[PIECE];
	long wrong = 0;

	for (int i = 0; i < PIECES; i++) {
		memset(out, 'a' + i, sizeof(out));
		wrong += send_all(fd, out, sizeof(out)) != sizeof(out);
		wrong += recv_all(fd, in, sizeof(in)) != sizeof(in);
		wrong += memcmp(out, in, sizeof(in)) != 0;
	}
	TRY(r, 0, wrong);
	TRY(r, 0, shutdown(fd, SHUT_WR));
	TRY(r, 0, read(fd, in, 4));
}

/* Until the end of file: only read and write.  Return: bytes, or -1. */
static long echo(int fd)
{
	static char buf[PIECE];
	long total = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t done = 0, w; done < n; done += w)
			if ((w = write(fd, buf + done, (size_t)(n - done))) <= 0)
				return -1;
		total += n;
	}
	return n < 0 ? -1 : total;
}

#define ALLOW(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What echo(), the harness, stdio, malloc() and exit() take. */
static struct sock_filter strict[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(read), ALLOW(write), ALLOW(close), ALLOW(recvfrom), ALLOW(sendto), ALLOW(accept),
	ALLOW(accept4), ALLOW(exit_group), ALLOW(brk), ALLOW(mmap), ALLOW(munmap),
	ALLOW(mprotect), ALLOW(newfstatat), ALLOW(fstat), ALLOW(lseek), ALLOW(wait4),
	ALLOW(clone), ALLOW(set_robust_list), ALLOW(getrandom), ALLOW(rt_sigprocmask),
	ALLOW(seccomp),
#ifdef SYS_epoll_wait
	ALLOW(epoll_wait), ALLOW(poll),
#else
	ALLOW(epoll_pwait), ALLOW(ppoll),
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	ALLOW(madvise), ALLOW(clone3), ALLOW(exit), ALLOW(sched_yield), ALLOW(futex),
	ALLOW(prctl), ALLOW(sigaltstack), ALLOW(gettid), ALLOW(getpid), ALLOW(process_vm_readv),
	ALLOW(openat), ALLOW(readlink), ALLOW(getdents64), ALLOW(rt_sigaction), ALLOW(ptrace),
	ALLOW(rseq), ALLOW(tgkill), ALLOW(clock_nanosleep), ALLOW(prlimit64), ALLOW(pipe2),
#endif
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static struct sock_fprog program = { sizeof(strict) / sizeof(strict[0]), strict };

static void by_prctl(struct role *r)
{
	MUST(r, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TRY(r, 0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void by_syscall(struct role *r)
{
	MUST(r, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TRY(r, 0, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

/* As libseccomp and others look what there is; no filter comes of it. */
static void asks_only(struct role *r)
{
	unsigned int action = SECCOMP_RET_ALLOW;

	TRY(r, -EINVAL, syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
	TRY(r, -EFAULT, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
	TRY(r, -EFAULT, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
	TRY(r, 0, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	TRY(r, 0, prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
}

/* Only for who is alone in his process; root, or no limit on them, is wanted: SHOW. */
static void new_user(struct role *r)
{
	SHOW(r, unshare(CLONE_NEWUSER));
}

static void new_net(struct role *r)
{
	SHOW(r, unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS));
}

static void own_net(struct role *r)
{
	int fd = (int)MUST(r, open("/proc/self/ns/net", O_RDONLY));

	SHOW(r, setns(fd, CLONE_NEWNET));
	MUST(r, close(fd));
}

static void landlock(struct role *r)
{
	/* handled_access_fs, _net, scoped: abstract names of others among it */
	const uint64_t attr[3] = { 1ull << 13, 0, 3 };
	long fd;

	MUST(r, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	fd = syscall(SYS_landlock_create_ruleset, attr, sizeof(attr), 0);
	CHECK(r, fd >= 0 || errno == ENOSYS || errno == EOPNOTSUPP || errno == E2BIG);
	if (fd < 0)
		return;
	CHECK(r, syscall(SYS_landlock_restrict_self, fd, 0) == 0);
	MUST(r, close((int)fd));
}

static void raw_ids(struct role *r)
{
	TRY(r, 0, syscall(SYS_setresuid, -1, -1, -1));
	TRY(r, 0, syscall(SYS_setresgid, -1, -1, -1));
}

static void shut_in(struct role *r, void (*how)(struct role *))
{
	conn_open(r);
	SERVER(r) {
		how(r);
		TRY(r, (long)PIECE * PIECES, echo(r->s));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		client_talks(r, r->c);
		TRY(r, 0, close(r->c));
	}
}

static void shut_in_prctl(struct role *r) { shut_in(r, by_prctl); }
static void shut_in_syscall(struct role *r) { shut_in(r, by_syscall); }
static void shut_in_asks(struct role *r) { shut_in(r, asks_only); }
static void shut_in_user(struct role *r) { shut_in(r, new_user); }
static void shut_in_net(struct role *r) { shut_in(r, new_net); }
static void shut_in_setns(struct role *r) { shut_in(r, own_net); }
static void shut_in_landlock(struct role *r) { shut_in(r, landlock); }
static void shut_in_ids(struct role *r) { shut_in(r, raw_ids); }

/* The client shuts itself in; the server only serves. */
static void shut_in_client(struct role *r)
{
	conn_open(r);
	SERVER(r) {
		TRY(r, 5, recv_all(r->s, (char[8]){ 0 }, 5));
		TRY(r, 5, send_all(r->s, "world", 5));
		TRY(r, 0, read(r->s, (char[8]){ 0 }, 1));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		by_prctl(r);
		TRY(r, 5, send_all(r->c, "hello", 5));
		TRY(r, 5, recv_all(r->c, (char[8]){ 0 }, 5));
		TRY(r, 0, close(r->c));
	}
}

/* Connections made, and waited for, behind the filter. */
static void shut_in_accepts(struct role *r)
{
	struct sockaddr_storage sa;

	conn_open(r);
	SERVER(r) {
		by_prctl(r);
		meet(r);
		for (int i = 0; i < 3; i++) {
			int s = (int)MUST(r, accept(r->listener, NULL, NULL));

			TRY(r, (long)PIECE * PIECES, echo(s));
			TRY(r, 0, close(s));
		}
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		meet(r);
		loopback_addr(&sa, r->port);
		for (int i = 0; i < 3; i++) {
			int c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));

			TRY(r, 0, connect(c, (struct sockaddr *)&sa, sizeof(sa)));
			client_talks(r, c);
			TRY(r, 0, close(c));
		}
		TRY(r, 0, close(r->c));
	}
}

/* epoll_wait() is the plain call again, and tells of what comes. */
static void shut_in_epoll(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = 7 };
	char buf[8];
	int ep;

	conn_open(r);
	SERVER(r) {
		ep = (int)MUST(r, epoll_create1(0));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		by_prctl(r);
		meet(r);
		TRY(r, 1, epoll_wait(ep, &ev, 1, 5000));
		TRY(r, 7, ev.data.fd);
		TRY(r, 5, read(r->s, buf, sizeof(buf)));
		meet(r);
		TRY(r, 1, epoll_wait(ep, &ev, 1, 5000));
		TRY(r, 0, read(r->s, buf, sizeof(buf)));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 5, send_all(r->c, "hello", 5));
		meet(r);
		TRY(r, 0, close(r->c));
	}
}

/* What is unread at the moment is read afterwards; what was written, arrives. */
static void shut_in_unread(struct role *r)
{
	char buf[32];

	conn_open(r);
	CLIENT(r)
		TRY(r, 9, send_all(r->c, "unread at", 9));
	meet(r);
	SERVER(r) {
		TRY(r, 7, send_all(r->s, "written", 7));
		by_prctl(r);
		TRY(r, 9, recv_all(r->s, buf, 9));
		meet(r);
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 7, recv_all(r->c, buf, 7));
		TRY(r, 0, read(r->c, buf, 1));
		TRY(r, 0, close(r->c));
	}
}

enum { CONNS = 6, ROUNDS = 400 };

struct talk {
	pthread_t thread;
	int fd;
	bool first;
	long wrong;
};

static void *talks(void *arg)
{
	struct talk *t = arg;
	char out[600], in[600];

	for (int i = 0; i < ROUNDS; i++) {
		memset(out, i, sizeof(out));
		if (t->first)
			t->wrong += send_all(t->fd, out, sizeof(out)) != sizeof(out);
		t->wrong += recv_all(t->fd, in, sizeof(in)) != sizeof(in);
		t->wrong += memcmp(out, in, sizeof(in)) != 0;
		if (!t->first)
			t->wrong += send_all(t->fd, out, sizeof(out)) != sizeof(out);
	}
	return NULL;
}

/* Other threads are anywhere between their first byte and their ring. */
static void shut_in_threads(struct role *r)
{
	struct talk t[CONNS];
	int s, c;

	conn_open(r);
	for (int i = 0; i < CONNS; i++) {
		conn_more(r, &s, &c);
		t[i] = (struct talk){ .first = r->client, .fd = r->client ? c : s };
	}
	meet(r);
	for (int i = 0; i < CONNS; i++) {
		MUST(r, pthread_create(&t[i].thread, NULL, talks, &t[i]));
		if (i == CONNS - 2)
			SERVER(r) TRY(r, 0, unshare(0));
	}
	for (int i = 0; i < CONNS; i++) {
		pthread_join(t[i].thread, NULL);
		TRY(r, 0, t[i].wrong);
		MUST(r, close(t[i].fd));
	}
	conn_close(r);
}

const struct conf_case sandbox_cases[] = {
	{ "sandbox-seccomp-prctl", shut_in_prctl, PROCESS },
	{ "sandbox-seccomp-syscall", shut_in_syscall, PROCESS },
	{ "sandbox-seccomp-asked", shut_in_asks, PROCESS },
	{ "sandbox-seccomp-client", shut_in_client, PROCESS },
	{ "sandbox-seccomp-accept", shut_in_accepts, PROCESS },
	{ "sandbox-seccomp-epoll", shut_in_epoll, PROCESS },
	{ "sandbox-seccomp-unread", shut_in_unread, PROCESS },
	{ "sandbox-unshare-user", shut_in_user, PROCESS },
	{ "sandbox-unshare-net", shut_in_net, PROCESS },
	{ "sandbox-setns", shut_in_setns, PROCESS },
	{ "sandbox-landlock", shut_in_landlock, PROCESS },
	{ "sandbox-raw-ids", shut_in_ids, PROCESS },
	{ "sandbox-threads", shut_in_threads, PROCESS },
	{ 0 }
};
