/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What random sequences (tests/random) have found where a parent and its child use one connection. */
#include "conform.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

/* Two connections, both warm: *s and *c, and the role's own. */
static void two_open(struct role *r, int *s, int *c)
{
	conn_open(r);
	*s = r->s;
	*c = r->c;
	conn_more(r, &r->s, &r->c);
	if (r->ring)
		conn_warm(r);
}

static void two_close(struct role *r, int s, int c)
{
	conn_close(r);
	SERVER(r)
		TRY(r, 0, close(s));
	CLIENT(r)
		TRY(r, 0, close(c));
}

/* A child reads from s, when it is told to; how many bytes it got is its status. */
static pid_t reader_fork(struct role *r, int s, int *go)
{
	int p[2];
	pid_t pid;

	MUST(r, pipe(p));
	pid = (pid_t)MUST(r, fork());
	if (pid == 0) {
		char buf[16];

		if (read(p[0], buf, 1) != 1)
			_exit(99);
		_exit((int)recv(s, buf, sizeof(buf), MSG_DONTWAIT));
	}
	close(p[0]);
	*go = p[1];
	return pid;
}

static int reader_go(struct role *r, pid_t pid, int go)
{
	int status = 0;

	MUST(r, write(go, "g", 1));
	MUST(r, waitpid(pid, &status, 0));
	close(go);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Its own end of reading shows itself, beside others, when a child has had the connection too. */
static void shut_rd_then_child(struct role *r)
{
	int s, c;

	two_open(r, &s, &c);
	SERVER(r) {
		struct pollfd p[2] = { { .fd = s, .events = POLLIN | POLLOUT | POLLRDHUP },
				       { .fd = r->s, .events = POLLIN | POLLOUT } };
		struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC)), go;
		pid_t pid = reader_fork(r, s, &go);

		TRY(r, 0, epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev));
		TRY(r, 0, shutdown(s, SHUT_RD));
		TRY(r, 0, reader_go(r, pid, go));
		TRY(r, 2, poll(p, 2, 0));
		poll_show(r, "shut", POLLIN | POLLOUT | POLLRDHUP, p[0].revents);
		poll_show(r, "other", POLLOUT, p[1].revents);
		TRY(r, 1, epoll_wait(ep, &ev, 1, 1000));
		epoll_show(r, "event", EPOLLIN | EPOLLRDHUP, ev.events);
		close(ep);
	}
	two_close(r, s, c);
}

/* What came before both ways were shut is a child's to read, and earns no reset. */
static void shut_both_child_reads(struct role *r)
{
	static char buf[36000];
	int i, status = 0;

	for (i = 0; i < 8; i++) {
		conn_open(r);
		CLIENT(r)
			TRY(r, (long)sizeof(buf), send_all(r->c, buf, sizeof(buf)));
		SERVER(r) {
			TRY(r, (long)sizeof(buf), readable_await(r->s, sizeof(buf)));
			TRY(r, 0, shutdown(r->s, SHUT_RDWR));
			pid_t pid = (pid_t)MUST(r, fork());

			if (pid == 0)
				_exit(recv_all(r->s, buf, sizeof(buf)) == sizeof(buf) ? 0 : 1);
			MUST(r, waitpid(pid, &status, 0));
			TRY(r, 0, status);
		}
		meet(r);
		CLIENT(r)
			TRY(r, 0, recv(r->c, buf, sizeof(buf), 0));
		conn_close(r);
	}
}

/* What has waited for a word goes on, and is over, well. */
static void child_goes(struct role *r, pid_t pid, const int go[2])
{
	int status;

	MUST(r, write(go[1], "g", 1));
	MUST(r, waitpid(pid, &status, 0));
	TRY(r, 0, status);
	close(go[0]);
	close(go[1]);
}

/* A child finds what its parent would have, also what the peer had switched behind unread bytes. */
static void child_reads_once(struct role *r)
{
	static char buf[35000];
	int go[2] = { -1, -1 };
	pid_t pid = -1;

	conn_open(r);
	SERVER(r) {
		MUST(r, pipe(go));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			if (read(go[0], buf, 1) != 1)
				_exit(99);
			_exit(recv(r->s, buf, sizeof(buf), 0) == sizeof(buf) ? 0 : 1);
		}
	}
	meet(r);
	CLIENT(r) {
		poll(NULL, 0, 8);	/* fault retreat: it has come back to the kernel */
		TRY(r, 2000, send(r->c, buf, 2000, 0));
		poll(NULL, 0, 8);	/* ... with what is unread */
		TRY(r, 33000, send(r->c, buf, 33000, 0));
		drained_await(r->c);
	}
	meet(r);
	SERVER(r) {
		child_goes(r, pid, go);
	}
	conn_close(r);
}

static void child_reads_all(struct role *r)
{
	int i;

	for (i = 0; i < 6; i++)
		child_reads_once(r);
}

/* What comes just after a child has had the connection is there for a read that does not wait. */
static void child_then_bytes(struct role *r)
{
	static char buf[8192];
	int i, j, status = 0, go[2];
	pid_t pid = -1;

	for (i = 0; i < 16; i++) {
		listener_open(r);
		conn_more(r, &r->s, &r->c);
		for (j = 0; j < 20; j++) {	/* the client's way is warm, and so is its reader */
			CLIENT(r) {
				MUST(r, send(r->c, buf, 1000, 0));
				drained_await(r->c);
				status = recv(r->c, buf, 1, MSG_DONTWAIT) != -1;
			}
			meet(r);
			SERVER(r)
				status = recv_all(r->s, buf, 1000) != 1000;
		}
		TRY(r, 0, status);
		CLIENT(r) {
			MUST(r, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, go));
			pid = (pid_t)MUST(r, fork());
			if (pid == 0) {
				int last = 0;

				while (read(go[0], &status, 1) == 1 && !last) {
					last = shutdown(r->c, 7) == 0 || errno != EINVAL;
					MUST(r, write(go[0], "d", 1));
				}
				_exit(last);
			}
			poll(NULL, 0, 2);	/* the fork is over, whatever it has to do */
			MUST(r, write(go[1], "g", 1));
			MUST(r, read(go[1], &status, 1));
		}
		meet(r);
		SERVER(r) {
			TRY(r, 4096, send(r->s, buf, 4096, 0));
			drained_await(r->s);
		}
		meet(r);
		CLIENT(r) {
			TRY(r, 4096, recv(r->c, buf, sizeof(buf), MSG_DONTWAIT));
			TRY(r, 0, close(r->c));
			MUST(r, shutdown(go[1], SHUT_WR));
			MUST(r, waitpid(pid, &status, 0));
			TRY(r, 0, status);
			close(go[0]);
			close(go[1]);
		}
		SERVER(r) {
			TRY(r, 0, close(r->s));
			TRY(r, 0, close(r->listener));
		}
	}
}

static bool stopped(long pid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	FILE *f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		fclose(f);
	}
	return state == 'T';
}

/* A peer that does not run at all has a child wait no longer than a while. */
static void child_of_stopped_peer(struct role *r)
{
	static char buf[1000];
	int status = 0;

	listener_open(r);
	conn_more(r, &r->s, &r->c);
	for (int j = 0; j < 20; j++) {	/* the peer has written nothing into a ring */
		CLIENT(r) {
			MUST(r, send(r->c, buf, sizeof(buf), 0));
			drained_await(r->c);
			status = recv(r->c, buf, 1, MSG_DONTWAIT) != -1;
		}
		meet(r);
		SERVER(r)
			status = recv_all(r->s, buf, sizeof(buf)) != sizeof(buf);
	}
	TRY(r, 0, status);
	SERVER(r) {
		tell(r, getpid());
		raise(SIGSTOP);
	}
	CLIENT(r) {
		long peer = hear(r);
		long long end = now_ms() + 5000;

		while (!stopped(peer) && now_ms() < end)
			poll(NULL, 0, 1);
		pid_t pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			_exit(recv(r->c, buf, 1, MSG_DONTWAIT) == -1 ? errno : 0);
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, EAGAIN, WEXITSTATUS(status));
		CHECK(r, now_ms() < end);
		MUST(r, kill((pid_t)peer, SIGCONT));
	}
	conn_close(r);
}

static long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

/* A fork just after a close: the child holds nothing of what was closed, and the peer hears of its end. */
static void close_then_fork(struct role *r)
{
	size_t n = 64 << 20;
	char *much = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i, go[2], status = 0;

	madvise(much, n, MADV_NOHUGEPAGE);
	memset(much, 1, n);		/* a fork takes its time */
	for (i = 0; i < 16; i++) {
		pid_t pid = -1;

		conn_open(r);
		SERVER(r) {
			MUST(r, pipe(go));
			TRY(r, 0, close(r->s));
			for (long long end = now_us() + 40 * i; now_us() < end;)
				;
			pid = (pid_t)MUST(r, fork());
			if (pid == 0)
				_exit(read(go[0], &status, 1) == 1 ? 0 : 1);
		}
		CLIENT(r) {
			char byte;

			TRY(r, 0, recv(r->c, &byte, 1, 0));
			TRY(r, 1, send(r->c, "x", 1, 0));
			poll_show(r, "answer", POLLHUP, (short)(event_settled(r->c, 0, POLLHUP) & POLLHUP));
			TRY(r, 0, close(r->c));
		}
		meet(r);
		SERVER(r) {
			child_goes(r, pid, go);
		}
	}
	munmap(much, n);
}

const struct conf_case shared_cases[] = {
	{ "seam-shut-rd-then-child", shut_rd_then_child, PROCESS },
	{ "seam-shut-both-child-reads", shut_both_child_reads, PROCESS },
	{ "seam-child-reads-all", child_reads_all, PROCESS },
	{ "seam-child-then-bytes", child_then_bytes, PROCESS | COLD },
	{ "seam-child-of-stopped-peer", child_of_stopped_peer, PROCESS | COLD },
	{ "seam-close-then-fork", close_then_fork, PROCESS },
	{ NULL, NULL, 0 }
};
