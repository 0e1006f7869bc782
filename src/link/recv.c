/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * recv.c - what a link receives, and the room above to which it is handed
 *
 * The engine's sink: all of it runs under poll_lock, in whatever thread polls.
 * A receive is posted again only after its message was handled.
 */
#define _GNU_SOURCE
#include "link/link.h"

#include <string.h>

#include "link/far.h"
#include "link/inner.h"

static const struct link_user *user;
static struct link *batch;		/* links that took receives in this batch */

void link_set_user(const struct link_user *u)
{
	user = u;
}

bool link_user_ended(struct link *l)
{
	return user->ended(l);
}

void link_user_dead(struct link *l)
{
	user->dead(l);
}

void link_user_room(struct link *l)
{
	user->room(l);
}

int link_post_recvs(struct link *l, uint32_t n)
{
	struct ibv_recv_wr wr[16], *bad;
	int err = 0;

	while (n && !err) {
		uint32_t k = MIN(n, (uint32_t)ARRAY_SIZE(wr));

		for (uint32_t i = 0; i < k; i++)
			wr[i] = (struct ibv_recv_wr){
				.wr_id = (uintptr_t)l,
				.next = i + 1 < k ? &wr[i + 1] : NULL,
			};
		err = ibv_post_recv(l->qp, wr, &bad);
		l->recvs_out += err ? 0 : k;
		n -= k;
	}
	return -err;
}

static void in_batch(struct link *l)
{
	l->recv_deficit++;
	if (l->in_batch)
		return;
	l->in_batch = true;
	l->batch_next = batch;
	batch = l;
}

static void take_message(struct link *l)
{
	/* copied once: the peer may go on writing while we judge it */
	struct wire_msg m;
	uint8_t *at = (uint8_t *)l->slab.addr + (l->ctl_rx++ % LINK_CTL_RING) * WIRE_MSG_SIZE;

	memcpy(&m, at, sizeof(m));
	if (m.slot > l->nslots || m.type == 0 || m.type >= WIRE_TYPE_END) {
		link_kill(l);
		return;
	}
	if (unlikely(m.type == WIRE_PART)) {
		far_part(l, &m);
		return;
	}
	struct link_slot *s = &l->slots[m.slot];
	if (m.type == WIRE_RESET && m.slot && s->used) {
		if (s->owner)
			user->msg(l, s->owner, &m);
		s->done_there = true;
		link_slot_recycle(l, m.slot);
		return;
	}
	user->msg(l, m.slot ? s->owner : NULL, &m);
}

/* What a peer with a conn there would not send: nothing, or more than a ring. */
static void arrived(struct link *l, uint16_t slot, const struct ibv_wc *wc)
{
	if (unlikely(!wc->byte_len || wc->byte_len > l->ring_bytes))
		link_kill(l);
	else
		user->arrived(l, l->slots[slot].owner, wc->byte_len, (uint16_t)wc->imm_data);
}

static void sink_recv(void *ctx, const struct ibv_wc *wc)
{
	struct link *l = ctx;
	uint16_t slot = wc->imm_data >> 16;

	in_batch(l);
	l->recvs_out--;
	if (unlikely(l->state != LINK_UP))
		return;
	if (slot == 0)
		take_message(l);
	else if (unlikely(slot > l->nslots))
		link_kill(l);
	else if (!l->slots[slot].owner)
		return;
	else if (far(l))
		arrived(l, slot, wc);
	else
		user->data(l, l->slots[slot].owner);
}

static void sink_broken(void *ctx, const struct ibv_wc *wc)
{
	struct link *l = ctx;

	l->recvs_out -= (wc->opcode & IBV_WC_RECV) != 0;
	if (l->state == LINK_UP)
		link_kill(l);
}

static void sink_sent(void *ctx)
{
	struct link *l = ctx;
	uint16_t slot = far_sent(l);

	if (likely(l->state == LINK_UP) && l->slots[slot].owner)
		user->sent(l, l->slots[slot].owner);
}

/* post_lock held */
static void recvs_return(struct link *l)
{
	uint32_t n = l->recv_deficit;

	l->recv_deficit = 0;
	if (far(l) && ld_rlx(&l->dying))
		return;		/* they would be flushed, and that again */
	if (link_post_recvs(l, n))
		link_kill(l);
	else if (far(l))
		far_tell_receives(l, n);
	if (l->untold)
		bg_queue(&l->flush);
	link_backlog_flush(l);
}

static void sink_batch_end(void)
{
	while (batch) {
		struct link *l = batch;

		batch = l->batch_next;
		l->in_batch = false;
		if (l->state != LINK_UP)
			continue;
		lock_take(&engine.post_lock);
		if (l->recv_deficit >= (far(l) ? FAR_RETURN : 64u) || l->backlog_head != l->backlog_tail)
			recvs_return(l);
		lock_drop(&engine.post_lock);
	}
}

static void sink_lost(void *ctx, const struct engine_dev *dev)
{
	struct link *l = ctx;

	if (l && l->state != LINK_NEW)	/* a new one fails to connect, and is discarded */
		link_kill(l);
	else if (!l)
		link_kill_all(dev);
}

const struct engine_sink link_sink = {
	.recv = sink_recv,
	.broken = sink_broken,
	.sent = sink_sent,
	.batch_end = sink_batch_end,
	.lost = sink_lost,
};

void link_recv_forget(void)
{
	batch = NULL;
}
