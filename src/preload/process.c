/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * process.c - children, new images, sandboxes, the end
 *
 * fork(), daemon() and forkpty() are heard of by pthread_atfork() handlers
 * (door.c); only what does without those, _Fork() and clone(), is wrapped.
 *
 * vfork() cannot be wrapped in C: the child would return into a frame that the
 * parent still needs.  vfork.c does it by hand; it raises door_vfork_depth
 * for as long as the parent sleeps.  The child sees the raised count, since it
 * runs on the parent's memory and thread storage; the parent lowers it again,
 * which it can do only after the child is gone.  clone() with CLONE_VM and
 * CLONE_VFORK is the same thing on another stack.
 */
#include <alloca.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/door.h"

pid_t door__Fork(void)
{
	if (!door_up())
		return (pid_t)door_raw(-ENOSYS);
	door_fork_prepare();
	pid_t pid = real._Fork();
	if (pid == 0)
		door_fork_child();
	else
		DOOR_ASIDE(door_fork_parent());
	return pid;
}

/* our thread and our descriptors would be in the way, or be caught by it */
static void sandboxed(enum reason why)
{
	if (door_on())
		DOOR_ASIDE(process_sandbox(why));
}

struct clone_start {
	int (*fn)(void *);
	void *arg;
};

/* the child has a copy of its parent's frame, or this would read a dead one */
static int clone_child(void *p)
{
	struct clone_start start = *(struct clone_start *)p;

	door_fork_child();
	int status = start.fn(start.arg);
	door_exit(status);		/* libc ends the child from inside */
	return status;
}

/* Its descriptors are the parent's: it may not close ours, so it touches nothing. */
static int clone_sharer(void *p)
{
	struct clone_start start = *(struct clone_start *)p;

	st_rel(&door_state, DOOR_PASS);
	return start.fn(start.arg);
}

static int clone_vfork(int (*fn)(void *), void *stack, int flags, void *arg, void *const extra[3])
{
	DOOR_ASIDE(if (door_on()) process_spawn_prepare());
	door_vfork_depth++;
	fence_signal();
	int pid = real.clone(fn, stack, flags, arg, extra[0], extra[1], extra[2]);
	fence_signal();
	door_vfork_depth--;
	DOOR_ASIDE(if (door_on()) process_spawn_done());
	return pid;
}

static int clone_fork(int (*fn)(void *), void *stack, int flags, void *arg, void *const extra[3])
{
	struct clone_start start = { fn, arg };

	if (flags & CLONE_FILES) {
		sandboxed(REASON_FORK);
		return real.clone(clone_sharer, stack, flags, &start, extra[0], extra[1], extra[2]);
	}
	door_fork_prepare();
	int pid = real.clone(clone_child, stack, flags, &start, extra[0], extra[1], extra[2]);
	DOOR_ASIDE(door_fork_parent());
	return pid;
}

int door_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	void *extra[3];
	va_list ap;

	va_start(ap, arg);
	for (int i = 0; i < 3; i++)
		extra[i] = va_arg(ap, void *);
	va_end(ap);
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	if ((flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == (CLONE_VM | CLONE_VFORK))
		return clone_vfork(fn, stack, flags, arg, extra);
	if (!(flags & CLONE_VM) && fn && door_on())
		return clone_fork(fn, stack, flags, arg, extra);
	return real.clone(fn, stack, flags, arg, extra[0], extra[1], extra[2]);
}
DOOR_ALIAS(__clone, clone)

/* 0, 1 and 2 become /dev/null; as in libc, only if that is a device */
static int daemon_stdio(void)
{
	struct stat st;
	int fd = door_open("/dev/null", O_RDWR);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode)) {
		door_close(fd);
		errno = ENODEV;
		return -1;
	}
	for (int to = 0; to <= 2; to++)
		door_dup2(fd, to);
	if (fd > 2)
		door_close(fd);
	return 0;
}

/* libc's own ends the parent from inside, where its end could not be heard of */
int door_daemon(int nochdir, int noclose)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid > 0)
		door__exit(0);
	if (setsid() < 0 || (!nochdir && chdir("/") < 0))
		return -1;
	return noclose ? 0 : daemon_stdio();
}

int door_login_tty(int fd)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	int ret = real.login_tty(fd);
	for (int i = 0; ret == 0 && i <= 2; i++)
		door_over(i);		/* now the terminal */
	return ret;
}

/* posix_spawn(), system() and popen() make a child that touches nothing of ours */
#define SPAWN(type, call) ({ \
	DOOR_ASIDE(if (door_on()) process_spawn_prepare()); \
	type _r = (call); \
	DOOR_ASIDE(if (door_on()) process_spawn_done()); \
	_r; })

int door_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa,
		     const posix_spawnattr_t *at, char *const argv[], char *const envp[])
{
	if (!door_up())
		return ENOSYS;
	return SPAWN(int, real.posix_spawn(pid, path, fa, at, argv, envp));
}

int door_posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa,
		      const posix_spawnattr_t *at, char *const argv[], char *const envp[])
{
	if (!door_up())
		return ENOSYS;
	return SPAWN(int, real.posix_spawnp(pid, path, fa, at, argv, envp));
}

/* That number is the new image's whether or not it is close-on-exec. */
int door_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *fa, int fd, int to)
{
	if (!door_up())
		return ENOSYS;
	if (unlikely(door_tracked(fd)))
		DOOR_ASIDE(sock_foreign(fd, REASON_FORK));
	return real.posix_spawn_file_actions_adddup2(fa, fd, to);
}

int door_system(const char *cmd)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	return SPAWN(int, real.system(cmd));
}

FILE *door_popen(const char *cmd, const char *mode)
{
	if (!door_up())
		return NULL;
	FILE *f = SPAWN(FILE *, DOOR_FILE(real.popen(cmd, mode)));
	if (f)
		DOOR_ASIDE(door_over(fileno(f)));
	return f;
}
DOOR_ALIAS(_IO_popen, popen)

/*
 * A vfork child has had its preparation in the parent, before vfork().
 * Only a failure comes back.
 */
#define EXEC(argv, envp, call) ({ \
	bool _tell = door_on(); \
	if (_tell) \
		DOOR_ASIDE(process_exec_prepare(argv, envp)); \
	int _r = (call); \
	if (_tell) \
		DOOR_ASIDE(process_exec_failed(_errno)); \
	_r; })

int door_execve(const char *path, char *const argv[], char *const envp[])
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_execve, (path, argv, envp));
	return EXEC(argv, envp, real.execve(path, argv, envp));
}

int door_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_execveat, (dir, path, argv, envp, flags));
	return EXEC(argv, envp, real.execveat(dir, path, argv, envp, flags));
}

int door_fexecve(int fd, char *const argv[], char *const envp[])
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	return EXEC(argv, envp, real.fexecve(fd, argv, envp));
}

int door_execv(const char *path, char *const argv[])
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	return EXEC(argv, environ, real.execv(path, argv));
}

int door_execvp(const char *file, char *const argv[])
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	return EXEC(argv, environ, real.execvp(file, argv));
}

int door_execvpe(const char *file, char *const argv[], char *const envp[])
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	return EXEC(argv, envp, real.execvpe(file, argv, envp));
}

/* how many pointers stand in ap before its NULL */
static size_t args_count(va_list ap)
{
	va_list copy;
	size_t n = 0;

	va_copy(copy, ap);
	while (va_arg(copy, char *))
		n++;
	va_end(copy);
	return n;
}

/* arg, then the rest of the list, then NULL, into argv */
static char **args_fill(char **argv, const char *arg, va_list *ap)
{
	size_t i = 0;

	argv[i++] = (char *)(uintptr_t)arg;
	if (arg)
		while ((argv[i] = va_arg(*ap, char *)) != NULL)
			i++;
	return argv;
}

#define ARGV_OF(arg, ap) \
	args_fill(alloca(((arg) ? args_count(ap) + 2 : 2) * sizeof(char *)), (arg), &(ap))

int door_execl(const char *path, const char *arg, ...)
{
	va_list ap;

	va_start(ap, arg);
	char **argv = ARGV_OF(arg, ap);
	va_end(ap);
	return door_execv(path, argv);
}

int door_execlp(const char *file, const char *arg, ...)
{
	va_list ap;

	va_start(ap, arg);
	char **argv = ARGV_OF(arg, ap);
	va_end(ap);
	return door_execvp(file, argv);
}

int door_execle(const char *path, const char *arg, ...)
{
	va_list ap;

	va_start(ap, arg);
	char **argv = ARGV_OF(arg, ap);
	char *const *envp = va_arg(ap, char *const *);
	va_end(ap);
	return door_execve(path, argv, envp);
}

void door__exit(int status)
{
	if (door_up()) {
		door_exit(status);
		real._exit(status);
	}
	for (;;)
		sys1(SYS_exit_group, status);
}
exported extern __typeof__(door__exit) door__Exit __attribute__((alias("_exit")));

int door_unshare(int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_unshare, (flags));
	sandboxed(REASON_SANDBOX);
	return real.unshare(flags);
}

int door_setns(int fd, int type)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_setns, (fd, type));
	sandboxed(REASON_SANDBOX);
	return real.setns(fd, type);
}

int door_prctl(int op, ...)
{
	long arg[4];
	va_list ap;

	va_start(ap, op);
	for (int i = 0; i < 4; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	if (!door_up())
		return (int)DOOR_RAW(SYS_prctl, (op, arg[0], arg[1], arg[2], arg[3]));
	if (door_filters_by_prctl(op, arg[0], arg[1]))
		door_filter();
	return real.prctl(op, arg[0], arg[1], arg[2], arg[3]);
}
