/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * engine.h - one CQ, its channel, and everybody who waits for it
 *
 * Locks, outermost first (doc/locking.md):
 *   poll_lock   held while completions are taken and control messages are
 *               acted upon, so that both happen in order.  Never taken with a
 *               conn's lock held.
 *   (conn locks)
 *   post_lock   around ibv_post_send/ibv_post_recv; innermost.
 */
#ifndef PROGRESS_ENGINE_H
#define PROGRESS_ENGINE_H

#include "base/lock.h"
#include "rnic/rnic.h"

struct engine_sink {
	/* A receive completion of the QP whose qp_context is ctx; poll_lock held. */
	void (*recv)(void *ctx, const struct ibv_wc *wc);
	/* An error completion: the QP is broken; poll_lock held. */
	void (*broken)(void *ctx, const struct ibv_wc *wc);
	/* After each batch, poll_lock still held: post receives, flush queues. */
	void (*batch_end)(void);
};

struct engine {
	struct lock poll_lock;
	struct lock post_lock cacheline_aligned;
	struct rnic *rnic cacheline_aligned;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	const struct engine_sink *sink;
	uint32_t active;	/* bumped by each batch that found something */
	int err;		/* why there is no engine: -errno, 0 while there may be one */
};

extern struct engine engine;

/*
 * Bring up RNIC, channel and CQ.  Idempotent; called by the background thread.
 * Return: 0 or -errno (kept in engine.err).
 */
int engine_start(const struct engine_sink *sink);

static inline bool engine_up(void)
{
	/* pairs with engine_start(): the fields are set before cq */
	return ld_acq(&engine.cq) != NULL;
}

/*
 * Take what completions there are, unless somebody else is doing so.
 * Context: any thread, no conn lock held.  Return: completions handled.
 */
int engine_poll(void);

/* The same, waiting for the lock: everything published before is handled. */
int engine_poll_all(void);

/* The next completion raises an event on the channel; poll once more before sleeping. */
void engine_arm(void);

/* The child of a fork has no engine. */
void engine_forget(void);

#endif
