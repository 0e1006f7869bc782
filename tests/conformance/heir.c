/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A connection that one process accepts (or makes) and its child goes on with.
 *
 * With the library at both ends the child must come to the ring as soon as it
 * is the only one that has the socket, and must not while anybody else has it.
 * Rounds of a request and a reply go until the child says that it is the last.
 */
#include "conform.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/lib/rights.h"
#include "tests/lib/step.h"

extern char **environ;

enum { BYTES = 200, FEW = 64, MANY = 400, ON_RING = 3 };
enum wanted { AT_LAST, NEVER };

/* Does the library say that fd is where it should be?  Without it: as wanted. */
static bool as_wanted(int fd, enum wanted w)
{
	int (*fd_path)(int);

	if (getenv("CONFORM_UNPAIRED"))
		return true;
	*(void **)&fd_path = dlsym(RTLD_DEFAULT, "sidestep_fd_path");
	return !fd_path || fd_path(fd) == (w == AT_LAST ? ON_RING : 0);
}

static bool reply(int fd, bool last)
{
	char m[BYTES];

	if (recv_all(fd, m, sizeof(m)) != sizeof(m))
		return false;
	m[0] = last ? 'l' : 'm';
	return send_all(fd, m, sizeof(m)) == sizeof(m);
}

/* n rounds, or until all is as wanted.  Return: 0; 2 the stream broke, 3 it never was. */
static int serve_rounds(int fd, enum wanted w, int n)
{
	bool right = false;
	int i;

	for (i = 0; i < n && (w == NEVER || !right); i++) {
		if (i > FEW)			/* what comes, comes from the background */
			poll(NULL, 0, 2);
		if (!reply(fd, false))
			return 2;
		right = as_wanted(fd, w);
		if (w == NEVER && !right)
			return 3;
	}
	return right ? 0 : 3;
}

/* The child's life with its connection. */
static int serve(int fd, enum wanted w)
{
	char byte;
	int err = serve_rounds(fd, w, w == NEVER ? 2 * FEW : MANY);

	if (err == 2 || !reply(fd, true))
		return 2;
	return read(fd, &byte, 1) != 0 ? 4 : err;
}

static void ask_rounds(struct role *r, int fd)
{
	char out[BYTES], in[BYTES];
	long wrong = 0;
	int i = 0;

	do {
		memset(out, 'a' + i++ % 26, sizeof(out));
		if (send_all(fd, out, sizeof(out)) != sizeof(out) ||
		    recv_all(fd, in, sizeof(in)) != sizeof(in)) {
			wrong++;
			break;
		}
		wrong += memcmp(out + 1, in + 1, sizeof(in) - 1) != 0;
	} while (in[0] != 'l');
	TRY(r, 0, wrong);
	TRY(r, 0, shutdown(fd, SHUT_WR));
	TRY(r, 0, read(fd, in, 1));
}

static void await_well(struct role *r, pid_t pid)
{
	int status = -1;

	MUST(r, waitpid(pid, &status, 0));
	TRY(r, 0, status);
}

/* Fork a child that serves; hold keeps it from starting until the other end is closed. */
static pid_t server_fork(struct role *r, enum wanted w, int hold[2])
{
	char byte;

	MUST(r, pipe2(hold, O_CLOEXEC));
	pid_t pid = (pid_t)MUST(r, fork());
	if (pid == 0) {
		close(hold[1]);
		read(hold[0], &byte, 1);
		_exit(serve(r->s, w));
	}
	close(hold[0]);
	return pid;
}

static void client_part(struct role *r)
{
	CLIENT(r) {
		ask_rounds(r, r->c);
		TRY(r, 0, close(r->c));
	}
}

static void served_by_child(struct role *r)
{
	int hold[2];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = server_fork(r, AT_LAST, hold);
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r)
		await_well(r, pid);
}

/* Not while the parent has it, but then. */
static void parent_closes_late(struct role *r)
{
	int more[2];
	char byte;
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		MUST(r, step_pair(more));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			int err = serve_rounds(r->s, NEVER, FEW);

			write(more[1], "", 1);
			read(more[1], &byte, 1);
			_exit(err ? 10 + err : serve(r->s, AT_LAST));
		}
		MUST(r, read(more[0], &byte, 1));
		TRY(r, 0, close(r->s));
		MUST(r, write(more[0], "", 1));
	}
	client_part(r);
	SERVER(r)
		await_well(r, pid);
}

static void parent_keeps(struct role *r)
{
	int hold[2];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = server_fork(r, NEVER, hold);
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r) {
		await_well(r, pid);
		TRY(r, 0, close(r->s));
	}
}

/* The parent closes one of its two numbers. */
static void parent_keeps_a_dup(struct role *r)
{
	int hold[2], also = -1;
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		also = (int)MUST(r, dup(r->s));
		pid = server_fork(r, NEVER, hold);
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r) {
		await_well(r, pid);
		TRY(r, 0, close(also));
	}
}

/* A brother, forked before the parent closed, has it too. */
static void brother_has_it(struct role *r)
{
	int hold[2], life[2];
	pid_t pid = 0, brother = 0;
	char byte;

	conn_open(r);
	SERVER(r) {
		MUST(r, pipe(life));
		pid = server_fork(r, NEVER, hold);
		brother = (pid_t)MUST(r, fork());
		if (brother == 0) {
			close(hold[1]);
			close(life[1]);
			read(life[0], &byte, 1);
			_exit(0);
		}
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r) {
		await_well(r, pid);
		close(life[1]);
		await_well(r, brother);
	}
}

/* A brother that was given it in a message has it too. */
static void stranger_has_it(struct role *r)
{
	int hold[2], channel[2];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = server_fork(r, NEVER, hold);
		MUST(r, step_pair(channel));
		TRY(r, 1, rights_send(channel[0], r->s));
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r) {
		await_well(r, pid);
		close(channel[0]);
		close(channel[1]);
	}
}

/* A program that the parent starts inherits it. */
static void spawned_has_it(struct role *r)
{
	char name[] = "cat";
	char *const argv[] = { name, NULL };
	posix_spawn_file_actions_t fa;
	int hold[2], life[2];
	pid_t pid = 0, cat = 0;

	conn_open(r);
	SERVER(r) {
		pid = server_fork(r, NEVER, hold);
		MUST(r, pipe2(life, O_CLOEXEC));
		posix_spawn_file_actions_init(&fa);
		posix_spawn_file_actions_adddup2(&fa, life[0], 0);
		TRY(r, 0, posix_spawnp(&cat, name, &fa, NULL, argv, environ));
		posix_spawn_file_actions_destroy(&fa);
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r) {
		await_well(r, pid);
		close(life[0]);
		close(life[1]);
		await_well(r, cat);
	}
}

/* The child has a child before it knows, and both have it. */
static void grandchild_has_it(struct role *r)
{
	int hold[2], life[2];
	pid_t pid = 0;
	char byte;

	conn_open(r);
	SERVER(r) {
		MUST(r, pipe2(hold, O_CLOEXEC));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			close(hold[1]);
			pid_t grandchild = (pid_t)MUST(r, pipe(life) ? -1 : fork());
			if (grandchild == 0) {
				close(life[1]);
				read(life[0], &byte, 1);
				_exit(0);
			}
			read(hold[0], &byte, 1);
			int err = serve(r->s, NEVER);
			close(life[1]);
			waitpid(grandchild, NULL, 0);
			_exit(err);
		}
		TRY(r, 0, close(r->s));
		close(hold[0]);
		close(hold[1]);
	}
	client_part(r);
	SERVER(r)
		await_well(r, pid);
}

/* The parent reads the first bytes after the fork: the child cannot know of them. */
static void parent_reads(struct role *r)
{
	int hold[2];
	char buf[8];
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 5, send(r->c, "first", 5, 0));
	SERVER(r) {
		pid = server_fork(r, NEVER, hold);
		TRY(r, 5, recv(r->s, buf, 5, MSG_WAITALL));
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r)
		await_well(r, pid);
}

static void parent_writes(struct role *r)
{
	int hold[2];
	char buf[8];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = server_fork(r, NEVER, hold);
		TRY(r, 5, send(r->s, "first", 5, 0));
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	CLIENT(r)
		TRY(r, 5, recv(r->c, buf, 5, MSG_WAITALL));
	client_part(r);
	SERVER(r)
		await_well(r, pid);
}

/* What the parent sets after the fork is the socket's, and unknown to the child. */
static void parent_sets(struct role *r)
{
	int hold[2], one = 1;
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		pid = server_fork(r, NEVER, hold);
		TRY(r, 0, setsockopt(r->s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		TRY(r, 0, close(r->s));
		TRY(r, 0, close(hold[1]));
	}
	client_part(r);
	SERVER(r)
		await_well(r, pid);
}

/* The connecting side: made by the parent, used by the child. */
static void used_by_child(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			ask_rounds(r, r->c);
			_exit(0);
		}
		MUST(r, close(r->c));	/* the child is printing */
	}
	SERVER(r) {
		TRY(r, 0, serve(r->s, AT_LAST));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r)
		await_well(r, pid);
}

/* One parent, many children, each with its own connection. */
static void many_children(struct role *r)
{
	enum { N = 8 };
	pid_t pid[N];
	int s, c, i;

	conn_open(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	CLIENT(r)
		TRY(r, 0, close(r->c));
	for (i = 0; i < N; i++) {
		conn_more(r, &s, &c);
		SERVER(r) {
			pid[i] = (pid_t)MUST(r, fork());
			if (pid[i] == 0)
				_exit(serve(s, AT_LAST));
			TRY(r, 0, close(s));
		}
		CLIENT(r) {
			ask_rounds(r, c);
			TRY(r, 0, close(c));
		}
		meet(r);
	}
	SERVER(r)
		for (i = 0; i < N; i++)
			await_well(r, pid[i]);
}

const struct conf_case heir_cases[] = {
	{ "heir-served-by-child", served_by_child, PROCESS | COLD },
	{ "heir-used-by-child", used_by_child, PROCESS | COLD },
	{ "heir-many-children", many_children, PROCESS | COLD },
	{ "heir-parent-closes-late", parent_closes_late, PROCESS | COLD },
	{ "heir-parent-keeps", parent_keeps, PROCESS | COLD },
	{ "heir-parent-keeps-a-dup", parent_keeps_a_dup, PROCESS | COLD },
	{ "heir-parent-reads", parent_reads, PROCESS | COLD },
	{ "heir-parent-writes", parent_writes, PROCESS | COLD },
	{ "heir-parent-sets", parent_sets, PROCESS | COLD },
	{ "heir-brother-has-it", brother_has_it, PROCESS | COLD },
	{ "heir-stranger-has-it", stranger_has_it, PROCESS | COLD },
	{ "heir-spawned-has-it", spawned_has_it, PROCESS | COLD },
	{ "heir-grandchild-has-it", grandchild_has_it, PROCESS | COLD },
	{ NULL, NULL, 0 }
};
