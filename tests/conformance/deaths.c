/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What an end learns of a peer that is killed: at once, and what TCP would say. */
#include "conform.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__x86_64__)
/* Past every library. */
static long raw(long call, long a, long b, long c)
{
	long ret;

	__asm__ __volatile__("syscall" : "=a"(ret) : "a"(call), "D"(a), "S"(b), "d"(c)
			     : "rcx", "r11", "memory");
	return ret;
}

/* The server, for its client. */
static int peer_handle(struct role *r)
{
	int pidfd = -1;

	SERVER(r)
		tell(r, getpid());
	CLIENT(r)
		pidfd = (int)MUST(r, syscall(SYS_pidfd_open, (pid_t)hear(r), 0));
	return pidfd;
}

/* It dies, and the client goes on when all is over that the kernel does for that. */
static void server_dies(struct role *r, int pidfd)
{
	meet(r);
	SERVER(r) {
		close(r->listener);
		raw(SYS_exit_group, 0, 0, 0);
	}
	CLIENT(r) {
		struct pollfd p = { .fd = pidfd, .events = POLLIN };

		TRY(r, 1, poll(&p, 1, 5000));
		close(pidfd);
	}
}

static void server_half_closes(struct role *r)
{
	char byte;

	SERVER(r)
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	CLIENT(r)
		TRY(r, 0, recv(r->c, &byte, 1, 0));
}

static void unread_for_server(struct role *r)
{
	CLIENT(r) {
		TRY(r, 6, send(r->c, "unread", 6, 0));
		drained_await(r->c);
	}
}

/* A peer that has half-closed and is no more: the first write is taken, the second is not. */
static void half_closed_written(struct role *r)
{
	char byte;
	int pidfd;

	conn_open(r);
	pidfd = peer_handle(r);
	server_half_closes(r);
	server_dies(r, pidfd);
	CLIENT(r) {
		TRY(r, 1, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, 0, recv(r->c, &byte, 1, 0));
		TRY(r, 0, close(r->c));
	}
}

/* ... it leaves bytes unread: the reset is there. */
static void half_closed_unread(struct role *r)
{
	char byte;
	int pidfd;

	conn_open(r);
	pidfd = peer_handle(r);
	server_half_closes(r);
	unread_for_server(r);
	server_dies(r, pidfd);
	CLIENT(r) {
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, 0, recv(r->c, &byte, 1, 0));
		TRY(r, 0, close(r->c));
	}
}

/* ... and who waits is told of it. */
static void half_closed_waited(struct role *r)
{
	int pidfd;

	conn_open(r);
	pidfd = peer_handle(r);
	server_half_closes(r);
	unread_for_server(r);
	server_dies(r, pidfd);
	CLIENT(r) {
		int err = -1;
		socklen_t len = sizeof(err);
		short got = event_settled(r->c, POLLIN | POLLOUT, POLLERR | POLLHUP);

		poll_show(r, "reset", POLLIN | POLLOUT | POLLERR | POLLHUP, got);
		TRY(r, 0, getsockopt(r->c, SOL_SOCKET, SO_ERROR, &err, &len));
		TRY(r, EPIPE, err);
		poll_show(r, "told", POLLIN | POLLOUT | POLLHUP, event_await(r->c, POLLIN | POLLOUT));
		TRY(r, 0, close(r->c));
	}
}

/* Nothing is unread: nothing is told before something is written. */
static void half_closed_quiet(struct role *r)
{
	struct epoll_event ev = { 0 };
	int pidfd;

	conn_open(r);
	pidfd = peer_handle(r);
	server_half_closes(r);
	server_dies(r, pidfd);
	CLIENT(r) {
		int ep = set_new(r);

		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, 0, 1));
		TRY(r, 0, epoll_wait(ep, &ev, 1, 50));
		TRY(r, 1, send(r->c, "x", 1, MSG_NOSIGNAL));
		set_expect(r, ep, EPOLLERR | EPOLLHUP, 1);
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		set_expect(r, ep, EPOLLHUP, 1);
		TRY(r, 0, close(r->c));
		MUST(r, close(ep));
	}
}

/* An entry that asks for nothing, of a set that poll() asks. */
static void nothing_asked(struct role *r, bool polled_before, int timeout)
{
	int pidfd, ep = -1;

	conn_open(r);
	pidfd = peer_handle(r);
	CLIENT(r) {
		struct pollfd p = { .events = POLLIN };

		p.fd = ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, 0, 1));
		if (polled_before)
			TRY(r, 0, poll(&p, 1, 0));
	}
	unread_for_server(r);
	server_dies(r, pidfd);
	CLIENT(r) {
		struct pollfd p = { .fd = ep, .events = POLLIN };

		TRY(r, 1, poll(&p, 1, timeout));
		TRY(r, POLLIN, p.revents);
		set_expect(r, ep, EPOLLERR | EPOLLHUP, 1);
		TRY(r, 0, close(r->c));
		MUST(r, close(ep));
	}
}

static void nothing_asked_of_set(struct role *r)
{
	nothing_asked(r, false, 1000);
}

static void nothing_asked_of_set_at_once(struct role *r)
{
	nothing_asked(r, false, 0);
}

static void nothing_asked_of_polled_set(struct role *r)
{
	nothing_asked(r, true, 1000);
}

/* ... of a set that a child asks, too. */
static int child_asks(int ep, bool polls)
{
	struct pollfd p = { .fd = ep, .events = POLLIN };
	struct epoll_event ev = { 0 };

	if (polls && (poll(&p, 1, 1000) != 1 || p.revents != POLLIN))
		return 1;
	if (epoll_wait(ep, &ev, 1, 1000) != 1)
		return 2;
	return ev.events == (EPOLLERR | EPOLLHUP) ? 0 : 3;
}

static void nothing_asked_child(struct role *r, bool polls)
{
	int pidfd, ep = -1, go[2] = { -1, -1 }, status = -1;
	pid_t pid = -1;

	conn_open(r);
	pidfd = peer_handle(r);
	unread_for_server(r);
	CLIENT(r) {
		char byte;

		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, 0, 1));
		MUST(r, pipe(go));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			_exit(read(go[0], &byte, 1) == 1 ? child_asks(ep, polls) : 99);
	}
	server_dies(r, pidfd);
	CLIENT(r) {
		MUST(r, write(go[1], "g", 1));
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		set_expect(r, ep, EPOLLERR | EPOLLHUP, 1);
		TRY(r, 0, close(r->c));
		MUST(r, close(ep));
		close(go[0]);
		close(go[1]);
	}
}

static void nothing_asked_by_poll_of_child(struct role *r)
{
	nothing_asked_child(r, true);
}

static void nothing_asked_by_wait_of_child(struct role *r)
{
	nothing_asked_child(r, false);
}

/* ... at the moment when the client's kernel has heard of it. */
static void server_dies_now(struct role *r)
{
	meet(r);
	SERVER(r) {
		close(r->listener);
		raw(SYS_exit_group, 0, 0, 0);
	}
	CLIENT(r) {
		struct pollfd p = { .fd = r->c, .events = POLLRDHUP };

		TRY(r, 1, raw(SYS_poll, (long)&p, 1, 5000));
	}
}

/* Over unread bytes: no end is told without the reset, and a read that comes to it says so. */
static void bytes_and_death(struct role *r)
{
	char buf[8];
	int ep = -1;

	conn_open(r);
	CLIENT(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN | EPOLLRDHUP, 1));
	}
	SERVER(r) {
		TRY(r, 5, send(r->s, "bytes", 5, 0));
		drained_await(r->s);
	}
	unread_for_server(r);
	server_dies_now(r);
	CLIENT(r) {
		struct epoll_event ev = { 0 };

		while (!(ev.events & EPOLLRDHUP) && epoll_wait(ep, &ev, 1, 5000) == 1)
			;
		epoll_show(r, "event", EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP, ev.events);
		TRY(r, 5, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, -ECONNRESET, recv(r->c, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->c));
		MUST(r, close(ep));
	}
}

/* Five bytes have come from a server that is no more, over unread bytes or not. */
static void server_leaves(struct role *r, bool over_unread)
{
	int pidfd = peer_handle(r);

	SERVER(r) {
		TRY(r, 5, send(r->s, "bytes", 5, 0));
		drained_await(r->s);
	}
	if (over_unread)
		unread_for_server(r);
	server_dies(r, pidfd);
	CLIENT(r) {
		short end = over_unread ? POLLERR | POLLHUP : POLLRDHUP;

		CHECK(r, (event_settled(r->c, POLLIN | POLLRDHUP, end) & end) == end);
	}
}

static void server_leaves_bytes(struct role *r, bool over_unread)
{
	conn_open(r);
	server_leaves(r, over_unread);
}

/* A child that reads what is asked for, a line of numbers; what it got is its answer. */
static pid_t taker_fork(struct role *r, int ask[2], int answer[2])
{
	char buf[16];
	int n, got;

	MUST(r, pipe(ask));
	MUST(r, pipe(answer));
	pid_t pid = (pid_t)MUST(r, fork());
	if (pid)
		return pid;
	close(ask[1]);
	while (read(ask[0], &n, sizeof(n)) == sizeof(n)) {
		struct pollfd p = { .fd = r->c, .events = POLLIN };

		if (n == -1)
			got = ioctl(r->c, FIONREAD, &got) ? -errno : got;
		else if (n == -2)
			got = poll(&p, 1, 0) == 1 ? p.revents : 0;
		else
			got = (int)recv(r->c, buf, (size_t)(n & 0xff), n >> 8);
		if (n >= 0 && got < 0)
			got = -errno;
		if (write(answer[1], &got, sizeof(got)) != sizeof(got))
			break;
	}
	_exit(0);
}

static int taker_takes(const int ask[2], const int answer[2], int n)
{
	int got = -1000;

	if (write(ask[1], &n, sizeof(n)) != sizeof(n) || read(answer[0], &got, sizeof(got)) != sizeof(got))
		return -1000;
	return got;
}

static void taker_end(struct role *r, pid_t pid, const int ask[2], const int answer[2])
{
	int status = -1;

	close(ask[0]);
	close(ask[1]);
	MUST(r, waitpid(pid, &status, 0));
	TRY(r, 0, status);
	close(answer[0]);
	close(answer[1]);
}

/* What came before an end is there for a parent and for its child, whoever comes first. */
static void left_for_both(struct role *r)
{
	int ask[2], answer[2], n = 0;
	char buf[8];

	server_leaves_bytes(r, true);
	CLIENT(r) {
		pid_t pid = taker_fork(r, ask, answer);

		TRY(r, 5, taker_takes(ask, answer, -1));
		TRY(r, POLLIN | POLLERR | POLLHUP, taker_takes(ask, answer, -2));
		TRY(r, 2, taker_takes(ask, answer, 2));
		TRY(r, 3, recv(r->c, buf, 8, MSG_PEEK));
		CHECK(r, memcmp(buf, "tes", 3) == 0);
		TRY(r, 0, ioctl(r->c, FIONREAD, &n));
		TRY(r, 3, n);
		TRY(r, 1, recv(r->c, buf, 1, 0));
		TRY(r, 2, taker_takes(ask, answer, 8 | MSG_PEEK << 8));
		TRY(r, 2, taker_takes(ask, answer, 8));
		TRY(r, -ECONNRESET, taker_takes(ask, answer, 8));
		TRY(r, 0, recv(r->c, buf, 8, 0));
		TRY(r, 0, taker_takes(ask, answer, 8));
		taker_end(r, pid, ask, answer);
		TRY(r, 0, close(r->c));
	}
}

/* ... for the child alone, as soon as its parent has closed. */
static void left_for_child(struct role *r)
{
	int ask[2], answer[2];

	server_leaves_bytes(r, true);
	CLIENT(r) {
		pid_t pid = taker_fork(r, ask, answer);

		TRY(r, 0, close(r->c));
		TRY(r, 5, taker_takes(ask, answer, 8));
		TRY(r, -ECONNRESET, taker_takes(ask, answer, 8));
		TRY(r, 0, taker_takes(ask, answer, 8));
		taker_end(r, pid, ask, answer);
	}
}

/* ... for a child that was there before. */
static void left_for_elder(struct role *r, bool over_unread)
{
	int ask[2], answer[2];
	char buf[8];
	pid_t pid = -1;

	conn_open(r);
	CLIENT(r)
		pid = taker_fork(r, ask, answer);
	server_leaves(r, over_unread);
	CLIENT(r) {
		TRY(r, 5, taker_takes(ask, answer, -1));
		TRY(r, 1, taker_takes(ask, answer, 1));
		TRY(r, 2, recv(r->c, buf, 2, 0));
		TRY(r, 2, taker_takes(ask, answer, 8));
		TRY(r, over_unread ? -ECONNRESET : 0, taker_takes(ask, answer, 8));
		TRY(r, 0, recv(r->c, buf, 8, 0));
		taker_end(r, pid, ask, answer);
		TRY(r, 0, close(r->c));
	}
}

static void left_for_elder_reset(struct role *r)
{
	left_for_elder(r, true);
}

static void left_for_elder_end(struct role *r)
{
	left_for_elder(r, false);
}

/* ... before an orderly end. */
static void left_before_end(struct role *r)
{
	int ask[2], answer[2];
	char buf[8];

	server_leaves_bytes(r, false);
	CLIENT(r) {
		pid_t pid = taker_fork(r, ask, answer);

		TRY(r, 1, recv(r->c, buf, 1, 0));
		TRY(r, 4, taker_takes(ask, answer, 4));
		TRY(r, POLLIN, taker_takes(ask, answer, -2));
		TRY(r, 0, taker_takes(ask, answer, 8));
		TRY(r, 0, recv(r->c, buf, 8, 0));
		taker_end(r, pid, ask, answer);
		TRY(r, 0, close(r->c));
	}
}

/* ... and a set of both tells the child of it. */
static int told_in_child(int ep, int fd)
{
	const unsigned int err[3] = { EPOLLERR, EPOLLERR, 0 };
	const long want[3] = { 5, -1, 0 };

	for (int i = 0; i < 3; i++) {
		struct epoll_event ev = { 0 };
		char buf[8];

		if (epoll_wait(ep, &ev, 1, 5000) != 1 || ev.events != (EPOLLIN | EPOLLRDHUP | EPOLLHUP | err[i]))
			return 1 + i;
		if (recv(fd, buf, sizeof(buf), 0) != want[i])
			return 4 + i;
	}
	return 0;
}

static void left_in_set(struct role *r)
{
	int ep = -1, status = -1;

	server_leaves_bytes(r, true);
	CLIENT(r) {
		ep = set_new(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->c, EPOLLIN | EPOLLRDHUP, 1));
		set_expect(r, ep, EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP, 1);
		pid_t pid = (pid_t)MUST(r, fork());

		if (pid == 0)
			_exit(told_in_child(ep, r->c));
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		set_expect(r, ep, EPOLLIN | EPOLLRDHUP | EPOLLHUP, 1);
		TRY(r, 0, close(r->c));
		MUST(r, close(ep));
	}
}

/* ... for a child of the child's. */
static void left_for_grandchild(struct role *r)
{
	char buf[8];
	int status = -1;

	server_leaves_bytes(r, true);
	CLIENT(r) {
		pid_t pid = (pid_t)MUST(r, fork());

		if (pid == 0) {
			if (recv(r->c, buf, 1, 0) != 1)
				_exit(1);
			pid = fork();
			if (pid == 0) {
				if (recv(r->c, buf, 8, 0) != 4 || memcmp(buf, "ytes", 4))
					_exit(2);
				_exit(recv(r->c, buf, 8, 0) == -1 && errno == ECONNRESET ? 0 : 3);
			}
			_exit(waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 4);
		}
		MUST(r, waitpid(pid, &status, 0));
		TRY(r, 0, status);
		TRY(r, 0, recv(r->c, buf, 8, 0));
		TRY(r, 0, close(r->c));
	}
}
#endif

const struct conf_case deaths_cases[] = {
#if defined(__x86_64__)
	{ "death-half-closed-written", half_closed_written, PROCESS | UNCOUNTED },
	{ "death-half-closed-unread", half_closed_unread, PROCESS | UNCOUNTED },
	{ "death-half-closed-waited", half_closed_waited, PROCESS | UNCOUNTED },
	{ "death-half-closed-quiet", half_closed_quiet, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-nothing-asked", nothing_asked_of_set, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-nothing-asked-at-once", nothing_asked_of_set_at_once, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-nothing-asked-polled", nothing_asked_of_polled_set, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-nothing-asked-child-polls", nothing_asked_by_poll_of_child, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-nothing-asked-child-waits", nothing_asked_by_wait_of_child, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-left-for-both", left_for_both, PROCESS | UNCOUNTED },
	{ "death-left-for-child", left_for_child, PROCESS | UNCOUNTED },
	{ "death-left-before-end", left_before_end, PROCESS | UNCOUNTED },
	{ "death-left-for-elder", left_for_elder_reset, PROCESS | UNCOUNTED },
	{ "death-left-for-elder-end", left_for_elder_end, PROCESS | UNCOUNTED },
	{ "death-left-in-set", left_in_set, PROCESS | UNCOUNTED | WAIT_EPOLL },
	{ "death-left-for-grandchild", left_for_grandchild, PROCESS | UNCOUNTED },
	{ "death-over-unread", bytes_and_death, PROCESS | UNCOUNTED | WAIT_EPOLL },
#endif
	{ NULL, NULL, 0 }
};
