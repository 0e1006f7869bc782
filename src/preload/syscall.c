/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * syscall.c - system calls that the program makes by number, through libc
 *
 * They pass unchanged.  What is learnt from them: a tracked connection that is
 * read or written so is foreign (the ring would be bypassed); descriptors made
 * so have no stale entry; ends and sandboxes count as if called by name.
 * Descriptors closed, copied or passed on so go the way of close(), dup2() and
 * sendmsg(), waits and epoll sets that of libc's own.  (ppoll() and pselect() leave the time that is
 * left, as libc's do not: they stay past us, see sock/unseen.c.)
 *
 * A child that shares memory returns on the stack of this call, or starts on
 * one of its own: the numbers that make one jump straight on to libc, without
 * a frame of ours, and the process room finds such children out by their pid.
 * A child on a copy of the memory (fork, and clone like it) is told as usual.
 */
#include <linux/aio_abi.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "preload/door.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

enum nr_class { PLAIN, USES, FRESH, SANDBOX };

static enum nr_class nr_class(long nr)
{
	switch (nr) {
	case SYS_read: case SYS_readv: case SYS_preadv2: case SYS_recvfrom: case SYS_recvmsg:
	case SYS_recvmmsg: case SYS_write: case SYS_writev: case SYS_pwritev2: case SYS_sendto:
	case SYS_sendmsg: case SYS_sendmmsg: case SYS_sendfile: case SYS_tee: case SYS_vmsplice:
	case SYS_splice: case SYS_connect: case SYS_shutdown: case SYS_setsockopt: case SYS_ioctl:
		return USES;
	case SYS_socket: case SYS_accept4: case SYS_openat: case SYS_eventfd2:
	case SYS_timerfd_create: case SYS_memfd_create:
	case SYS_signalfd4: case SYS_inotify_init1: case SYS_pidfd_open: case SYS_pidfd_getfd:
	case SYS_accept:
#ifdef SYS_open
	case SYS_open: case SYS_creat: case SYS_eventfd:
#endif
		return FRESH;
	case SYS_unshare: case SYS_setns: case SYS_landlock_restrict_self:
	case SYS_setuid: case SYS_setgid: case SYS_setreuid: case SYS_setregid: case SYS_setresuid:
	case SYS_setresgid: case SYS_setfsuid: case SYS_setfsgid: case SYS_setgroups:
		return SANDBOX;
	default:
		return PLAIN;
	}
}

/* Messages that may carry descriptors. */
static long messages_by_name(long nr, long a, long b, long c, long d, long e)
{
	switch (nr) {
	case SYS_sendmsg:
		return door_sendmsg((int)a, (const struct msghdr *)b, (int)c);
	case SYS_sendmmsg:
		return door_sendmmsg((int)a, (struct mmsghdr *)b, (unsigned)c, (int)d);
	case SYS_recvmsg:
		return door_recvmsg((int)a, (struct msghdr *)b, (int)c);
	default:
		return door_recvmmsg((int)a, (struct mmsghdr *)b, (unsigned)c, (int)d, (struct timespec *)e);
	}
}

/* Is it one whose own wrapper does it better? */
static bool by_name(long nr, long a, long b, long c, long d, long e, long f, long *ret)
{
	switch (nr) {
	case SYS_epoll_create1:
		*ret = door_epoll_create1((int)a);
		return true;
	case SYS_epoll_ctl:
		*ret = door_epoll_ctl((int)a, (int)b, (int)c, (struct epoll_event *)d);
		return true;
	case SYS_epoll_pwait:
		if (e && f != 8)
			return false;
		*ret = door_epoll_pwait((int)a, (struct epoll_event *)b, (int)c, (int)d,
					(const sigset_t *)e);
		return true;
	case SYS_epoll_pwait2:
		if (e && f != 8)
			return false;
		*ret = door_epoll_pwait2((int)a, (struct epoll_event *)b, (int)c,
					 (const struct timespec *)d, (const sigset_t *)e);
		return true;
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
		*ret = door_epoll_wait((int)a, (struct epoll_event *)b, (int)c, (int)d);
		return true;
	case SYS_epoll_create:
		*ret = door_epoll_create((int)a);
		return true;
#endif
#ifdef SYS_poll
	case SYS_poll:
		*ret = door_poll((struct pollfd *)a, (nfds_t)b, (int)c);
		return true;
#endif
	case SYS_close:
		*ret = door_close((int)a);
		return true;
	case SYS_close_range:
		*ret = door_close_range((unsigned)a, (unsigned)b, (int)c);
		return true;
	case SYS_dup:
		*ret = door_dup((int)a);
		return true;
	case SYS_dup3:
		*ret = door_dup3((int)a, (int)b, (int)c);
		return true;
#ifdef SYS_dup2
	case SYS_dup2:
		*ret = door_dup2((int)a, (int)b);
		return true;
#endif
	case SYS_fcntl:
		*ret = door_fcntl((int)a, (int)b, c);
		return true;
	case SYS_execve:
		*ret = door_execve((const char *)a, (char *const *)b, (char *const *)c);
		return true;
	case SYS_sendmsg: case SYS_sendmmsg: case SYS_recvmsg: case SYS_recvmmsg:
		if (door_tracked((int)a))	/* a connection passes none */
			return false;
		*ret = messages_by_name(nr, a, b, c, d, e);
		return true;
	default:
		return false;
	}
}

/* libseccomp and others first make calls that cannot succeed, to see what there is. */
bool door_filters_by_seccomp(long op, long flags, long args)
{
	return (op == SECCOMP_SET_MODE_STRICT && !flags && !args) ||
	       (op == SECCOMP_SET_MODE_FILTER && args);
}

/* The others make our own system calls, or our clock, a signal in this thread. */
bool door_filters_by_prctl(int op, long a, long b)
{
	return (op == PR_SET_SECCOMP && (a == SECCOMP_MODE_STRICT || (a == SECCOMP_MODE_FILTER && b))) ||
	       (op == PR_SET_SYSCALL_USER_DISPATCH && a == PR_SYS_DISPATCH_ON) ||
	       (op == PR_SET_TSC && a == PR_TSC_SIGSEGV);
}

/* The kernel reads and writes these past us. */
static void submitted(long n, struct iocb *const *list)
{
	for (long i = 0; i < n && (uintptr_t)list >= 4096 && (uintptr_t)list[i] >= 4096; i++)
		door_foreign((int)list[i]->aio_fildes);
}

static bool forks(long nr, long flags, long stack)
{
#ifdef SYS_fork
	if (nr == SYS_fork)
		return true;
#endif
	return nr == SYS_clone && !(flags & CLONE_VM) && !stack;
}

static long fork_by(long nr, long a, long b, long c, long d, long e)
{
	door_fork_prepare();
	long pid = real.syscall(nr, a, b, c, d, e);
	if (pid == 0)
		door_fork_child();
	else
		door_fork_parent();
	return pid;
}

/* A child that shares memory is none of our threads. */
static bool ends_process(int status)
{
	bool last = false;

	if (!ld_rlx(&door_filtered) && sys_getpid() == door_pid)
		DOOR_ASIDE(last = process_leaves(status));
	return last;
}

/* same arguments in the same places as syscall(), so that it can be jumped to */
unexported long door_syscall_by(long nr, long a, long b, long c, long d, long e, long f);

long door_syscall_by(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

	if (!door_up())
		return door_raw(sys6(nr, a, b, c, d, e, f));
	if (!door_on())
		return real.syscall(nr, a, b, c, d, e, f);
	if (by_name(nr, a, b, c, d, e, f, &ret))
		return ret;
	if (forks(nr, a, b))
		return fork_by(nr, a, b, c, d, e);
	enum nr_class class = nr_class(nr);
	if (class == USES) {
		door_foreign((int)a);
		if (nr == SYS_splice)
			door_foreign((int)c);
	} else if ((nr == SYS_seccomp && door_filters_by_seccomp(a, b, c)) ||
		   (nr == SYS_prctl && door_filters_by_prctl((int)a, b, c))) {
		door_filter();
	} else if (class == SANDBOX) {
		DOOR_ASIDE(process_sandbox(REASON_SANDBOX));
	} else if (nr == SYS_pidfd_getfd) {
		door_passed_on((int)b);
	} else if (nr == SYS_io_submit) {
		submitted(b, (struct iocb *const *)c);
	} else if (nr == SYS_exit_group || (nr == SYS_exit && ends_process((int)a))) {
		nr = SYS_exit_group;
		door_exit((int)a);
	}
	ret = real.syscall(nr, a, b, c, d, e, f);
	if (class != FRESH || (nr == SYS_signalfd4 && (int)a != -1))
		return ret;
	return door_fresh((int)ret);
}

#if defined(__x86_64__)
/*
 * real_syscall is NULL only until the first call of anything; then the way
 * through C will do.
 */
__asm__(
"	.text\n"
"	.globl	syscall\n"
"	.type	syscall, @function\n"
"syscall:\n"
"	.cfi_startproc\n"
"	cmpq	$56, %rdi\n"			/* SYS_clone ... */
"	jne	2f\n"
"	testq	%rdx, %rdx\n"			/* ... on a stack of its own */
"	jnz	1f\n"
"	testl	$0x100, %esi\n"		/* ... or with CLONE_VM */
"	jnz	1f\n"
"2:\n"
"	cmpq	$58, %rdi\n"			/* SYS_vfork */
"	je	1f\n"
"	cmpq	$435, %rdi\n"			/* SYS_clone3 */
"	je	1f\n"
"	cmpq	$15, %rdi\n"			/* SYS_rt_sigreturn */
"	je	1f\n"
"	jmp	door_syscall_by\n"
"1:	movq	real_syscall(%rip), %rax\n"
"	testq	%rax, %rax\n"
"	jz	door_syscall_by\n"
"	jmp	*%rax\n"
"	.cfi_endproc\n"
"	.size	syscall, .-syscall\n"
);
#else
long door_syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return door_syscall_by(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif
