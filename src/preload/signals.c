/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * signals.c - the program's handlers stand behind one of ours (base/section.h)
 *
 * The kernel gets deliver() with the program's own flags and mask, so that
 * masking, stacks, restarts and queues stay the kernel's business; the table
 * says what the program has asked for, and is what it is told.  Only
 * SA_RESETHAND is done here: the first delivery may be the one that is put off.
 *
 * What a thread does to itself by a fault cannot wait and runs at once.
 *
 * Handlers set by raw system calls, or before libc's functions are known, are
 * not behind ours.  They run as they would without the library, which is right
 * as long as they make no call on a connection that they have interrupted.
 */
#include <string.h>
#include <ucontext.h>

#include "base/lock.h"
#include "base/section.h"
#include "preload/door.h"

#define NSIGS	65
#define HOLD	((sighandler_t)2)	/* SIG_HOLD */

struct entry {
	sighandler_t handler;		/* or the three-argument kind */
	int flags;
};

static struct entry table[NSIGS];
static struct lock table_lock;
static uint64_t interrupts;		/* siginterrupt(): signal() without SA_RESTART */

typedef void (*handler3)(int sig, siginfo_t *si, void *uc);

static bool is_function(sighandler_t h)
{
	return h != SIG_DFL && h != SIG_IGN;
}

/* The thread's own doing, here and now. */
static bool is_fault(int sig, const siginfo_t *si)
{
	switch (sig) {
	case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL: case SIGTRAP: case SIGSYS:
		return si->si_code > 0;
	case SIGABRT:
		return si->si_code == SI_TKILL && si->si_pid == sys_getpid();
	default:
		return false;
	}
}

static uint64_t all_but_faults(void)
{
	uint64_t faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGFPE - 1) |
			  1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGSYS - 1);

	return ~faults;
}

/*
 * Give it back to the kernel, for this thread, and block all until the section
 * ends.  A handler may have interrupted this function of another signal before
 * its first line: the outermost is the last to write the mask, which is right.
 */
static void put_off(int sig, siginfo_t *si, ucontext_t *uc)
{
	uint64_t all = all_but_faults() | 1ull << (sig - 1), mask;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof(all));
	if (sys4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), sig, si) < 0)
		sys3(SYS_tgkill, sys_getpid(), sys_gettid(), sig);
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	section.mask = mask;
	section.deferred = 1;
	mask |= all;
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
}

/* One shot: the first to come runs it. */
static bool one_shot(int sig, sighandler_t h)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	bool mine = cas_acqrel(&table[sig].handler, h, SIG_DFL);

	if (mine)
		DOOR_ASIDE(real.sigaction(sig, &dfl, NULL));
	return mine;
}

static void deliver(int sig, siginfo_t *si, void *uc)
{
	struct section *s = &section;
	uint32_t depth = s->depth;
	uintptr_t outer = s->handler;

	if (unlikely(depth && !ld_rlx(&door_filtered) && !is_fault(sig, si))) {
		put_off(sig, si, uc);
		return;
	}
	sighandler_t h = ld_acq(&table[sig].handler);
	int flags = ld_rlx(&table[sig].flags);

	s->depth = 0;			/* of a fault's handler, which may jump */
	if (s->away && !depth) {
		void (*away)(void *) = s->away;

		s->away = NULL;
		section_enter();
		DOOR_ASIDE(away(s->away_arg));
		section_cleanup_forget();
		section_leave();
	}
	s->handler = (uintptr_t)__builtin_frame_address(0);
	s->handlers++;
	if (!(flags & SA_RESTART))
		s->interrupting++;
	if ((flags & (int)SA_RESETHAND) && !one_shot(sig, h))
		h = ld_acq(&table[sig].handler);
	if (is_function(h))
		((handler3)(uintptr_t)h)(sig, si, uc);
	else if (h == SIG_DFL)		/* it was set while this one was on its way */
		sys3(SYS_tgkill, sys_getpid(), sys_gettid(), sig);
	s->handler = outer;
	s->depth = depth;
}

/* What the kernel is to hold for the program's act. */
static void translate(struct sigaction *k, const struct sigaction *act)
{
	*k = *act;
	if (!is_function(act->sa_handler))
		return;
	k->sa_sigaction = deliver;
	k->sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
}

/* ... and what the program is to be told of it */
static void translate_back(struct sigaction *old, const struct entry *was)
{
	if (old->sa_sigaction != deliver)
		return;
	old->sa_handler = was->handler;
	old->sa_flags = (old->sa_flags & ~SA_SIGINFO) |
			(was->flags & (SA_SIGINFO | (int)SA_RESETHAND));
}

static int set(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction k, o;
	struct entry was = table[sig];

	if (act)
		translate(&k, act);
	/* it may come the moment it is set */
	if (act && is_function(act->sa_handler)) {
		st_rlx(&table[sig].flags, act->sa_flags);
		st_rel(&table[sig].handler, act->sa_handler);	/* pairs with deliver() */
	}
	int ret = real.sigaction(sig, act ? &k : NULL, &o);
	if (ret < 0 && act && is_function(act->sa_handler))
		table[sig] = was;
	else if (ret == 0 && act && !is_function(act->sa_handler))
		st_rel(&table[sig].handler, act->sa_handler);
	if (ret == 0 && old) {
		translate_back(&o, &was);
		*old = o;
	}
	return ret;
}

/*
 * In a vfork child the table is the parent's: it may be looked at only, and
 * what is set there is set for the child alone.
 */
static int set_in_child(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct entry was = table[sig];
	int ret = real.sigaction(sig, act, old);

	if (ret == 0 && old)
		translate_back(old, &was);
	return ret;
}

int door_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	if (sig < 1 || sig >= NSIGS || ld_rlx(&door_state) == DOOR_PASS)
		return real.sigaction(sig, act, old);
	if (door_vfork_child())
		return set_in_child(sig, act, old);
	/* copied out here, where a bad pointer of the program's hurts nobody else */
	struct sigaction a, o;
	if (act)
		a = *act;
	section_enter();
	lock_take(&table_lock);
	int ret = set(sig, act ? &a : NULL, &o);
	lock_drop(&table_lock);
	section_leave();
	if (ret == 0 && old)
		*old = o;
	return ret;
}
DOOR_ALIAS(__sigaction, sigaction)

void door_signals_child(void)
{
	lock_reset(&table_lock);
}

/* Outside sections the thread's type is what was asked for; libc's own and ours agree. */
int door_pthread_setcanceltype(int type, int *old)
{
	int was = section.async ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;

	if (!door_up())
		return ENOSYS;
	if (type != PTHREAD_CANCEL_ASYNCHRONOUS && type != PTHREAD_CANCEL_DEFERRED)
		return EINVAL;
	if (old)
		*old = was;
	section.async = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	return section.depth ? 0 : real.pthread_setcanceltype(type, &was);
}

/* ------------------------------------------------- the older ways to say it -- */

static sighandler_t set_simply(int sig, sighandler_t handler, int flags, bool masked)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	if (handler == SIG_ERR || sig < 1 || sig >= NSIGS) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (masked)
		sigaddset(&act.sa_mask, sig);
	return door_sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

sighandler_t door_signal(int sig, sighandler_t handler)
{
	if (!door_up()) {
		door_raw(-ENOSYS);
		return SIG_ERR;
	}
	bool restarts = sig < 1 || sig >= NSIGS || !(ld_rlx(&interrupts) >> (sig - 1) & 1);

	return set_simply(sig, handler, restarts ? SA_RESTART : 0, true);
}
DOOR_ALIAS(bsd_signal, signal)
DOOR_ALIAS(ssignal, signal)

sighandler_t door_sysv_signal(int sig, sighandler_t handler)
{
	return set_simply(sig, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}
DOOR_ALIAS(__sysv_signal, sysv_signal)

int door_siginterrupt(int sig, int interrupt)
{
	struct sigaction act;

	if (door_sigaction(sig, NULL, &act) < 0)
		return -1;
	uint64_t bit = 1ull << (sig - 1);

	if (interrupt) {
		or_acqrel(&interrupts, bit);
		act.sa_flags &= ~SA_RESTART;
	} else {
		and_acqrel(&interrupts, ~bit);
		act.sa_flags |= SA_RESTART;
	}
	return door_sigaction(sig, &act, NULL);
}

int door_sigignore(int sig)
{
	struct sigaction act = { .sa_handler = SIG_IGN };

	return door_sigaction(sig, &act, NULL);
}

sighandler_t door_sigset(int sig, sighandler_t disp)
{
	struct sigaction old;
	sigset_t one, before;

	if (disp == SIG_ERR || sig < 1 || sig >= NSIGS) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&one);
	sigaddset(&one, sig);
	if (disp == HOLD) {
		sigprocmask(SIG_BLOCK, &one, &before);
		if (!sigismember(&before, sig) && door_sigaction(sig, NULL, &old) < 0)
			return SIG_ERR;
		return sigismember(&before, sig) ? HOLD : old.sa_handler;
	}
	struct sigaction act = { .sa_handler = disp };
	if (door_sigaction(sig, &act, &old) < 0)
		return SIG_ERR;
	sigprocmask(SIG_UNBLOCK, &one, &before);
	return sigismember(&before, sig) ? HOLD : old.sa_handler;
}
