/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * link.c - see link.h
 *
 * Order at the end of a link: the QP is moved to the error state, the CQ is
 * drained (what the peer had published is handed out, the flushed receives
 * follow), and only then user->dead() runs, all under poll_lock.  So a
 * message never arrives after the death.
 */
#define _GNU_SOURCE
#include "link/link.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"

/*
 * A process that dies closes its descriptors in no order that we know.  What
 * its TCP sockets say tells more than the end of the link, so that goes first.
 */
#define HUP_MS	2
#define RING_LEAST	4096u		/* fault shrink-rings */

static const struct link_user *user;
static struct list links = LIST_INIT(links);
static struct link *batch;		/* links that took receives in this batch */
static uint32_t last_id;

void link_set_user(const struct link_user *u)
{
	user = u;
}

static const struct rnic_ops *ops(void)
{
	return engine.rnic->ops;
}

/* ---------------------------------------------------------- memory -- */

static void *map(size_t bytes)
{
	return sys_map(bytes, MAP_NORESERVE);
}

static void unmap(void *p, size_t bytes)
{
	if (p)
		sys_unmap(p, bytes);
}

static void free_memory(struct link *l)
{
	if (l->qp)
		ops()->qp_free(l->qp);
	if (l->slab.addr)
		ops()->slab_free(&l->slab);
	if (l->pd)
		ops()->pd_free(l->pd);
	unmap(l->backlog, LINK_BACKLOG * sizeof(struct wire_msg));
	unmap(l, sizeof(*l));
}

static void slots_init(struct link *l)
{
	l->nfree = LINK_SLOTS;
	l->free_slot = 1;
	for (uint16_t i = 1; i <= LINK_SLOTS; i++)
		l->slots[i].next_free = i < LINK_SLOTS ? i + 1 : 0;
}

static int post_recvs(struct link *l, uint32_t n)
{
	struct ibv_recv_wr wr[64], *bad;
	int err = 0;

	while (n && !err) {
		uint32_t k = MIN(n, (uint32_t)ARRAY_SIZE(wr));

		for (uint32_t i = 0; i < k; i++)
			wr[i] = (struct ibv_recv_wr){
				.wr_id = (uintptr_t)l,
				.next = i + 1 < k ? &wr[i + 1] : NULL,
			};
		err = ibv_post_recv(l->qp, wr, &bad);
		n -= k;
	}
	return -err;
}

static int make_qp(struct link *l)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = l,
		.send_cq = engine.cq,
		.recv_cq = engine.cq,
		.cap = { .max_send_wr = LINK_RECVS, .max_recv_wr = LINK_RECVS,
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = WIRE_MSG_SIZE },
		.qp_type = IBV_QPT_RC,
	};

	l->qp = ops()->qp_new(l->pd, &attr);
	return l->qp ? post_recvs(l, LINK_RECVS) : -ENOMEM;
}

struct link *link_new(bool asker)
{
	struct link *l = map(sizeof(*l));

	if (!l)
		return NULL;
	l->id = ++last_id;
	l->refs = 1;
	l->asker = asker;
	l->unix_src.fd = -1;
	l->ring_bytes = config.fault.shrink_rings ? RING_LEAST : config.ring_bytes;
	list_init(&l->node);
	slots_init(l);
	l->backlog = map(LINK_BACKLOG * sizeof(struct wire_msg));
	l->pd = ops()->pd_new(engine.rnic);
	if (!l->backlog || !l->pd)
		goto fail;
	size_t bytes = link_ring_off(l->ring_bytes, LINK_SLOTS + 1);
	if (ops()->slab_new(l->pd, bytes, &l->slab))
		goto fail;
	if (ops()->slab_populate(&l->slab, 0, link_ring_off(l->ring_bytes, 1)))
		goto fail;
	lock_take(&engine.poll_lock);
	int err = make_qp(l);
	lock_drop(&engine.poll_lock);
	if (err)
		goto fail;
	return l;
fail:
	link_discard(l);
	return NULL;
}

void link_discard(struct link *l)
{
	lock_take(&engine.poll_lock);
	free_memory(l);
	lock_drop(&engine.poll_lock);
}

int link_export(struct link *l, struct link_hello *h, struct rnic_params *out)
{
	memset(h, 0, sizeof(*h));
	h->ring_bytes = l->ring_bytes;
	h->slots = LINK_SLOTS;
	h->ctl_ring = LINK_CTL_RING;
	memcpy(h->nonce, l->nonce_mine, LINK_NONCE);
	return ops()->qp_export(l->qp, &l->slab, out);
}

static bool hello_sane(const struct link_hello *h)
{
	return h->slots == LINK_SLOTS && h->ctl_ring == LINK_CTL_RING &&
	       h->ring_bytes >= 4096 && h->ring_bytes <= 16777216 &&
	       (h->ring_bytes & (h->ring_bytes - 1)) == 0;
}

static void death_work(struct bg_work *w);
static void hup_timer(struct bg_timer *t);
static void unix_event(struct bg_src *s, uint32_t events);
static void flush_work(struct bg_work *w);
static void flush_timer(struct bg_timer *t);

/* ---- fault kill-link: every so many ms, give or take a half, one of the links dies ---- */

static struct bg_timer killer;

static void kill_later(void)
{
	uint64_t ms = config.fault.kill_link, now = clock_ns();

	bg_timer_set(&killer, now + ms * NS_PER_MS / 2 + clock_ticks() % (ms * NS_PER_MS + 1));
}

static void kill_one(struct bg_timer *t)
{
	uint64_t n = 0;
	struct link *l = NULL;

	list_for_each(p, &links)
		if (clock_ticks() % ++n == 0)
			l = list_entry(p, struct link, node);
	if (l)
		link_kill(l);
	kill_later();
}

int link_connect(struct link *l, const struct link_hello *h, const struct rnic_params *p,
		 int unix_fd)
{
	if (!hello_sane(h))
		return -EPROTO;
	lock_take(&engine.poll_lock);
	int err = ops()->qp_connect(l->qp, p);
	if (!err) {
		l->peer = ops()->qp_peer_slab(l->qp, &l->peer_len, &l->peer_rkey,
					      &l->peer_base);
		l->peer_ring_bytes = h->ring_bytes;
		memcpy(l->nonce_peer, h->nonce, LINK_NONCE);
		if (!l->peer || l->peer_len < link_ring_off(h->ring_bytes, LINK_SLOTS + 1))
			err = -EPROTO;
	}
	if (!err) {
		st_rlx(&l->state, LINK_UP);
		list_push(&links, &l->node);
	}
	lock_drop(&engine.poll_lock);
	if (err)
		return err;
	l->death.fn = death_work;
	l->flush.fn = flush_work;
	l->flush_again.fn = flush_timer;
	l->hup.fn = hup_timer;
	l->unix_src = (struct bg_src){ .fd = unix_fd, .fn = unix_event };
	count(CNT_links, 1);
	log_info("link %u up, peer pid %u", l->id, l->peer_pid);
	bg_watch(&l->unix_src, EPOLLIN | EPOLLRDHUP);
	if (config.fault.kill_link && !killer.fn) {
		killer.fn = kill_one;
		kill_later();
	}
	return 0;
}

/* ----------------------------------------------------------- death -- */

void link_hold(struct link *l)
{
	add_rlx(&l->refs, 1);
}

void link_drop(struct link *l)
{
	if (sub_acqrel(&l->refs, 1) == 0)
		bg_queue(&l->death);
}

void link_kill(struct link *l)
{
	if (!xchg_acqrel(&l->dying, true))
		bg_queue(&l->death);
}

static void unix_event(struct bg_src *s, uint32_t events)
{
	struct link *l = container_of(s, struct link, unix_src);

	/* nothing is ever sent on it after HELLO: any event is the end */
	bg_unwatch(s);
	bg_timer_set(&l->hup, clock_ns() + HUP_MS * NS_PER_MS);
}

static void hup_timer(struct bg_timer *t)
{
	link_kill(container_of(t, struct link, hup));
}

static void link_die(struct link *l)
{
	log_info("link %u down", l->id);
	bg_timer_stop(&l->flush_again);
	bg_timer_stop(&l->hup);
	bg_unwatch(&l->unix_src);
	privfd_close(l->unix_src.fd);
	l->unix_src.fd = -1;
	engine_poll_all();
	lock_take(&engine.poll_lock);
	lock_take(&engine.post_lock);
	ops()->qp_error(l->qp);
	lock_drop(&engine.post_lock);
	lock_drop(&engine.poll_lock);
	engine_poll_all();
	lock_take(&engine.poll_lock);
	st_rlx(&l->state, LINK_DEAD);
	list_del(&l->node);
	user->dead(l);
	lock_drop(&engine.poll_lock);
	wait_wake_ready();
	link_drop(l);		/* the reference it was born with */
}

/* Nobody holds it; unmap once nobody can be reading either (base/guard.h). */
static void bury(struct bg_timer *t)
{
	struct link *l = container_of(t, struct link, flush_again);

	if (guard_empty() && !ld_acq(&l->flush.queued)) {
		link_discard(l);
		return;
	}
	t->fn = bury;
	bg_timer_set(t, clock_ns() + NS_PER_MS);
}

static void death_work(struct bg_work *w)
{
	struct link *l = container_of(w, struct link, death);

	if (l->state == LINK_UP && ld_acq(&l->dying))
		link_die(l);
	else if (l->state == LINK_DEAD && ld_acq(&l->refs) == 0)
		bury(&l->flush_again);
}

/* ----------------------------------------------------------- slots -- */

uint16_t link_slot_take(struct link *l, void *owner)
{
	uint16_t s = l->free_slot;

	if (!s || l->state != LINK_UP)
		return 0;
	if (ops()->slab_populate(&l->slab, link_ring_off(l->ring_bytes, s), l->ring_bytes))
		return 0;
	l->free_slot = l->slots[s].next_free;
	l->nfree--;
	l->slots[s] = (struct link_slot){ .owner = owner, .used = true };
	memset(link_slot_words(l, s), 0, LINK_SLOT_BYTES);
	link_hold(l);
	return s;
}

static void slot_recycle(struct link *l, uint16_t s)
{
	struct link_slot *sl = &l->slots[s];

	if (!sl->used || !sl->done_here || !(sl->done_there || l->state == LINK_DEAD))
		return;
	*sl = (struct link_slot){ .next_free = l->free_slot };
	l->free_slot = s;
	l->nfree++;
	link_drop(l);
}

void link_slot_done(struct link *l, uint16_t slot, uint16_t peer_slot, bool bound)
{
	struct link_slot *sl = &l->slots[slot];

	sl->owner = NULL;
	sl->done_here = true;
	if (!bound)
		sl->done_there = true;	/* the peer never heard of it */
	else if (l->state == LINK_UP)
		link_send(l, &(struct wire_msg){ .type = WIRE_RESET, .slot = peer_slot });
	slot_recycle(l, slot);
}

struct link *link_by_instance(uint64_t instance, bool with_room)
{
	list_for_each(n, &links) {
		struct link *l = list_entry(n, struct link, node);

		if (l->peer_instance == instance && !l->dying && (!with_room || l->nfree))
			return l;
	}
	return NULL;
}

/* --------------------------------------------------------- sending -- */

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

	if (ibv_post_send(l->qp, &wr, &bad))
		return 0;
	return ++l->seq;
}

static bool taken(struct link *l, uint64_t seq)
{
	return ops()->wr_taken(l->qp, seq);
}

static bool ctl_room(struct link *l)
{
	while (l->ctl_done != l->ctl_tx &&
	       taken(l, l->ctl_seq[l->ctl_done % LINK_CTL_MAX]))
		l->ctl_done++;
	return l->ctl_tx - l->ctl_done < LINK_CTL_MAX;
}

static bool ctl_post(struct link *l, const struct wire_msg *m)
{
	uint32_t at = l->ctl_tx % LINK_CTL_RING;
	uint64_t seq = post_imm(l, 0, at, m, sizeof(*m),
				(uint64_t)at * WIRE_MSG_SIZE);

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
	if ((x >> 24 & 3) == 0) {
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

static void backlog_flush(struct link *l)
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

	lock_take(&engine.post_lock);
	backlog_flush(l);
	bool more = l->backlog_head != l->backlog_tail;
	lock_drop(&engine.post_lock);
	if (more && l->state == LINK_UP)
		bg_timer_set(t, clock_ns() + NS_PER_MS);
}

static void flush_work(struct bg_work *w)
{
	struct link *l = container_of(w, struct link, flush);

	if (l->state == LINK_UP)
		flush_timer(&l->flush_again);
}

void link_send(struct link *l, const struct wire_msg *m)
{
	bool overflow = false, backlogged = false;

	if (ld_rlx(&l->state) != LINK_UP)
		return;
	lock_take(&engine.post_lock);
	backlog_flush(l);
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

/* ------------------------------------------------------- receiving -- */

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
	if (m.slot > LINK_SLOTS || m.type == 0 || m.type >= WIRE_TYPE_END) {
		link_kill(l);
		return;
	}
	struct link_slot *s = &l->slots[m.slot];
	if (m.type == WIRE_RESET && m.slot && s->used) {
		if (s->owner)
			user->msg(l, s->owner, &m);
		s->done_there = true;
		slot_recycle(l, m.slot);
		return;
	}
	user->msg(l, m.slot ? s->owner : NULL, &m);
}

static void sink_recv(void *ctx, const struct ibv_wc *wc)
{
	struct link *l = ctx;
	uint16_t slot = wc->imm_data >> 16;

	in_batch(l);
	if (unlikely(l->state != LINK_UP))
		return;
	if (slot == 0)
		take_message(l);
	else if (unlikely(slot > LINK_SLOTS))
		link_kill(l);
	else if (l->slots[slot].owner)
		user->data(l, l->slots[slot].owner);
}

static void sink_broken(void *ctx, const struct ibv_wc *wc)
{
	struct link *l = ctx;

	if (l->state == LINK_UP)
		link_kill(l);
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
		if (l->recv_deficit >= 64 || l->backlog_head != l->backlog_tail) {
			post_recvs(l, l->recv_deficit);
			l->recv_deficit = 0;
			backlog_flush(l);
		}
		lock_drop(&engine.post_lock);
	}
}

const struct engine_sink link_sink = {
	.recv = sink_recv,
	.broken = sink_broken,
	.batch_end = sink_batch_end,
};

void link_forget_all(void)
{
	list_init(&links);
	memset(&killer, 0, sizeof(killer));
	batch = NULL;
}
