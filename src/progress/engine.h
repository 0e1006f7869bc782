/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * engine.h - the CQs, their channels, and everybody who waits for them
 *
 * A process has one device for connections within its host and some for those to
 * others: the software RNIC and verbs devices where SIDESTEP_RNIC is auto, verbs
 * devices alone with verbs, the one that it names.  Each has one CQ.  The first of
 * the latter is brought up when a connection to another host could use it, the
 * others when the route to a peer leads over them.
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
#include "progress/bg.h"
#include "rnic/rnic.h"

struct engine_dev;

struct engine_sink {
	/* A receive completion of the QP whose qp_context is ctx; poll_lock held. */
	void (*recv)(void *ctx, const struct ibv_wc *wc);
	/* A signalled send of that QP has been done; poll_lock held. */
	void (*sent)(void *ctx);
	/* An error completion: the QP is broken; poll_lock held. */
	void (*broken)(void *ctx, const struct ibv_wc *wc);
	/* After each batch, poll_lock still held: post receives, flush queues. */
	void (*batch_end)(void);
	/* The device says that the QP of this ctx, with NULL all of them, can be
	 * given up; poll_lock held. */
	void (*lost)(void *ctx, const struct engine_dev *dev);
};

#define ENGINE_DEVS	5

struct engine_dev {
	struct rnic *rnic;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;		/* stored last: the others are set when it is */
	struct bg_src news;		/* of the device */
	bool gone;			/* for ever: its descriptors say so, and nothing else */
};

struct engine {
	struct lock poll_lock;
	struct lock post_lock cacheline_aligned;
	struct engine_dev devs[ENGINE_DEVS] cacheline_aligned;
	struct engine_dev *here;	/* for peers on this host */
	struct engine_dev *there;	/* the first for those on others; NULL: there is none yet */
	const struct engine_sink *sink;
	uint32_t active;	/* bumped by each batch that found something */
	uint64_t call_ticks;	/* what a call of the device's driver takes, where it is one */
	int aside;		/* epoll set of sockets that wake us, too; 0: there is none */
};

extern struct engine engine;

/*
 * Bring up RNIC (as config.rnic says; auto is soft), channel and CQ.  Idempotent;
 * called by the background thread.  Return: 0 or -errno, which may be another
 * one next time.
 */
int engine_start(const struct engine_sink *sink);

/* The same for other hosts, once engine_start() has succeeded. */
int engine_start_there(void);

/* The device for other hosts of that name, brought up now if need be; NULL: not to be had. */
struct engine_dev *engine_there_by(const char *name);

/* A device that is up, by number; NULL: that one is not, nor are those behind it. */
static inline struct engine_dev *engine_dev(int i)
{
	/* pairs with dev_start(): the fields are set before cq */
	return ld_acq(&engine.devs[i].cq) ? &engine.devs[i] : NULL;
}

#define engine_for_each(i, d) \
	for (int i = 0; i < ENGINE_DEVS && ((d) = engine_dev(i)) != NULL; i++)

static inline bool engine_up(void)
{
	return engine_dev(0) != NULL;
}

/* What a sleeper is to look at: channel, set, other channels.  Return: how many; -1 is none. */
#define ENGINE_FDS	(ENGINE_DEVS + 1)
int engine_fds(int fds[ENGINE_FDS]);

/*
 * Take what completions there are, unless somebody else is doing so.
 * Context: any thread, no conn lock held.  Return: completions handled.
 */
int engine_poll(void);

/* The same, waiting for the lock: everything published before is handled. */
int engine_poll_all(void);

/*
 * The next message, bytes or error raises an event on the channel; poll once more
 * before sleeping.  What was only sent need not: a queue that is full of it is
 * looked at by whoever finds it so.
 */
void engine_arm(void);

/* The same with conn locks held: false where somebody is polling. */
bool engine_try_arm(void);

/*
 * A socket on which a peer wakes us who is not given the channel's event.  Each
 * byte is one event (edge-triggered); they are somebody else's to read.
 * Background thread.  Return: 0 or -errno.
 */
int engine_aside_add(int sock);
void engine_aside_remove(int sock);
/* The set as poll() wants it: -1 if there is none. */
static inline int engine_aside(void)
{
	int fd = ld_rlx(&engine.aside);

	return fd > 0 ? fd : -1;
}

/* Take the events that have woken a sleeper: 1 << their place in engine_fds(). */
#define ENGINE_FD_ASIDE		2u
#define ENGINE_FD_DEV(i)	((i) ? 2u << (i) : 1u)
void engine_drain(unsigned int which);

/* The child of a fork has no engine. */
void engine_forget(void);

#endif
