/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * privfd.c - see privfd.h
 *
 * A bitmap over the window [base, base + SLOTS): base is chosen once, a
 * little below the soft limit of open files, and never higher than the
 * kernel's table of 1024 entries would need to grow for nothing.
 */
#define _GNU_SOURCE
#include "base/privfd.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/util.h"

#define SLOTS	4096
#define WORDS	(SLOTS / 64)

static int base;			/* 0: not chosen yet */
static int highest;			/* window end, exclusive */
static uint64_t bits[WORDS];

static int choose_base(void)
{
	struct rlimit rl;
	int b = 512;

	if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &rl) == 0) {
		uint64_t soft = rl.rlim_cur;

		if (soft > 16384)
			b = 8192;
		else if (soft > 2 * SLOTS)
			b = (int)soft - SLOTS;
		else
			b = (int)(soft - soft / 8);
	}
	return MAX(b, 16);
}

int privfd_dup(int fd)
{
	int b = ld_rlx(&base);

	if (!b) {
		b = choose_base();
		st_rlx(&base, b);
	}
	int hi = sys_fcntl(fd, F_DUPFD_CLOEXEC, b);
	if (hi >= b + SLOTS) {
		sys_close(hi);
		hi = -EMFILE;
	}
	if (hi < 0)
		return hi;
	or_acqrel(&bits[(hi - b) / 64], 1ull << ((hi - b) % 64));
	for (int h = ld_rlx(&highest); h <= hi; h = ld_rlx(&highest))
		if (cas_acqrel(&highest, h, hi + 1))
			break;
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
	int b = ld_rlx(&base);

	if (likely(fd < b || !b || fd >= ld_rlx(&highest)))
		return false;
	return ld_rlx(&bits[(fd - b) / 64]) >> ((fd - b) % 64) & 1;
}

int privfd_next(int fd)
{
	int b = ld_rlx(&base), h = ld_rlx(&highest);

	for (int i = MAX(fd, b); b && i < h; i++)
		if (privfd_is(i))
			return i;
	return -1;
}

void privfd_close(int fd)
{
	int b = ld_rlx(&base);

	if (fd < 0 || !privfd_is(fd))
		return;
	and_acqrel(&bits[(fd - b) / 64], ~(1ull << ((fd - b) % 64)));
	sys_close(fd);
}

void privfd_close_all(int but, int but_too)
{
	for (int fd = privfd_next(0); fd >= 0; fd = privfd_next(fd + 1))
		if (fd != but && fd != but_too)
			privfd_close(fd);
}
