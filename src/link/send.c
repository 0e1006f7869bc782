/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * send.c - what a link sends: control messages, their backlog, notifications
 *
 * Any thread.  The control ring, the backlog and the order of posting are
 * under post_lock.  Bytes of a ring, where no memory is shared, are sent by far.c.
 */
#define _GNU_SOURCE
#include "link/link.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "link/far.h"
#include "link/inner.h"

/* post_lock held. Return: seq, 0 when the QP is broken or full. */
static uint64_t post_imm(struct link *l, uint16_t peer_slot, uint32_t low, const void *payload,
			 uint32_t len, uint64_t remote_off)
{
	struct ibv_sge sge = { .addr = (uintptr_t)payload, .length = len };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_INLINE,
		.imm_data = (uint32_t)peer_slot << 16 | (low & 0xffff),
		.wr.rdma = { .remote_addr = l->peer_base + remote_off, .rkey = l->peer_rkey },
	}, *bad;

	if (ibv_post_send(l->qp, &wr, &bad)) {
		link_kill(l);		/* there is always room: it is broken */
		return 0;
	}
	return ++l->seq;
}

static bool taken(struct link *l, uint64_t seq)
{
	return ops(l)->wr_taken(l->qp, seq);
}

static bool ctl_room(struct link *l)
{
	if (far(l))
		return far_room(l, 0);
	while (l->ctl_done != l->ctl_tx &&
	       taken(l, l->ctl_seq[l->ctl_done % LINK_CTL_MAX]))
		l->ctl_done++;
	return l->ctl_tx - l->ctl_done < LINK_CTL_MAX;
}

static bool ctl_post(struct link *l, const struct wire_msg *m)
{
	uint32_t at = l->ctl_tx % LINK_CTL_RING;
	uint64_t seq;

	if (far(l)) {
		bool sent = !far_post_message(l, at, m);

		l->ctl_tx += sent;
		return sent;
	}
	seq = post_imm(l, 0, at, m, sizeof(*m), (uint64_t)at * WIRE_MSG_SIZE);
	if (!seq)
		return false;
	l->ctl_seq[l->ctl_tx++ % LINK_CTL_MAX] = seq;
	return true;
}

/* Fault babble: after one message in so many, one that no honest peer would send, or a P. */
static void babble(struct link *l, const struct wire_msg *m)
{
	static uint64_t x = 88172645463325252ull;
	struct wire_msg bad = *m;

	x = (x ^ x << 13) + clock_ticks();
	x ^= x >> 7;
	if (x % config.fault.babble || !ctl_room(l))
		return;
	if ((x >> 24 & 3) == 0 && l->peer) {
		st_rlx((uint64_t *)link_peer_words(l, (uint16_t)(1 + (x >> 16) % 32)), x);
		return;
	}
	bad.type = (uint8_t)(1 + (x >> 8) % (WIRE_TYPE_END - 1));
	if (x >> 32 & 1)
		bad.slot = (uint16_t)(1 + (x >> 16) % 32);
	if (x >> 33 & 1)
		bad.epoch = (uint16_t)(x >> 40 & 3);
	if (x >> 34 & 1)
		bad.a = x >> (x >> 35 & 63);
	ctl_post(l, &bad);
}

void link_backlog_flush(struct link *l)
{
	while (l->backlog_head != l->backlog_tail && ctl_room(l)) {
		if (!ctl_post(l, &l->backlog[l->backlog_head % LINK_BACKLOG]))
			return;
		l->backlog_head++;
	}
}

static void flush_timer(struct bg_timer *t)
{
	struct link *l = container_of(t, struct link, flush_again);

	engine_poll_all();	/* what was sent makes room unheard: see engine_arm() */
	lock_take(&engine.post_lock);
	link_backlog_flush(l);
	bool room = l->starved && far_room(l, FAR_RESERVE);
	if (room)
		l->starved = false;
	if (l->untold)
		far_tell_receives(l, 0);
	bool more = l->backlog_head != l->backlog_tail || l->starved || l->untold;
	lock_drop(&engine.post_lock);
	if (room)
		link_user_room(l);
	if (more && l->state == LINK_UP)
		bg_timer_set(t, clock_ns() + NS_PER_MS);
}

static void flush_work(struct bg_work *w)
{
	struct link *l = container_of(w, struct link, flush);

	if (l->state == LINK_UP)
		flush_timer(&l->flush_again);
}

void link_send_init(struct link *l)
{
	l->flush.fn = flush_work;
	l->flush_again.fn = flush_timer;
}

void link_send(struct link *l, const struct wire_msg *m)
{
	bool overflow = false, backlogged = false;

	if (ld_rlx(&l->state) != LINK_UP)
		return;
	count(CNT_bind_msgs, m->type >= WIRE_BIND && m->type <= WIRE_LATER);
	lock_take(&engine.post_lock);
	link_backlog_flush(l);
	if (l->backlog_head != l->backlog_tail || !ctl_room(l) || !ctl_post(l, m)) {
		overflow = l->backlog_tail - l->backlog_head >= LINK_BACKLOG;
		backlogged = !overflow && l->backlog_head == l->backlog_tail;
		if (!overflow)
			l->backlog[l->backlog_tail++ % LINK_BACKLOG] = *m;
	}
	if (unlikely(config.fault.babble))
		babble(l, m);
	lock_drop(&engine.post_lock);
	if (overflow)
		link_kill(l);
	else if (backlogged)
		bg_queue(&l->flush);
}

uint64_t link_tell(struct link *l, uint16_t peer_slot, uint64_t seq)
{
	fence_full();	/* pairs with the peer's poll: index, fence, then the news */
	if (seq && !taken(l, seq))
		return seq;
	lock_take(&engine.post_lock);
	seq = post_imm(l, peer_slot, 0, NULL, 0, 0);
	lock_drop(&engine.post_lock);
	return seq;
}
