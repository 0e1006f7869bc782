/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * cm.h - meetings across hosts, by rdma_cm
 *
 * The connecting side goes to the TCP peer's address from its own one, and to
 * the TCP port's number in RDMA's own space (RDMA_PS_TCP); the first process that
 * accepts there listens, and others (forked workers) at ports of their own
 * (cm_port()); when it has gone, the next of them moves there.  A port below 1024
 * wants a privilege that accepting workers have given up: all have ports of their
 * own.  So they have on iWARP, which has no such space, and keep them.  Both send a struct
 * cm_hello.  The QP is the caller's: rdma_cm is told its number and says how it is
 * to be connected (rnic.h).
 *
 * An end is one connection of rdma_cm, from the question to the death of the
 * link.  News of it, in the background thread:
 *
 *	CM_REACHED	asker: a path is there. Make a QP and cm_connect()
 *	CM_ANSWERED	asker: e->theirs. Connect the QP and cm_establish()
 *	CM_COMING	somebody asks: e->theirs, e->tuple as seen here.  Connect the
 *			QP and cm_accept(), or cm_refuse()
 *	CM_FAILED	asker: e->why, e->verdict; no link will come of it
 *	CM_GONE		the other end has let go, or died
 *
 * After FAILED and GONE the end is closed when the news returns.  No call
 * blocks.  How long to wait is the caller's to say.
 *
 * A process that was forked after its parent has met by rdma_cm begins anew, with
 * a librdmacm of its own (rnic/verbs_lib.h): the other one's devices are the parent's.
 */
#ifndef MEET_CM_H
#define MEET_CM_H

#include <rdma/rdma_cma.h>

#include "base/reasons.h"
#include "meet/cmdata.h"
#include "meet/meet.h"

#define CM_ENDS		264		/* some of them to say no with, where the caller has enough */
#define CM_LISTENERS	64

enum cm_news { CM_REACHED, CM_ANSWERED, CM_COMING, CM_FAILED, CM_GONE };

struct cm_end {
	struct rdma_cm_id *id;		/* NULL: free */
	void *user;			/* the caller's; NULL in CM_COMING */
	bool asker;
	bool up;			/* answered, or accepted */
	struct meet_tuple tuple;
	struct cm_hello theirs;
	enum reason why;		/* FAILED */
	uint8_t verdict;		/* FAILED: enum cm_verdict, 0: nobody has said anything */
};

/*
 * Load the library and open its channel; the QPs will be of devices that the caller
 * says are usable, all of which may be cm_only (rnic.h).
 * Idempotent.  Return: 0 or -errno, which may be another one next time.
 */
int cm_start(const struct meet_loop *loop, bool (*usable)(const char *device), bool cm_only,
	     void (*news)(struct cm_end *e, enum cm_news what));

/* The usable device that leads to its peer, by name; NULL: there is none.  REACHED, COMING. */
const char *cm_device(const struct cm_end *e);

/* Be found at a TCP port.  0; -EADDRINUSE: too many others are; -ENOSPC; -errno. */
int cm_listen(uint16_t family, uint16_t port);
/*
 * The older half of the ports that are not wanted are given up: who still comes for one of
 * them comes soon.  Return: how many.
 */
unsigned cm_thin(bool (*wanted)(const void *arg, uint16_t port), const void *arg);
/* When cm_take_over() is to be called next, MEET_NEVER: all have the place they want. */
uint64_t cm_take_over_ns(void);
/* Try for what others had: their place may be free by now.  At most once a second. */
void cm_take_over(void);

/* Ask the i-th process; news will come.  *e is not set otherwise.  0 or -errno. */
int cm_ask(struct cm_end **e, const struct meet_tuple *t, unsigned i, void *user);
int cm_connect(struct cm_end *e, const struct cm_hello *ours, uint32_t qp_num);
int cm_establish(struct cm_end *e);
int cm_accept(struct cm_end *e, const struct cm_hello *ours, uint32_t qp_num);
/* ... and close it. */
void cm_refuse(struct cm_end *e, enum cm_verdict verdict, enum reason why);
/* At any time, and from within its news; NULL is accepted. */
void cm_close(struct cm_end *e);

/* Everything, for good. */
void cm_shut(void);
/* In the child of a fork. */
void cm_forget(void);

#endif
