/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What an end learns of a peer that is killed: at once, and what TCP would say. */
#include "conform.h"

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
	{ "death-over-unread", bytes_and_death, PROCESS | UNCOUNTED | WAIT_EPOLL },
#endif
	{ NULL, NULL, 0 }
};
