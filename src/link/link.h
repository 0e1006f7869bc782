/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * link.h - one RC QP between two engines, shared by many conns
 *
 * Slab of each end (what the peer may write into), from offset 0:
 *	control ring	LINK_CTL_RING messages of WIRE_MSG_SIZE
 *	slot words	LINK_SLOTS + 1 of LINK_SLOT_BYTES (struct slot_shm)
 *	rings		LINK_SLOTS of ring_bytes, slot 1 first
 *
 * Where the device shares no memory there are FAR_SLOTS, whose rings lie where
 * there is room, and far.h says how things are told and bounded.  Where it does:
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
#define FAR_SLOTS	1024		/* on a device that shares no memory */
#define LINK_SLOT_BYTES	128
#define LINK_CTL_RING	1024
#define LINK_CTL_MAX	480
#define LINK_BACKLOG	16384		/* 16 a slot */
#define LINK_RING_FIRST	(256u << 10)	/* of a ring that has memory from the start */
#define LINK_RECVS	1024		/* >= LINK_SLOTS + LINK_CTL_MAX */
#define LINK_NONCE	16
#define LINK_OPAQUE	64		/* bytes of link_hello() */

struct link;

struct link_user {
	/* poll_lock held; owner is the slot's, NULL for slot 0 or an unbound slot */
	void (*msg)(struct link *l, void *owner, const struct wire_msg *m);
	void (*data)(struct link *l, void *owner);
	/* The same on a device that shares no memory: len bytes more are there.  note: of link_write(). */
	void (*arrived)(struct link *l, void *owner, uint32_t len, uint16_t note);
	/* There: a link_write() of the owner's is done.  The order of the calls is theirs. */
	void (*sent)(struct link *l, void *owner);
	/* There, link_write() may work again. Background thread, no lock held. */
	void (*room)(struct link *l);
	/* after everything the peer had published was handed out; poll_lock held */
	void (*dead)(struct link *l);
	/* Has the peer let go of all that is bound here? Background thread; poll_lock held. */
	bool (*ended)(struct link *l);
};

enum link_state { LINK_NEW, LINK_UP, LINK_DEAD };

struct link_slot {
	void *owner;
	uint16_t next_free;
	bool used;
	bool done_here;		/* our RESET is out: we send and store no more */
	bool done_there;	/* the peer's RESET came */
	bool grown;		/* its ring has more memory than at first */
};

struct far;

struct link {
	struct list node;
	uint32_t id;			/* never 0, never reused in a process */
	uint32_t refs;			/* slots in use and whoever holds it */
	enum link_state state;
	bool dying;			/* link_kill() was called */
	bool draining;			/* its QP is in the error state */
	bool asker;			/* we opened it */
	bool guarded;			/* another user's: woken by bytes on unix_src */
	struct engine_dev *dev;		/* for its whole life */
	uint64_t peer_instance;
	uint32_t peer_uid, peer_pid;
	uint16_t peer_family;		/* of peer_addr; 0: on this host */
	uint8_t peer_addr[16];		/* as in struct meet_tuple */
	uint8_t nonce_mine[LINK_NONCE], nonce_peer[LINK_NONCE];

	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct rnic_slab slab;
	uint64_t ring_bytes;		/* of our rings */
	uint16_t nslots, peer_slots;
	struct rnic_slab source;	/* far: memory to send from */
	struct far *far;		/* far.h; NULL where memory is shared */
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
	struct bg_timer sip;		/* guarded: such bytes are read a little later */
	uint64_t hup_until_ns;

	/* sending, post_lock */
	uint64_t seq cacheline_aligned;	/* WRITE_WITH_IMM posted so far */
	uint32_t ctl_tx;		/* control messages sent */
	uint32_t ctl_done;		/* ... known taken */
	uint64_t ctl_seq[LINK_CTL_MAX];	/* seq of those under way, by number */
	struct wire_msg *backlog;
	uint32_t backlog_head, backlog_tail;
	uint64_t recvs_posted;		/* far: by us, ever */
	bool untold;			/* ... which the peer has not been told */
	bool starved;			/* far: link_write() was refused */
	uint64_t pings, pongs;		/* PINGs sent, and what the last PONG echoed: atomic */

	/* receiving, poll_lock */
	uint32_t ctl_rx cacheline_aligned;
	uint32_t recv_deficit;
	uint32_t recvs_out;		/* posted and not completed */
	uint32_t drain_tries;
	bool in_batch;
	struct link *batch_next;
	uint16_t free_slot, nfree;
	struct link_slot slots[FAR_SLOTS + 1];
};

/* What travels in HELLO besides the RNIC's parameters. */
struct link_hello {
	uint64_t ring_bytes;		/* far: the most that a ring may become */
	uint32_t slots;
	uint32_t ctl_ring;
	uint8_t nonce[LINK_NONCE];
	uint64_t part;			/* far: bytes of the slab that are registered by now */
	uint8_t pad[LINK_OPAQUE - 40];
};
_Static_assert(sizeof(struct link_hello) == LINK_OPAQUE, "travels as bytes");

extern const struct engine_sink link_sink;
void link_set_user(const struct link_user *u);

/* Memory, PD and QP, on that device, of a link to be.  Background thread.  NULL: out of something. */
struct link *link_new(struct engine_dev *dev, bool asker);
/*
 * Before export and connect, once peer_uid is known: with another user's process
 * no descriptor is shared that either could hang the other by.  0 or -errno.
 */
int link_guard(struct link *l, int unix_fd);
/* What to send: out->fds are duplicates, to be closed by the caller. */
int link_export(struct link *l, struct link_hello *h, struct rnic_params *out);
/* The same for a peer on another host, reached through rdma_cm. */
int link_export_cm(struct link *l, struct link_hello *h, uint8_t rnic[RNIC_CM_BYTES]);
/* The peer's; takes over the descriptors in p.  0 or -errno (then link_discard). */
int link_connect(struct link *l, const struct link_hello *h, const struct rnic_params *p,
		 int unix_fd);
/* Only for a link that never came up. */
void link_discard(struct link *l);

void link_hold(struct link *l);
void link_drop(struct link *l);

/* Break it.  Any thread, whatever it holds.  The rest follows in the background. */
void link_kill(struct link *l);

/*
 * Is there nobody at the other end?  Then the background thread looks at what has become
 * of the conns bound here.  Any thread; a lock of a conn that is bound here is held.
 */
bool link_hung_up(struct link *l);

/*
 * Memory for one conn more, or to send to a ring of so many bytes, is there when
 * this returns 0.  Background thread, no lock held.
 */
int link_slot_room(struct link *l);
int link_source_room(struct link *l, const struct wire_bind *peers);
/* poll_lock held. Return: slot number, 0 if none is left. */
uint16_t link_slot_take(struct link *l, void *owner);
/* poll_lock held: where the ring of slot is, to tell the peer, and where the
 * peer's is, by the peer.  0; far: -EPROTO or -ENOMEM */
void link_slot_offer(struct link *l, uint16_t slot, struct wire_bind *b);
int link_slot_peer(struct link *l, uint16_t slot, const struct wire_bind *b);
/* Our side is done with the slot: RESET is sent; recycled when the peer's came too. */
void link_slot_done(struct link *l, uint16_t slot, uint16_t peer_slot, bool bound);

/*
 * With room, to that process image of that user of this host: anybody may call
 * himself by another's instance.  poll_lock held.
 */
struct link *link_by_instance(uint64_t instance, uint32_t uid);
/* The same to a process of another host, at that address. */
struct link *link_by_host(uint64_t instance, uint16_t family, const uint8_t addr[16]);

/* Addresses: ours (the peer writes) and the peer's (we write), by slot. */
static inline size_t link_words_off(uint16_t slot)
{
	return LINK_CTL_RING * WIRE_MSG_SIZE + slot * LINK_SLOT_BYTES;
}
static inline void *link_slot_words(struct link *l, uint16_t slot)
{
	return (uint8_t *)l->slab.addr + link_words_off(slot);
}
static inline void *link_peer_words(struct link *l, uint16_t slot)
{
	return l->peer + link_words_off(slot);
}
static inline size_t link_ring_off(uint64_t ring_bytes, uint16_t slot)
{
	size_t off = LINK_CTL_RING * WIRE_MSG_SIZE + (LINK_SLOTS + 1) * LINK_SLOT_BYTES;

	off = (off + 4095) & ~(size_t)4095;
	return off + (size_t)(slot - 1) * ring_bytes;
}
/* Of ours.  poll_lock, or a lock of the conn */
uint8_t *link_ring(struct link *l, uint16_t slot);
uint64_t link_ring_size(const struct link *l, uint16_t slot);
uint64_t link_peer_ring_size(const struct link *l, uint16_t slot);
static inline uint8_t *link_peer_ring(struct link *l, uint16_t slot)
{
	return l->peer + link_ring_off(l->peer_ring_bytes, slot);
}
/*
 * Memory for a part of a ring of the peer's, which it gives back when the slot
 * is free.  Any thread.  Return: 0 or -errno.
 */
int link_peer_ring_room(struct link *l, uint16_t peer_slot, uint64_t off, uint64_t bytes);
/* The peer has done so with the ring of ours.  poll_lock held. */
void link_slot_grown(struct link *l, uint16_t slot);

/*
 * far: where bytes for the peer's ring are put first, and stay until consumed.
 * slot is ours, here as in all that follows.
 */
uint8_t *link_source_ring(struct link *l, uint16_t slot);
/*
 * far: a second ring for slot, of ours or to send from, if it still is the
 * owner's.  Background thread, no lock held.  0; -ENOMEM; -ESTALE: another's, or
 * there is one.
 */
int link_ring_more(struct link *l, uint16_t slot, void *owner, bool ours, uint32_t bytes);
/* far, poll_lock held: of ours, where it is, 0: there is none */
uint64_t link_ring_next(const struct link *l, uint16_t slot, uint64_t *bytes);
/* far, poll_lock held: the peer's second ring, by RING.  -ENOMEM: it has none; -EPROTO */
int link_peer_ring_next(struct link *l, uint16_t slot, uint64_t off, uint64_t bytes);
uint8_t *link_ring_next_at(struct link *l, uint16_t slot, bool ours);
/*
 * far, poll_lock held: the second ring is the ring from now on.  What is on its
 * way from the last one stays there until link_ring_last_free().  false: there
 * is no second, or such a last one.
 */
bool link_ring_move(struct link *l, uint16_t slot, bool ours);
void link_ring_last_free(struct link *l, uint16_t slot);

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

/*
 * far: send len bytes (1 to 65536, within the ring) at off of the transmit
 * ring of slot.  Conn locks may be held.  tell: user->sent() says when it is done.
 * note goes with it, to the peer's user->arrived().
 * Return: 0; -ENOMEM: not now, user->room() says when; -EIO: the link is breaking.
 */
int link_write(struct link *l, uint16_t slot, size_t off, uint32_t len, uint16_t note,
	       bool tell);

/* far: a word at byte `at` of the peer's words of this conn.  Raises nothing there.
 * Return: as link_write(), but nobody says when. */
int link_put_word(struct link *l, uint16_t slot, size_t at, uint64_t word);

/* In the child of a fork: nothing of this is ours. */
void link_forget_all(void);

/*
 * There are too many links to other hosts: the oldest on which nothing is bound goes, unless
 * one is going already.  Return: false, there is none.  Background thread, no lock held.
 */
bool link_thin_far(void);

/* All of that device, with NULL all of them, die.  Background thread. */
void link_kill_all(const struct engine_dev *dev);
/* Is one up; how many still hold descriptors or memory.  Hints. */
bool link_any(void);
uint32_t link_count(void);

#endif
