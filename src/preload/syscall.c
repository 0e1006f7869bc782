/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * syscall.c - system calls that the program makes by number, through libc
 *
 * They pass unchanged.  What is learnt from them: a tracked connection that is
 * read or written so is foreign (the ring would be bypassed); descriptors made
 * so have no stale entry; ends and sandboxes count as if called by name.
 * Descriptors closed or renamed so go the way of close() and dup2().
 *
 * A child that shares memory returns on the stack of this call, or starts on
 * one of its own: the numbers that make one jump straight on to libc, without
 * a frame of ours, and the process room finds such children out by their pid.
 * A child on a copy of the memory (fork, and clone like it) is told as usual.
 */
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "preload/door.h"

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
	case SYS_socket: case SYS_accept4: case SYS_openat: case SYS_dup: case SYS_eventfd2:
	case SYS_epoll_create1: case SYS_timerfd_create: case SYS_memfd_create:
	case SYS_signalfd4: case SYS_inotify_init1: case SYS_pidfd_open: case SYS_pidfd_getfd:
	case SYS_accept:
#ifdef SYS_open
	case SYS_open: case SYS_creat: case SYS_eventfd: case SYS_epoll_create:
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

/* Is it one whose own wrapper does it better? */
static bool by_name(long nr, long a, long b, long c, long *ret)
{
	switch (nr) {
	case SYS_close:
		*ret = door_close((int)a);
		return true;
	case SYS_close_range:
		*ret = door_close_range((unsigned)a, (unsigned)b, (int)c);
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
	default:
		return false;
	}
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

/* same arguments in the same places as syscall(), so that it can be jumped to */
hidden long door_syscall_by(long nr, long a, long b, long c, long d, long e, long f);

long door_syscall_by(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

	if (!door_up())
		return door_raw(sys6(nr, a, b, c, d, e, f));
	if (!door_on())
		return real.syscall(nr, a, b, c, d, e, f);
	if (by_name(nr, a, b, c, &ret))
		return ret;
	if (forks(nr, a, b))
		return fork_by(nr, a, b, c, d, e);
	enum nr_class class = nr_class(nr);
	if (class == USES) {
		door_foreign((int)a);
		if (nr == SYS_splice)
			door_foreign((int)c);
	} else if (nr == SYS_seccomp || (nr == SYS_prctl && a == PR_SET_SECCOMP)) {
		door_filter();
	} else if (class == SANDBOX) {
		DOOR_ASIDE(process_sandbox(REASON_SANDBOX));
	} else if (nr == SYS_exit_group) {
		door_exit((int)a);
	}
	ret = real.syscall(nr, a, b, c, d, e, f);
	return class == FRESH ? door_fresh((int)ret) : ret;
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
