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
#include "base/page.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "link/far.h"
#include "progress/wait.h"

/*
 * A process that dies closes its descriptors in no order that we know.  What
 * its TCP sockets say tells more than the end of the link, so that goes first.
 */
#define HUP_MS	2
#define HUP_MOST_MS 300
#define SIP_MS		2
#define SIP_MANY	64u
#define SIP_MOST	1024u
#define RING_LEAST	4096u		/* fault shrink-rings */
#define IDLE_MOST	64u		/* links of one user with nothing bound on them */

static const struct link_user *user;
static struct list links = LIST_INIT(links);
static struct link *batch;		/* links that took receives in this batch */
static uint32_t last_id;
static uint32_t nlinks;

void link_set_user(const struct link_user *u)
{
	user = u;
}

static const struct rnic_ops *ops(void)
{
	return engine.rnic->ops;
}

static bool far(void)
{
	return !engine.rnic->shared;
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
	far_close(l);
	ops()->slab_free(&l->slab);
	ops()->slab_free(&l->source);
	if (l->pd)
		ops()->pd_free(l->pd);
	unmap(l->backlog, LINK_BACKLOG * sizeof(struct wire_msg));
	unmap(l, sizeof(*l));
}

static void slots_init(struct link *l)
{
	l->nfree = l->nslots;
	l->free_slot = 1;
	for (uint16_t i = 1; i <= l->nslots; i++)
		l->slots[i].next_free = i < l->nslots ? i + 1 : 0;
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
		l->recvs_out += err ? 0 : k;
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
			 .max_inline_data = far() ? engine.rnic->max_inline : WIRE_MSG_SIZE },
		.qp_type = IBV_QPT_RC,
	};

	l->qp = ops()->qp_new(l->pd, &attr);
	return l->qp ? post_recvs(l, LINK_RECVS) : -ENOMEM;
}

static int slab_make(struct link *l)
{
	int err;

	if (far())
		return far_open(l);
	l->nslots = LINK_SLOTS;
	err = ops()->slab_new(l->pd, link_ring_off(l->ring_bytes, LINK_SLOTS + 1), &l->slab);
	return err ? err : ops()->slab_populate(&l->slab, 0, link_ring_off(l->ring_bytes, 1));
}

struct link *link_new(bool asker)
{
	struct link *l = map(sizeof(*l));

	if (!l)
		return NULL;
	add_rlx(&nlinks, 1);
	l->id = ++last_id;
	l->refs = 1;
	l->asker = asker;
	l->unix_src.fd = -1;
	l->ring_bytes = config.fault.shrink_rings ? RING_LEAST : config.ring_bytes;
	if (far())
		l->ring_bytes = MIN(l->ring_bytes, (uint64_t)LINK_RING_FIRST);
	list_init(&l->node);
	l->slab.fd = l->source.fd = -1;
	l->backlog = map(LINK_BACKLOG * sizeof(struct wire_msg));
	l->pd = ops()->pd_new(engine.rnic);
	if (!l->backlog || !l->pd)
		goto fail;
	if (slab_make(l))
		goto fail;
	slots_init(l);
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
	sub_acqrel(&nlinks, 1);
	wait_wake_ready();
}

int link_guard(struct link *l, int unix_fd)
{
	if (far() || !ops()->qp_wake_by || l->peer_uid == (uint32_t)sys0(SYS_geteuid))
		return 0;
	int err = ops()->qp_wake_by(l->qp, unix_fd);
	if (!err)
		err = engine_aside_add(unix_fd);
	l->guarded = !err;
	return err;
}

static void hello_fill(const struct link *l, struct link_hello *h)
{
	memset(h, 0, sizeof(*h));
	h->ring_bytes = l->ring_bytes;
	h->slots = l->nslots;
	h->ctl_ring = LINK_CTL_RING;
	h->part = far() ? far_first_part(l) : 0;
	memcpy(h->nonce, l->nonce_mine, LINK_NONCE);
}

int link_export(struct link *l, struct link_hello *h, struct rnic_params *out)
{
	hello_fill(l, h);
	lock_take(&engine.poll_lock);	/* who connected first may be polled already */
	int err = ops()->qp_export(l->qp, &l->slab, out);
	lock_drop(&engine.poll_lock);
	return err;
}

int link_export_cm(struct link *l, struct link_hello *h, uint8_t rnic[RNIC_CM_BYTES])
{
	hello_fill(l, h);
	lock_take(&engine.poll_lock);
	int err = ops()->cm_export(l->qp, &l->slab, rnic);
	lock_drop(&engine.poll_lock);
	return err;
}

static bool hello_sane(const struct link_hello *h)
{
	return (far() ? far_part_sane(h->slots, h->part) : h->slots == LINK_SLOTS) &&
	       h->ctl_ring == LINK_CTL_RING &&
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

/* For others to see; see base/page.h. */
static void show(const struct link *l, bool up)
{
	struct page *p = ld_acq(&page_mine);	/* pairs with counters_attach() */
	struct page_link *e = p ? &p->links[l->id % PAGE_LINKS] : NULL;

	if (!e || (!up && ld_rlx(&e->id) != l->id))
		return;
	st_rlx(&e->id, 0);
	if (!up)
		return;
	st_rlx(&e->peer_pid, l->peer_pid);
	st_rlx(&e->peer_uid, l->peer_uid);
	st_rlx(&e->asker, l->asker);
	st_rlx(&e->since_ns, clock_ns());
	st_rlx(&e->ring_bytes, l->ring_bytes);
	st_rlx(&e->far, engine.rnic->hardware);
	st_rel(&e->id, l->id);
}

/* All of another host are one. */
static bool same_user(const struct link *a, const struct link *b)
{
	return a->peer_uid == b->peer_uid && a->peer_family == b->peer_family &&
	       memcmp(a->peer_addr, b->peer_addr, sizeof(a->peer_addr)) == 0;
}

/*
 * A link takes four descriptors and some 260 KiB, and whoever has one
 * connection may ask for any number of them.  The oldest goes: nothing is lost,
 * its peer asks again when it wants one.
 */
static void thin_idle(const struct link *next)
{
	struct link *oldest = NULL;
	uint32_t n = 0;

	lock_take(&engine.poll_lock);
	list_for_each(p, &links) {
		struct link *l = list_entry(p, struct link, node);

		if (!same_user(l, next) || l->nfree != l->nslots || ld_rlx(&l->dying))
			continue;
		if (!n++)
			oldest = l;
	}
	lock_drop(&engine.poll_lock);
	if (n >= IDLE_MOST) {
		log_info("link %u is one of %u that uid %u does not use", oldest->id, n,
			 next->peer_uid);
		link_kill(oldest);
	}
}

/* Mapped here a larger slab would take address space for nothing, as much as its owner likes. */
static int near_up(const struct link *l)
{
	return l->peer && l->peer_len == link_ring_off(l->peer_ring_bytes, l->peer_slots + 1) ?
	       0 : -EPROTO;
}

int link_connect(struct link *l, const struct link_hello *h, const struct rnic_params *p,
		 int unix_fd)
{
	if (!hello_sane(h))
		return -EPROTO;
	thin_idle(l);			/* it makes room for this one */
	l->peer_ring_bytes = far() ? MIN(h->ring_bytes, (uint64_t)LINK_RING_FIRST) : h->ring_bytes;
	l->peer_slots = (uint16_t)h->slots;
	memcpy(l->nonce_peer, h->nonce, LINK_NONCE);
	l->death.fn = death_work;
	l->flush.fn = flush_work;
	l->flush_again.fn = flush_timer;
	l->hup.fn = hup_timer;
	l->unix_src = (struct bg_src){ .fd = unix_fd, .fn = unix_event };
	if (far())
		far_start(l);
	/* from here on it may be polled, and found broken */
	lock_take(&engine.poll_lock);
	int err = ops()->qp_connect(l->qp, p);
	if (!err) {
		l->peer = ops()->qp_peer_slab(l->qp, &l->peer_len, &l->peer_rkey,
					      &l->peer_base);
		err = far() ? far_up(l, h->part) : near_up(l);
	}
	if (!err) {
		st_rlx(&l->state, LINK_UP);
		list_push(&links, &l->node);
	}
	lock_drop(&engine.poll_lock);
	if (err)
		return err;
	count(CNT_links, 1);
	show(l, true);
	log_info("link %u up, peer pid %u", l->id, l->peer_pid);
	if (bg_watch(&l->unix_src, EPOLLIN | EPOLLRDHUP))
		link_kill(l);		/* its end would not be heard of */
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

/*
 * The peer has woken whom it wanted to; its bytes are read once for all that come
 * in a while.  If it has filled the socket meanwhile, the last was for nobody.
 */
static void sip_timer(struct bg_timer *t)
{
	struct link *l = container_of(t, struct link, sip);
	uint32_t n = 0;
	char said;

	while (n < SIP_MOST && sys_recvfrom(l->unix_src.fd, &said, 1, MSG_DONTWAIT) == 1)
		n++;
	if (n >= SIP_MANY && engine_poll_all() == 0)
		wait_nudge_leader();
	bg_modify(&l->unix_src, EPOLLIN | EPOLLRDHUP);
}

static void unix_event(struct bg_src *s, uint32_t events)
{
	struct link *l = container_of(s, struct link, unix_src);
	char said;

	if (l->guarded && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
		bg_modify(s, EPOLLRDHUP);
		l->sip.fn = sip_timer;
		bg_timer_set(&l->sip, clock_ns() + SIP_MS * NS_PER_MS);
		return;
	}
	/* else nothing is ever sent on it after HELLO: any event is the end */
	bg_timer_stop(&l->sip);
	bg_unwatch(s);
	if (far() && sys_recvfrom(s->fd, &said, 1, MSG_DONTWAIT) == 1) {
		link_kill(l);
		return;
	}
	l->hup_until_ns = clock_ns() + HUP_MOST_MS * NS_PER_MS;
	bg_timer_set(&l->hup, clock_ns() + HUP_MS * NS_PER_MS);
}

/*
 * A peer that drops a link puts its QP into the error state, which the poll
 * finds.  Else its process is dying, and the kernel, which closes the highest
 * number first, may not have come to its TCP sockets yet: what is written to
 * one meanwhile would be unread, and make a RST of its FIN.
 */
static void hup_timer(struct bg_timer *t)
{
	struct link *l = container_of(t, struct link, hup);
	uint64_t now = clock_ns();

	engine_poll_all();
	lock_take(&engine.poll_lock);
	bool over = ld_acq(&l->dying) || now >= l->hup_until_ns || user->ended(l);
	lock_drop(&engine.poll_lock);
	if (over)
		link_kill(l);
	else
		bg_timer_set(t, now + HUP_MS * NS_PER_MS);
}

static void slot_recycle(struct link *l, uint16_t s);

static void link_dead(struct link *l)
{
	bg_timer_stop(&l->flush_again);
	lock_take(&engine.poll_lock);
	st_rlx(&l->state, LINK_DEAD);
	list_del(&l->node);
	show(l, false);
	user->dead(l);
	for (uint16_t s = 1; s <= l->nslots; s++)
		slot_recycle(l, s);	/* closed here, and the peer's RESET comes no more */
	lock_drop(&engine.poll_lock);
	wait_wake_ready();
	link_drop(l);		/* the reference it was born with */
}

/*
 * A device of its own flushes when it likes.  The flush of the last receive says
 * that nothing more comes; a driver that loses one is not waited for long.
 */
static void drain_timer(struct bg_timer *t)
{
	struct link *l = container_of(t, struct link, hup);

	engine_poll_all();
	lock_take(&engine.poll_lock);
	bool flushed = !far() || !l->recvs_out;
	lock_drop(&engine.poll_lock);
	if (flushed || l->drain_tries++ == FAR_DRAIN_TRIES)
		link_dead(l);
	else
		bg_timer_set(t, clock_ns() + NS_PER_MS);
}

static void unix_close(struct link *l)
{
	if (l->guarded) {	/* the QP has a duplicate */
		engine_aside_remove(l->unix_src.fd);
		sys2(SYS_shutdown, l->unix_src.fd, SHUT_RDWR);
	}
	privfd_close(l->unix_src.fd);
	l->unix_src.fd = -1;
}

static void link_die(struct link *l)
{
	log_info("link %u down", l->id);
	bg_timer_stop(&l->hup);
	bg_timer_stop(&l->sip);
	bg_unwatch(&l->unix_src);
	/* there the peer's QP learns nothing: a word says that we live and have dropped it */
	if (far())
		sys_sendto(l->unix_src.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!l->guarded)
		unix_close(l);
	engine_poll_all();
	lock_take(&engine.poll_lock);
	lock_take(&engine.post_lock);
	ops()->qp_error(l->qp);
	lock_drop(&engine.post_lock);
	lock_drop(&engine.poll_lock);
	if (l->guarded)		/* it has told the peer of the error */
		unix_close(l);
	l->draining = true;
	l->hup.fn = drain_timer;
	drain_timer(&l->hup);
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

	if (l->state == LINK_UP && ld_acq(&l->dying) && !l->draining)
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
	if (far() ? !far_slot_take(l, s) :
	    ops()->slab_populate(&l->slab, link_ring_off(l->ring_bytes, s),
				 MIN(l->ring_bytes, (uint64_t)LINK_RING_FIRST)) != 0)
		return 0;
	l->free_slot = l->slots[s].next_free;
	l->nfree--;
	l->slots[s] = (struct link_slot){ .owner = owner, .used = true };
	memset(link_slot_words(l, s), 0, LINK_SLOT_BYTES);
	link_hold(l);
	return s;
}

int link_peer_ring_room(struct link *l, uint16_t peer_slot, uint64_t off, uint64_t bytes)
{
	uint64_t at = link_ring_off(l->peer_ring_bytes, peer_slot);

	return far() ? 0 : ops()->qp_peer_populate(l->qp, at + off, bytes);
}

void link_slot_grown(struct link *l, uint16_t slot)
{
	l->slots[slot].grown = true;
}

static void slot_recycle(struct link *l, uint16_t s)
{
	struct link_slot *sl = &l->slots[s];

	if (!sl->used || !sl->done_here || !(sl->done_there || l->state == LINK_DEAD))
		return;
	if (far())
		far_slot_free(l, s);
	else if (unlikely(sl->grown))
		ops()->slab_trim(&l->slab, link_ring_off(l->ring_bytes, s) + LINK_RING_FIRST,
				 l->ring_bytes - LINK_RING_FIRST);
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

/* With room, to that process of that user of this host, or of that address. */
static struct link *find(uint64_t instance, uint32_t uid, uint16_t family, const uint8_t addr[16])
{
	list_for_each(n, &links) {
		struct link *l = list_entry(n, struct link, node);

		if (l->peer_instance == instance && !l->dying && l->nfree &&
		    l->peer_family == family && l->peer_uid == uid &&
		    (!family || memcmp(l->peer_addr, addr, sizeof(l->peer_addr)) == 0))
			return l;
	}
	return NULL;
}

struct link *link_by_instance(uint64_t instance, uint32_t uid)
{
	return find(instance, uid, 0, NULL);
}

struct link *link_by_host(uint64_t instance, uint16_t family, const uint8_t addr[16])
{
	return find(instance, 0, family, addr);		/* its users are not ours */
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

	if (ibv_post_send(l->qp, &wr, &bad)) {
		link_kill(l);		/* there is always room: it is broken */
		return 0;
	}
	return ++l->seq;
}

static bool taken(struct link *l, uint64_t seq)
{
	return ops()->wr_taken(l->qp, seq);
}

static bool ctl_room(struct link *l)
{
	if (far())
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

	if (far()) {
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

	engine_poll_all();	/* what was sent makes room unheard: see engine_arm() */
	lock_take(&engine.post_lock);
	backlog_flush(l);
	bool room = l->starved && far_room(l, FAR_RESERVE);
	if (room)
		l->starved = false;
	if (l->untold)
		far_tell_receives(l, 0);
	bool more = l->backlog_head != l->backlog_tail || l->starved || l->untold;
	lock_drop(&engine.post_lock);
	if (room)
		user->room(l);
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
	l->recvs_out--;
	if (unlikely(l->state != LINK_UP))
		return;
	if (slot == 0)
		take_message(l);
	else if (unlikely(slot > l->nslots))
		link_kill(l);
	else if (!l->slots[slot].owner)
		return;
	else if (far())
		user->arrived(l, l->slots[slot].owner, (wc->imm_data & 0xffff) + 1);
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
	if (far() && ld_rlx(&l->dying))
		return;		/* they would be flushed, and that again */
	if (post_recvs(l, n))
		link_kill(l);
	else if (far())
		far_tell_receives(l, n);
	if (l->untold)
		bg_queue(&l->flush);
	backlog_flush(l);
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
		if (l->recv_deficit >= 64 || l->backlog_head != l->backlog_tail)
			recvs_return(l);
		lock_drop(&engine.post_lock);
	}
}

static void sink_lost(void *ctx)
{
	if (ctx)
		link_kill(ctx);
	else
		link_kill_all();
}

const struct engine_sink link_sink = {
	.recv = sink_recv,
	.broken = sink_broken,
	.sent = sink_sent,
	.batch_end = sink_batch_end,
	.lost = sink_lost,
};

void link_kill_all(void)
{
	list_for_each(n, &links)
		link_kill(list_entry(n, struct link, node));
}

bool link_any(void)
{
	return !list_empty_rlx(&links);
}

uint32_t link_count(void)
{
	return ld_acq(&nlinks);		/* pairs with link_discard() */
}

void link_forget_all(void)
{
	nlinks = 0;
	list_init(&links);
	memset(&killer, 0, sizeof(killer));
	batch = NULL;
	far_forget();
}
