/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * far.h - a link over a device that shares no memory (private to src/link)
 *
 * What the shared slab tells for nothing must be sent here:
 *
 *  - Memory: each end has two areas (area.h), one that the peer writes into
 *    (control ring, words, rings) and one to send from (control ring, rings).
 *    PART tells the peer of each part of the former but the first.  A slot has
 *    a ring in the former and one in the latter, as large as the peer's once that
 *    has been told.  The more conns, the smaller their first rings: a
 *    busy conn asks for a larger one (sock/far.h).
 *  - Bytes go from that ring to the same place in the peer's.  They stay until
 *    the peer's credit says that they are consumed.
 *  - P travels as the lengths of the WRITEs, which their completions tell.
 *    user->sent() says, of those of which it is to be told, when the peer's device
 *    has them (soft: its program).
 *  - Single words (a credit) are inline WRITEs that raise nothing.
 *  - Receives: the peer says how many it has ever posted, in the words of slot
 *    0 here.  `seq` immediates have been sent; seq < that count, so none waits
 *    for a receive (no RNR).  The last FAR_RESERVE are for control messages, so
 *    data cannot keep those out.  As a receive is posted again only after its
 *    message was handled, at most LINK_RECVS messages are unhandled: a control
 *    message never overwrites one in the control ring, here or there.
 *  - A receiver tells the count with each FAR_RETURN receives; a sender who is out
 *    of them looks once a millisecond, and at each batch of completions.
 *    Starved means that more than LINK_RECVS - FAR_RESERVE - FAR_RETURN are
 *    unhandled, so the next news will come.
 */
#ifndef LINK_FAR_H
#define LINK_FAR_H

#include <assert.h>

#include "link/area.h"
#include "link/link.h"

#define FAR_RESERVE	256		/* receives that only control messages may use */
#define FAR_RETURN	256		/* receives that are posted again at once: each time a WRITE */
#define FAR_DRAIN_TRIES	100		/* ms that a broken link waits for its flushes */

static_assert(LINK_RECVS <= LINK_CTL_RING, "an unhandled message is not overwritten");
static_assert(LINK_RECVS >= FAR_RESERVE + 2 * FAR_RETURN, "who is starved will hear");
static_assert(FAR_SLOTS < 1u << 16, "a slot's number is half an immediate");
static_assert(LINK_RING_FIRST <= AREA_RING_MOST, "a ring is in one word of the map");

struct far_slot {
	struct place rx, rx_next;	/* of ours; the next one the peer has been told of */
	struct place tx, tx_next;	/* to send from */
	struct place tx_last;		/* ... before that: what is on its way from there */
	struct place peer, peer_next;	/* of the peer's */
	uint16_t peer_slot;
};

struct far {
	struct area rx, tx;
	struct rnic_part peer[AREA_PARTS];
	uint32_t npeer;			/* poll_lock */
	size_t peer_end;
	/* slots of the immediates that are signalled; what was polled may make room before it is taken */
	uint16_t sent[2 * LINK_RECVS];
	uint32_t sent_head;		/* poll_lock */
	uint32_t sent_tail;		/* post_lock */
	struct far_slot slots[FAR_SLOTS + 1];
};

/* Memory of a new link.  Background thread.  0 or -errno, then far_close(). */
int far_open(struct link *l);
void far_close(struct link *l);
/* Bytes of the slab that are registered from the start: HELLO tells. */
uint64_t far_first_part(const struct link *l);
/* Is that what a peer with so many slots must have? */
bool far_part_sane(uint32_t slots, uint64_t part);
/* The receives that both ends have posted by now.  Before the QP is connected. */
void far_start(struct link *l);
/* poll_lock held: the QP is connected.  0 or -EPROTO */
int far_up(struct link *l, uint64_t first_part);
/* poll_lock held: PART came. */
void far_part(struct link *l, const struct wire_msg *m);
/* poll_lock held.  Return: false, no memory. */
bool far_slot_take(struct link *l, uint16_t slot);
void far_slot_free(struct link *l, uint16_t slot);
void far_forget(void);			/* in a child */
/* poll_lock held: whose immediate has been sent? */
uint16_t far_sent(struct link *l);

/* post_lock held. May another immediate go out, leaving so many receives? */
bool far_room(const struct link *l, uint32_t leaving);
/* post_lock held. Return: 0 or an errno value. */
int far_post_message(struct link *l, uint32_t at, const struct wire_msg *m);
/* post_lock held: n more receives have been posted. */
void far_tell_receives(struct link *l, uint32_t n);

#endif
