/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * link.h - one RC QP between two engines, shared by many conns
 *
 * Slab of each end (what the peer may write into), from offset 0:
 *	control ring	LINK_CTL_RING messages of WIRE_MSG_SIZE
 *	slot words	LINK_SLOTS + 1 of LINK_SLOT_BYTES (struct slot_shm)
 *	rings		LINK_SLOTS of ring_bytes, slot 1 first
 *
 * Bounds by construction: at most one notification a slot is under way (the
 * next is posted once the peer has taken the last), and at most LINK_CTL_MAX
 * control messages; together they fit the receives posted and the peer's
 * lane.  Control messages over that bound wait in the backlog, in order.
 *
 * Locks: poll_lock guards slots, state and the receiving side; post_lock the
 * sending side.  A link is freed when it is dead and nobody holds it.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "link/wire.h"
#include "progress/bg.h"
#include "progress/engine.h"
#include "rnic/rnic.h"

#define LINK_SLOTS	480		/* slot 0 is the control stream */
#define LINK_SLOT_BYTES	128
#define LINK_CTL_RING	1024
#define LINK_CTL_MAX	480
#define LINK_BACKLOG	8192
#define LINK_RECVS	1024		/* >= LINK_SLOTS + LINK_CTL_MAX */
#define LINK_NONCE	16
#define LINK_OPAQUE	64		/* bytes of link_hello() */

struct link;

struct link_user {
	/* poll_lock held; owner is the slot's, NULL for slot 0 or an unbound slot */
	void (*msg)(struct link *l, void *owner, const struct wire_msg *m);
	void (*data)(struct link *l, void *owner);
	/* after everything the peer had published was handed out; poll_lock held */
	void (*dead)(struct link *l);
};

enum link_state { LINK_NEW, LINK_UP, LINK_DEAD };

struct link_slot {
	void *owner;
	uint16_t next_free;
	bool used;
	bool done_here;		/* our RESET is out: we send and store no more */
	bool done_there;	/* the peer's RESET came */
};

struct link {
	struct list node;
	uint32_t id;			/* never 0, never reused in a process */
	uint32_t refs;			/* slots in use and whoever holds it */
	enum link_state state;
	bool dying;			/* link_kill() was called */
	bool asker;			/* we opened it */
	uint64_t peer_instance;
	uint32_t peer_uid, peer_pid;
	uint8_t nonce_mine[LINK_NONCE], nonce_peer[LINK_NONCE];

	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct rnic_slab slab;
	uint64_t ring_bytes;		/* of our rings */
	uint8_t *peer;			/* its slab as mapped here (shared devices) */
	size_t peer_len;
	uint32_t peer_rkey;
	uint64_t peer_base;		/* remote_addr of its slab's first byte */
	uint64_t peer_ring_bytes;

	struct bg_src unix_src;		/* its HUP is the peer's death */
	struct bg_work death;
	struct bg_work flush;		/* the backlog, when nothing else does */
	struct bg_timer flush_again;
	struct bg_timer hup;		/* a little after unix_src's */

	/* sending, post_lock */
	uint64_t seq cacheline_aligned;	/* WRITE_WITH_IMM posted so far */
	uint32_t ctl_tx;		/* control messages sent */
	uint32_t ctl_done;		/* ... known taken */
	uint64_t ctl_seq[LINK_CTL_MAX];	/* seq of those under way, by number */
	struct wire_msg *backlog;
	uint32_t backlog_head, backlog_tail;

	/* receiving, poll_lock */
	uint32_t ctl_rx cacheline_aligned;
	uint32_t recv_deficit;
	bool in_batch;
	struct link *batch_next;
	uint16_t free_slot, nfree;
	struct link_slot slots[LINK_SLOTS + 1];
};

/* What travels in HELLO besides the RNIC's parameters. */
struct link_hello {
	uint64_t ring_bytes;
	uint32_t slots;
	uint32_t ctl_ring;
	uint8_t nonce[LINK_NONCE];
	uint8_t pad[LINK_OPAQUE - 32];
};
_Static_assert(sizeof(struct link_hello) == LINK_OPAQUE, "travels as bytes");

extern const struct engine_sink link_sink;
void link_set_user(const struct link_user *u);

/* Memory, PD and QP of a link to be.  Background thread.  NULL: out of something. */
struct link *link_new(bool asker);
/* What to send: out->fds are duplicates, to be closed by the caller. */
int link_export(struct link *l, struct link_hello *h, struct rnic_params *out);
/* The peer's; takes over the descriptors in p.  0 or -errno (then link_free). */
int link_connect(struct link *l, const struct link_hello *h, const struct rnic_params *p,
		 int unix_fd);
/* Only for a link that never came up. */
void link_discard(struct link *l);

void link_hold(struct link *l);
void link_drop(struct link *l);

/* Break it: any context but under post_lock.  The rest follows in the background. */
void link_kill(struct link *l);

/* poll_lock held. Return: slot number, 0 if none is left. */
uint16_t link_slot_take(struct link *l, void *owner);
/* Our side is done with the slot: RESET is sent; recycled when the peer's came too. */
void link_slot_done(struct link *l, uint16_t slot, uint16_t peer_slot, bool bound);

/* poll_lock held. */
struct link *link_by_instance(uint64_t instance, bool with_room);

/* Addresses: ours (the peer writes) and the peer's (we write), by slot. */
static inline void *link_slot_words(struct link *l, uint16_t slot)
{
	return (uint8_t *)l->slab.addr + LINK_CTL_RING * WIRE_MSG_SIZE + slot * LINK_SLOT_BYTES;
}
static inline void *link_peer_words(struct link *l, uint16_t slot)
{
	return l->peer + LINK_CTL_RING * WIRE_MSG_SIZE + slot * LINK_SLOT_BYTES;
}
static inline size_t link_ring_off(uint64_t ring_bytes, uint16_t slot)
{
	size_t off = LINK_CTL_RING * WIRE_MSG_SIZE + (LINK_SLOTS + 1) * LINK_SLOT_BYTES;

	off = (off + 4095) & ~(size_t)4095;
	return off + (size_t)(slot - 1) * ring_bytes;
}
static inline uint8_t *link_ring(struct link *l, uint16_t slot)
{
	return (uint8_t *)l->slab.addr + link_ring_off(l->ring_bytes, slot);
}
static inline uint8_t *link_peer_ring(struct link *l, uint16_t slot)
{
	return l->peer + link_ring_off(l->peer_ring_bytes, slot);
}

/*
 * Send a control message; never blocks, keeps the order.  Conn locks may be
 * held.  A full backlog breaks the link.
 */
void link_send(struct link *l, const struct wire_msg *m);

/*
 * Tell the peer that slot (its number) has news, unless it has not taken the
 * last notification yet (seq; 0: there was none).  The news must have been
 * stored before.  Return: the seq of the notification under way.
 */
uint64_t link_tell(struct link *l, uint16_t peer_slot, uint64_t seq);

/* In the child of a fork: nothing of this is ours. */
void link_forget_all(void);

#endif
