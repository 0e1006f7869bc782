/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * wait.c - see wait.h
 *
 * Spinning: the budget is full again when a spin was rewarded and halves when
 * it was not; now and then the full budget is tried again.  A
 * gap between two looks means that somebody else needed this core: then
 * nobody spins for a while.
 *
 * Handlers run in the sleep only, and never before the sleeper is off the list
 * (taken_away()): they may jump, and its frame would be gone.  What they leave
 * behind is a sleep without time and a word that is set, so that it ends at
 * once even when they came just before its system call.
 *
 * Who gets no event fd, or no memory for what it sleeps on, does not lead and
 * looks every NAP_MS: such a want is not the program's business.
 *
 * sleep_lock protects the list, the leader and the pool of event fds.
 */
#define _GNU_SOURCE
#include "progress/wait.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/guard.h"
#include "base/lock.h"
#include "base/privfd.h"
#include "base/probe.h"
#include "base/section.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "progress/engine.h"

#define SPIN_MAX_US	50
#define SPIN_CALLS	20		/* calls of a device's driver that a sleep is worth */
#define SPIN_TIMES_MOST	20
#define SPIN_MIN_SHIFT	6		/* at least 1/64 of the maximum */
#define PROBE_EVERY	8
#define LOOKS_A_POLL	16
#define CROWDED_GAP_US	40
#define CROWDED_MS	20
#define GAPS_MS		10
#define POOL		64
#define STACK_FDS	64
#define NAP_MS		1

uint32_t wait_sleepers;
uint32_t guard_inside;

static struct lock sleep_lock;
static struct list sleepers = LIST_INIT(sleepers);
static struct wait *leader;
static int pool[POOL];
static int npool;

static struct {
	uint32_t shift;		/* budget = max >> shift */
	uint32_t waits;
	uint64_t crowded_until;	/* ticks */
	uint64_t last_gap;
} spin;

/*
 * To spin pays for as long as a sleep would cost.  That is SPIN_MAX_US, with room
 * to spare, but where calls of the driver are so slow that a sleep, a wake-up and
 * three of them take longer: then so is all that is spun for.
 */
static uint64_t slower(void)
{
	uint64_t most = SPIN_MAX_US * clock_ticks_per_us, calls = ld_rlx(&engine.call_ticks);

	return likely(calls * SPIN_CALLS <= most) ? 1 :
	       MIN(calls * SPIN_CALLS / most, (uint64_t)SPIN_TIMES_MOST);
}

static uint64_t spin_budget(void)
{
	uint64_t us = config.spin_us == SPIN_AUTO ? SPIN_MAX_US * slower() : (uint64_t)config.spin_us;
	uint64_t max = us * clock_ticks_per_us;

	if (config.spin_us != SPIN_AUTO)
		return max;
	if (clock_ticks() < ld_rlx(&spin.crowded_until))
		return 0;
	uint32_t n = ld_rlx(&spin.waits) + 1;
	st_rlx(&spin.waits, n);
	return n % PROBE_EVERY == 0 ? max : max >> ld_rlx(&spin.shift);
}

static void spin_learn(bool rewarded)
{
	uint32_t s = ld_rlx(&spin.shift);

	if (rewarded && s > 0)
		st_rlx(&spin.shift, 0);
	else if (!rewarded && s < SPIN_MIN_SHIFT)
		st_rlx(&spin.shift, s + 1);
}

static bool is_ready(struct wait *w)
{
	guard_enter();
	bool yes = w->ready(w);
	guard_exit();
	return yes;
}

/* One gap may be the host's doing; two in a row are a neighbour's. */
static bool crowded_again(uint64_t now)
{
	bool again = now - ld_rlx(&spin.last_gap) < GAPS_MS * 1000 * clock_ticks_per_us;

	st_rlx(&spin.last_gap, now);
	if (again)
		st_rlx(&spin.crowded_until, now + CROWDED_MS * 1000 * clock_ticks_per_us);
	return again;
}

static bool spin_loop(struct wait *w, uint64_t budget)
{
	uint64_t start = clock_ticks(), last = start, now;
	uint64_t gap = CROWDED_GAP_US * slower() * clock_ticks_per_us;

	do {
		/* bytes show without their completion; that is left for later, so
		 * that the sender need not raise another */
		for (int i = 0; i < LOOKS_A_POLL; i++) {
			if (w->ready(w)) {
				spin_learn(true);
				return true;
			}
			cpu_relax();
		}
		engine_poll();
		now = clock_ticks();
		if (unlikely(section.deferred))
			return false;
		if (now - last > gap && crowded_again(now))
			return false;
		last = now;
	} while (now - start < budget);
	spin_learn(false);
	return false;
}

/* Return: true when the predicate holds. */
static bool spin_for(struct wait *w)
{
	uint64_t budget = spin_budget();

	if (!budget)
		return false;
	guard_enter();
	bool done = spin_loop(w, budget);
	guard_exit();
	return done;
}

static int efd_get(void)
{
	lock_take(&sleep_lock);
	int fd = npool > 0 ? pool[--npool] : -1;
	lock_drop(&sleep_lock);
	if (fd < 0)
		fd = PRIVFD_NEW(sys2(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC));
	return fd;
}

static void efd_drain(int fd)
{
	uint64_t v;

	sys_read(fd, &v, sizeof(v));
}

/* Drained, and nobody knows it any more. */
static void efd_put(int fd)
{
	if (fd < 0)
		return;
	lock_take(&sleep_lock);
	if (npool < POOL) {
		pool[npool++] = fd;
		fd = -1;
	}
	lock_drop(&sleep_lock);
	privfd_close(fd);
}

static void wake(struct wait *w)
{
	uint64_t one = 1;

	if (xchg_acqrel(&w->word, 1))
		return;
	count(CNT_wakes, 1);
	probe_1(wake, PROBE_WAKES_THREAD);
	if (w->efd >= 0)
		sys_write(w->efd, &one, sizeof(one));
	else
		sys_futex(&w->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL);
}

void wait_wake_slow(void)
{
	lock_take(&sleep_lock);
	list_for_each(n, &sleepers) {
		struct wait *w = list_entry(n, struct wait, node);

		if (!ld_rlx(&w->word) && is_ready(w))
			wake(w);
	}
	lock_drop(&sleep_lock);
}

bool wait_has_leader(void)
{
	return ld_rlx(&leader) != NULL;
}

void wait_nudge_leader(void)
{
	fence_full();	/* pairs with join(): who leads by now arms after this, or is seen */
	if (!wait_has_leader())
		return;
	lock_take(&sleep_lock);
	if (leader)
		wake(leader);
	lock_drop(&sleep_lock);
}

/* Join the sleepers; the first one without a leader leads. */
static void join(struct wait *w)
{
	lock_take(&sleep_lock);
	st_rlx(&w->word, 0);
	list_push(&sleepers, &w->node);
	st_rlx(&wait_sleepers, wait_sleepers + 1);
	w->joined = true;
	w->leads = !leader && engine_up() && !w->poor;
	if (w->leads)
		st_rlx(&leader, w);
	lock_drop(&sleep_lock);
	fence_full();	/* pairs with wait_wake_ready() */
}

/*
 * Leave; a leader wakes a successor, which finds the post vacant.  So does who
 * was woken to succeed and has no time left for it.
 */
static void leave(struct wait *w)
{
	if (!w->joined)
		return;
	lock_take(&sleep_lock);
	list_del(&w->node);
	st_rlx(&wait_sleepers, wait_sleepers - 1);
	w->joined = false;
	if (w->leads)
		st_rlx(&leader, NULL);
	if (!list_empty(&sleepers) && (w->leads || (w->word && !leader && engine_up())))
		wake(list_entry(sleepers.next, struct wait, node));
	lock_drop(&sleep_lock);
}

static void unmap_many(struct wait *w)
{
	if (w->many)
		sys_unmap(w->many, w->many_bytes);
	w->many = NULL;
}

/* A handler, or the end of the thread, comes in the sleep: in a section, no lock held. */
static void taken_away(void *arg)
{
	struct wait *w = arg;

	st_rlx(&w->word, 1);
	w->left = (struct timespec){ 0 };
	leave(w);
	if (w->efd >= 0)
		efd_drain(w->efd);
	efd_put(w->efd);
	w->efd = -1;
	unmap_many(w);
	if (w->leads)
		bg_unpark();
	if (w->gone)
		w->gone(w);
}

static void time_left(struct wait *w)
{
	uint64_t now = w->deadline_ns == WAIT_FOREVER ? 0 : clock_ns();
	uint64_t left = w->deadline_ns > now ? w->deadline_ns - now : 0;

	if (unlikely(w->poor))
		left = MIN(left, NAP_MS * NS_PER_MS);
	w->left.tv_sec = (time_t)(left / NS_PER_S);
	w->left.tv_nsec = (long)(left % NS_PER_S);
}

/* The sleep itself, on n of p or, without p, on the word: where handlers run. */
static int asleep(struct wait *w, struct pollfd *p, nfds_t n)
{
	int ret, type = PTHREAD_CANCEL_DEFERRED;

	time_left(w);
	section_away_push(taken_away, w);	/* the thread may end from here on */
	uint32_t depth = section_suspend();
	if (!w->no_cancel)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	if (p)
		ret = sys_ppoll(p, n, &w->left, w->mask);
	else
		ret = sys_futex(&w->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &w->left);
	if (!w->no_cancel)
		pthread_setcanceltype(type, NULL);
	section_resume(depth);
	section_away_pop();
	return w->joined ? ret : -EINTR;
}

/* What asleep() said of a sleep that was cut short. */
static int slept(const struct wait *w, int ret)
{
	if (ret == 0)
		ret = -ETIMEDOUT;
	if (ret == -ETIMEDOUT && w->poor && clock_ns() < w->deadline_ns)
		return 0;
	return ret < 0 ? ret : 0;
}

/* On the caller's own list: nobody can wake us. */
static int sleep_in_place(struct wait *w)
{
	w->poor = true;
	int ret = asleep(w, w->kfds, w->nkfds);
	w->kready = MAX(ret, 0);
	for (nfds_t i = 0; ret <= 0 && i < w->nkfds; i++)
		w->kfds[i].revents = 0;
	return slept(w, ret);
}

static int sleep_on_fds(struct wait *w)
{
	struct pollfd few[STACK_FDS], *p = few;
	int fds[ENGINE_FDS], nfds = w->leads ? engine_fds(fds) : 0;
	nfds_t n = 0, off, want = w->nkfds + 1 + (nfds_t)nfds;

	if (want > STACK_FDS) {
		w->many_bytes = want * sizeof(*p);
		p = w->many = sys_map(w->many_bytes, 0);
		if (!p)
			return sleep_in_place(w);
	}
	p[n++] = (struct pollfd){ w->efd, POLLIN, 0 };
	for (int i = 0; i < nfds; i++)
		p[n++] = (struct pollfd){ fds[i], POLLIN, 0 };
	off = n;
	for (nfds_t i = 0; i < w->nkfds; i++)
		p[n++] = w->kfds[i];
	int ret = asleep(w, p, n);
	w->kready = 0;
	for (nfds_t i = 0; i < w->nkfds; i++) {
		w->kfds[i].revents = ret > 0 ? p[off + i].revents : 0;
		w->kready += w->kfds[i].revents != 0;
	}
	unsigned int which = 0;
	for (int i = 0; ret > 0 && i < nfds; i++)
		which |= p[1 + i].revents ? 1u << i : 0;
	if (which) {
		guard_enter();	/* pairs with bg_close(): it is the channel, or none */
		engine_drain(which);
		guard_exit();
	}
	unmap_many(w);
	return slept(w, ret);
}

static int sleep_on_word(struct wait *w)
{
	int ret = asleep(w, NULL, 0);

	return ret == -EAGAIN ? 0 : ret < 0 ? slept(w, ret) : ret;
}

/* One sleep.  Return: 0 look again, -ETIMEDOUT, -EINTR. */
static int sleep_once(struct wait *w)
{
	int ret = 0;

	join(w);
	if (w->leads && w->efd < 0) {	/* a leader is woken by descriptor */
		leave(w);
		w->efd = efd_get();
		w->poor = w->efd < 0;
		join(w);
		if (!w->leads)	/* the background thread may have parked meanwhile */
			bg_unpark();
	}
	if (w->leads) {
		engine_arm();
		engine_poll_all();
	}
	if (!is_ready(w) && !ld_acq(&w->word)) {
		count(CNT_sleeps, 1);
		probe_2(sleep, w->deadline_ns, w->nkfds);
		ret = w->efd >= 0 || w->nkfds || w->mask ? sleep_on_fds(w) : sleep_on_word(w);
	}
	leave(w);
	if (w->efd >= 0 && ld_acq(&w->word))	/* nobody can wake it any more */
		efd_drain(w->efd);
	if (w->leads)
		bg_unpark();
	return ret;
}

bool wait_never(struct wait *w)
{
	return false;
}

int wait_run(struct wait *w)
{
	uint32_t interrupting = section.interrupting;
	int ret = 0;

	w->kready = 0;
	w->efd = -1;
	w->joined = w->leads = w->poor = false;
	w->many = NULL;
	list_init(&w->node);
	if (is_ready(w))
		return 0;
	engine_poll();
	if (is_ready(w))
		return 0;
	if (w->deadline_ns != 0 && !w->no_spin && spin_for(w))
		return 0;
	if (w->nkfds || w->mask) {
		w->efd = efd_get();
		w->poor = w->efd < 0;
	}
	while (!ret && !w->kready) {
		if (w->before_sleep)
			w->before_sleep(w);
		ret = sleep_once(w);
		engine_poll();
		if (is_ready(w)) {
			ret = 0;
			break;
		}
	}
	efd_put(w->efd);
	w->restart = section.interrupting == interrupting;
	return ret;
}

uint64_t wait_deadline_ns(uint64_t timeout_ns)
{
	return timeout_ns ? clock_ns() + timeout_ns : WAIT_FOREVER;
}

uint64_t wait_deadline(const struct timespec *timeout)
{
	if (!timeout)
		return WAIT_FOREVER;
	if (timeout->tv_sec == 0 && timeout->tv_nsec == 0)
		return 0;
	return clock_ns() + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
}

int wait_shrink(void)
{
	lock_take(&sleep_lock);
	int n = npool;
	while (npool > 0)
		privfd_close(pool[--npool]);
	lock_drop(&sleep_lock);
	return n;
}

void wait_forget(void)
{
	lock_reset(&sleep_lock);
	list_init(&sleepers);
	leader = NULL;
	npool = 0;
	wait_sleepers = 0;
	guard_inside = 0;
}
