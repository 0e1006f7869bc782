/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* proc.c - start, wait for and end processes; ports; files */
#define _GNU_SOURCE
#include "proc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "callcount.h"

static volatile sig_atomic_t interrupted;

static void interrupt(int sig)
{
	interrupted = 1;
}

void proc_catch_signals(void)
{
	struct sigaction sa = { .sa_handler = interrupt };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

static void redirect(int to, const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0 || dup2(fd, to) < 0)
		_exit(126);
}

static void drop_user(const struct spawn *s)
{
	if (!s->uid)
		return;
	if (setgroups(0, NULL) || setgid(s->gid) || setuid(s->uid))
		_exit(126);
}

static void pin(int core)
{
	cpu_set_t set;

	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* go: readable, at its end, when we may go on; -1: at once */
static _Noreturn void child(const struct spawn *s, int go)
{
	char c;

	if (go >= 0 && read(go, &c, 1) < 0)
		_exit(126);
	if (s->dir && chdir(s->dir))
		_exit(126);
	redirect(0, "/dev/null", O_RDONLY);
	redirect(1, s->out, O_WRONLY | O_CREAT | O_APPEND);
	redirect(2, s->err, O_WRONLY | O_CREAT | O_APPEND);
	pin(s->core);
	drop_user(s);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (s->stats_file)
		setenv("SIDESTEP_STATS_FILE", s->stats_file, 1);
	else
		unsetenv("SIDESTEP_STATS_FILE");
	execv(s->argv[0], s->argv);
	fprintf(stderr, "%s: %s\n", s->argv[0], strerror(errno));
	_exit(127);
}

int proc_start(struct proc *p, const struct spawn *s)
{
	int gate[2] = { -1, -1 };

	fflush(NULL);
	memset(p, 0, sizeof(*p));
	p->calls_fd = -1;
	if (s->count_calls && pipe2(gate, O_CLOEXEC))
		return -errno;
	p->pid = fork();
	if (p->pid == 0) {
		if (s->count_calls)
			close(gate[1]);
		child(s, gate[0]);
	}
	int r = p->pid < 0 ? -errno : 0;
	if (s->count_calls) {
		p->calls_fd = r ? -1 : callcount_open(p->pid);
		close(gate[0]);
		close(gate[1]);
	}
	if (r)
		p->pid = 0;
	return r;
}

static void ended(struct proc *p)
{
	p->ended = true;
	p->calls = (double)callcount_close(p->calls_fd);
	p->calls_fd = -1;
}

static bool reap(struct proc *p)
{
	if (!p || !p->pid)
		return false;
	if (!p->ended && wait4(p->pid, &p->status, WNOHANG, &p->usage) == p->pid)
		ended(p);
	return p->ended;
}

static int pidfd_of(const struct proc *p)
{
	return p && p->pid ? (int)syscall(SYS_pidfd_open, p->pid, 0) : -1;
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int proc_wait(struct proc *p, struct proc *other, int timeout_ms)
{
	struct pollfd fds[2] = { { pidfd_of(p), POLLIN, 0 }, { pidfd_of(other), POLLIN, 0 } };
	long end = now_ms() + timeout_ms;
	int r;

	for (;;) {
		long left = end - now_ms();

		r = reap(p) ? 0 : reap(other) ? -ECHILD : interrupted ? -EINTR :
			left <= 0 ? -ETIMEDOUT : 1;
		if (r <= 0)
			break;
		/* a kernel without pidfd_open: look every 5 ms */
		poll(fds, 2, fds[0].fd < 0 ? 5 : (int)left);
	}
	for (int i = 0; i < 2; i++)
		if (fds[i].fd >= 0)
			close(fds[i].fd);
	return r;
}

bool proc_succeeded(const struct proc *p)
{
	return p->ended && WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0;
}

int proc_end(struct proc *p, int sig, int timeout_ms)
{
	if (!p->pid || reap(p))
		return 0;
	if (sig)
		kill(p->pid, sig);
	if (proc_wait(p, NULL, timeout_ms) == 0)
		return 0;
	kill(p->pid, SIGKILL);
	wait4(p->pid, &p->status, 0, &p->usage);
	ended(p);
	return -ETIMEDOUT;
}

static char *find_in(const char *dirs, const char *name)
{
	while (dirs && *dirs) {
		size_t n = strcspn(dirs, ":");
		char *path;

		if (n && asprintf(&path, "%.*s/%s", (int)n, dirs, name) > 0) {
			if (!access(path, X_OK))
				return path;
			free(path);
		}
		dirs += n + (dirs[n] == ':');
	}
	return NULL;
}

char *proc_find(const char *name)
{
	char *path;

	if (strchr(name, '/'))
		return access(name, X_OK) ? NULL : strdup(name);
	path = find_in(getenv("PATH"), name);
	return path ? path : find_in("/usr/sbin:/sbin:/usr/local/sbin", name);
}

int proc_free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = 0;

	if (fd < 0)
		return -errno;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		r = -errno;
	close(fd);
	return r ? r : ntohs(a.sin_port);
}

static bool listening_in(const char *file, int port)
{
	FILE *f = fopen(file, "re");
	char line[512], address[64];
	unsigned int local, state;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, " %*d: %63[0-9A-F]:%x %*[0-9A-F]:%*x %x",
			       address, &local, &state) == 3 &&
			local == (unsigned int)port && state == 0x0a;
	if (f)
		fclose(f);
	return found;
}

int proc_wait_listening(struct proc *p, int port, int timeout_ms)
{
	long end = now_ms() + timeout_ms;

	while (now_ms() < end) {
		if (listening_in("/proc/net/tcp", port) || listening_in("/proc/net/tcp6", port))
			return 0;
		int r = proc_wait(p, NULL, 10);

		if (r == 0 || r == -EINTR)
			return r ? r : -ECHILD;
	}
	return -ETIMEDOUT;
}

char *proc_read_file(const char *path)
{
	size_t size = 0, len = 0;
	char *text = NULL;
	FILE *f = fopen(path, "re");

	if (!f)
		return NULL;
	for (;;) {
		if (size - len < 2) {
			char *more = realloc(text, size = size ? size * 2 : 65536);

			if (!more)
				break;
			text = more;
		}
		size_t n = fread(text + len, 1, size - len - 1, f);

		len += n;
		if (!n)
			break;
	}
	fclose(f);
	if (text)
		text[len] = '\0';
	return text;
}

void proc_print_tail(const char *path)
{
	char *text = proc_read_file(path);
	const char *from;
	int lines = 0;

	if (text && *text) {
		from = text + strlen(text) - 1;
		while (from > text && (lines += from[-1] == '\n') < 12)
			from--;
		for (char *save = NULL, *l = strtok_r(text + (from - text), "\n", &save); l;
		     l = strtok_r(NULL, "\n", &save))
			fprintf(stderr, "    %s\n", l);
	}
	free(text);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path), 0;
}

void proc_remove_tree(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
