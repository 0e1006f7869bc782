/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* engine.c - see engine.h */
#define _GNU_SOURCE
#include <config.h>

#include "progress/engine.h"

#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "rnic/load.h"

#define CQ_DEPTH	65536
#define BATCH		32
#define AGAIN_MS	1000
#define ASIDE_BATCH	16
#define CALL_MOST_US	100
#define CALL_MEAN	8

struct engine engine;

/* name: of a device for other hosts, or NULL. */
static int device_open(struct rnic **r, enum rnic_choice choice, const char *name)
{
	switch (choice) {
	case RNIC_AUTO:
	case RNIC_SOFT:
		return rnic_soft_ops.open(r, NULL);
#ifdef HAVE_VERBS
	case RNIC_VERBS:
		return rnic_verbs_ops.open(r, name);
	case RNIC_NAMED:
		return rnic_verbs_ops.open(r, config.rnic.device);
#endif
	default:
		return -ENODEV;
	}
}

static void news_act(const struct engine_dev *d, const struct rnic_event *ev)
{
	lock_take(&engine.poll_lock);
	switch (ev->kind) {
	case RNIC_EVENT_QP:
		engine.sink->lost(ev->qp->qp_context, d);
		break;
	case RNIC_EVENT_CQ:
	case RNIC_EVENT_GONE:
		engine.sink->lost(NULL, d);
		break;
	default:
		/* a port that is down for a moment loses nothing: the QPs retry,
		 * and say so when they give up */
		break;
	}
	lock_drop(&engine.poll_lock);
}

static void news_event(struct bg_src *s, uint32_t events)
{
	struct engine_dev *d = container_of(s, struct engine_dev, news);
	struct rnic_event ev = { .kind = RNIC_EVENT_OTHER };

	/* nothing comes behind that it has gone: Linux from 5.7 on does not even say so again */
	while (ev.kind != RNIC_EVENT_GONE && !d->rnic->ops->event_take(d->rnic, &ev))
		news_act(d, &ev);
	if (ev.kind != RNIC_EVENT_GONE)
		return;
	/* the channel says EPOLLERR for ever, and before 5.7 so does this one */
	bg_unwatch(s);
	st_rlx(&d->gone, true);
	bg_channel_gone(d);
	wait_nudge_leader();
	news_act(d, &ev);
}

static int news_watch(struct engine_dev *d)
{
	d->news = (struct bg_src){ .fd = d->rnic->ctx->async_fd, .fn = news_event };
	return d->news.fd < 0 ? 0 : bg_watch(&d->news, EPOLLIN);
}

static int dev_bring_up(struct engine_dev *d, enum rnic_choice choice, const char *name)
{
	load_begin();
	int err = device_open(&d->rnic, choice, name);
	load_end();
	if (err)
		return err;
	err = -ENOMEM;
	d->channel = d->rnic->ops->channel_new(d->rnic);
	if (!d->channel)
		goto fail_rnic;
	struct ibv_cq *cq = d->rnic->ops->cq_new(d->rnic, MIN(CQ_DEPTH, (int)d->rnic->max_cqe),
						 d->channel);
	if (!cq)
		goto fail_channel;
	err = news_watch(d);
	if (err)
		goto fail_cq;
	privfd_reserve(d->channel->fd);
	st_rel(&d->cq, cq);	/* pairs with engine_dev() */
	return 0;

fail_cq:
	d->rnic->ops->cq_free(cq);
fail_channel:
	d->rnic->ops->channel_free(d->channel);
	d->channel = NULL;
fail_rnic:
	d->rnic->ops->close(d->rnic);
	d->rnic = NULL;
	return err;
}

/* Each connection asks; what is not there is not looked for each time. */
static int dev_start(struct engine_dev *d, enum rnic_choice choice, const char *name)
{
	static struct attempt {
		char name[IBV_SYSFS_NAME_MAX];
		uint64_t until_ns;
		int err;
	} attempts[RNIC_CHOICES], named;
	struct attempt *a = name ? &named : &attempts[choice];

	if (a->err && a->err != -ENOMEM && clock_ns() < a->until_ns &&
	    strcmp(a->name, name ? name : "") == 0)
		return a->err;
	a->err = dev_bring_up(d, choice, name);
	a->until_ns = clock_ns() + AGAIN_MS * NS_PER_MS;
	strncpy(a->name, name ? name : "", sizeof(a->name) - 1);
	return a->err;
}

int engine_start(const struct engine_sink *sink)
{
	struct engine *e = &engine;
	struct engine_dev *d = &e->devs[0];

	if (e->here)
		return 0;
	e->sink = sink;
	int err = dev_start(d, config.rnic.choice, NULL);
	if (err) {
		log_error("no engine: error %d, using kernel tcp", -err);
		return err;
	}
	e->here = d;
	if (d->rnic->hardware)
		e->there = d;
	return 0;
}

int engine_start_there(void)
{
	struct engine_dev *d = &engine.devs[1];

	if (engine.there)
		return 0;
	if (config.rnic.choice != RNIC_AUTO)
		return -ENODEV;
	int err = dev_start(d, RNIC_VERBS, NULL);
	if (err)
		return err;
	engine.there = d;
	wait_nudge_leader();	/* it sleeps on the other channel alone */
	return 0;
}

struct engine_dev *engine_there_by(const char *name)
{
	struct engine_dev *d;
	int n = 0;

	engine_for_each(i, d) {
		/* one that has gone may be back, and is another then */
		if (d->rnic->hardware && !d->gone && strcmp(d->rnic->name, name) == 0)
			return d;
		n++;
	}
	if (!engine.there || n == ENGINE_DEVS ||
	    (config.rnic.choice == RNIC_NAMED && strcmp(config.rnic.device, name)))
		return NULL;
	d = &engine.devs[n];
	int err = dev_start(d, RNIC_VERBS, name);
	if (err) {
		log_info("rnic: no %s: error %d", name, err);
		return NULL;
	}
	wait_nudge_leader();
	return d;
}

/*
 * A queue of the software RNIC takes signalled sends and hands their completions
 * out without a lock of its own.  Only with fault far are there any.
 */
static bool posts_apart(const struct engine_dev *d)
{
	return d->rnic->shared || d->rnic->hardware;
}

static int take(const struct engine_dev *d, struct ibv_wc *wc, int most)
{
	if (likely(posts_apart(d)))
		return ibv_poll_cq(d->cq, most, wc);
	lock_take(&engine.post_lock);
	int n = ibv_poll_cq(d->cq, most, wc);
	lock_drop(&engine.post_lock);
	return n;
}

/*
 * poll_lock held; the array is the lock's: threads of programs, and their signal
 * handlers, may have small stacks.
 */
static int poll_dev(const struct engine_dev *d)
{
	static struct ibv_wc wc[BATCH];
	int total = 0, n;

	do {
		n = take(d, wc, BATCH);
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			void *ctx = (void *)(uintptr_t)wc[i].wr_id;

			if (unlikely(wc[i].status != IBV_WC_SUCCESS))
				engine.sink->broken(ctx, &wc[i]);
			else if (wc[i].opcode & IBV_WC_RECV)
				engine.sink->recv(ctx, &wc[i]);
			else
				engine.sink->sent(ctx);
		}
		total += n;
		engine.sink->batch_end();
	} while (n == BATCH && total < 8 * BATCH);
	return total;
}

static int poll_locked(void)
{
	const struct engine_dev *d;
	int n = 0;

	engine_for_each(i, d)
		n += poll_dev(d);
	return n;
}

int engine_poll(void)
{
	if (!engine_up() || lock_held(&engine.poll_lock) || !lock_try(&engine.poll_lock))
		return 0;
	int n = poll_locked();
	lock_drop(&engine.poll_lock);
	if (n) {
		st_rlx(&engine.active, ld_rlx(&engine.active) + 1);
		wait_wake_ready();
	}
	return n;
}

int engine_poll_all(void)
{
	if (!engine_up())
		return 0;
	lock_take(&engine.poll_lock);
	int n = poll_locked();
	lock_drop(&engine.poll_lock);
	if (n) {
		st_rlx(&engine.active, ld_rlx(&engine.active) + 1);
		wait_wake_ready();
	}
	return n;
}

/* poll_lock held.  A mean; who was taken off the core meanwhile has measured that. */
static void call_took(uint64_t ticks)
{
	uint64_t most = CALL_MOST_US * clock_ticks_per_us, now = engine.call_ticks;

	ticks = MIN(ticks, most);
	st_rlx(&engine.call_ticks, now ? now + ticks / CALL_MEAN - now / CALL_MEAN : ticks);
}

/*
 * On a device of its own the completions of what we send are nobody's news: for
 * what the peer wants to be heard, and errors, only.
 */
static void arm_dev(const struct engine_dev *d)
{
	bool apart = posts_apart(d);
	uint64_t start = d->rnic->hardware ? clock_ticks() : 0;

	if (!apart)
		lock_take(&engine.post_lock);
	ibv_req_notify_cq(d->cq, !d->rnic->shared);
	if (!apart)
		lock_drop(&engine.post_lock);
	if (start)
		call_took(clock_ticks() - start);
}

static void arm(void)
{
	const struct engine_dev *d;

	engine_for_each(i, d)
		if (!ld_rlx(&d->gone))
			arm_dev(d);
}

void engine_arm(void)
{
	lock_take(&engine.poll_lock);
	arm();
	lock_drop(&engine.poll_lock);
}

bool engine_try_arm(void)
{
	if (!lock_try(&engine.poll_lock))
		return false;
	arm();
	lock_drop(&engine.poll_lock);
	return true;
}

static int aside_make(void)
{
	int fd = PRIVFD_NEW(sys1(SYS_epoll_create1, EPOLL_CLOEXEC));

	if (fd < 0)
		return fd;
	st_rlx(&engine.aside, fd);
	wait_nudge_leader();	/* it sleeps on the channel alone */
	return 0;
}

int engine_aside_add(int sock)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int err = ld_rlx(&engine.aside) ? 0 : aside_make();

	return err ? err : sys_epoll_ctl(engine.aside, EPOLL_CTL_ADD, sock, &ev);
}

void engine_aside_remove(int sock)
{
	struct epoll_event ev = { 0 };

	sys_epoll_ctl(engine_aside(), EPOLL_CTL_DEL, sock, &ev);
}

int engine_fds(int fds[ENGINE_FDS])
{
	const struct engine_dev *d;
	int n = 1;

	fds[1] = engine_aside();
	engine_for_each(i, d) {
		fds[i ? i + 1 : 0] = ld_rlx(&d->gone) ? -1 : ld_rlx(&d->channel->fd);
		n++;
	}
	return n;
}

void engine_drain(unsigned int which)
{
	struct epoll_event ev[ASIDE_BATCH];
	const struct engine_dev *d;
	int aside = engine_aside();

	engine_for_each(i, d)
		if (which & ENGINE_FD_DEV(i))
			d->rnic->ops->channel_drain(d->channel);
	if (which & ENGINE_FD_ASIDE && aside >= 0)
		sys_epoll_wait(aside, ev, ASIDE_BATCH, 0);
}

void engine_forget(void)
{
	memset(&engine, 0, sizeof(engine));
}
