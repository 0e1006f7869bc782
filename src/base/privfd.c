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
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/util.h"

#define SLOTS	65536		/* numbers beyond are not used */
#define ROOM	4096		/* what we like to have above base */
#define WORDS	(SLOTS / 64)

static int base;			/* 0: not chosen yet */
static int lowest = SLOTS;		/* window of the numbers in use, ever */
static int highest;			/* ... exclusive */
static uint64_t bits[WORDS];

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

int privfd_dup(int fd)
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

int privfd_adopt(int fd)
{
	if (fd < 0)
		return fd;
	int hi = privfd_dup(fd);
	sys_close(fd);
	return hi;
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
	and_acqrel(&bits[fd / 64], ~(1ull << (fd % 64)));
	sys_close(fd);
}

void privfd_close_all(int but, int but_too)
{
	for (int fd = privfd_next(0); fd >= 0; fd = privfd_next(fd + 1))
		if (fd != but && fd != but_too)
			privfd_close(fd);
}
