/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * bg.c - see bg.h
 *
 * queue is a lock-free stack that the loop takes whole and turns round.
 * Timers are a list that only the loop touches.
 */
#define _GNU_SOURCE
#include "progress/bg.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "progress/wait.h"

#define BG_TICK_MS	4
#define BG_IDLE_TICKS	5
#define ARM_TRIES	4
#define EVENTS		32
#define STACK_BYTES	(256 * 1024)

uint32_t bg_parked;

static struct lock start_lock;
static pthread_t thread;
static bool running;
static bool stopping;
static int epfd = -1;
static struct bg_src kick_src = { .fd = -1 };
static struct bg_src channel_src = { .fd = -1 };
static bool channel_watched;
static struct bg_work *queue;
static struct list timers = LIST_INIT(timers);
static struct epoll_event fetched[EVENTS];	/* the loop's own */
static int nfetched;
static __thread bool in_loop;

int bg_watch(struct bg_src *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

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

	sys_write(ld_rlx(&kick_src.fd), &one, sizeof(one));
}

static void kick_event(struct bg_src *s, uint32_t events)
{
	uint64_t v;

	sys_read(s->fd, &v, sizeof(v));
}

bool bg_queue_once(struct bg_work *w)
{
	if (xchg_acqrel(&w->queued, 1))
		return false;
	do
		w->next = ld_acq(&queue);
	while (!cas_acqrel(&queue, w->next, w));
	bg_kick();
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

static void channel_event(struct bg_src *s, uint32_t events)
{
	if (wait_has_leader()) {	/* the event is the leader's */
		bg_unwatch(&channel_src);
		channel_watched = false;
		return;
	}
	engine.rnic->ops->channel_drain(engine.channel);
	wait_nudge_leader();
}

static void watch_channel(void)
{
	if (channel_watched)
		return;
	channel_src.fd = engine.channel->fd;
	channel_src.fn = channel_event;
	channel_watched = bg_watch(&channel_src, EPOLLIN) == 0;
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
	fence_full();	/* pairs with bg_unpark() */
	if (!engine_up())
		return true;
	if (!wait_has_leader())
		watch_channel();
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

			if (s)
				s->fn(s, fetched[i].events);
		}
		nfetched = 0;
		run_queue();
		run_timers();
		if (take_alone(&seen, &idle))
			alone = true;
		else if (!idle)
			alone = false;
		parked = (!engine_up() || alone || idle >= BG_IDLE_TICKS) && park();
		if (!parked && idle >= BG_IDLE_TICKS)
			idle = 0;
	}
}

static void *thread_main(void *arg)
{
	sys5(SYS_prctl, PR_SET_NAME, "sidestep", 0, 0, 0);
	loop();
	return NULL;
}

static int make_fds(void)
{
	epfd = privfd_adopt((int)sys1(SYS_epoll_create1, EPOLL_CLOEXEC));
	if (epfd < 0)
		return epfd;
	kick_src.fd = privfd_adopt((int)sys2(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (kick_src.fd < 0) {
		privfd_close(epfd);
		epfd = -1;
		return kick_src.fd;
	}
	kick_src.fn = kick_event;
	return bg_watch(&kick_src, EPOLLIN);
}

static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (pthread_attr_init(&attr))
		return -ENOMEM;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	int err = pthread_create(&thread, &attr, thread_main, NULL);
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
	if (!running) {
		err = epfd < 0 ? make_fds() : 0;
		if (!err)
			err = start_thread();
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

void bg_stop(void)
{
	lock_take(&start_lock);
	if (running) {
		st_rel(&stopping, true);
		bg_kick();
		pthread_join(thread, NULL);
		st_rel(&running, false);
		st_rel(&stopping, false);
	}
	lock_drop(&start_lock);
}

void bg_forget(void)
{
	lock_reset(&start_lock);
	running = stopping = channel_watched = false;
	nfetched = 0;
	epfd = kick_src.fd = channel_src.fd = -1;
	queue = NULL;
	list_init(&timers);
	bg_parked = 0;
}
