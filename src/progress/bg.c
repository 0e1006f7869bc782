/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bg.c - see bg.h
 *
 * queue is a lock-free stack that the loop takes whole and turns round.
 * Timers are a list that only the loop touches.
 *
 * Nothing is left lying while the loop sleeps without a tick:
 *   queue	pushed first, then kicked or, for soon, the timer set: either ends
 *		the sleep, and a round takes the queue behind its events.  Who
 *		finds soon set sets nothing: its timer has not fired, or its event
 *		has been read in a round that takes the queue after clearing soon.
 *   todo	a conn's bits come before the look at queued; queued is cleared
 *		before the bits are taken
 *   timers	are set in a round, and the time to sleep is reckoned behind it
 *   CQ		parked: armed, then found empty, while it is watched here or a
 *		leader sleeps on it; one that goes looks at bg_parked after it has
 *		gone, as park() looks for it after setting that.  A QP is made in a
 *		round, at whose end all are armed, or ticks go on.
 */
#define _GNU_SOURCE
#include "progress/bg.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/guard.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/section.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "progress/engine.h"
#include "progress/wait.h"

#define BG_TICK_MS	4
#define BG_IDLE_TICKS	5
#define ARM_TRIES	4
#define RETRY_MS	100
#define GONE_MS		100
#define EVENTS		32
#define CATCH_UP_MS	2
#define CATCH_UP_REST	10	/* times as long as it was waited is not waited again */
#define CATCH_UP_NAP_US	20
#define CATCH_UP_EVERY_US 50
#define STACK_BYTES	(256 * 1024)
#define STACK_MOST	(256 * 1024 * 1024)

uint32_t bg_parked;

static struct lock start_lock;
static pthread_t thread;
static int thread_tid;
static bool running;
static uint64_t not_before_ns;	/* it did not start: no new try before then */
static int not_before_err;
static bool stopping;
static int epfd = -1;
static struct bg_src kick_src = { .fd = -1 };
static struct bg_src channel_srcs[ENGINE_DEVS] = { [0 ... ENGINE_DEVS - 1] = { .fd = -1 } };
static bool channel_watched;	/* written by the loop: all that there are */
static struct bg_src aside_src = { .fd = -1 };
static bool expected;		/* bg_expect() wants the loop parked */
static struct bg_src soon_src = { .fd = -1 };	/* a timer, for bg_queue_soon() */
static uint32_t soon;				/* it is set */
static struct bg_work *queue;
static struct list timers = LIST_INIT(timers);
static struct epoll_event fetched[EVENTS];	/* the loop's own */
static int nfetched;
static __thread bool in_loop;

int bg_watch(struct bg_src *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	/* pairs with loop(): what s belongs to was made before */
	st_rel(&s->watched, 1);
	return sys_epoll_ctl(epfd, EPOLL_CTL_ADD, s->fd, &ev);
}

int bg_modify(struct bg_src *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	return sys_epoll_ctl(epfd, EPOLL_CTL_MOD, s->fd, &ev);
}

void bg_unwatch(struct bg_src *s)
{
	struct epoll_event ev = { 0 };

	if (s->fd >= 0)
		sys_epoll_ctl(epfd, EPOLL_CTL_DEL, s->fd, &ev);
	for (int i = 0; in_loop && i < nfetched; i++)
		if (fetched[i].data.ptr == s)
			fetched[i].data.ptr = NULL;
}

void bg_kick(void)
{
	uint64_t one = 1;

	guard_enter();		/* pairs with bg_close() */
	sys_write(ld_rlx(&kick_src.fd), &one, sizeof(one));
	guard_exit();
}

static void kick_event(struct bg_src *s, uint32_t events)
{
	uint64_t v;

	sys_read(s->fd, &v, sizeof(v));
}

static bool push(struct bg_work *w)
{
	if (xchg_acqrel(&w->queued, 1))
		return false;
	do
		w->next = ld_acq(&queue);
	while (!cas_acqrel(&queue, w->next, w));
	return true;
}

bool bg_queue_once(struct bg_work *w)
{
	bool fresh = push(w);

	if (fresh)
		bg_kick();
	else
		bg_hurry(w);
	return fresh;
}

void bg_hurry(struct bg_work *w)
{
	if (ld_rlx(&w->soon) && xchg_acqrel(&w->soon, 0))
		bg_kick();
}

static void soon_event(struct bg_src *s, uint32_t events)
{
	uint64_t v;

	sys_read(s->fd, &v, sizeof(v));
	st_rlx(&soon, 0);
	fence_full();	/* pairs with bg_queue_soon(): what is queued behind this look is armed for */
}

static bool soon_set(void)
{
	const struct itimerspec at = { .it_value.tv_nsec = BG_TICK_MS * NS_PER_MS };

	guard_enter();
	int fd = ld_rlx(&soon_src.fd);
	bool set = fd >= 0 && sys4(SYS_timerfd_settime, fd, 0, &at, 0) == 0;
	guard_exit();
	return set;
}

/*
 * A thread that ticks comes by.  The timer is no shorter than a tick of the
 * kernel's: one that must be set into the hardware costs the caller ten
 * microseconds in a guest.
 */
bool bg_queue_soon(struct bg_work *w)
{
	st_rlx(&w->soon, 1);	/* before it can be seen queued: bg_hurry() */
	if (!push(w))
		return false;
	fence_full();		/* pairs with park(): flag, fence, queue */
	if (!ld_rlx(&bg_parked))
		return true;
	if (!xchg_acqrel(&soon, 1) && !soon_set()) {
		st_rlx(&soon, 0);
		bg_kick();
	}
	return true;
}

void bg_queue(struct bg_work *w)
{
	bg_queue_once(w);
}

static void run_queue(void)
{
	struct bg_work *w = xchg_acqrel(&queue, NULL), *next, *first = NULL;

	for (; w; w = next) {	/* oldest first */
		next = w->next;
		w->next = first;
		first = w;
	}
	for (w = first; w; w = next) {
		next = w->next;
		st_rlx(&w->soon, 0);
		st_rel(&w->queued, 0);	/* pairs with bg_queue(): may be queued again from now on */
		w->fn(w);
	}
}

void bg_timer_set(struct bg_timer *t, uint64_t at_ns)
{
	if (!t->node.next)
		list_init(&t->node);
	t->at_ns = at_ns;
	list_del(&t->node);
	list_for_each(n, &timers) {
		if (list_entry(n, struct bg_timer, node)->at_ns > at_ns) {
			list_insert(n->prev, &t->node);
			return;
		}
	}
	list_push(&timers, &t->node);
}

void bg_timer_stop(struct bg_timer *t)
{
	if (t->node.next)
		list_del(&t->node);
}

static void run_timers(void)
{
	uint64_t now = clock_ns();

	while (!list_empty(&timers)) {
		struct bg_timer *t = list_entry(timers.next, struct bg_timer, node);

		if (t->at_ns > now)
			return;
		list_del(&t->node);
		t->fn(t);
	}
}

static void unwatch_channels(void)
{
	for (int i = 0; i < ENGINE_DEVS; i++) {
		bg_unwatch(&channel_srcs[i]);
		channel_srcs[i].fd = -1;
	}
	bg_unwatch(&aside_src);
	aside_src.fd = -1;
	st_rlx(&channel_watched, false);
}

bool bg_is_loop(void)
{
	return in_loop;
}

void bg_channel_gone(const struct engine_dev *d)
{
	struct bg_src *s = &channel_srcs[d - engine.devs];

	bg_unwatch(s);
	s->fd = -1;
}

static void channel_event(struct bg_src *s, uint32_t events)
{
	if (wait_has_leader()) {	/* the event is the leader's */
		unwatch_channels();
		return;
	}
	engine_drain(s == &aside_src ? ENGINE_FD_ASIDE : ENGINE_FD_DEV(s - channel_srcs));
	wait_nudge_leader();
}

/* Return: whether it is watched now, or is none. */
static bool watch(struct bg_src *s, int fd)
{
	if (s->fd == fd)
		return true;
	s->fd = fd;
	s->fn = channel_event;
	if (bg_watch(s, EPOLLIN) == 0)
		return true;
	s->fd = -1;
	return false;
}

static bool watch_channels(void)
{
	bool all = watch(&aside_src, engine_aside());
	const struct engine_dev *d;

	engine_for_each(i, d)
		all &= ld_rlx(&d->gone) || watch(&channel_srcs[i], d->channel->fd);
	st_rlx(&channel_watched, all);
	return all;
}

void bg_expect(void)
{
	/* a hint: where the loop stops watching at this moment, it has been
	 * woken and looks at the CQ, or a leader does */
	if ((ld_rlx(&channel_watched) || wait_has_leader()) && engine_try_arm())
		return;
	st_rlx(&expected, true);
	bg_kick();
}

/* Has the loop been told of what it has not come to yet? */
static bool behind(void)
{
	struct pollfd p = { .events = POLLIN };
	struct timespec zero = { 0, 0 };

	guard_enter();		/* pairs with bg_close() */
	p.fd = ld_rlx(&epfd);
	bool yes = p.fd >= 0 && bg_running() && sys_ppoll(&p, 1, &zero, NULL) > 0 && p.revents & POLLIN;
	guard_exit();
	return yes;
}

bool bg_catch_up(void)
{
	static uint64_t rest_ns;	/* a hint: who keeps the loop busy is not to stop the program */
	uint64_t begun = clock_ns(), now;

	if (in_loop || begun < ld_rlx(&rest_ns) || !behind())
		return false;
	do {
		sys_nap(CATCH_UP_NAP_US * NS_PER_US);
		now = clock_ns();
	} while (behind() && now < begun + CATCH_UP_MS * NS_PER_MS);
	st_rlx(&rest_ns, now + CATCH_UP_REST * (now - begun));
	return true;
}

bool bg_catch_up_due(void)
{
	static uint64_t last;		/* a hint */
	uint64_t now = clock_ticks();

	if (now - ld_rlx(&last) < CATCH_UP_EVERY_US * clock_ticks_per_us)
		return false;
	st_rlx(&last, now);
	return true;
}

/*
 * Nothing moved for a while: sleep without a tick.  Without a leader this
 * thread is the sleeper of last resort.  With one it arms the CQ all the same:
 * it may have drained the event that the leader's arming had raised (a leader
 * can come between the two lines of channel_event()).  Return: true when parked.
 */
static bool park(void)
{
	st_rlx(&bg_parked, 1);
	fence_full();	/* pairs with bg_unpark(), bg_queue_soon() */
	if (ld_acq(&queue)) {
		st_rlx(&bg_parked, 0);
		return false;
	}
	if (!engine_up())
		return true;
	if (!wait_has_leader() && !watch_channels()) {
		st_rlx(&bg_parked, 0);
		return false;	/* ticks will have to do */
	}
	for (int i = 0; i < ARM_TRIES; i++) {
		engine_arm();
		if (engine_poll_all() == 0)
			return true;
	}
	st_rlx(&bg_parked, 0);
	return false;
}

static int timeout_ms(bool parked)
{
	int ms = parked ? -1 : BG_TICK_MS;

	if (!list_empty(&timers)) {
		uint64_t at = list_entry(timers.next, struct bg_timer, node)->at_ns;
		uint64_t now = clock_ns();
		uint64_t left = at > now ? (at - now + NS_PER_MS - 1) / NS_PER_MS : 0;

		if (ms < 0 || left < (uint64_t)ms)
			ms = (int)MIN(left, (uint64_t)1000000);
	}
	return ms;
}

/*
 * Take completions as the thread that is there for it.  Return: true when
 * nobody else has taken any since the last look, so that a tick would be the
 * only way for the next one to be seen.
 */
static bool take_alone(uint32_t *seen, uint32_t *idle)
{
	uint32_t before = ld_rlx(&engine.active);
	bool mine = engine_poll() > 0;
	bool others = before != *seen;

	*seen = ld_rlx(&engine.active);
	*idle = mine || others ? 0 : *idle + 1;
	return mine && !others;
}

static void loop(void)
{
	uint32_t seen = 0, idle = 0;
	bool parked = false, alone = true;

	in_loop = true;
	while (!ld_acq(&stopping)) {
		nfetched = sys_epoll_wait(epfd, fetched, EVENTS, timeout_ms(parked));
		st_rlx(&bg_parked, 0);
		for (int i = 0; i < nfetched; i++) {
			struct bg_src *s = fetched[i].data.ptr;

			/* pairs with bg_watch() */
			if (s && ld_acq(&s->watched))
				s->fn(s, fetched[i].events);
		}
		nfetched = 0;
		run_queue();
		run_timers();
		if (take_alone(&seen, &idle))
			alone = true;
		else if (!idle)
			alone = false;
		bool asked = ld_rlx(&expected) && xchg_acqrel(&expected, false);
		parked = (!engine_up() || alone || asked || idle >= BG_IDLE_TICKS) && park();
		if (!parked && idle >= BG_IDLE_TICKS)
			idle = 0;
	}
}

static void *thread_main(void *arg)
{
	sys5(SYS_prctl, PR_SET_NAME, "sidestep", 0, 0, 0);
	st_rlx(&thread_tid, sys_gettid());	/* pthread_join() makes it visible */
	section_enter();	/* for ever: whatever is called here is called by us */
	loop();
	return NULL;
}

static int make_fds(void)
{
	epfd = PRIVFD_NEW(sys1(SYS_epoll_create1, EPOLL_CLOEXEC));
	if (epfd < 0)
		return epfd;
	kick_src.fd = PRIVFD_NEW(sys2(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (kick_src.fd < 0) {
		privfd_close(epfd);
		epfd = -1;
		return kick_src.fd;
	}
	kick_src.fn = kick_event;
	int err = bg_watch(&kick_src, EPOLLIN);
	if (err) {
		privfd_close(kick_src.fd);
		privfd_close(epfd);
		epfd = kick_src.fd = -1;
		return err;
	}
	soon_src.fn = soon_event;
	soon_src.fd = privfd_adopt((int)sys2(SYS_timerfd_create, CLOCK_MONOTONIC,
					     TFD_NONBLOCK | TFD_CLOEXEC));
	if (bg_watch(&soon_src, EPOLLIN)) {	/* it is no must */
		privfd_close(soon_src.fd);
		soon_src.fd = -1;
	}
	return 0;
}

/* libc takes the program's thread-local variables off the stack: EINVAL, it is too small. */
static int thread_new(pthread_attr_t *attr)
{
	int err = EINVAL;

	for (size_t n = STACK_BYTES; err == EINVAL && n <= STACK_MOST; n *= 4) {
		pthread_attr_setstacksize(attr, n);
		err = pthread_create(&thread, attr, thread_main, NULL);
	}
	return err;
}

static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (pthread_attr_init(&attr))
		return -ENOMEM;
	sigfillset(&all);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	int err = -fault_thread();
	if (!err)
		err = thread_new(&attr);
	if (!err)
		tasks_hide();
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
	pthread_attr_destroy(&attr);
	return -err;
}

int bg_start(void)
{
	int err = 0;

	if (ld_acq(&running))
		return 0;
	lock_take(&start_lock);
	if (!running && clock_ns() < not_before_ns) {
		err = not_before_err;
	} else if (!running) {
		err = epfd < 0 ? make_fds() : 0;
		if (!err)
			err = start_thread();
		not_before_ns = err ? clock_ns() + RETRY_MS * NS_PER_MS : 0;
		not_before_err = err;
		if (err)
			log_error("no background thread: error %d, using kernel tcp", -err);
		else
			st_rel(&running, true);
	}
	lock_drop(&start_lock);
	return err;
}

bool bg_running(void)
{
	return ld_acq(&running);
}

/*
 * libc hears of the end of a thread a moment before the kernel counts one less,
 * and until then unshare() and setns() say EINVAL.
 */
static void await_gone(void)
{
	uint64_t until = clock_ns() + GONE_MS * NS_PER_MS;

	while (sys3(SYS_tgkill, sys_getpid(), thread_tid, 0) != -ESRCH && clock_ns() < until)
		sys0(SYS_sched_yield);
}

void bg_stop(void)
{
	lock_take(&start_lock);
	if (running) {
		tasks_unhide();		/* before it can end */
		st_rel(&stopping, true);
		bg_kick();
		pthread_join(thread, NULL);
		await_gone();
		st_rel(&running, false);
		st_rel(&stopping, false);
	}
	lock_drop(&start_lock);
}

/*
 * Numbers out of sight first; then a moment with nobody inside a guard: who
 * comes later sees -1, and who slept on the channel reads no other's bytes.
 */
int bg_close(void)
{
	int fds[4 + ENGINE_DEVS] = { xchg_acqrel(&kick_src.fd, -1), xchg_acqrel(&epfd, -1),
				     xchg_acqrel(&soon_src.fd, -1),
				     xchg_acqrel(&engine.aside, -1),
				     [4 ... 3 + ENGINE_DEVS] = -1 }, n = 0;
	struct engine_dev *d;

	engine_for_each(i, d)
		fds[4 + i] = xchg_acqrel(&d->channel->fd, -1);
	wait_nudge_leader();
	while (!guard_empty())
		sys0(SYS_sched_yield);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		n += fds[i] > 0;
		privfd_close(fds[i]);
	}
	return n;
}

void bg_forget(void)
{
	lock_reset(&start_lock);
	tasks_forget();
	running = stopping = channel_watched = expected = false;
	nfetched = 0;
	epfd = kick_src.fd = soon_src.fd = aside_src.fd = -1;
	for (int i = 0; i < ENGINE_DEVS; i++)
		channel_srcs[i].fd = -1;
	soon = 0;
	queue = NULL;
	list_init(&timers);
	bg_parked = 0;
}
