/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Other processes: descriptors that are handed over, and short-lived ones. */
#include "actor.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/lib/rights.h"

enum { SAID = 6 };		/* bytes, see spawn_run() */

static int hand_of(const struct end *e, const struct op *o)
{
	return e->hand[o->owner == 'x' || o->owner == 'y'];
}

/* give PLACE: to the child, or to the parent, who takes it in the next line */
static void give_any(struct end *e, const struct op *o)
{
	long r;

	mark();
	r = rights_send(hand_of(e, o), fd_at(e, o->a[0]));
	say_result(e, o, r, "");
}

/* take PLACE CLOEXEC */
static void take_any(struct end *e, const struct op *o)
{
	int fd;

	mark();
	fd = rights_recv(hand_of(e, o), o->a[1] ? MSG_CMSG_CLOEXEC : 0);
	say_result(e, o, fd < 0 ? -1 : 0, "");
	fd_put(e, o->a[0], fd);
}

/* A program whose number `as` is the connection; what it says, if it is to be heard. */
static pid_t program(const char *const *argv, int fd, int as, int out)
{
	posix_spawn_file_actions_t act;
	pid_t pid = -1;

	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_adddup2(&act, fd, as);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&act, out, 1);
	if (posix_spawnp(&pid, argv[0], &act, NULL, (char **)argv, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&act);
	return pid;
}

static pid_t forked(int fd, long how)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (how == 6 && write(fd, "forked", SAID) != SAID)
			_exit(1);
		if (how == 3)
			exit(0);
		_exit(0);
	}
	return pid;
}

/* The bytes that a program reads off the connection. */
static pid_t reader(int fd, size_t n, unsigned char *buf)
{
	char size[32];
	const char *const argv[] = { "dd", size, "count=1", "iflag=fullblock", "status=none", NULL };
	size_t done = 0;
	int p[2] = { -1, -1 };
	ssize_t k;
	pid_t pid;

	snprintf(size, sizeof(size), "bs=%zu", n);
	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = program(argv, fd, 0, p[1]);
	close(p[1]);
	while (done < n && (k = read(p[0], buf + done, n - done)) > 0)
		done += (size_t)k;
	close(p[0]);
	return pid;
}

/* spawn PLACE HOW BYTES: 0 system, 1 vfork, 2 fork and _exit, 3 fork and exit, 4 a program
 * that writes, 5 one that reads BYTES, 6 a fork that writes */
static void spawn_run(struct end *e, const struct op *o)
{
	static const char *const echo[] = { "echo", "hello", NULL };
	int fd = fd_at(e, o->a[0]), status = -1;
	size_t n = (size_t)o->a[2];
	unsigned char *buf = calloc(1, n + 1);
	char more[32];
	pid_t pid = 0;

	switch (o->a[1]) {
	case 0: status = system(":"); break;
	case 1:
		pid = vfork();
		if (pid == 0)
			_exit(0);
		break;
	case 4: pid = program(echo, fd, 1, -1); break;
	case 5: pid = reader(fd, n, buf); break;
	default: pid = forked(fd, o->a[1]); break;
	}
	if (pid)
		waitpid(pid, &status, 0);
	snprintf(more, sizeof(more), " #%08x", digest(buf, n));
	mark();
	say_result(e, o, status, more);
	free(buf);
}

const struct call process_calls[] = {
	{ "give", give_any },
	{ "take", take_any },
	{ "spawn", spawn_run },
	{ NULL, NULL }
};
