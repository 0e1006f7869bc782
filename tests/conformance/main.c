/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * conform: run one conformance case and print its transcript.
 *
 * The outer side (this file) never touches a TCP socket.  It starts the roles
 * as separate programs, each one alone under the launcher or not, with the
 * step channel and a transcript file at fixed high descriptors, watches over
 * them, and prints the transcripts, the server's first.
 */
#include "conform.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/lib/step.h"

enum { EXIT_SKIP = 77, NAME_SIZE = 96 };

enum roles { ROLES_PROCESS, ROLES_THREAD, ROLES_SAME };

struct part {
	const char *who;	/* for --play */
	pid_t pid;		/* 0 before it starts and after it has ended */
	int step[2];		/* own ends of the channel, -1 if not given */
	int transcript[2];
	int status;
};

static struct {
	enum roles roles;
	const char *launch, *sides, *stats, *play;
	int timeout_s;
} opt = { .sides = "both", .timeout_s = 20 };

static const struct conf_case *const tables[] = {
	stream_cases, bulk_cases, flags_cases, iov_cases, ends_cases, closing_cases, nonblock_cases,
	readiness_cases, select_cases, epoll_cases, options_cases, dup_cases, stdio_cases,
	sendfile_cases, fork_cases, heir_cases, kin_cases, kinsets_cases, leave_cases,
	threads_cases, signals_cases, urgent_cases,
	connect_cases, errors_cases, raw_cases, sandbox_cases, seams_cases, shared_cases, uring_cases,
	sets_cases, settings_cases, stacks_cases, deaths_cases,
};

static const struct conf_case *case_find(const char *name)
{
	const struct conf_case *c;
	size_t i;

	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (c = tables[i]; c->name; c++)
			if (strcmp(c->name, name) == 0)
				return c;
	return NULL;
}

static bool case_plays(const struct conf_case *c, enum roles roles)
{
	if (roles == ROLES_THREAD)
		return !(c->flags & PROCESS);
	if (roles == ROLES_SAME)
		return !(c->flags & (PROCESS | TOGETHER));
	return true;
}

/* One line a case: name, roles that it can be played in, properties. */
static void cases_list(void)
{
	const struct conf_case *c;
	size_t i;

	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (c = tables[i]; c->name; c++)
			printf("%s process%s%s %s%s%s%s\n", c->name,
			       case_plays(c, ROLES_THREAD) ? ",thread" : "",
			       case_plays(c, ROLES_SAME) ? ",same" : "",
			       c->flags & COLD ? "cold" : "ring",
			       c->flags & UNCOUNTED ? ",uncounted" : "",
			       c->flags & WARMS ? ",warms" : "",
			       c->flags & ONE_WAY ? ",one-way" : "");
}

static void fd_place(int fd, int number)
{
	if (fd >= 0 && dup2(fd, number) < 0)
		_exit(126);
}

static void part_environment(const struct part *p)
{
	char path[4096];

	if (strcmp(opt.sides, "both") != 0)
		setenv("CONFORM_UNPAIRED", "1", 1);
	if (!opt.stats)
		return;
	snprintf(path, sizeof(path), "%s.%s", opt.stats, p->who);
	setenv("SIDESTEP_STATS_FILE", path, 1);
}

static _Noreturn void part_exec(const struct part *p, const char *name)
{
	char play_arg[NAME_SIZE], self[4096], *argv[5] = { NULL };
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	bool launched = opt.launch && (strcmp(opt.sides, "both") == 0 ||
				       strcmp(opt.sides, p->who) == 0);
	int argc = 0;

	if (n < 0)
		_exit(126);
	self[n] = '\0';
	snprintf(play_arg, sizeof(play_arg), "--play=%s", p->who);
	if (launched)
		argv[argc++] = (char *)opt.launch;
	argv[argc++] = self;
	argv[argc++] = play_arg;
	argv[argc++] = (char *)name;
	execv(argv[0], argv);
	fprintf(stderr, "conform: cannot run %s: %m\n", argv[0]);
	_exit(126);
}

static void part_start(struct part *p, const char *name)
{
	sigset_t none;
	int i;

	fflush(stdout);
	p->pid = fork();
	if (p->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (i = 0; i < 2; i++) {
		fd_place(p->step[i], FD_STEP + i);
		fd_place(p->transcript[i], FD_TRANSCRIPT + i);
	}
	part_environment(p);
	part_exec(p, name);
}

static void stacks_print(const struct part *p)
{
	char command[256];

	fflush(stdout);
	snprintf(command, sizeof(command),
		 "command -v gdb >/dev/null && timeout 10 gdb -batch -p %d -ex 'thread apply all bt 12' "
		 "2>/dev/null </dev/null | grep -E '^(Thread|#)'", (int)p->pid);
	if (system(command) != 0)
		printf("(no stacks)\n");
}

static void part_kill(struct part *p)
{
	if (!p->pid)
		return;
	printf("HANG: %s\n", p->who);
	stacks_print(p);
	kill(-p->pid, SIGKILL);
	waitpid(p->pid, &p->status, 0);
	p->pid = 0;
}

/* Reap what has ended.  Return: how many still run; *bad if one ended badly. */
static int parts_reap(struct part *parts, int count, bool *bad)
{
	int i, running = 0;

	for (i = 0; i < count; i++) {
		if (!parts[i].pid)
			continue;
		if (waitpid(parts[i].pid, &parts[i].status, WNOHANG) != parts[i].pid) {
			running++;
			continue;
		}
		kill(-parts[i].pid, SIGKILL);	/* left-over children of the case */
		parts[i].pid = 0;
		if (parts[i].status)
			*bad = true;
	}
	return running;
}

static void parts_await(struct part *parts, int count)
{
	long long end = now_ms() + opt.timeout_s * 1000LL, left;
	struct timespec ts;
	bool bad = false, shortened = false;
	sigset_t chld;
	int i;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	while (parts_reap(parts, count, &bad) > 0) {
		left = end - now_ms();
		if (left <= 0)
			break;
		if (bad && !shortened) {	/* the other one waits in vain */
			shortened = true;
			left = left < 3000 ? left : 3000;
			end = now_ms() + left;
		}
		ts.tv_sec = left / 1000;
		ts.tv_nsec = left % 1000 * 1000000;
		sigtimedwait(&chld, NULL, &ts);
	}
	for (i = 0; i < count; i++)
		part_kill(&parts[i]);
}

static void transcript_print(int fd, const char *prefix)
{
	FILE *f = fdopen(fd, "r");
	char line[1024];

	if (!f)
		return;
	rewind(f);
	while (fgets(line, sizeof(line), f))
		printf("%s %s", prefix, line);
	fclose(f);
}

static int part_verdict(const struct part *p)
{
	if (WIFSIGNALED(p->status))
		printf("KILLED: %s by signal %d\n", p->who, WTERMSIG(p->status));
	else if (WEXITSTATUS(p->status) > 1)
		printf("ENDED: %s with status %d\n", p->who, WEXITSTATUS(p->status));
	return p->status != 0;
}

static int case_run(const char *name)
{
	static const char *const whole[] = { NULL, "threads", "same" };
	struct part parts[2] = { 0 };
	int count = opt.roles == ROLES_PROCESS ? 2 : 1, step[2], script[2], i, bad = 0;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	script[0] = memfd_create("server", MFD_CLOEXEC);
	script[1] = memfd_create("client", MFD_CLOEXEC);
	if (script[0] < 0 || script[1] < 0 || step_pair(step) < 0) {
		perror("conform");
		return 2;
	}
	for (i = 0; i < count; i++) {
		parts[i].who = count == 1 ? whole[opt.roles] : i ? "client" : "server";
		parts[i].step[0] = count == 1 || i == 0 ? step[0] : -1;
		parts[i].step[1] = count == 1 || i == 1 ? step[1] : -1;
		parts[i].transcript[0] = script[0];
		parts[i].transcript[1] = script[1];
		part_start(&parts[i], name);
	}
	close(step[0]);
	close(step[1]);
	parts_await(parts, count);
	transcript_print(script[0], opt.roles == ROLES_SAME ? "B" : "S");
	transcript_print(script[1], "C");
	for (i = 0; i < count; i++)
		bad |= part_verdict(&parts[i]);
	return bad;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: conform --list\n"
		"       conform [--roles=process|thread|same] [--launch=PROGRAM]\n"
		"               [--sides=both|server|client] [--stats=FILE]\n"
		"               [--timeout=SECONDS] CASE[+ring]\n");
	return 2;
}

static int options_parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "roles", required_argument, NULL, 'r' },
		{ "launch", required_argument, NULL, 'x' },
		{ "sides", required_argument, NULL, 's' },
		{ "stats", required_argument, NULL, 'f' },
		{ "timeout", required_argument, NULL, 't' },
		{ "play", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 }
	};
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (o) {
		case 'l': return 'l';
		case 'r': opt.roles = optarg[0] == 't' ? ROLES_THREAD :
				      optarg[0] == 's' ? ROLES_SAME : ROLES_PROCESS; break;
		case 'x': opt.launch = optarg; break;
		case 's': opt.sides = optarg; break;
		case 'f': opt.stats = optarg; break;
		case 't': opt.timeout_s = atoi(optarg); break;
		case 'p': opt.play = optarg; break;
		default: return '?';
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct conf_case *c;
	char name[NAME_SIZE], *plus;
	int o = options_parse(argc, argv);

	if (o == 'l') {
		cases_list();
		return 0;
	}
	if (o || optind + 1 != argc)
		return usage();
	snprintf(name, sizeof(name), "%s", argv[optind]);
	plus = strstr(name, "+ring");
	if (plus)
		*plus = '\0';
	c = case_find(name);
	if (!c) {
		fprintf(stderr, "conform: no case %s\n", name);
		return 2;
	}
	if (!case_plays(c, opt.roles) || (plus && c->flags & COLD))
		return EXIT_SKIP;
	if (opt.play)
		return play(c, plus != NULL, opt.play);
	return case_run(argv[optind]);
}
