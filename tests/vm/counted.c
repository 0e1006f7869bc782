/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * counted: run a command, and append to FILE how many system calls it made
 *
 *	counted FILE COMMAND [ARG]...
 *
 * Those of its descendants are counted, too.  Signals that end servers are
 * passed on; the exit status is the command's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/callcount.h"

static volatile pid_t child;

static void pass_on(int sig)
{
	kill(child, sig);
}

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "counted: %s: %s\n", what, strerror(err));
	_exit(125);
}

/* The child, which executes when the parent has begun to count. */
static _Noreturn void command(char **argv, int go)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go, &c, 1) != 1)
		_exit(125);
	execvp(argv[0], argv);
	die(argv[0], errno);
}

static void report(const char *path, uint64_t calls)
{
	char line[32];
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	int n = snprintf(line, sizeof(line), "%llu\n", (unsigned long long)calls);

	if (fd < 0 || write(fd, line, (size_t)n) != n)
		die(path, errno);
}

int main(int argc, char **argv)
{
	int go[2], count, status;

	if (argc < 3) {
		fprintf(stderr, "usage: counted FILE COMMAND [ARG]...\n");
		return 2;
	}
	if (pipe2(go, O_CLOEXEC))
		die("pipe2", errno);
	child = fork();
	if (child < 0)
		die("fork", errno);
	if (!child)
		command(argv + 2, go[0]);
	for (size_t i = 0; i < 3; i++)
		signal((int[]){ SIGTERM, SIGINT, SIGQUIT }[i], pass_on);
	count = callcount_open(child);
	if (count < 0)
		die("perf_event_open", -count);
	if (write(go[1], "", 1) != 1)
		die("write", errno);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid", errno);
	report(argv[1], callcount_close(count));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
