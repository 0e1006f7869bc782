/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* section.c - see section.h */
#define _GNU_SOURCE
#include "base/section.h"

#include "base/real.h"
#include "base/sys.h"

__thread struct section section;

void section_cancel_point(void)
{
	uint32_t depth = section_suspend();

	pthread_testcancel();
	section_resume(depth);
}

void section_cancelled(void *unused)
{
	section_enter();
	void (*away)(void *) = section.away;

	if (away) {
		section.away = NULL;
		away(section.away_arg);
	}
	section_leave();
}

void section_cancel_type(int type)
{
	int old;

	real.pthread_setcanceltype(type, &old);
}

void section_flush(void)
{
	uint64_t mask = section.mask;

	if (section.depth)
		return;		/* the outermost does it */
	section.deferred = 0;
	fence_signal();
	/* the handlers run before this returns, and one may not let it return */
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}
