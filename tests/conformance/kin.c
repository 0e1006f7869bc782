/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connections that a process and its children hold together: who may use them
 * when, and what the end of one means for the others.  fork.c has the plain
 * patterns; here is what a ring that stays with the parent makes hard.
 */
#include "conform.h"

#include <linux/close_range.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/lib/pattern.h"
#include "tests/lib/rights.h"

enum { PATIENCE_S = 15, MEGA = 1 << 20 };

static int status_of(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* A child that outlives its role must end by itself. */
static pid_t child_new(struct role *r)
{
	pid_t pid = (pid_t)MUST(r, fork());

	if (pid == 0)
		alarm(PATIENCE_S);
	return pid;
}

static int serve(int fd)
{
	char buf[8192];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (send_all(fd, buf, (size_t)n) != n)
			return 2;
	return n == 0 ? 0 : 3;
}

/* The client's part: so many pieces there and back, then EOF both ways. */
static void client_talk(struct role *r, int pieces)
{
	static char out[1 << 16], in[sizeof(out)];
	long wrong = 0;
	int i;

	for (i = 0; i < pieces; i++) {
		memset(out, 'a' + i % 26, sizeof(out));
		wrong += send_all(r->c, out, sizeof(out)) != sizeof(out);
		wrong += recv_all(r->c, in, sizeof(in)) != sizeof(in);
		wrong += memcmp(out, in, sizeof(in)) != 0;
	}
	TRY(r, 0, wrong);
	TRY(r, 0, shutdown(r->c, SHUT_WR));
	TRY(r, 0, read(r->c, in, 4));
	TRY(r, 0, close(r->c));
}

/* What the child does with S is all that differs. */
static void child_does(struct role *r, int (*fn)(int s))
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		pid = child_new(r);
		if (pid == 0)
			_exit(fn(r->s));
		TRY(r, 0, close(r->s));
		TRY(r, 0, status_of(pid));
	}
}

struct flow {
	struct role *r;
	int fd;
	bool out;
	size_t total, bad;
};

static void *flow_main(void *arg)
{
	static __thread unsigned char buf[16384];
	struct flow *f = arg;
	size_t done = 0;
	uint64_t seed = (f->fd == f->r->s) == f->out ? SEED_SERVER : SEED_CLIENT;
	ssize_t n = 1;

	for (; done < f->total && n > 0; done += n > 0 ? (size_t)n : 0) {
		size_t want = f->total - done < sizeof(buf) ? f->total - done : sizeof(buf);

		if (f->out) {
			pattern_fill(buf, want, done, seed);
			n = write(f->fd, buf, want);
			continue;
		}
		n = read(f->fd, buf, want);
		f->bad += n > 0 && pattern_check(buf, (size_t)n, done, seed) >= 0;
	}
	f->bad += done != f->total;
	return NULL;
}

/* --------------------------------------------------------- who serves -- */

static int served_by_grandchild(int s)
{
	pid_t pid = fork();

	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			_exit(serve(s));
		close(s);
		_exit(status_of(pid) != 0);
	}
	close(s);
	return status_of(pid) != 0;
}

static void grandchild(struct role *r)
{
	child_does(r, served_by_grandchild);
}

/* -------------------------------------------- descriptors have run out -- */

/* No further number is to be had. */
static void numbers_end(void)
{
	struct rlimit rl;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &rl);
}

static int serve_without_numbers(int s)
{
	numbers_end();
	return dup(s) == -1 && errno == EMFILE ? serve(s) : 4;
}

static void no_numbers(struct role *r)
{
	child_does(r, serve_without_numbers);
}

static int serve_with_all_taken(int s)
{
	struct rlimit rl;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = 300;
	setrlimit(RLIMIT_NOFILE, &rl);
	while (dup(STDERR_FILENO) >= 0)
		;
	return errno == EMFILE ? serve(s) : 4;
}

static void all_numbers_taken(struct role *r)
{
	child_does(r, serve_with_all_taken);
}

/* It is the parent that has none: when it forks, or when it is asked. */
static void owner_without(struct role *r, bool at_fork)
{
	pid_t pid = 0;
	int go[2];
	char c;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		MUST(r, pipe(go));
		if (at_fork)
			numbers_end();
		pid = child_new(r);
		if (pid == 0)
			_exit(read(go[0], &c, 1) != 1 ? 5 : serve(r->s));
		numbers_end();
		MUST(r, write(go[1], "g", 1));
		TRY(r, 0, status_of(pid));
		TRY(r, 0, close(r->s));
	}
}

static void owner_no_numbers(struct role *r)
{
	owner_without(r, false);
}

static void no_numbers_at_fork(struct role *r)
{
	owner_without(r, true);
}

/* The middle one is gone when the last one begins. */
static int served_by_orphan(int s)
{
	int hold[2], done[2];
	char byte = 0;

	if (pipe(hold) < 0 || pipe(done) < 0)
		return 8;
	pid_t pid = fork();
	if (pid == 0) {
		if (fork() != 0)
			_exit(0);
		alarm(PATIENCE_S);
		close(hold[1]);
		close(done[0]);
		if (read(hold[0], &byte, 1) != 0)
			_exit(1);
		byte = (char)serve(s);
		_exit(write(done[1], &byte, 1) != 1);
	}
	close(s);
	close(done[1]);
	if (status_of(pid) != 0)
		return 7;
	close(hold[1]);
	return read(done[0], &byte, 1) == 1 ? byte : 6;
}

static void orphan(struct role *r)
{
	child_does(r, served_by_orphan);
}

/* daemon(): its parent leaves by _exit(), with the connection open. */
static int served_by_daemon(int s)
{
	int done[2];
	char byte = 9;
	pid_t pid;

	if (pipe(done) < 0)
		return 8;
	pid = fork();
	if (pid == 0) {
		if (daemon(1, 1) < 0)
			_exit(7);
		alarm(PATIENCE_S);
		byte = (char)serve(s);
		_exit(write(done[1], &byte, 1) != 1);
	}
	close(s);
	close(done[1]);
	return status_of(pid) == 0 && read(done[0], &byte, 1) == 1 ? byte : 5;
}

static void daemon_serves(struct role *r)
{
	child_does(r, served_by_daemon);
}

/* The process that had the ring is gone before the child begins. */
static void owner_exits(struct role *r)
{
	int hold[2];
	char byte;
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		MUST(r, pipe(hold));
		pid = child_new(r);
		if (pid == 0) {
			close(hold[1]);
			if (read(hold[0], &byte, 1) == 0)
				_exit(serve(r->s));
			_exit(1);
		}
		MUST(r, setpgid(pid, pid));	/* the harness ends the role's group with it */
	}
}

/* ... or another program by now. */
static void owner_executes(struct role *r)
{
	int hold[2];
	char byte;
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		MUST(r, fcntl(r->s, F_SETFD, FD_CLOEXEC));
		MUST(r, pipe2(hold, O_CLOEXEC));
		pid = child_new(r);
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &byte, 1) == 0 ? serve(r->s) : 1);
		}
		MUST(r, setpgid(pid, pid));
		execlp("true", "true", (char *)NULL);
		give_up(r, "exec");
	}
}

static int served_half(int s)
{
	char buf[1 << 16];

	return recv_all(s, buf, sizeof(buf)) != sizeof(buf) ||
	       send_all(s, buf, sizeof(buf)) != sizeof(buf);
}

/* Parent and children take turns, and the parent has the last word. */
static void relay(struct role *r)
{
	int i;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 6);
	SERVER(r) {
		for (i = 0; i < 3; i++) {
			pid_t pid = child_new(r);

			if (pid == 0)
				_exit(served_half(r->s));
			TRY(r, 0, status_of(pid));
			TRY(r, 0, served_half(r->s));
		}
		TRY(r, 0, serve(r->s));
		TRY(r, 0, close(r->s));
	}
}

/* ------------------------------------------- children unheard of, rights -- */

static pid_t fork_by_number(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

/* past libc and everything that is preloaded */
static pid_t fork_unseen(void)
{
#if defined(__x86_64__)
	long ret;

	__asm__ __volatile__("xorl %%r10d, %%r10d; xorl %%r8d, %%r8d; syscall"
			     : "=a"(ret)
			     : "a"(SYS_clone), "D"((long)SIGCHLD), "S"(0L), "d"(0L)
			     : "rcx", "r8", "r10", "r11", "memory");
	return (pid_t)ret;
#else
	return fork_by_number();
#endif
}

static void forked_by(struct role *r, pid_t (*how)(void))
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		pid = (pid_t)MUST(r, how());
		if (pid == 0) {
			alarm(PATIENCE_S);
			_exit(served_half(r->s));
		}
		TRY(r, 0, status_of(pid));
		TRY(r, 0, serve(r->s));
		TRY(r, 0, close(r->s));
	}
}

static void clone_by_number(struct role *r)
{
	forked_by(r, fork_by_number);
}

static void clone_unseen(struct role *r)
{
	forked_by(r, fork_unseen);
}

static int served_as_nobody(int s)
{
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 9;
	return serve(s);
}

static void nobody(struct role *r)
{
	child_does(r, served_as_nobody);
}

/* The child gives it to a process that was there before. */
static void child_passes(struct role *r)
{
	int channel[2];
	pid_t stranger = 0, pid = 0;

	SERVER(r) {
		MUST(r, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel));
		stranger = child_new(r);
		if (stranger == 0)
			_exit(serve(rights_recv(channel[1], 0)));
	}
	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		pid = child_new(r);
		if (pid == 0)
			_exit(rights_send(channel[0], r->s) != 1);
		TRY(r, 0, status_of(pid));
		TRY(r, 0, close(r->s));
		TRY(r, 0, status_of(stranger));
	}
}

/* ------------------------------------------------- ways to use it first -- */

static int served_by_poll(int s)
{
	struct pollfd p = { .fd = s, .events = POLLIN };
	char buf[8192];
	ssize_t n = 1;

	if (fcntl(s, F_SETFL, fcntl(s, F_GETFL) | O_NONBLOCK) < 0)
		return 9;
	while (n) {
		p.events = POLLIN;
		if (poll(&p, 1, 5000) != 1)
			return 8;
		n = read(s, buf, sizeof(buf));
		if (n < 0 && errno == EAGAIN)
			return 7;	/* poll said there was something */
		for (ssize_t done = 0, k; done < n; done += k > 0 ? k : 0) {
			k = write(s, buf + done, (size_t)(n - done));
			p.events = POLLOUT;
			if (k < 0 && (errno != EAGAIN || poll(&p, 1, 5000) != 1))
				return 6;
		}
	}
	return 0;
}

static void child_polls(struct role *r)
{
	child_does(r, served_by_poll);
}

static int served_by_select(int s)
{
	struct timeval patience = { .tv_sec = 5 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(s, &in);
	return select(s + 1, &in, NULL, NULL, &patience) == 1 && FD_ISSET(s, &in) ? serve(s) : 9;
}

static void child_selects(struct role *r)
{
	child_does(r, served_by_select);
}

static int served_by_epoll(int s)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data.fd = s };
	char buf[8192];
	int ep = epoll_create1(EPOLL_CLOEXEC);
	ssize_t n = 1;

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev) < 0)
		return 9;
	while (n > 0) {
		if (epoll_wait(ep, &ev, 1, 5000) != 1 || ev.data.fd != s)
			return 8;
		n = read(s, buf, sizeof(buf));
		if (n > 0 && send_all(s, buf, (size_t)n) != n)
			return 7;
	}
	return n == 0 ? 0 : 6;
}

static void child_epolls(struct role *r)
{
	child_does(r, served_by_epoll);
}

/* The set is the parent's, and both wait on it, one after the other. */
static int turn_by_epoll(int ep, int s)
{
	struct epoll_event ev = { 0 };
	char byte;

	return epoll_wait(ep, &ev, 1, 5000) != 1 || ev.data.fd != s || read(s, &byte, 1) != 1 ||
	       write(s, &byte, 1) != 1;
}

static void set_inherited(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	char in[4] = "";
	int i, ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		ev.data.fd = r->s;
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
	}
	for (i = 0; i < 4; i++) {
		CLIENT(r) {
			TRY(r, 1, write(r->c, &"0123"[i], 1));
			TRY(r, 1, read(r->c, in, 4));
		}
		SERVER(r) {
			pid_t pid = i % 2 ? child_new(r) : -1;

			if (pid == 0)
				_exit(turn_by_epoll(ep, r->s));
			TRY(r, 0, pid < 0 ? turn_by_epoll(ep, r->s) : status_of(pid));
		}
		meet(r);
	}
	SERVER(r)
		TRY(r, 0, close(ep));
	conn_close(r);
}

/* A child that takes its number out of the parent's set does so for both. */
static void set_shrunk_in_child(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = -1;
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->s, &ev));
		pid = child_new(r);
		if (pid == 0)
			_exit(epoll_ctl(ep, EPOLL_CTL_DEL, r->s, NULL) != 0);
		TRY(r, 0, status_of(pid));
		meet(r);
		meet(r);
		TRY(r, 2, readable_await(r->s, 2));
		TRY(r, 0, epoll_wait(ep, &ev, 1, 20));
		TRY(r, 0, close(ep));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 2, send(r->c, "hi", 2, 0));
		meet(r);
	}
	conn_close(r);
}

/* O_NONBLOCK belongs to the description: the child's setting is the parent's. */
static void nonblock_in_child(struct role *r)
{
	char buf[4];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = child_new(r);
		if (pid == 0)
			_exit(fcntl(r->s, F_SETFL, fcntl(r->s, F_GETFL) | O_NONBLOCK) < 0);
		TRY(r, 0, status_of(pid));
		TRY(r, -EAGAIN, read(r->s, buf, 4));
		pid = child_new(r);
		if (pid == 0)
			_exit(fcntl(r->s, F_SETFL, fcntl(r->s, F_GETFL) & ~O_NONBLOCK) < 0);
		TRY(r, 0, status_of(pid));
		meet(r);
		TRY(r, 2, recv(r->s, buf, 2, MSG_WAITALL));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 2, send(r->c, "ok", 2, 0));
	}
	conn_close(r);
}

static int child_counts(int s)
{
	int n = 0;

	return ioctl(s, FIONREAD, &n) < 0 || n != 6;
}

/* FIONREAD in the child, and what it leaves is the parent's. */
static void queue_in_child(struct role *r)
{
	char buf[8] = "";
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		pid = child_new(r);
		if (pid == 0)
			_exit(child_counts(r->s));
		TRY(r, 0, status_of(pid));
		TRY(r, 6, recv(r->s, buf, 8, 0));
		CHECK(r, memcmp(buf, "unread", 6) == 0);
		/* nothing is left, and nobody says that there is */
		quiet_check(r, r->s, POLLIN);
	}
	conn_close(r);
}

static int sent_by_sendfile(int s)
{
	static char chunk[MEGA];
	int f = memfd_create("file", MFD_CLOEXEC);
	off_t off = 0;

	pattern_fill(chunk, sizeof(chunk), 0, SEED_SERVER);
	if (write(f, chunk, sizeof(chunk)) != sizeof(chunk))
		return 9;
	while (off < MEGA)
		if (sendfile(s, f, &off, (size_t)(MEGA - off)) <= 0)
			return 8;
	return 0;
}

static void child_sends_file(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = child_new(r);
		if (pid == 0)
			_exit(sent_by_sendfile(r->s));
		TRY(r, 0, status_of(pid));
	}
	CLIENT(r)
		bulk_read(r, r->c, MEGA, SEED_SERVER);
	conn_close(r);
}

/* A connection whose kernel buffers hold less than a ring. */
static void narrow_open(struct role *r)
{
	int small = 4096;
	struct sockaddr_storage sa;

	listener_open(r);
	SERVER(r)
		MUST(r, setsockopt(r->listener, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	meet(r);
	CLIENT(r) {
		loopback_addr(&sa, r->port);
		r->c = (int)MUST(r, socket(conf_family(), SOCK_STREAM, 0));
		MUST(r, setsockopt(r->c, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)));
		MUST(r, connect(r->c, (struct sockaddr *)&sa, sizeof(sa)));
	}
	SERVER(r)
		r->s = (int)MUST(r, accept(r->listener, NULL, NULL));
	if (r->ring)
		conn_warm(r);
	meet(r);
}

/* Write until nothing goes for a while.  Return: how much went. */
static long fill(struct role *r)
{
	static char chunk[4096];
	struct pollfd p = { .fd = r->s, .events = POLLOUT };
	long done = 0;

	nonblock_set(r, r->s);
	while (poll(&p, 1, 300) > 0) {
		pattern_fill(chunk, sizeof(chunk), (uint64_t)done, SEED_SERVER);
		ssize_t n = write(r->s, chunk, sizeof(chunk));
		done += n > 0 ? n : 0;
	}
	MUST(r, fcntl(r->s, F_SETFL, fcntl(r->s, F_GETFL) & ~O_NONBLOCK));
	return done;
}

static int sent_on(int s, long from)
{
	static char chunk[MEGA / 8];

	pattern_fill(chunk, sizeof(chunk), (uint64_t)from, SEED_SERVER);
	return send_all(s, chunk, sizeof(chunk)) != sizeof(chunk);
}

/* The parent has filled all there is; what the child writes or says comes behind it. */
static void full(struct role *r, bool child_ends)
{
	long filled = 0;
	char byte;
	pid_t pid = 0;

	narrow_open(r);
	SERVER(r) {
		filled = fill(r);
		pid = child_new(r);
		if (pid == 0)
			_exit(child_ends ? shutdown(r->s, SHUT_WR) != 0 : sent_on(r->s, filled));
		if (child_ends)		/* which waits for nobody */
			TRY(r, 0, status_of(pid));
		tell(r, filled + (child_ends ? 0 : MEGA / 8));
		if (!child_ends)
			TRY(r, 0, status_of(pid));
		else
			TRY(r, -EPIPE, send(r->s, "x", 1, MSG_NOSIGNAL));
	}
	CLIENT(r) {
		struct flow f = { .r = r, .fd = r->c, .total = (size_t)hear(r) };

		flow_main(&f);
		TRY(r, 0, (long)f.bad);
		if (child_ends)
			TRY(r, 0, read(r->c, &byte, 1));
	}
	conn_close(r);
}

static void full_child_writes(struct role *r)
{
	full(r, false);
}

static void full_child_shuts(struct role *r)
{
	full(r, true);
}

/* ------------------------------------------------------------- the ends -- */

/* What the parent had not read when it closed is no offence: the child reads it. */
static void unread_at_close(struct role *r)
{
	char buf[16] = "";
	int hold[2];
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r) {
		TRY(r, 6, send(r->c, "unread", 6, 0));
		meet(r);
		TRY(r, 6, send(r->c, "behind", 6, 0));
		TRY(r, 4, recv(r->c, buf, 16, MSG_WAITALL));
		CHECK(r, memcmp(buf, "fine", 4) == 0);
	}
	SERVER(r) {
		MUST(r, pipe2(hold, O_CLOEXEC));
		TRY(r, 6, readable_await(r->s, 6));
		pid = child_new(r);
		if (pid == 0) {
			close(hold[1]);
			if (read(hold[0], buf, 1) != 0)
				_exit(9);
			if (recv(r->s, buf, 12, MSG_WAITALL) != 12 ||
			    memcmp(buf, "unreadbehind", 12) != 0)
				_exit(8);
			_exit(write(r->s, "fine", 4) != 4);
		}
		TRY(r, 0, close(r->s));
		meet(r);
		TRY(r, 0, close(hold[1]));
		TRY(r, 0, status_of(pid));
	}
	CLIENT(r)
		TRY(r, 0, close(r->c));
}

/* What the parent wrote and what the child writes come in this order. */
static void written_before_close(struct role *r)
{
	static char chunk[MEGA / 4];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = child_new(r);
		if (pid == 0) {
			pattern_fill(chunk, sizeof(chunk), MEGA / 4, SEED_SERVER);
			_exit(read(r->s, chunk, 1) != 1 ||
			      (pattern_fill(chunk, sizeof(chunk), MEGA / 4,
					    SEED_SERVER), false) ||
			      send_all(r->s, chunk, sizeof(chunk)) != sizeof(chunk));
		}
		pattern_fill(chunk, sizeof(chunk), 0, SEED_SERVER);
		TRY(r, MEGA / 4, send_all(r->s, chunk, sizeof(chunk)));
		TRY(r, 0, close(r->s));
		meet(r);
		TRY(r, 0, status_of(pid));
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 1, send(r->c, "g", 1, 0));
		bulk_read(r, r->c, MEGA / 2, SEED_SERVER);
		TRY(r, 0, read(r->c, chunk, 1));
		TRY(r, 0, close(r->c));
	}
}

/* The last copy goes with bytes unread: then it is a reset. */
static void reset_by_last(struct role *r)
{
	int hold[2];
	char buf[4];
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	SERVER(r) {
		MUST(r, pipe2(hold, O_CLOEXEC));
		TRY(r, 6, readable_await(r->s, 6));
		pid = child_new(r);
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], buf, 1) != 0 || recv(r->s, buf, 2, 0) != 2);
		}
		TRY(r, 0, close(r->s));
		meet(r);
		TRY(r, 0, close(hold[1]));
		TRY(r, 0, status_of(pid));
	}
	CLIENT(r) {
		meet(r);
		CHECK(r, event_await(r->c, POLLIN) & POLLIN);
		TRY(r, -ECONNRESET, read(r->c, buf, 4));
		TRY(r, 0, close(r->c));
	}
}

/* An exec that fails has ended nothing. */
static void exec_fails(struct role *r)
{
	char *argv[] = { (char *)"none", NULL };

	conn_open(r);
	CLIENT(r)
		client_talk(r, 2);
	SERVER(r) {
		MUST(r, fcntl(r->s, F_SETFD, FD_CLOEXEC));
		TRY(r, -ENOENT, execv("/nowhere/at/all", argv));
		TRY(r, 0, serve(r->s));
		TRY(r, 0, close(r->s));
	}
}

/* Close-on-exec, but the new image gets a copy that is not. */
static void exec_second_number(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		MUST(r, fcntl(r->s, F_SETFD, FD_CLOEXEC));
		pid = child_new(r);
		if (pid == 0) {
			int copy = dup(r->s);	/* not close-on-exec, and not the first */
			char cmd[64];

			snprintf(cmd, sizeof(cmd), "exec cat <&%d >&%d", copy, copy);
			execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
			_exit(9);
		}
		TRY(r, 0, close(r->s));
		TRY(r, 0, status_of(pid));
	}
}

/* -------------------------------------------------------- close loops -- */

static void close_loop(int keep)
{
	for (int fd = 3; fd < 1024; fd++)
		if (fd != keep)
			close(fd);
}

static int served_after_loop(int s)
{
	close_loop(s);
	return serve(s);
}

static void loop_then_serves(struct role *r)
{
	child_does(r, served_after_loop);
}

static int served_after_range(int s)
{
	if (close_range((unsigned)s + 1, ~0u, 0) || close_range(3, (unsigned)s - 1, 0))
		return 9;
	return serve(s);
}

static void range_then_serves(struct role *r)
{
	child_does(r, served_after_range);
}

static int served_after_unshare(int s)
{
	if (close_range((unsigned)s + 1, ~0u, CLOSE_RANGE_UNSHARE))
		return 9;
	return serve(s);
}

static void range_unshare(struct role *r)
{
	child_does(r, served_after_unshare);
}

/* In the child all goes; the parent has lost nothing. */
static void child_closes_by(struct role *r, void (*closes)(void))
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_talk(r, 4);
	SERVER(r) {
		pid = child_new(r);
		if (pid == 0) {
			closes();
			int fd = open("/dev/null", O_RDONLY);

			_exit(fd != 3);
		}
		TRY(r, 0, status_of(pid));
		TRY(r, 0, serve(r->s));
		TRY(r, 0, close(r->s));
	}
}

static void by_loop(void)
{
	close_loop(-1);
}

static void by_closefrom(void)
{
	closefrom(3);
}

static void by_range(void)
{
	close_range(3, ~0u, 0);
}

static void loop_in_child(struct role *r)
{
	child_closes_by(r, by_loop);
}

static void closefrom_in_child(struct role *r)
{
	child_closes_by(r, by_closefrom);
}

static void range_in_child(struct role *r)
{
	child_closes_by(r, by_range);
}

/* CLOSE_RANGE_CLOEXEC closes nothing before the exec, and all with it. */
static void range_cloexec(struct role *r)
{
	int hold[2];
	char buf[4];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		MUST(r, pipe(hold));
		pid = child_new(r);
		if (pid == 0) {
			dup2(hold[0], 0);
			close(hold[1]);
			close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
			execlp("cat", "cat", (char *)NULL);
			_exit(9);
		}
		TRY(r, 0, close(r->s));
		meet(r);
		TRY(r, 0, close(hold[1]));
		TRY(r, 0, status_of(pid));
	}
	CLIENT(r) {
		TRY(r, 0, read(r->c, buf, 4));	/* while the child lives on */
		meet(r);
		TRY(r, 0, close(r->c));
	}
}

/* The child closes first and goes on with another connection, while its parent lingers. */
static int child_beside_linger(int s1, int s2, int closed)
{
	close(s1);
	if (write(closed, "c", 1) != 1)
		return 1;
	poll(NULL, 0, 300);		/* mostly in close() by then; in time either way */
	return send(s2, "child", 5, 0) == 5 ? 0 : 2;
}

static void linger_beside_child(struct role *r)
{
	struct linger lg = { .l_onoff = 1, .l_linger = 60 };
	char buf[8];
	int s1, c1, closed[2];

	conn_open(r);
	s1 = r->s;
	c1 = r->c;
	conn_more(r, &r->s, &r->c);
	if (r->ring)
		conn_warm(r);
	meet(r);
	SERVER(r) {
		struct role first = *r;
		pid_t pid;

		first.s = s1;
		MUST(r, pipe(closed));
		long n = fill(&first);
		fcntl(s1, F_SETFL, 0);
		TRY(r, 0, setsockopt(s1, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		pid = child_new(r);
		if (pid == 0)
			_exit(child_beside_linger(s1, r->s, closed[1]));
		TRY(r, 1, read(closed[0], buf, 1));
		TRY(r, 0, close(s1));
		long long at = now_ms();
		TRY(r, 0, status_of(pid));
		tell(r, n);
		CHECK(r, hear(r) <= at);
		MUST(r, close(closed[0]) | close(closed[1]));
	}
	CLIENT(r) {
		TRY(r, 5, recv(r->c, buf, sizeof(buf), 0));
		long long began = now_ms();
		long got = 0, k;
		static char much[65536];

		while ((k = recv(c1, much, sizeof(much), 0)) > 0)
			got += k;
		TRY(r, 0, k);
		CHECK(r, hear(r) == got);
		tell(r, (long)began);
		MUST(r, close(c1));
	}
	conn_close(r);
}

/* ---------------------------------------------------- cold, and storms -- */

/* What was cold at a fork may have a ring once the child is gone. */
static void cold_then_alone(struct role *r)
{
	pid_t pid = 0;

	listener_open(r);
	conn_more(r, &r->s, &r->c);
	meet(r);
	pid = child_new(r);
	if (pid == 0)
		_exit(0);
	TRY(r, 0, status_of(pid));
	meet(r);
	if (r->ring)
		conn_warm(r);
	CLIENT(r)
		client_talk(r, 2);
	SERVER(r) {
		TRY(r, 0, serve(r->s));
		TRY(r, 0, close(r->s));
	}
}

/* ... but not while a child has it, for that one does not ask. */
static void cold_then_both(struct role *r)
{
	int hold[2];
	char byte;
	pid_t pid = 0;

	listener_open(r);
	conn_more(r, &r->s, &r->c);
	SERVER(r) {
		MUST(r, pipe(hold));
		pid = child_new(r);
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &byte, 1) != 0 || served_half(r->s) != 0);
		}
	}
	conn_warm(r);
	SERVER(r)
		close(hold[1]);
	CLIENT(r)
		client_talk(r, 2);
	SERVER(r) {
		TRY(r, 0, status_of(pid));
		TRY(r, 0, serve(r->s));
		TRY(r, 0, close(r->s));
	}
}

static int storm_child(int i, int s)
{
	switch (i % 4) {
	case 0:
		return 0;
	case 1:
		return close(s);
	case 2:
		execlp("true", "true", (char *)NULL);
		return 9;
	default:
		return status_of(fork());
	}
}

/* Threads stream both ways while another one forks; no child touches the stream. */
static void storm(struct role *r)
{
	struct flow f[2] = { { .r = r, .out = true, .total = 24 * MEGA }, { .r = r, .total = 24 * MEGA } };
	pthread_t t[2];
	int i, bad = 0;

	conn_open(r);
	MUST(r, fcntl(own_fd(r), F_SETFD, FD_CLOEXEC));
	for (i = 0; i < 2; i++) {
		f[i].fd = own_fd(r);
		pthread_create(&t[i], NULL, flow_main, &f[i]);
	}
	for (i = 0; i < 40; i++) {
		pid_t pid = child_new(r);

		if (pid == 0)
			_exit(storm_child(i, own_fd(r)));
		bad += status_of(pid) != 0;
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	TRY(r, 0, bad);
	TRY(r, 0, (long)(f[0].bad + f[1].bad));
	conn_close(r);
}

const struct conf_case kin_cases[] = {
	{ "kin-grandchild", grandchild, PROCESS },
	{ "kin-linger-beside-child", linger_beside_child, PROCESS },
	{ "kin-no-numbers", no_numbers, PROCESS },
	{ "kin-all-numbers-taken", all_numbers_taken, PROCESS },
	{ "kin-owner-no-numbers", owner_no_numbers, PROCESS },
	{ "kin-no-numbers-at-fork", no_numbers_at_fork, PROCESS },
	{ "kin-orphan", orphan, PROCESS },
	{ "kin-daemon", daemon_serves, PROCESS },
	{ "kin-owner-exits", owner_exits, PROCESS },
	{ "kin-owner-executes", owner_executes, PROCESS | UNCOUNTED },
	{ "kin-relay", relay, PROCESS },
	{ "kin-clone-by-number", clone_by_number, PROCESS },
	{ "kin-clone-unseen", clone_unseen, PROCESS },
	{ "kin-nobody", nobody, PROCESS },
	{ "kin-child-passes", child_passes, PROCESS },
	{ "kin-child-polls", child_polls, PROCESS },
	{ "kin-child-selects", child_selects, PROCESS },
	{ "kin-child-epolls", child_epolls, PROCESS },
	{ "kin-set-inherited", set_inherited, PROCESS },
	{ "kin-set-shrunk", set_shrunk_in_child, PROCESS },
	{ "kin-nonblock", nonblock_in_child, PROCESS },
	{ "kin-queue", queue_in_child, PROCESS },
	{ "kin-sendfile", child_sends_file, PROCESS },
	{ "kin-full-writes", full_child_writes, PROCESS },
	{ "kin-full-shutdown", full_child_shuts, PROCESS },
	{ "kin-unread-at-close", unread_at_close, PROCESS },
	{ "kin-written-before-close", written_before_close, PROCESS },
	{ "kin-reset-by-last", reset_by_last, PROCESS },
	{ "kin-exec-fails", exec_fails, PROCESS },
	{ "kin-exec-second-number", exec_second_number, PROCESS },
	{ "kin-close-loop-serves", loop_then_serves, PROCESS },
	{ "kin-close-range-serves", range_then_serves, PROCESS },
	{ "kin-close-range-unshare", range_unshare, PROCESS },
	{ "kin-close-loop", loop_in_child, PROCESS },
	{ "kin-closefrom", closefrom_in_child, PROCESS },
	{ "kin-close-range", range_in_child, PROCESS },
	{ "kin-close-range-cloexec", range_cloexec, PROCESS },
	{ "kin-cold-then-alone", cold_then_alone, PROCESS },
	{ "kin-cold-then-both", cold_then_both, PROCESS | COLD },
	{ "kin-storm", storm, PROCESS },
	{ NULL, NULL, 0 }
};
