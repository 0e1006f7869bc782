/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Epoll sets that a process and its child hold together: whoever changes an
 * entry does so for both, and an entry lives as long as somebody holds its socket.
 * And the error of a socket, which is told to one of them.
 */
#include "conform.h"

#include <netinet/in.h>
#include <sys/wait.h>

enum { PATIENCE_S = 15, ONCE = EPOLLIN | EPOLLONESHOT, EDGE = EPOLLIN | EPOLLET };

/* A child, and the way to have it do one thing after the other. */
struct child {
	pid_t pid;
	int go[2], done[2];
};

typedef int child_fn(int ep, int fd);

static void child_step(const struct child *k, int ep, int fd, child_fn *fn)
{
	char byte = 0;

	if (read(k->go[0], &byte, 1) != 1)
		_exit(0);
	byte = (char)fn(ep, fd);
	if (write(k->done[1], &byte, 1) != 1)
		_exit(1);
}

/* It does these, each when it is told to, and ends when there is nobody to tell it. */
static void child_start(struct role *r, struct child *k, int ep, child_fn *const *fns)
{
	char byte;

	MUST(r, pipe2(k->go, O_CLOEXEC));
	MUST(r, pipe2(k->done, O_CLOEXEC));
	k->pid = (pid_t)MUST(r, fork());
	if (k->pid)
		return;
	alarm(PATIENCE_S);
	close(k->go[1]);
	for (; *fns; fns++)
		child_step(k, ep, r->s, *fns);
	if (read(k->go[0], &byte, 1) < 0)
		_exit(1);
	_exit(0);
}

static int child_does(const struct child *k)
{
	char byte = 'g';

	if (write(k->go[1], &byte, 1) != 1 || read(k->done[0], &byte, 1) != 1)
		return -1;
	return byte;
}

static int child_end(const struct child *k)
{
	int status = -1;

	close(k->go[1]);
	close(k->go[0]);
	waitpid(k->pid, &status, 0);
	close(k->done[0]);
	close(k->done[1]);
	return status;
}

/* ---------------------------------------------- what a child may do: 0 -- */

static int does_del(int ep, int fd)
{
	return epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL) ? errno : 0;
}

static int does_add(int ep, int fd)
{
	return set_ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 2) ? errno : 0;
}

static int does_add_edge(int ep, int fd)
{
	return set_ctl(ep, EPOLL_CTL_ADD, fd, EDGE, 2) ? errno : 0;
}

static int does_mod(int ep, int fd)
{
	return set_ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 2) ? errno : 0;
}

static int does_arm(int ep, int fd)
{
	return set_ctl(ep, EPOLL_CTL_MOD, fd, ONCE, 2) ? errno : 0;
}

static int does_wait(int ep, int fd)
{
	struct epoll_event ev = { 0 };

	if (epoll_wait(ep, &ev, 1, 5000) != 1)
		return 100;
	return ev.events == EPOLLIN && ev.data.u64 == 1 ? 0 : 101;
}

static int does_read(int ep, int fd)
{
	char buf[8];

	return readable_await(fd, 2) == 2 && read(fd, buf, 8) == 2 ? 0 : 1;
}

static int does_close(int ep, int fd)
{
	return close(fd);
}

static int does_poll(int ep, int fd)
{
	struct pollfd p = { .fd = ep, .events = POLLIN };

	return poll(&p, 1, 5000) == 1 && p.revents == POLLIN ? 0 : 1;
}

static int does_look(int ep, int fd)
{
	struct pollfd p = { .fd = ep, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN ? 0 : 1;
}

static int called_at = -1, answered;		/* the child's own connection */

static int does_accept(int ep, int fd)
{
	answered = accept4(called_at, NULL, NULL, SOCK_CLOEXEC);
	return answered < 0 ? errno : does_add(ep, answered);
}

static int does_answer(int ep, int fd)
{
	char buf[8];

	return read(answered, buf, 8) == 2 && write(answered, buf, 2) == 2 ? 0 : 1;
}

static int does_fail(int ep, int fd)
{
	char buf[8];

	return read(fd, buf, 8) < 0 ? errno : 0;
}

static int does_ask(int ep, int fd)
{
	int err = -1;
	socklen_t len = sizeof(err);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? errno : err;
}

static int does_send(int ep, int fd)
{
	return send(fd, "x", 1, MSG_NOSIGNAL) < 0 ? errno : 0;
}

static child_fn *const deletes[] = { does_del, NULL };
static child_fn *const adds[] = { does_add, NULL };
static child_fn *const changes[] = { does_mod, NULL };
static child_fn *const arms[] = { does_arm, NULL };
static child_fn *const waits[] = { does_wait, NULL };
static child_fn *const replaces[] = { does_del, does_add_edge, NULL };
static child_fn *const reads[] = { does_read, does_del, NULL };
static child_fn *const closes[] = { does_close, NULL };
static child_fn *const accepts[] = {
	does_accept, does_answer, does_answer, does_answer, does_answer, does_answer, does_answer, NULL
};
static child_fn *const fails[] = { does_look, does_fail, does_fail, does_send, NULL };
static child_fn *const polls_late[] = { does_fail, does_look, does_poll, NULL };
static child_fn *const asks[] = { does_look, does_ask, does_fail, does_send, NULL };
static child_fn *const sends[] = { does_look, does_send, does_fail, NULL };
static child_fn *const polls[] = { does_poll, NULL };
static child_fn *const looks[] = { does_look, does_poll, NULL };

/* ------------------------------------------------------------ the cases -- */

static int set_start(struct role *r, struct child *k, unsigned int events, child_fn *const *fns)
{
	int ep = set_new(r);

	if (events)
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, events, 1));
	child_start(r, k, ep, fns);
	return ep;
}

/* The client's part: two bytes each time that the server wants some. */
static void client_sends(struct role *r, int times)
{
	for (int i = 0; i < times; i++) {
		meet(r);
		TRY(r, 2, send(r->c, "hi", 2, 0));
		drained_await(r->c);
		meet(r);
	}
}

/* ... all of it. */
static void client_end(struct role *r, int times)
{
	CLIENT(r)
		client_sends(r, times);
	conn_close(r);
}

/* The server's end: of the child, and of the set. */
static void set_end(struct role *r, struct child *k, int ep)
{
	TRY(r, 0, child_end(k));
	TRY(r, 0, close(ep));
}

static void bytes_come(struct role *r)
{
	meet(r);
	meet(r);
}

static void bytes_taken(struct role *r)
{
	char buf[8];

	TRY(r, 2, recv(r->s, buf, 8, 0));
}

/* What the child has taken out is not there for its parent. */
static void put_back(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_start(r, &k, EPOLLIN, deletes);

		TRY(r, 0, child_does(&k));
		TRY(r, -ENOENT, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN, 3));
		TRY(r, -ENOENT, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 3));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 3));
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 3);
		bytes_taken(r);
		set_quiet(r, ep);
		set_end(r, &k, ep);
	}
	client_end(r, 1);
}

/* ... and what it puts in is, also when the child is gone. */
static void added(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_start(r, &k, 0, adds);

		TRY(r, 0, child_does(&k));
		TRY(r, -EEXIST, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 3));
		for (int i = 0; i < 20; i++) {
			bytes_come(r);
			set_expect(r, ep, EPOLLIN, 2);
			bytes_taken(r);
			if (!i)
				TRY(r, 0, child_end(&k));
			poll(NULL, 0, 1);	/* rings are made in the background */
		}
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_DEL, r->s, 0, 3));
		bytes_come(r);
		set_quiet(r, ep);
		bytes_taken(r);
		TRY(r, 0, close(ep));
	}
	client_end(r, 21);
}

static void changed(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_start(r, &k, EPOLLIN, changes);

		TRY(r, 0, child_does(&k));
		set_expect(r, ep, EPOLLOUT, 2);
		bytes_come(r);
		TRY(r, 2, readable_await(r->s, 2));
		set_expect(r, ep, EPOLLIN | EPOLLOUT, 2);
		bytes_taken(r);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, EPOLLIN, 3));
		set_quiet(r, ep);
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 3);
		bytes_taken(r);
		set_end(r, &k, ep);
	}
	client_end(r, 2);
}

/* A single shot of the parent's that the child arms again. */
static void armed(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_start(r, &k, ONCE, arms);

		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 1);
		set_quiet(r, ep);
		TRY(r, 0, child_does(&k));
		set_expect(r, ep, EPOLLIN, 2);
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, ONCE, 3));
		set_expect(r, ep, EPOLLIN, 3);
		bytes_taken(r);
		set_end(r, &k, ep);
	}
	client_end(r, 1);
}

/* ... had fired before there was a child. */
static void armed_after(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_new(r);

		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, ONCE, 1));
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 1);
		child_start(r, &k, ep, arms);
		TRY(r, 0, child_does(&k));
		set_expect(r, ep, EPOLLIN, 2);
		set_quiet(r, ep);
		bytes_taken(r);
		set_end(r, &k, ep);
	}
	client_end(r, 1);
}

/* A shot that the child was told of is none for its parent. */
static void spent(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_start(r, &k, ONCE, waits);

		bytes_come(r);
		TRY(r, 0, child_does(&k));
		set_quiet(r, ep);
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_MOD, r->s, ONCE, 3));
		set_expect(r, ep, EPOLLIN, 3);
		set_quiet(r, ep);
		bytes_taken(r);
		set_end(r, &k, ep);
	}
	client_end(r, 1);
}

/* A level that becomes an edge. */
static void replaced(struct role *r)
{
	struct child k;

	conn_open(r);
	SERVER(r) {
		int ep = set_start(r, &k, EPOLLIN, replaces);

		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 0, child_does(&k));
		set_quiet(r, ep);
		TRY(r, 0, child_does(&k));
		set_expect(r, ep, EPOLLIN, 2);
		set_quiet(r, ep);
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 2);
		set_quiet(r, ep);
		set_end(r, &k, ep);
	}
	client_end(r, 2);
}

/* The parent's number is closed, and its set goes on to tell of what the child has. */
static void closed_told(struct role *r)
{
	struct child k;
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = set_start(r, &k, EPOLLIN, reads);
		TRY(r, 0, close(r->s));
		set_quiet(r, ep);
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 1);
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 0, child_does(&k));
		set_quiet(r, ep);
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 0, child_does(&k));		/* which the child takes out */
		set_quiet(r, ep);
	}
	CLIENT(r) {
		client_sends(r, 2);
		meet(r);
		TRY(r, 0, close(r->c));
	}
	SERVER(r) {
		meet(r);
		TRY(r, 0, child_end(&k));
		set_quiet(r, ep);
		TRY(r, 0, close(ep));
	}
}

/* ... until the child has closed it too. */
static void closed_by_both(struct role *r)
{
	struct child k;
	int ep = -1;

	conn_open(r);
	SERVER(r) {
		ep = set_start(r, &k, EPOLLIN, closes);
		TRY(r, 0, close(r->s));
		set_quiet(r, ep);
		bytes_come(r);
		set_expect(r, ep, EPOLLIN, 1);
		TRY(r, 0, child_does(&k));
		set_quiet(r, ep);
		set_end(r, &k, ep);
	}
	CLIENT(r) {
		client_sends(r, 1);
		CHECK(r, event_await(r->c, POLLIN) & POLLIN);
		TRY(r, 0, close(r->c));
	}
}

static int call_again(struct role *r)
{
	struct sockaddr_storage sa;
	int fd = (int)MUST(r, socket(conf_family(), SOCK_STREAM | SOCK_CLOEXEC, 0));

	loopback_addr(&sa, r->port);
	TRY(r, 0, connect(fd, (struct sockaddr *)&sa, conf_family() == AF_INET6 ?
			  sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)));
	return fd;
}

/* What the child alone has, and puts into the set of both, its parent is told of. */
static void childs_own(struct role *r)
{
	struct child k;
	int i, fd = -1;
	char buf[8];

	conn_open(r);
	SERVER(r) {
		called_at = r->listener;
		int ep = set_start(r, &k, EPOLLIN, accepts);

		meet(r);
		TRY(r, 0, child_does(&k));
		for (i = 0; i < 6; i++) {
			bytes_come(r);
			set_expect(r, ep, EPOLLIN, 2);
			TRY(r, 0, child_does(&k));
			meet(r);
		}
		set_end(r, &k, ep);
	}
	CLIENT(r) {
		fd = call_again(r);
		meet(r);
		for (i = 0; i < 6; i++) {
			meet(r);
			TRY(r, 2, send(fd, "hi", 2, 0));
			drained_await(fd);
			meet(r);
			TRY(r, 2, recv(fd, buf, 8, 0));
			poll(NULL, 0, 5);	/* rings are made in the background */
			meet(r);
		}
		TRY(r, 0, close(fd));
	}
	conn_close(r);
}

static void client_resets(struct role *r)
{
	struct linger lg = { .l_onoff = 1 };

	meet(r);
	TRY(r, 0, setsockopt(r->c, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	TRY(r, 0, close(r->c));
	meet(r);
}

/* A reset that was there before the child: who polls the set is told, at once. */
static void reset_before(struct role *r)
{
	struct child k;

	conn_open(r);
	CLIENT(r)
		client_resets(r);
	SERVER(r) {
		int ep = set_new(r);
		struct pollfd p = { .fd = ep, .events = POLLIN };

		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		bytes_come(r);
		set_expect(r, ep, EPOLLIN | EPOLLERR | EPOLLHUP, 1);
		child_start(r, &k, ep, looks);
		TRY(r, 0, child_does(&k));
		TRY(r, 0, child_does(&k));
		TRY(r, 1, poll(&p, 1, 0));
		TRY(r, 1, poll(&p, 1, 5000));
		set_expect(r, ep, EPOLLIN | EPOLLERR | EPOLLHUP, 1);
		set_end(r, &k, ep);
		TRY(r, 0, close(r->s));
	}
}

/* ... and one that comes later. */
static void reset_after(struct role *r)
{
	struct child k;

	conn_open(r);
	CLIENT(r)
		client_resets(r);
	SERVER(r) {
		int ep = set_start(r, &k, EPOLLIN, polls);
		struct pollfd p = { .fd = ep, .events = POLLIN };

		bytes_come(r);
		TRY(r, 1, poll(&p, 1, 5000));
		TRY(r, 0, child_does(&k));
		TRY(r, 1, poll(&p, 1, 0));
		set_expect(r, ep, EPOLLIN | EPOLLERR | EPOLLHUP, 1);
		set_end(r, &k, ep);
		TRY(r, 0, close(r->s));
	}
}

/* ... and its parent has read. */
static void reset_read(struct role *r)
{
	struct child k;
	char buf[8];

	conn_open(r);
	CLIENT(r)
		client_resets(r);
	SERVER(r) {
		int ep = set_start(r, &k, EPOLLIN, looks);
		struct pollfd p = { .fd = ep, .events = POLLIN };

		bytes_come(r);
		set_expect(r, ep, EPOLLIN | EPOLLERR | EPOLLHUP, 1);
		TRY(r, -ECONNRESET, read(r->s, buf, 8));
		TRY(r, 0, child_does(&k));
		TRY(r, 0, child_does(&k));
		TRY(r, 1, poll(&p, 1, 0));
		set_expect(r, ep, EPOLLIN | EPOLLHUP, 1);
		set_end(r, &k, ep);
		TRY(r, 0, close(r->s));
	}
}

/* ... and the child has read, before it has ever looked at the set. */
static void reset_read_by_child(struct role *r)
{
	struct child k;

	conn_open(r);
	CLIENT(r)
		client_resets(r);
	SERVER(r) {
		int ep = set_start(r, &k, EPOLLIN, polls_late);
		struct pollfd p = { .fd = ep, .events = POLLIN };

		bytes_come(r);
		set_expect(r, ep, EPOLLIN | EPOLLERR | EPOLLHUP, 1);
		TRY(r, ECONNRESET, child_does(&k));
		TRY(r, 0, child_does(&k));
		TRY(r, 0, child_does(&k));
		TRY(r, 1, poll(&p, 1, 0));
		set_expect(r, ep, EPOLLIN | EPOLLHUP, 1);
		set_end(r, &k, ep);
		TRY(r, 0, close(r->s));
	}
}

/* Parent and child have both seen it; the one that asks first is told, and the other is not. */
static void told_to_one(struct role *r, bool late, bool parent, child_fn *const *fns, child_fn *own)
{
	struct child k;

	conn_open(r);
	CLIENT(r)
		client_resets(r);
	SERVER(r) {
		int ep = late ? set_new(r) : set_start(r, &k, EPOLLIN, fns);

		if (late)
			TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, EPOLLIN, 1));
		bytes_come(r);
		CHECK(r, event_settled(r->s, POLLIN, POLLERR | POLLHUP) & POLLERR);
		if (late)
			child_start(r, &k, ep, fns);
		TRY(r, 0, child_does(&k));
		if (parent)
			SHOW(r, own(ep, r->s));
		for (int i = 1; fns[i]; i++)
			SHOW(r, child_does(&k));
		SHOW(r, own(ep, r->s));
		SHOW(r, does_ask(ep, r->s));
		SHOW(r, does_send(ep, r->s));
		set_end(r, &k, ep);
		TRY(r, 0, close(r->s));
	}
}

static void parent_reads_first(struct role *r)
{
	told_to_one(r, false, true, fails, does_fail);
}

static void parent_asks_first(struct role *r)
{
	told_to_one(r, true, true, fails, does_ask);
}

static void child_reads_first(struct role *r)
{
	told_to_one(r, false, false, fails, does_fail);
}

static void child_asks_first(struct role *r)
{
	told_to_one(r, true, false, asks, does_send);
}

static void child_sends_first(struct role *r)
{
	told_to_one(r, false, false, sends, does_ask);
}

/* The parent lets go of the set; its child is told what was there before. */
static void closed_by_parent(struct role *r, uint32_t events)
{
	static child_fn *const told[] = { does_wait, NULL };

	conn_open(r);
	CLIENT(r)
		TRY(r, 5, send(r->c, "hello", 5, 0));
	meet(r);
	SERVER(r) {
		int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		struct child k;

		TRY(r, 5, readable_await(r->s, 5));
		TRY(r, 0, set_ctl(ep, EPOLL_CTL_ADD, r->s, events, 1));
		child_start(r, &k, ep, told);
		TRY(r, 0, close(ep));
		TRY(r, 0, child_does(&k));
		TRY(r, 0, child_end(&k));
	}
	conn_close(r);
}

static void set_closed_by_parent(struct role *r)
{
	closed_by_parent(r, EPOLLIN);
}

static void edge_set_closed_by_parent(struct role *r)
{
	closed_by_parent(r, EDGE);
}

const struct conf_case kinsets_cases[] = {
	{ "kinset-put-back", put_back, PROCESS | WAIT_EPOLL },
	{ "kinset-added", added, PROCESS | WAIT_EPOLL },
	{ "kinset-changed", changed, PROCESS | WAIT_EPOLL },
	{ "kinset-armed", armed, PROCESS | WAIT_EPOLL },
	{ "kinset-armed-after", armed_after, PROCESS | WAIT_EPOLL },
	{ "kinset-spent", spent, PROCESS | WAIT_EPOLL },
	{ "kinset-replaced", replaced, PROCESS | WAIT_EPOLL },
	{ "kinset-closed-told", closed_told, PROCESS | WAIT_EPOLL },
	{ "kinset-closed-by-both", closed_by_both, PROCESS | WAIT_EPOLL },
	{ "kinset-childs-own", childs_own, PROCESS | WAIT_EPOLL },
	{ "kinset-reset-before", reset_before, PROCESS | WAIT_EPOLL },
	{ "kinset-reset-after", reset_after, PROCESS | WAIT_EPOLL },
	{ "kinset-reset-read", reset_read, PROCESS | WAIT_EPOLL },
	{ "kinset-reset-read-by-child", reset_read_by_child, PROCESS | WAIT_EPOLL },
	{ "kinset-parent-reads-first", parent_reads_first, PROCESS | WAIT_EPOLL },
	{ "kinset-parent-asks-first", parent_asks_first, PROCESS | WAIT_EPOLL },
	{ "kinset-child-reads-first", child_reads_first, PROCESS | WAIT_EPOLL },
	{ "kinset-child-asks-first", child_asks_first, PROCESS | WAIT_EPOLL },
	{ "kinset-child-sends-first", child_sends_first, PROCESS | WAIT_EPOLL },
	{ "kinset-closed-by-parent", set_closed_by_parent, PROCESS | WAIT_EPOLL },
	{ "kinset-closed-by-parent-edge", edge_set_closed_by_parent, PROCESS | WAIT_EPOLL },
	{ NULL, NULL, 0 }
};
