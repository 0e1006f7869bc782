/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * eset.h - the program's epoll sets
 *
 * A set knows which of our conns are in it (from birth, cold ones too); other
 * descriptors are the kernel's business alone.  While a direction is on the
 * ring, its bits are taken out of the kernel registration and answered from
 * the set's ready list; the data word stays the program's.  With both on the
 * ring the kernel has no entry at all, so epoll_ctl() is a matter of memory.
 *
 * One lock, ready_lock, guards sets, entries and ready lists; it is taken
 * inside conn locks.  Objects are type-stable.
 */
#ifndef READY_ESET_H
#define READY_ESET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "sock/conn.h"

struct eent {
	struct list in_set;
	struct list in_conn;
	struct list in_ready;
	struct eset *set;
	struct conn *conn;
	int fd;
	uint32_t events;	/* as the program asked, flags too */
	uint32_t kevents;	/* as the kernel has it */
	uint64_t data;
	bool disabled;		/* EPOLLONESHOT has fired */
	bool in_kernel;		/* the kernel's set has it: not while both directions are on the ring */
};

struct eset {
	struct list entries;
	struct list ready;	/* entries that may have something to report */
	int fd;			/* a number of the program's for it */
	uint32_t nfds;
	uint32_t nready;
	uint32_t nbound;	/* entries whose conn is bound: wait in our own wait */
	uint32_t plain;		/* threads asleep in a plain wait on it */
	bool waited;
	bool kicked;		/* the momentary entry is in */
	uint64_t kchecked;	/* ticks of the last look at the kernel */
	uint64_t kinterval;	/* ticks between looks while the ring is busy */
};

extern struct lock ready_lock;
extern uint64_t eset_kick_mark;		/* its address is the momentary entry's data */

struct eset *eset_new(int fd);
void eset_number_gone(int fd);
void eset_duped(int oldfd, int newfd);

/* ready_lock held */
struct eent *eset_find(struct eset *s, struct conn *c, int fd);
struct eent *eset_add(struct eset *s, struct conn *c, int fd);
void eset_remove(struct eent *e);
void eset_push(struct eent *e);
void eset_pop(struct eent *e);

/*
 * Bring the kernel's entry in step: none while both directions are on the ring
 * (the background thread watches the socket then), else the bits that the ring
 * does not answer.  force: tell the kernel even if it looks the same.
 */
int eset_sync(struct eent *e, bool force);

/* What a conn on the ring has to report: EPOLLIN, EPOLLOUT and so on. */
uint32_t conn_ring_events(struct conn *c);

/* A plain sleeper leaves: the momentary entry goes when it was the last. */
void eset_plain_left(struct eset *s);

void eset_init(void);

#endif
