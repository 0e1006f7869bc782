/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Connections across fork, exec, spawn and descriptor passing. */
#include "conform.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/lib/rights.h"
#include "tests/lib/step.h"

extern char **environ;

static int child_await(struct role *r, pid_t pid)
{
	int status = -1;

	MUST(r, waitpid(pid, &status, 0));
	return status;
}

static int echo_until_eof(int fd)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (send_all(fd, buf, (size_t)n) != n)
			return 2;
	return n == 0 ? 0 : 3;
}

/* The client's part of most cases: 1 MB there and back, then EOF both ways. */
static void client_echo(struct role *r)
{
	static char out[1 << 16], in[sizeof(out)];
	long wrong = 0;
	int i;

	for (i = 0; i < 16; i++) {
		memset(out, 'a' + i, sizeof(out));
		wrong += send_all(r->c, out, sizeof(out)) != sizeof(out);
		wrong += recv_all(r->c, in, sizeof(in)) != sizeof(in);
		wrong += memcmp(out, in, sizeof(in)) != 0;
	}
	TRY(r, 0, wrong);
	TRY(r, 0, shutdown(r->c, SHUT_WR));
	TRY(r, 0, read(r->c, in, 4));
	TRY(r, 0, close(r->c));
}

static void child_serves(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			close(r->listener);
			_exit(echo_until_eof(r->s));
		}
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

/* The child ends by exit(), with all that a library does at exit. */
static void child_serves_exits(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			exit(echo_until_eof(r->s));
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

static void child_only_closes(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			_exit(close(r->s));
		TRY(r, 0, child_await(r, pid));
		TRY(r, 0, echo_until_eof(r->s));
		TRY(r, 0, close(r->s));
	}
}

static void child_only_exits(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			exit(0);
		TRY(r, 0, child_await(r, pid));
		TRY(r, 0, echo_until_eof(r->s));
		TRY(r, 0, close(r->s));
	}
}

/* The connecting side forks, its parent goes on. */
static void client_forks(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			_exit(0);
		TRY(r, 0, child_await(r, pid));
		client_echo(r);
	}
	SERVER(r) {
		TRY(r, 0, echo_until_eof(r->s));
		TRY(r, 0, close(r->s));
	}
}

/* FIN comes when the last copy in any process is closed, not before. */
static void fin_after_last(struct role *r)
{
	pid_t pid = 0;
	int go[2];
	char buf[4];

	conn_open(r);
	SERVER(r) {
		MUST(r, pipe2(go, O_CLOEXEC));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			close(go[1]);
			_exit(read(go[0], buf, 1) != 0);
		}
		TRY(r, 0, close(r->s));
		meet(r);
		meet(r);
		TRY(r, 0, close(go[1]));
		TRY(r, 0, child_await(r, pid));
	}
	CLIENT(r) {
		meet(r);
		quiet_check(r, r->c, POLLIN | POLLRDHUP);
		meet(r);
		TRY(r, 0, read(r->c, buf, 4));
		TRY(r, 0, close(r->c));
	}
}

/* shutdown acts at once, for all copies. */
static void shutdown_in_child(struct role *r)
{
	pid_t pid = 0;
	char buf[4];

	conn_open(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			_exit(shutdown(r->s, SHUT_WR) != 0);
		TRY(r, 0, child_await(r, pid));
		TRY(r, -EPIPE, send(r->s, "x", 1, MSG_NOSIGNAL));
		TRY(r, 2, recv(r->s, buf, 2, MSG_WAITALL));
	}
	CLIENT(r) {
		TRY(r, 0, read(r->c, buf, 4));
		TRY(r, 2, send(r->c, "ok", 2, 0));
	}
	conn_close(r);
}

/* Parent and child write and read in turns on one stream. */
static void turns(struct role *r)
{
	char buf[16] = "";
	int i;

	conn_open(r);
	SERVER(r) {
		for (i = 0; i < 4; i++) {
			pid_t pid = (pid_t)MUST(r, fork());

			if (pid == 0)
				_exit(read(r->s, buf, 1) != 1 || write(r->s, "c", 1) != 1);
			TRY(r, 0, child_await(r, pid));
			TRY(r, 1, read(r->s, buf, 1));
			TRY(r, 1, write(r->s, "p", 1));
		}
	}
	CLIENT(r) {
		TRY(r, 8, write(r->c, "01234567", 8));
		TRY(r, 8, recv(r->c, buf, 8, MSG_WAITALL));
		CHECK(r, memcmp(buf, "cpcpcpcp", 8) == 0);
	}
	conn_close(r);
}

/* Data that was unread at the fork is read by the child. */
static void unread_at_fork(struct role *r)
{
	char buf[16] = "";
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0)
			_exit(recv(r->s, buf, 3, MSG_WAITALL) != 3 || memcmp(buf, "unr", 3) != 0);
		TRY(r, 0, child_await(r, pid));
		TRY(r, 3, recv(r->s, buf, 16, 0));
		CHECK(r, memcmp(buf, "ead", 3) == 0);
	}
	conn_close(r);
}

/* inetd: the connection is the standard input and output of a filter. */
static void exec_cat(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			dup2(r->s, 0);
			dup2(r->s, 1);
			close(r->s);
			execlp("cat", "cat", (char *)NULL);
			_exit(9);
		}
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

/* The same where the filter starts without the library. */
static void exec_cat_clean(struct role *r)
{
	char *argv[] = { (char *)"cat", NULL }, *envp[] = { NULL };
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			dup2(r->s, 0);
			dup2(r->s, 1);
			close(r->s);
			execve("/bin/cat", argv, envp);
			_exit(9);
		}
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

static void exec_itself(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		dup2(r->s, 0);
		dup2(r->s, 1);
		close(r->s);
		execlp("cat", "cat", (char *)NULL);
		give_up(r, "exec");
	}
}

static void spawn_cat(struct role *r)
{
	posix_spawn_file_actions_t fa;
	char *argv[] = { (char *)"cat", NULL };
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		posix_spawn_file_actions_init(&fa);
		posix_spawn_file_actions_adddup2(&fa, r->s, 0);
		posix_spawn_file_actions_adddup2(&fa, r->s, 1);
		posix_spawn_file_actions_addclose(&fa, r->s);
		TRY(r, 0, posix_spawnp(&pid, "cat", &fa, NULL, argv, environ));
		posix_spawn_file_actions_destroy(&fa);
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

/* A vfork child's dup2 and close are not the parent's. */
static void vfork_child(struct role *r)
{
	pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		pid = vfork();
		if (pid == 0) {
			dup2(r->s, 0);
			close(r->s);
			execlp("true", "true", (char *)NULL);
			_exit(9);
		}
		TRY(r, 0, child_await(r, pid));
		TRY(r, 0, echo_until_eof(r->s));
		TRY(r, 0, close(r->s));
	}
}

static void system_and_popen(struct role *r)
{
	char line[16] = "";
	FILE *p;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		TRY(r, 0, system("exit 0"));
		p = popen("echo hello", "r");
		CHECK(r, fgets(line, sizeof(line), p) && strcmp(line, "hello\n") == 0);
		TRY(r, 0, pclose(p));
		TRY(r, 0, echo_until_eof(r->s));
		TRY(r, 0, close(r->s));
	}
}

/* A CLOEXEC copy in the child goes at exec; the parent's close gives EOF. */
static void cloexec(struct role *r)
{
	int hold[2];
	char buf[4];
	pid_t pid = 0;

	conn_open(r);
	SERVER(r) {
		MUST(r, pipe(hold));
		MUST(r, fcntl(r->s, F_SETFD, FD_CLOEXEC));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			dup2(hold[0], 0);
			close(hold[1]);
			execlp("cat", "cat", (char *)NULL);
			_exit(9);
		}
		TRY(r, 0, close(r->s));
		meet(r);
		TRY(r, 0, close(hold[1]));
		TRY(r, 0, child_await(r, pid));
	}
	CLIENT(r) {
		TRY(r, 0, read(r->c, buf, 4));	/* while the child lives on */
		meet(r);
		TRY(r, 0, close(r->c));
	}
}

/* What a vfork child takes close-on-exec off, or duplicates, is the new image's. */
static void vfork_gives(struct role *r, bool by_dup)
{
	char cat[] = "cat", *const argv[] = { cat, NULL };
	volatile pid_t pid = 0;

	conn_open(r);
	CLIENT(r)
		client_echo(r);
	SERVER(r) {
		MUST(r, fcntl(r->s, F_SETFD, FD_CLOEXEC));
		pid = (pid_t)MUST(r, vfork());
		if (pid == 0) {
			if (by_dup) {
				dup2(r->s, 0);
				dup2(r->s, 1);
			} else {
				fcntl(r->s, F_SETFD, 0);
				syscall(SYS_dup3, r->s, 0, 0);
				syscall(SYS_dup3, r->s, 1, 0);
			}
			execvp(cat, argv);
			_exit(9);
		}
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

static void vfork_dups(struct role *r)
{
	vfork_gives(r, true);
}

static void vfork_unsets(struct role *r)
{
	vfork_gives(r, false);
}

/* To a process that was there before the connection, with bytes unread. */
static void pass_fd(struct role *r)
{
	int channel[2];
	char buf[16] = "";
	pid_t pid = 0;

	SERVER(r) {
		MUST(r, step_pair(channel));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			int fd = rights_recv(channel[1], 0);

			if (recv(fd, buf, 6, MSG_WAITALL) != 6 || memcmp(buf, "unread", 6) != 0)
				_exit(5);
			_exit(echo_until_eof(fd));
		}
	}
	conn_open(r);
	CLIENT(r) {
		TRY(r, 6, send(r->c, "unread", 6, 0));
		meet(r);
		client_echo(r);
	}
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		meet(r);
		TRY(r, 1, rights_send(channel[0], r->s));
		TRY(r, 0, close(r->s));
		TRY(r, 0, child_await(r, pid));
	}
}

static long echo_rounds(int fd, bool asks, int n)
{
	char buf[64] = "";
	long wrong = 0;

	while (n-- > 0) {
		if (asks)
			wrong += send(fd, buf, sizeof(buf), MSG_NOSIGNAL) != sizeof(buf);
		wrong += recv_all(fd, buf, sizeof(buf)) != sizeof(buf);
		if (!asks)
			wrong += send(fd, buf, sizeof(buf), MSG_NOSIGNAL) != sizeof(buf);
	}
	return wrong;
}

/* Who passes a connection and closes it ends nothing, whatever its peer is about to do. */
static void pass_fd_often(struct role *r)
{
	int channel[2], i;
	pid_t pid = 0;
	char byte;

	SERVER(r) {
		MUST(r, step_pair(channel));
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			close(channel[0]);
			for (i = 0; i < 40; i++) {
				int fd = rights_recv(channel[1], 0);

				if (echo_until_eof(fd) != 0)
					_exit(5);
				close(fd);
			}
			_exit(0);
		}
	}
	listener_open(r);
	for (i = 0; i < 40; i++) {
		conn_more(r, &r->s, &r->c);
		CLIENT(r) {
			TRY(r, 0, echo_rounds(r->c, true, 50));
			poll(NULL, 0, 3);	/* rings are made in the background */
			TRY(r, 0, echo_rounds(r->c, true, 200));
			TRY(r, 0, shutdown(r->c, SHUT_WR));
			TRY(r, 0, recv(r->c, &byte, 1, 0));
			TRY(r, 0, close(r->c));
		}
		SERVER(r) {
			TRY(r, 0, echo_rounds(r->s, false, 50 + 5 * i));
			TRY(r, 1, rights_send(channel[0], r->s));
			TRY(r, 0, close(r->s));
		}
	}
	SERVER(r)
		TRY(r, 0, child_await(r, pid));
	meet(r);
	SERVER(r)
		MUST(r, close(r->listener));
}

/* Pre-forked workers: the listener is shared, any worker accepts. */
static void preforked(struct role *r)
{
	int i, c, s, bad = 0;
	char buf[8];
	pid_t pid[3];

	listener_open(r);
	SERVER(r) {
		for (i = 0; i < 3; i++) {
			pid[i] = (pid_t)MUST(r, fork());
			if (pid[i] != 0)
				continue;
			while ((s = accept(r->listener, NULL, NULL)) >= 0) {
				ssize_t n = recv(s, buf, 4, MSG_WAITALL);

				if (n == 4 && memcmp(buf, "quit", 4) == 0)
					_exit(0);
				send(s, buf, 4, MSG_NOSIGNAL);
				close(s);
			}
			_exit(1);
		}
	}
	for (i = 0; i < 33; i++) {
		CLIENT(r) {
			c = -1;
			conn_more(r, NULL, &c);
			bad += send(c, i < 30 ? "work" : "quit", 4, 0) != 4;
			bad += recv(c, buf, 8, MSG_WAITALL) != (i < 30 ? 4 : 0);
			close(c);
		}
	}
	CLIENT(r)
		TRY(r, 0, bad);
	SERVER(r)
		for (i = 0; i < 3; i++)
			TRY(r, 0, child_await(r, pid[i]));
}

/* daemon(): the parent leaves by _exit, the child accepts. */
static void daemonize(struct role *r)
{
	pid_t pid = 0;

	listener_open(r);
	CLIENT(r) {
		conn_more(r, NULL, &r->c);
		client_echo(r);
	}
	SERVER(r) {
		pid = (pid_t)MUST(r, fork());
		if (pid == 0) {
			if (fork() != 0)
				_exit(0);
			setsid();
			r->s = accept(r->listener, NULL, NULL);
			_exit(echo_until_eof(r->s));
		}
		TRY(r, 0, child_await(r, pid));
		meet(r);
	}
	CLIENT(r)
		meet(r);
}

const struct conf_case fork_cases[] = {
	{ "fork-child-serves", child_serves, PROCESS },
	{ "fork-child-serves-exits", child_serves_exits, PROCESS },
	{ "fork-child-only-closes", child_only_closes, PROCESS },
	{ "fork-child-only-exits", child_only_exits, PROCESS },
	{ "fork-client", client_forks, PROCESS },
	{ "fork-fin-after-last", fin_after_last, PROCESS },
	{ "fork-shutdown-in-child", shutdown_in_child, PROCESS },
	{ "fork-turns", turns, PROCESS },
	{ "fork-unread", unread_at_fork, PROCESS },
	{ "fork-exec-cat", exec_cat, PROCESS },
	{ "fork-exec-cat-clean", exec_cat_clean, PROCESS },
	{ "fork-exec-itself", exec_itself, PROCESS | UNCOUNTED },
	{ "fork-spawn-cat", spawn_cat, PROCESS },
	{ "fork-vfork", vfork_child, PROCESS },
	{ "fork-system-popen", system_and_popen, PROCESS },
	{ "fork-cloexec", cloexec, PROCESS },
	{ "fork-vfork-dups", vfork_dups, PROCESS },
	{ "fork-vfork-unsets", vfork_unsets, PROCESS },
	{ "fork-pass-fd", pass_fd, PROCESS },
	{ "fork-pass-fd-often", pass_fd_often, PROCESS | COLD },
	{ "fork-preforked", preforked, PROCESS | COLD },
	{ "fork-daemon", daemonize, PROCESS | COLD },
	{ NULL, NULL, 0 }
};
