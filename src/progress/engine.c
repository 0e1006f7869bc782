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

#define CQ_DEPTH	65536
#define BATCH		32
#define AGAIN_MS	1000
#define ASIDE_BATCH	16
#define CALL_MOST_US	100
#define CALL_MEAN	8

struct engine engine;

static int device_open(struct rnic **r)
{
	switch (config.rnic.choice) {
	case RNIC_AUTO:
	case RNIC_SOFT:
		return rnic_soft_ops.open(r, NULL);
#ifdef HAVE_VERBS
	case RNIC_VERBS:
		return rnic_verbs_ops.open(r, NULL);
	case RNIC_NAMED:
		return rnic_verbs_ops.open(r, config.rnic.device);
#endif
	default:
		return -ENODEV;
	}
}

static void news_act(const struct rnic_event *ev)
{
	lock_take(&engine.poll_lock);
	switch (ev->kind) {
	case RNIC_EVENT_QP:
		engine.sink->lost(ev->qp->qp_context);
		break;
	case RNIC_EVENT_CQ:
	case RNIC_EVENT_GONE:
		engine.sink->lost(NULL);
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
	struct rnic_event ev = { .kind = RNIC_EVENT_OTHER };

	while (!engine.rnic->ops->event_take(engine.rnic, &ev))
		news_act(&ev);
	if (ev.kind != RNIC_EVENT_GONE)
		return;
	/* it would stay readable for ever */
	bg_unwatch(s);
	news_act(&ev);
}

static int news_watch(struct engine *e)
{
	e->news = (struct bg_src){ .fd = e->rnic->ctx->async_fd, .fn = news_event };
	return e->news.fd < 0 ? 0 : bg_watch(&e->news, EPOLLIN);
}

/* Each connection asks; a library that is not there is not looked for each time. */
static int device_open_again(struct rnic **r)
{
	static uint64_t until_ns;
	static int last;

	if (last && last != -ENOMEM && clock_ns() < until_ns)
		return last;
	last = device_open(r);
	until_ns = clock_ns() + AGAIN_MS * NS_PER_MS;
	return last;
}

int engine_start(const struct engine_sink *sink)
{
	struct engine *e = &engine;

	if (e->cq)
		return 0;
	e->sink = sink;
	int err = device_open_again(&e->rnic);
	if (err)
		goto fail;
	err = -ENOMEM;
	e->channel = e->rnic->ops->channel_new(e->rnic);
	if (!e->channel)
		goto fail_rnic;
	struct ibv_cq *cq = e->rnic->ops->cq_new(e->rnic, MIN(CQ_DEPTH, (int)e->rnic->max_cqe),
						 e->channel);
	if (!cq)
		goto fail_channel;
	err = news_watch(e);
	if (err)
		goto fail_cq;
	privfd_reserve(e->channel->fd);
	st_rel(&e->cq, cq);	/* pairs with engine_up() */
	return 0;

fail_cq:
	e->rnic->ops->cq_free(cq);
fail_channel:
	e->rnic->ops->channel_free(e->channel);
	e->channel = NULL;
fail_rnic:
	e->rnic->ops->close(e->rnic);
	e->rnic = NULL;
fail:
	log_error("no engine: error %d, using kernel tcp", -err);
	return err;
}

/*
 * A queue of the software RNIC takes signalled sends and hands their completions
 * out without a lock of its own.  Only with fault far are there any.
 */
static bool posts_apart(void)
{
	return engine.rnic->shared || engine.rnic->hardware;
}

static int take(struct ibv_wc *wc, int most)
{
	if (likely(posts_apart()))
		return ibv_poll_cq(engine.cq, most, wc);
	lock_take(&engine.post_lock);
	int n = ibv_poll_cq(engine.cq, most, wc);
	lock_drop(&engine.post_lock);
	return n;
}

static int poll_locked(void)
{
	struct ibv_wc wc[BATCH];
	int total = 0, n;

	do {
		n = take(wc, BATCH);
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
static void arm(void)
{
	bool apart = posts_apart();
	uint64_t start = engine.rnic->hardware ? clock_ticks() : 0;

	if (!apart)
		lock_take(&engine.post_lock);
	ibv_req_notify_cq(engine.cq, !engine.rnic->shared);
	if (!apart)
		lock_drop(&engine.post_lock);
	if (start)
		call_took(clock_ticks() - start);
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

void engine_drain(void)
{
	struct epoll_event ev[ASIDE_BATCH];
	int aside = engine_aside();

	engine.rnic->ops->channel_drain(engine.channel);
	if (aside >= 0)
		sys_epoll_wait(aside, ev, ASIDE_BATCH, 0);
}

void engine_forget(void)
{
	memset(&engine, 0, sizeof(engine));
}
