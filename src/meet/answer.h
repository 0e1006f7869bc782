/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * answer.h - the accepting side: tell who asks whether a connection is ours
 *
 * One listening name per (family, port), up to ANSWER_PORTS; up to
 * ANSWER_PENDING connections that have not asked yet.  Each is asked one
 * question, gets one answer and is closed, or handed up after MINE.
 *
 * Invariants: whatever clients do, no more than ANSWER_PENDING + ANSWER_PORTS
 * descriptors are open; a client who has not asked ANSWER_SILENCE_MS after his
 * connect is dropped; when all places are taken, the oldest client of the user
 * with most places goes, so one user cannot keep the others out; nothing
 * but the ASK is read from a client, and he may send no descriptors.
 */
#ifndef MEET_ANSWER_H
#define MEET_ANSWER_H

#include "base/reasons.h"
#include "meet/meet.h"
#include "meet/msg.h"

#define ANSWER_PORTS	64
#define ANSWER_PENDING	64
#define ANSWER_SILENCE_MS 5000
#define ANSWER_BURST	16		/* accepts per event */
#define ANSWER_PAUSE_MS	100		/* without accepting, when descriptors ran out */

struct meet_asker {
	struct meet_tuple tuple;	/* as seen HERE: already swapped */
	struct meet_cred cred;
	bool cred_proves;		/* meet_peer_uid() returned 0 */
	uint64_t instance;
};

struct answer_ops {
	/*
	 * Is this connection ours?  The place to compare who->cred.uid with
	 * diag_lookup() of who->tuple.  *why is read for MEET_REFUSED only.
	 */
	enum meet_verdict (*own)(void *arg, const struct meet_asker *who, enum reason *why);
	/* After MINE was sent: fd is the callee's; the asker's HELLO comes next. */
	void (*mine)(void *arg, int fd, const struct meet_asker *who);
	void *arg;
};

struct answer;

struct answer_port {
	struct answer *a;
	int fd;				/* -1: free */
	uint16_t family, port;
	unsigned index;
	bool paused;
	uint64_t serial;		/* the higher, the later was it asked for */
};

struct answer_client {
	struct answer *a;
	struct answer_port *port;
	int fd;				/* -1: free */
	struct meet_cred cred;
	bool cred_proves;
	uint64_t since_ns;
};

struct answer {
	const struct meet_loop *loop;
	struct answer_ops ops;
	uint64_t instance;
	uint64_t resume_ns;		/* when paused ports accept again */
	uint64_t serial;
	unsigned nclients;
	uint64_t dropped;		/* clients who broke a rule or waited too long */
	struct answer_port ports[ANSWER_PORTS];
	struct answer_client clients[ANSWER_PENDING];
};

void answer_init(struct answer *a, const struct meet_loop *loop,
		 const struct answer_ops *ops, uint64_t instance);
/* Close everything.  Not in the child of a fork: there privfd_close_all() has
 * closed it, the loop is the parent's, and answer_init() makes a new start. */
void answer_fini(struct answer *a);

/*
 * Make sure that a name for (family, port) is held.
 * Return: 0; -ENOSPC: ANSWER_PORTS are held; -EADDRINUSE: all names taken;
 * -errno (ask meet_forbidden()).
 */
int answer_listen(struct answer *a, int family, uint16_t port);
void answer_unlisten(struct answer *a, int family, uint16_t port);

/*
 * All places are taken: let go of ports that are not wanted, the older half of
 * them, for who came to the others may yet be asked for.  Return: how many.
 */
unsigned answer_thin(struct answer *a, bool (*wanted)(const void *arg, uint16_t port),
		     const void *arg);

uint64_t answer_deadline_ns(const struct answer *a);
void answer_timeout(struct answer *a, uint64_t now_ns);

#endif
