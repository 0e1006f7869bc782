/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * section.h - a thread against the signal handlers that interrupt it
 *
 * From the door to the place where a call may block, a thread is in a section:
 * it may hold locks and have lists half changed, so no handler of the program
 * must run.  The handlers stand behind a function of ours (preload/signals.c)
 * which, in a section, gives the signal back to the kernel, blocked, and has
 * section_flush() let it in when the section ends.  So masks, order, siginfo
 * and stacks are the kernel's own, and a handler may call anything, or jump.
 *
 * A thread may also have said that pthread_cancel() is to act on it anywhere:
 * in a section it does so only at the end.
 *
 * Where a call may block, the section is suspended, with no lock held: around
 * libc's own function, and around the sleep of wait_run(), which leaves word
 * in away() what is to be taken back before a handler runs there, because it
 * may never return.
 *
 * A count of threads that are inside a call of the kernel's is not taken back for a
 * handler, which mostly does return.  It comes down when the thread ends, be it there
 * (cancelled, or by a handler's pthread_exit()) or later, when a handler has jumped out;
 * a main thread's does not.
 */
#ifndef BASE_SECTION_H
#define BASE_SECTION_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/util.h"

/* Raised by this thread; gone() takes it back.  In a section, no lock held. */
struct inside {
	void (*gone)(void *obj, uint32_t gen);
	void *obj;
	uint32_t gen;
};
#define SECTION_INSIDE	4	/* one in another's handler, and so on; more are not remembered */

struct section {
	uint32_t depth;
	uint32_t calls;			/* that may block, so far */
	uint32_t deferred;		/* a signal waits, all are blocked */
	uint32_t async;			/* PTHREAD_CANCEL_ASYNCHRONOUS, outside sections */
	uint32_t handlers;		/* handlers run in this thread so far */
	uint32_t interrupting;		/* ... of them without SA_RESTART */
	uintptr_t handler;		/* frame below which a handler runs, or 0 */
	void (*away)(void *arg);	/* take the sleeper off its lists; NULL: nobody sleeps */
	void *away_arg;
	void *cleanup;			/* what libc has of section_away_push(); NULL: nothing */
	uint64_t mask;			/* the program's own, while deferred */
	uint32_t inside;		/* counts that are raised, of in[] and beyond */
	bool watched;			/* section_ended() will come by */
	struct inside in[SECTION_INSIDE];
};

extern __thread struct section section __attribute__((tls_model("initial-exec")));

/* Let the signals in.  Context: depth 0. */
void section_flush(void);

/* For pthread_cleanup_push(), around a call with section.away set: the thread ends in it. */
void section_cancelled(void *unused);

/*
 * libc's word of a pthread_cleanup_push() lies in the frame of that.  A handler that
 * jumps out would leave it registered there, and the thread's end would come by.
 */
#if defined(__GLIBC__) && !defined(__EXCEPTIONS)
#define section_cleanup_here()	(section.cleanup = &__cancel_buf)
static inline void section_cleanup_forget(void)
{
	if (section.cleanup)
		__pthread_unregister_cancel(section.cleanup);
	section.cleanup = NULL;
}
#else
#define section_cleanup_here()	((void)0)
static inline void section_cleanup_forget(void) { }
#endif

/* Around a sleep that a handler, or the end of the thread, may not let return: fn(arg) then. */
#define section_away_push(fn, arg) \
	section.away_arg = (arg); \
	fence_signal(); \
	section.away = (fn); \
	pthread_cleanup_push(section_cancelled, NULL); \
	section_cleanup_here()
#define section_away_pop() \
	section.cleanup = NULL; \
	pthread_cleanup_pop(0); \
	fence_signal(); \
	section.away = NULL

/* Of a thread with async set: cancellation waits for the end, or is let in. */
void section_cancel_type(int type);

static inline void section_enter(void)
{
	section.depth++;
	fence_signal();
	if (unlikely(section.async))
		section_cancel_type(PTHREAD_CANCEL_DEFERRED);
}

static inline void section_outside(void)
{
	fence_signal();
	if (unlikely(section.deferred))
		section_flush();
	if (unlikely(section.async) && !section.depth)
		section_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS);
}

static inline void section_leave(void)
{
	fence_signal();
	section.depth--;
	section_outside();
}

/* Around what may block; no lock held. */
static inline uint32_t section_suspend(void)
{
	uint32_t depth = section.depth;

	fence_signal();
	section.depth = 0;
	section_outside();
	return depth;
}

static inline void section_resume(uint32_t depth)
{
	if (unlikely(section.async) && depth)
		section_cancel_type(PTHREAD_CANCEL_DEFERRED);
	fence_signal();
	section.depth = depth;
	fence_signal();
}

/*
 * Does a handler of the program run here?  Then the thread may be anywhere in libc,
 * with any of its locks, and on a stack with little room.  That one was left by a
 * jump is seen by the stack only: who is soon as deep again counts as inside.
 */
#define SECTION_HANDLER_DEPTH (256u << 10)
static inline bool section_in_handler(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (section.handler && here >= section.handler)
		section.handler = 0;
	return section.handler && section.handler - here < SECTION_HANDLER_DEPTH;
}

/*
 * pthread_cancel() acts on a thread that finds data wherever it looks, too: at
 * least once in so many calls.
 */
#define SECTION_CANCEL_EVERY 16
void section_cancel_point(void);

static inline void section_call(void)
{
	if (unlikely(++section.calls % SECTION_CANCEL_EVERY == 0))
		section_cancel_point();
}

/* At start-up; of a thread, before its first count. */
void section_start(void);
void section_watch(void);

static inline void section_go_in(void (*gone)(void *obj, uint32_t gen), void *obj, uint32_t gen)
{
	struct section *s = &section;

	if (unlikely(!s->watched))
		section_watch();
	if (likely(s->inside < SECTION_INSIDE))
		s->in[s->inside] = (struct inside){ gone, obj, gen };
	s->inside++;
}

/* Return: false, the count has gone meanwhile: this is the child of a handler's fork. */
static inline bool section_come_out(void)
{
	if (unlikely(!section.inside))
		return false;
	section.inside--;
	return true;
}

#define section_away(call) ({ \
	uint32_t _depth = section_suspend(); \
	__typeof__(call) _ret = (call); \
	section_resume(_depth); \
	_ret; })

#endif
