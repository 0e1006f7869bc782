/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* far.c - see far.h */
#define _GNU_SOURCE
#include "link/far.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/sys.h"
#include "link/inner.h"

static uint64_t grown;			/* bytes of rings that were asked for later, both ways */

/* ---------------------------------------------------------------- memory -- */

static size_t rings_off(uint32_t slots)
{
	return (link_words_off((uint16_t)(slots + 1)) + AREA_PAGE - 1) & ~(size_t)(AREA_PAGE - 1);
}

int far_open(struct link *l)
{
	struct far *f = sys_map(sizeof(*f), MAP_NORESERVE);

	if (!f)
		return -ENOMEM;
	l->far = f;
	l->nslots = FAR_SLOTS;
	int err = area_open(&f->rx, ops(l), l->pd, &l->slab, true, rings_off(FAR_SLOTS));
	return err ? err : area_open(&f->tx, ops(l), l->pd, &l->source, false,
				     (size_t)LINK_CTL_RING * WIRE_MSG_SIZE);
}

void far_close(struct link *l)
{
	if (!l->far)
		return;
	area_close(&l->far->rx);
	area_close(&l->far->tx);
	sys_unmap(l->far, sizeof(*l->far));
	l->far = NULL;
}

uint64_t far_first_part(const struct link *l)
{
	return l->far->rx.parts[0].len;
}

bool far_part_sane(uint32_t slots, uint64_t part)
{
	return slots && slots <= FAR_SLOTS && part >= rings_off(slots) && part % AREA_PAGE == 0;
}

static uint64_t *receives_word(const struct link *l)
{
	return (void *)((uint8_t *)l->slab.addr + link_words_off(0));
}

void far_start(struct link *l)
{
	l->recvs_posted = LINK_RECVS;
	st_rlx(receives_word(l), LINK_RECVS);
}

int far_up(struct link *l, uint64_t first_part)
{
	struct far *f = l->far;

	if (first_part > l->peer_len)
		return -EPROTO;
	f->peer[f->npeer++] = (struct rnic_part){ .len = first_part, .rkey = l->peer_rkey };
	f->peer_end = first_part;
	return 0;
}

void far_part(struct link *l, const struct wire_msg *m)
{
	struct far *f = l->far;
	bool sane = f && m->a == f->peer_end && m->b && m->b % AREA_PAGE == 0 &&
		    m->b <= l->peer_len - f->peer_end && f->npeer < AREA_PARTS;

	if (!sane || ops(l)->qp_peer_part(l->qp, m->a, m->b, m->bind.rkey)) {
		link_kill(l);
		return;
	}
	f->peer[f->npeer++] = (struct rnic_part){ .off = m->a, .len = m->b, .rkey = m->bind.rkey };
	f->peer_end += m->b;
}

/* A ring of the peer's, says the peer. */
static int peer_place(const struct far *f, uint64_t off, uint64_t bytes, struct place *p)
{
	for (uint32_t i = 0; i < f->npeer; i++) {
		const struct rnic_part *part = &f->peer[i];

		if (off < part->off || off - part->off > part->len ||
		    bytes > part->len - (off - part->off))
			continue;
		*p = (struct place){ .off = off, .bytes = (uint32_t)bytes, .key = part->rkey };
		return 0;
	}
	return -EPROTO;
}

/* Room for a ring of so many bytes; the peer learns of what is registered for it. */
static int room(struct link *l, struct area *a, uint32_t bytes)
{
	uint32_t n = a->nparts;
	int err = area_room(a, bytes);

	for (; a->remote && n < a->nparts; n++) {
		const struct rnic_part *p = &a->parts[n];
		struct wire_msg m = { .type = WIRE_PART, .a = p->off, .b = p->len };

		m.bind.rkey = p->rkey;
		link_send(l, &m);
	}
	return err;
}

/* ----------------------------------------------------------------- rings -- */

/* Of the next conn: it can ask for a larger one. */
static uint32_t ring_first(const struct link *l)
{
	uint32_t n = l->nslots - ld_rlx(&l->nfree);
	uint32_t bytes = n < 8 ? 64u << 10 : n < 64 ? 16u << 10 : n < 256 ? 8u << 10 : AREA_PAGE;

	return MIN(bytes, (uint32_t)l->ring_bytes);
}

int link_slot_room(struct link *l)
{
	uint32_t bytes;
	int err;

	if (!l->far)
		return 0;
	for (bytes = ring_first(l); (err = room(l, &l->far->rx, bytes)) != 0; bytes /= 2)
		if (bytes == AREA_PAGE)
			return err;
	return room(l, &l->far->tx, bytes);
}

/* Bytes of a ring of the peer's; 0: no such ring. */
static uint32_t ring_of(const struct link *l, const struct wire_bind *b)
{
	uint64_t bytes = b->ring_log2 < 32 ? 1ull << b->ring_log2 : 0;

	return bytes < AREA_PAGE || bytes > MIN(l->peer_ring_bytes, (uint64_t)AREA_RING_MOST) ?
	       0 : (uint32_t)bytes;
}

/* What cannot be is for link_slot_peer() to say. */
int link_source_room(struct link *l, const struct wire_bind *peers)
{
	uint32_t bytes = l->far ? ring_of(l, peers) : 0;

	return bytes ? room(l, &l->far->tx, bytes) : 0;
}

bool far_slot_take(struct link *l, uint16_t slot)
{
	struct far_slot *s = &l->far->slots[slot];

	*s = (struct far_slot){ .peer_slot = 0 };
	for (uint32_t bytes = ring_first(l); bytes >= AREA_PAGE; bytes /= 2) {
		if (!area_take(&l->far->rx, bytes, &s->rx))
			continue;
		/* for as much to send from: or those who ask would receive only */
		if (area_take(&l->far->tx, bytes, &s->tx))
			return true;
		area_put(&l->far->rx, &s->rx);
	}
	return false;
}

static void put(struct area *a, struct place *p)
{
	if (p->grown)
		sub_rlx(&grown, p->bytes);
	area_put(a, p);
}

void far_slot_free(struct link *l, uint16_t slot)
{
	struct far_slot *s = &l->far->slots[slot];

	put(&l->far->rx, &s->rx);
	put(&l->far->rx, &s->rx_next);
	put(&l->far->tx, &s->tx);
	put(&l->far->tx, &s->tx_next);
	put(&l->far->tx, &s->tx_last);
}

void link_slot_offer(struct link *l, uint16_t slot, struct wire_bind *b)
{
	if (!l->far)
		return;
	const struct place *p = &l->far->slots[slot].rx;
	b->ring_off = p->off;
	b->rkey = p->key;
	b->ring_log2 = (uint8_t)__builtin_ctz(p->bytes);
}

int link_slot_peer(struct link *l, uint16_t slot, const struct wire_bind *b)
{
	if (!l->far)
		return 0;
	struct far_slot *s = &l->far->slots[slot];
	uint32_t bytes = ring_of(l, b);

	s->peer_slot = b->slot;
	if (!bytes || peer_place(l->far, b->ring_off, bytes, &s->peer))
		return -EPROTO;
	if (s->tx.bytes == bytes)
		return 0;
	area_put(&l->far->tx, &s->tx);
	return area_take(&l->far->tx, bytes, &s->tx) ? 0 : -ENOMEM;
}

void far_forget(void)
{
	grown = 0;
}

/* Half of what may be locked is for the rings that conns begin with. */
static uint64_t grown_most(void)
{
	struct rlimit64 rl;

	if (config.fault.far > 1)
		return config.fault.far * 512ull;
	if (sys4(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, &rl) || rl.rlim_cur == RLIM64_INFINITY)
		return UINT64_MAX;
	return rl.rlim_cur / 2;
}

int link_ring_more(struct link *l, uint16_t slot, void *owner, bool ours, uint32_t bytes)
{
	struct area *a = ours ? &l->far->rx : &l->far->tx;
	struct far_slot *s = &l->far->slots[slot];
	struct place *next = ours ? &s->rx_next : &s->tx_next;
	int err = -ENOMEM;

	if (ld_rlx(&grown) + bytes > grown_most() || room(l, a, bytes))
		return -ENOMEM;
	lock_take(&engine.poll_lock);
	if (l->slots[slot].owner != owner || next->off)
		err = -ESTALE;
	else if (area_take(a, bytes, next))
		err = 0;
	if (!err) {
		next->grown = true;
		add_rlx(&grown, bytes);
	}
	lock_drop(&engine.poll_lock);
	return err;
}

uint64_t link_ring_next(const struct link *l, uint16_t slot, uint64_t *bytes)
{
	*bytes = l->far->slots[slot].rx_next.bytes;
	return l->far->slots[slot].rx_next.off;
}

int link_peer_ring_next(struct link *l, uint16_t slot, uint64_t off, uint64_t bytes)
{
	struct far_slot *s = &l->far->slots[slot];

	if (!s->tx_next.off)
		return -EPROTO;
	if (!bytes) {
		put(&l->far->tx, &s->tx_next);
		return -ENOMEM;
	}
	return bytes == s->tx_next.bytes ? peer_place(l->far, off, bytes, &s->peer_next) : -EPROTO;
}

bool link_ring_move(struct link *l, uint16_t slot, bool ours)
{
	struct far_slot *s = &l->far->slots[slot];

	if (ours && s->rx_next.off) {
		put(&l->far->rx, &s->rx);	/* all that was on its way there has come */
		s->rx = s->rx_next;
		s->rx_next = (struct place){ .off = 0 };
		return true;
	}
	if (ours || !s->tx_next.off || s->tx_last.off)
		return false;
	s->tx_last = s->tx;
	s->tx = s->tx_next;
	s->peer = s->peer_next;
	s->tx_next = s->peer_next = (struct place){ .off = 0 };
	return true;
}

void link_ring_last_free(struct link *l, uint16_t slot)
{
	put(&l->far->tx, &l->far->slots[slot].tx_last);
}

uint8_t *link_ring_next_at(struct link *l, uint16_t slot, bool ours)
{
	const struct far_slot *s = &l->far->slots[slot];

	return ours ? (uint8_t *)l->slab.addr + s->rx_next.off :
		      (uint8_t *)l->source.addr + s->tx_next.off;
}

uint8_t *link_ring(struct link *l, uint16_t slot)
{
	size_t off = l->far ? l->far->slots[slot].rx.off : link_ring_off(l->ring_bytes, slot);

	return (uint8_t *)l->slab.addr + off;
}

uint64_t link_ring_size(const struct link *l, uint16_t slot)
{
	return l->far ? l->far->slots[slot].rx.bytes : l->ring_bytes;
}

uint8_t *link_source_ring(struct link *l, uint16_t slot)
{
	return (uint8_t *)l->source.addr + l->far->slots[slot].tx.off;
}

uint64_t link_peer_ring_size(const struct link *l, uint16_t slot)
{
	return l->far ? l->far->slots[slot].peer.bytes : l->peer_ring_bytes;
}

/* --------------------------------------------------------------- sending -- */

bool far_room(const struct link *l, uint32_t leaving)
{
	/* pairs with far_tell_receives() of the peer: they are posted.  A lie is
	 * the liar's loss: its receives run out, and our device waits for them. */
	return (int64_t)(ld_acq(receives_word(l)) - l->seq) > (int64_t)leaving;
}

/* post_lock held. Return: 0 or an errno value. */
static int post(struct link *l, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	bool imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (imm)		/* who sleeps at the other end is woken by these only */
		wr->send_flags |= IBV_SEND_SOLICITED;
	int err = ibv_post_send(l->qp, wr, &bad);

	l->seq += imm && !err;
	if (err && err != ENOMEM)
		link_kill(l);
	return err;
}

static unsigned int inlined(const struct link *l, uint32_t len)
{
	return len <= l->dev->rnic->max_inline ? IBV_SEND_INLINE : 0;
}

int far_post_message(struct link *l, uint32_t at, const struct wire_msg *m)
{
	size_t off = (size_t)at * WIRE_MSG_SIZE;
	struct ibv_sge sge = { (uintptr_t)l->source.addr + off, sizeof(*m), l->source.lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)l,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = inlined(l, sizeof(*m)),
		.imm_data = at,
		.wr.rdma = { .remote_addr = l->peer_base + off, .rkey = l->peer_rkey },
	};

	if (!far_room(l, 0))
		return ENOMEM;
	memcpy((uint8_t *)l->source.addr + off, m, sizeof(*m));
	return post(l, &wr);
}

/* post_lock held. */
static int post_data(struct link *l, uint16_t slot, size_t off, uint32_t len, uint16_t note,
		     bool tell)
{
	const struct far_slot *s = &l->far->slots[slot];
	struct ibv_sge sge = { (uintptr_t)l->source.addr + s->tx.off + off, len, s->tx.key };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)l,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = inlined(l, len) | (tell ? IBV_SEND_SIGNALED : 0),
		.imm_data = (uint32_t)s->peer_slot << 16 | note,
		.wr.rdma = { .remote_addr = l->peer_base + s->peer.off + off, .rkey = s->peer.key },
	};

	/* before the post: it may be done, and polled elsewhere, at once */
	st_rlx(&l->far->sent[l->far->sent_tail % ARRAY_SIZE(l->far->sent)], slot);
	int err = post(l, &wr);
	l->far->sent_tail += tell && !err;
	return err;
}

uint16_t far_sent(struct link *l)
{
	return ld_rlx(&l->far->sent[l->far->sent_head++ % ARRAY_SIZE(l->far->sent)]);
}

int link_write(struct link *l, uint16_t slot, size_t off, uint32_t len, uint16_t note, bool tell)
{
	int err = ENOMEM;

	lock_take(&engine.post_lock);
	link_backlog_flush(l);		/* SWITCH or WINDOW may wait there */
	if (l->backlog_head == l->backlog_tail && far_room(l, FAR_RESERVE))
		err = post_data(l, slot, off, len, note, tell);
	if (err == ENOMEM)
		st_rlx(&l->starved, true);
	lock_drop(&engine.post_lock);
	if (err == ENOMEM)
		bg_queue(&l->flush);
	return -err;
}

/* post_lock held. A word at off of the peer's slab; raises nothing. */
static int post_word(struct link *l, size_t off, uint64_t word)
{
	struct ibv_sge sge = { (uintptr_t)&word, sizeof(word), 0 };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)l,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE,
		.wr.rdma = { .remote_addr = l->peer_base + off, .rkey = l->peer_rkey },
	};

	return post(l, &wr);
}

int link_put_word(struct link *l, uint16_t slot, size_t at, uint64_t word)
{
	lock_take(&engine.post_lock);
	int err = post_word(l, link_words_off(l->far->slots[slot].peer_slot) + at, word);
	count(CNT_credit_writes, !err);
	lock_drop(&engine.post_lock);
	return -err;
}

void far_tell_receives(struct link *l, uint32_t n)
{
	l->recvs_posted += n;
	/* no room in the queue: the next batch, or the flush, says it */
	l->untold = post_word(l, link_words_off(0), l->recvs_posted) == ENOMEM;
}
