/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * privfd.c - see privfd.h
 *
 * A bitmap over all numbers that we would ever use.  New ones are asked for
 * from base on, which lies a little below the soft limit of open files, and
 * never higher than the kernel's table would need to grow for nothing; it is
 * chosen again when the program has lowered the limit.
 */
#define _GNU_SOURCE
#include "base/privfd.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "base/lock.h"
#include "base/real.h"
#include "base/section.h"
#include "base/sys.h"

#define SLOTS	65536		/* numbers beyond are not used */
#define ROOM	4096		/* what we like to have above base */
#define WORDS	(SLOTS / 64)
#define LEAVING		256		/* more that linger at once hold the lock */
#define SPARES	2

static int base;			/* 0: not chosen yet */
static int lowest = SLOTS;		/* window of the numbers in use, ever */
static int highest;			/* ... exclusive */
static uint64_t bits[WORDS];
static int spare[SPARES];		/* 0: gone */
static bool unreserved;

uint32_t privfd_windows;
__thread uint32_t privfd_seen;
static struct lock window_lock;		/* one window at a time */
/*
 * A leaf: numbers and their bits change together.  fork() copies the descriptors
 * first and the memory later; what is closed in between would stay open in the
 * child, unknown there.  A close() may block (a last one with SO_LINGER, of what
 * somebody has sent us), so it is made outside of the lock, and a child finds the
 * number among the leaving.
 */
static struct lock bits_lock;
static int leaving[LEAVING];		/* 1 + number; 0: free */

static int choose_base(void)
{
	struct rlimit rl;
	int b = 512;

	if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &rl) == 0) {
		uint64_t soft = rl.rlim_cur;

		if (soft > 16384)
			b = 8192;
		else if (soft > 2 * ROOM)
			b = (int)soft - ROOM;
		else
			b = (int)(soft - soft / 8);
	}
	return MAX(b, 16);
}

static void note(int fd)
{
	or_acqrel(&bits[fd / 64], 1ull << (fd % 64));
	for (int l = ld_rlx(&lowest); l > fd; l = ld_rlx(&lowest))
		if (cas_acqrel(&lowest, l, fd))
			break;
	for (int h = ld_rlx(&highest); h <= fd; h = ld_rlx(&highest))
		if (cas_acqrel(&highest, h, fd + 1))
			break;
}

/* bits_lock held */
static int dup_high(int fd)
{
	int hi = -EINVAL;

	if (ld_rlx(&base))
		hi = sys_fcntl(fd, F_DUPFD_CLOEXEC, ld_rlx(&base));
	if (hi == -EINVAL || hi == -EMFILE) {
		/* not chosen yet, or the limit is lower by now */
		st_rlx(&base, choose_base());
		hi = sys_fcntl(fd, F_DUPFD_CLOEXEC, ld_rlx(&base));
	}
	if (hi >= SLOTS) {
		sys_close(hi);
		hi = -EMFILE;
	}
	if (hi >= 0)
		note(hi);
	return hi;
}

int privfd_dup(int fd)
{
	section_enter();
	lock_take(&bits_lock);
	int hi = dup_high(fd);
	lock_drop(&bits_lock);
	section_leave();
	return hi;
}

void privfd_reserve(int fd)
{
	for (int i = 0; i < SPARES && !ld_rlx(&unreserved); i++) {
		if (ld_rlx(&spare[i]) > 0)
			continue;
		int hi = privfd_dup(fd);
		if (hi < 0)
			return;
		if (!cas_acqrel(&spare[i], 0, hi))
			privfd_close(hi);
	}
}

int privfd_unreserve(void)
{
	int n = 0;

	st_rlx(&unreserved, true);
	for (int i = 0; i < SPARES; i++) {
		int fd = xchg_acqrel(&spare[i], 0);

		n += fd > 0 && privfd_is(fd);
		privfd_close(fd > 0 ? fd : -1);
	}
	return n;
}

int privfd_dup_surely(int fd)
{
	int hi = privfd_dup(fd);

	for (int i = 0; hi < 0 && i < SPARES; i++) {
		int number = xchg_acqrel(&spare[i], 0);

		if (number > 0 && privfd_is(number))
			hi = (int)sys3(SYS_dup3, fd, number, O_CLOEXEC);
	}
	return hi;
}

int privfd_adopt(int fd)
{
	if (fd < 0)
		return fd;
	int hi = privfd_dup(fd);
	sys_close(fd);
	return hi;
}

void privfd_begin(void)
{
	lock_take(&window_lock);
	/* before the kernel takes its lock for the number: pairs with privfd_moved() */
	st_rel(&privfd_windows, ld_rlx(&privfd_windows) + 1);
	fence_full();
}

void privfd_end(void)
{
	st_rel(&privfd_windows, ld_rlx(&privfd_windows) + 1);
	lock_drop(&window_lock);
}

void privfd_wait(void)
{
	section_enter();
	lock_take(&window_lock);
	lock_drop(&window_lock);
	section_leave();
}

/* ThreadSanitizer has a table of the program's numbers, too. */
static void close_seen(int fd)
{
#ifdef __SANITIZE_THREAD__
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	real.close(fd);
	pthread_setcancelstate(state, &state);
#else
	sys_close(fd);
#endif
}

/* No window is open. */
static int settle(int fd, int min)
{
	int flags = sys_fcntl(fd, F_GETFD, 0);
	int to = sys_fcntl(fd, flags & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, min);

	if (to >= 0)
		close_seen(MAX(fd, to));
	return to >= 0 ? MIN(fd, to) : fd;
}

/* The window closed between the two of a pair: the first has the higher number. */
static void exchange(int *fds)
{
	int cloexec = sys_fcntl(fds[0], F_GETFD, 0) & FD_CLOEXEC ? O_CLOEXEC : 0;
	int extra = sys_fcntl(fds[0], F_DUPFD_CLOEXEC, 0), first = fds[1];

	if (extra < 0)
		return;
	sys3(SYS_dup3, fds[1], fds[0], cloexec);
	sys3(SYS_dup3, extra, first, cloexec);
	sys_close(extra);
	fds[1] = fds[0];
	fds[0] = first;
}

void privfd_settle(int *fds, int n, int min)
{
	lock_take(&window_lock);
	for (int i = 0; i < n; i++)
		fds[i] = settle(fds[i], min);
	if (n == 2 && fds[0] > fds[1])
		exchange(fds);
	privfd_seen = ld_rlx(&privfd_windows);
	lock_drop(&window_lock);
}

void privfd_hold(void)
{
	lock_take(&window_lock);
}

void privfd_release(void)
{
	lock_drop(&window_lock);
}

bool privfd_is(int fd)
{
	if (likely(fd < ld_rlx(&lowest) || fd >= ld_rlx(&highest)))
		return false;
	return ld_rlx(&bits[fd / 64]) >> (fd % 64) & 1;
}

int privfd_next(int fd)
{
	int h = ld_rlx(&highest);

	for (int i = MAX(fd, ld_rlx(&lowest)); i < h; i++)
		if (privfd_is(i))
			return i;
	return -1;
}

ssize_t privfd_write(int fd, const void *p, size_t n)
{
	const uint64_t xfsz = 1ull << (SIGXFSZ - 1);
	struct timespec now = { 0, 0 };
	struct rlimit rl;
	uint64_t old;

	if (sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &rl) || rl.rlim_cur == RLIM_INFINITY)
		return sys_write(fd, p, n);
	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &xfsz, &old, 8);
	ssize_t done = sys_write(fd, p, n);
	if (done == -EFBIG && !(old & xfsz))
		sys4(SYS_rt_sigtimedwait, &xfsz, 0, &now, 8);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, 8);
	return done;
}

void privfd_close(int fd)
{
	if (fd < 0 || !privfd_is(fd))
		return;
	int i = 0;

	section_enter();
	lock_take(&bits_lock);
	while (i < LEAVING && ld_rlx(&leaving[i]))
		i++;
	and_acqrel(&bits[fd / 64], ~(1ull << (fd % 64)));
	if (i < LEAVING)
		st_rlx(&leaving[i], fd + 1);
	else
		sys_close(fd);
	lock_drop(&bits_lock);
	if (i < LEAVING) {
		sys_close(fd);
		st_rlx(&leaving[i], 0);
	}
	section_leave();
}

void privfd_fork_prepare(void)
{
	lock_take(&window_lock);
	lock_take(&bits_lock);
}

void privfd_fork_parent(void)
{
	lock_drop(&bits_lock);
	lock_drop(&window_lock);
}

void privfd_fork_child(void)
{
	lock_reset(&bits_lock);
	lock_reset(&window_lock);
}

void privfd_close_all(bool (*keep)(int fd))
{
	uint32_t windows = ld_rlx(&privfd_windows);

	st_rlx(&privfd_windows, windows + (windows & 1));
	for (int fd = privfd_next(0); fd >= 0; fd = privfd_next(fd + 1))
		if (!keep || !keep(fd))
			privfd_close(fd);
	for (int i = 0; i < LEAVING; i++) {
		int fd = leaving[i] - 1;

		if (fd >= 0 && !privfd_is(fd))
			sys_close(fd);
		leaving[i] = 0;
	}
	memset(spare, 0, sizeof(spare));
}
