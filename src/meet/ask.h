/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ask.h - the connecting side: find the process that owns the other end
 *
 * Walks the names of the remote port, the hint first, and asks each holder.
 * A holder who says LATER, is silent, or whose queue is full does not stop the
 * walk (he may be a squatter); if nobody says MINE the walk is repeated after
 * the next of the caller's delays when somebody might still become the owner.
 *
 *   CONNECTED  asked, waiting      -> ANSWER, close, silence of ASK_SILENCE_MS
 *   PAUSED     between two walks   -> deadline
 *   DONE       nothing open, unless the result was MINE: fd is the caller's
 */
#ifndef MEET_ASK_H
#define MEET_ASK_H

#include "base/reasons.h"
#include "meet/meet.h"

#define ASK_SILENCE_MS	1000		/* a holder's time to answer */
#define ASK_TOTAL_MS	10000		/* one walk, at most */
#define ASK_HOLES	16		/* so many free names in a row end a walk */
#define ASK_ANY_UID	((uid_t)-1)

enum ask_result {
	ASK_PENDING,
	ASK_MINE,	/* a->fd, a->index, a->owner, a->cred: now prove it, then HELLO */
	ASK_LATER,	/* still "not accepted yet" after the last delay */
	ASK_NOBODY,	/* no holder says it is his: reason peer-unproven */
	ASK_REFUSED,	/* a holder says it is his, but he will not: a->reason */
	ASK_FORBIDDEN,	/* a sandbox: no more meetings in this process */
	ASK_FAILED	/* a->err: no descriptors or the like */
};

enum ask_state { ASK_IDLE, ASK_CONNECTED, ASK_PAUSED, ASK_DONE };

struct ask;

struct ask_params {
	struct meet_tuple tuple;	/* as seen here */
	uint64_t instance;		/* our own nonce */
	/* Only holders of this uid are asked (the uid that diag_lookup() gave);
	 * ASK_ANY_UID: all, where the kernel does not tell or !meet_uid_proves(). */
	uid_t owner_uid;
	int hint;			/* index to try first, -1: none */
	const uint16_t *delays_ms;	/* pauses before the walk is repeated */
	unsigned ndelays;
	/* Called once, from ask_event() or ask_timeout(), as their last act:
	 * it may start, stop or free the ask. Never from ask_start(). */
	void (*done)(void *arg, struct ask *a, enum ask_result res);
	void *arg;
};

struct ask {
	const struct meet_loop *loop;
	struct ask_params p;
	enum ask_state state;
	int fd;				/* -1: none */
	unsigned index;			/* whose name fd is */
	unsigned step;			/* of the walk; 0 is the hint */
	unsigned holes;			/* free names in a row */
	unsigned walks;			/* walks ended */
	unsigned strangers;		/* holders skipped for their uid */
	bool later;			/* somebody may become the owner */
	bool refused;			/* somebody said so; reason is his */
	uint64_t deadline_ns;		/* of the holder, or the pause */
	uint64_t walk_end_ns;
	uint64_t owner;			/* his instance nonce */
	struct meet_cred cred;		/* the holder's */
	bool cred_proves;
	enum reason reason;
	int err;
};

/* Return: ASK_PENDING (done() will come), or the result (done() will not). */
enum ask_result ask_start(struct ask *a, const struct meet_loop *loop,
			  const struct ask_params *p);
/* After MINE: he failed the proof (fd is closed here); go on behind him. As ask_start(). */
enum ask_result ask_next(struct ask *a);
/* Take the descriptor of a MINE over (from now on the owner may send
 * descriptors on it); the ask may be forgotten. */
int ask_take_fd(struct ask *a);
/* Give up, at any time; done() does not come. */
void ask_stop(struct ask *a);

/* The loop's callback (already registered by the ask itself). */
void ask_event(void *ask, uint32_t events);
uint64_t ask_deadline_ns(const struct ask *a);
/* To be called at or after the deadline; too early does nothing. */
void ask_timeout(struct ask *a, uint64_t now_ns);

#endif
