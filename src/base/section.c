/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* section.c - see section.h */
#define _GNU_SOURCE
#include "base/section.h"

#include "base/real.h"
#include "base/sys.h"
#include "base/util.h"

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

static pthread_key_t ends;
static bool ends_known;

/* Of a thread that ends, after the program's own clean-up. */
static void section_ended(void *arg)
{
	struct section *s = arg;

	section_enter();
	for (uint32_t i = MIN(s->inside, (uint32_t)SECTION_INSIDE); i-- > 0;)
		s->in[i].gone(s->in[i].obj, s->in[i].gen);
	s->inside = 0;
	s->watched = false;
	section_leave();
}

/* Early: the first keys cost no memory. */
void section_start(void)
{
	ends_known = pthread_key_create(&ends, section_ended) == 0;
}

/*
 * Not the main thread: where others live on, programs go on with what was in its frames,
 * over which libc would run destructors.
 */
void section_watch(void)
{
	section.watched = true;
	if (ends_known && sys_gettid() != sys_getpid())
		pthread_setspecific(ends, &section);
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
