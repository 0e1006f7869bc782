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
	struct list in_data;	/* by set and data word: who the kernel means */
	struct eset *set;
	struct conn *conn;
	int fd;
	uint32_t events;	/* as the program asked, flags too */
	uint32_t kevents;	/* as the kernel has it */
	uint64_t data;
	uint32_t news;		/* EPOLLIN, EPOLLOUT: happened since it was last looked at */
	uint64_t told;		/* conn_arrivals() when IN was last reported */
	uint64_t hup_at;		/* 1 + arrivals when HUP was told last, 0: never */
	uint32_t hup_starved;	/* ... and rx_starved */
	uint32_t dries;		/* ... and rx_dries: what comes after an EAGAIN is news */
	uint64_t out_given;	/* tx_given when OUT was reported last */
	uint32_t out_dries;	/* ... and tx_dries */
	bool out_told;		/* ... which it was */
	bool rearmed;		/* the kernel has it anew, by our own doing, and may tell an edge of that */
	bool disabled;		/* EPOLLONESHOT has fired */
	bool spent;		/* ... by the kernel, which has it so */
	bool bound;		/* counted in the set's nbound */
	bool kept;		/* its conn was asked back for good: the set is foreign */
	bool shown;		/* the kernel has to have all of it: about to be orphan */
	bool orphan;		/* its number was closed while a dup lives: cannot be changed */
	bool in_kernel;		/* the kernel's set has it: not while both directions are on the ring */
	bool missed;		/* ... and not when it had no room: counted in the set's missed */
};

struct eset {
	struct list entries;
	struct list ready;	/* entries that may have something to report */
	int fd;			/* a number of the program's for it */
	uint32_t nfds;
	uint32_t nready;
	uint32_t nbound;	/* entries whose conn is bound: wait in our own wait */
	uint32_t gen;		/* of this memory: another set, another number */
	uint32_t plain;		/* threads asleep in a plain wait on it */
	uint32_t missed;	/* entries that the kernel had no room for: they are polled */
	bool waited;
	bool edgy;		/* had entries with EPOLLET or EPOLLONESHOT */
	bool foreign;		/* others look into it: in another set, in poll */
	uint32_t asleep;	/* threads that wait in our own wait, from their first sleep on */
	bool ghost;		/* its last number is closed, and it lives for these; fd is ours */
	bool kin;		/* it was here before a fork, and this is the child */
	bool theirs;		/* another process uses it too, and may change what is in it */
	bool kicked;		/* the momentary entry is in */
	uint64_t kchecked;	/* ticks of the last look at the kernel */
	uint64_t kinterval;	/* ticks between looks while the ring is busy */
	bool kturn;		/* rings have had all the room last time */
};

extern struct lock ready_lock;
#define NEWS_ALL CONN_EDGES

extern uint64_t eset_kick_mark;		/* its address is the momentary entry's data */

struct eset *eset_new(int fd);
bool eset_number_gone(int fd);
void eset_duped(int oldfd, int newfd);

/* ready_lock held */
struct eent *eset_find(struct eset *s, struct conn *c, int fd);
struct eent *eset_add(struct eset *s, struct conn *c, int fd);
/* The program adds it once more: -EEXIST, if no other process has taken it out meanwhile. */
int eset_add_again(struct eent *e, const struct epoll_event *ev);
void eset_remove(struct eent *e);
void eset_push(struct eent *e, uint32_t news);
void eset_data(struct eent *e, uint64_t data);
/* The entry that the kernel means by data, NULL if it is none of ours. */
struct eent *eset_by_data(struct eset *s, uint64_t data);
/* What has come so far has been told. */
void eset_told(struct eent *e);
/* ... by the kernel, with HUP: m. */
void eset_told_end(struct eent *e, uint32_t m);
/* The program sets the entry anew: what there is will be told. */
void eset_untold(struct eent *e);
/*
 * OUT: has there been room ever since it was told?  Nothing was written, and nobody
 * was told that there is none.
 */
bool eset_out_old(const struct eent *e);
void eset_out_told(struct eent *e);
/*
 * HUP is told now.  Return: false if it was before, and is no news: nothing has
 * come since, and the program has not read in vain, as it does where the bytes
 * before the end, or the end itself, are not yet where a read finds them.
 */
bool eset_hup(struct eent *e);
/* What of the wanted bits m is to be reported now; an edge is reported once. */
uint32_t eset_report(struct eent *e, uint32_t m);
/* The program waits on it through us: evidence for the conns in it.  No lock held. */
void eset_waited(struct eset *s);
/* Plain sleepers come out and wait in ours.  Return: false, the kernel has no room for it. */
bool eset_kick(struct eset *s);
/* One more try for what the kernel had no room for; what is still out is asked here. No lock held. */
int eset_missed(struct eset *s, struct epoll_event *ev, int max);
void eset_pop(struct eent *e);

/*
 * Bring the kernel's entry in step: none while both directions are on the ring
 * (the background thread watches the socket then), else the bits that the ring
 * does not answer.  force: tell the kernel even if it looks the same.
 */
int eset_sync(struct eent *e, bool force);

/*
 * Somebody waits for the set itself (another set, poll): the kernel must know
 * what its conns have to say, so they go back to it for good.  No lock held.
 * wait: for that, ESET_BACK_MS at most.
 */
#define ESET_BACK_MS	200
void eset_foreign(struct eset *s, bool wait);

/*
 * How much has come in so far, and whether an end has: changes with every
 * arrival, not when bytes are read or move between ring and kernel.
 */
uint64_t conn_arrivals(struct conn *c);

/* What a conn on the ring has to report: EPOLLIN, EPOLLOUT and so on. */
uint32_t conn_ring_events(struct conn *c);

/*
 * A thread is about to sleep in our wait on the set of ep; return: false, it is not
 * s any more.  Who sleeps goes on in the set when the number is closed, as in the
 * kernel.  eset_left(): the call is over.  No lock held.
 */
bool eset_stays(struct eset *s, int ep);
void eset_left(struct eset *s);

/* A plain sleeper leaves: the momentary entry goes when it was the last. */
void eset_plain_left(struct eset *s, uint32_t gen);

/*
 * In a child, before the first use of a set that is the parent's as well: its
 * conns go back to the kernel, there and for good.  No lock held.
 */
void eset_kin(struct eset *s);

void eset_init(void);

#endif
