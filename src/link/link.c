/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * link.c - a link's memory, its opening, its slots, and how it is found
 *
 * How it ends is in death.c, what it sends in send.c, what comes in recv.c.
 * The list of links is changed by the background thread alone, under poll_lock,
 * which guards the slots as well.
 */
#define _GNU_SOURCE
#include "link/link.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/page.h"
#include "base/sys.h"
#include "link/far.h"
#include "link/inner.h"
#include "progress/wait.h"

#define RING_LEAST	4096u		/* fault shrink-rings */
#define IDLE_MOST	64u		/* links of one user with nothing bound on them */

static struct list links = LIST_INIT(links);
static uint32_t last_id;
static uint32_t nlinks;

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
		ops(l)->qp_free(l->qp);
	far_close(l);
	ops(l)->slab_free(&l->slab);
	ops(l)->slab_free(&l->source);
	if (l->pd)
		ops(l)->pd_free(l->pd);
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

static int make_qp(struct link *l)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = l,
		.send_cq = l->dev->cq,
		.recv_cq = l->dev->cq,
		.cap = { .max_send_wr = LINK_RECVS, .max_recv_wr = LINK_RECVS,
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = far(l) ? l->dev->rnic->max_inline : WIRE_MSG_SIZE },
		.qp_type = IBV_QPT_RC,
	};

	l->qp = ops(l)->qp_new(l->pd, &attr);
	return l->qp ? link_post_recvs(l, LINK_RECVS) : -ENOMEM;
}

static int slab_make(struct link *l)
{
	int err;

	if (far(l))
		return far_open(l);
	l->nslots = LINK_SLOTS;
	err = ops(l)->slab_new(l->pd, link_ring_off(l->ring_bytes, LINK_SLOTS + 1), &l->slab);
	return err ? err : ops(l)->slab_populate(&l->slab, 0, link_ring_off(l->ring_bytes, 1));
}

struct link *link_new(struct engine_dev *dev, bool asker)
{
	struct link *l = map(sizeof(*l));

	if (!l)
		return NULL;
	add_rlx(&nlinks, 1);
	l->id = ++last_id;
	l->refs = 1;
	l->dev = dev;
	l->asker = asker;
	l->unix_src.fd = -1;
	l->ring_bytes = config.fault.shrink_rings ? RING_LEAST : config.ring_bytes;
	if (far(l))
		l->ring_bytes = MIN(l->ring_bytes, (uint64_t)LINK_RING_FIRST);
	list_init(&l->node);
	l->slab.fd = l->source.fd = -1;
	l->backlog = map(LINK_BACKLOG * sizeof(struct wire_msg));
	l->pd = ops(l)->pd_new(l->dev->rnic);
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

/* --------------------------------------------------------- opening -- */

int link_guard(struct link *l, int unix_fd)
{
	if (far(l) || !ops(l)->qp_wake_by || l->peer_uid == (uint32_t)sys0(SYS_geteuid))
		return 0;
	int err = ops(l)->qp_wake_by(l->qp, unix_fd);
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
	h->part = far(l) ? far_first_part(l) : 0;
	memcpy(h->nonce, l->nonce_mine, LINK_NONCE);
}

int link_export(struct link *l, struct link_hello *h, struct rnic_params *out)
{
	hello_fill(l, h);
	lock_take(&engine.poll_lock);	/* who connected first may be polled already */
	int err = ops(l)->qp_export(l->qp, &l->slab, out);
	lock_drop(&engine.poll_lock);
	return err;
}

int link_export_cm(struct link *l, struct link_hello *h, uint8_t rnic[RNIC_CM_BYTES])
{
	hello_fill(l, h);
	lock_take(&engine.poll_lock);
	int err = ops(l)->cm_export(l->qp, &l->slab, rnic);
	lock_drop(&engine.poll_lock);
	return err;
}

static bool hello_sane(const struct link *l, const struct link_hello *h)
{
	return (far(l) ? far_part_sane(h->slots, h->part) : h->slots == LINK_SLOTS) &&
	       h->ctl_ring == LINK_CTL_RING &&
	       h->ring_bytes >= 4096 && h->ring_bytes <= 16777216 &&
	       (h->ring_bytes & (h->ring_bytes - 1)) == 0;
}

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
void link_show(const struct link *l, bool up)
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
	st_rlx(&e->far, l->dev->rnic->hardware);
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

bool link_thin_far(void)
{
	struct link *oldest = NULL;
	bool dying = false;

	lock_take(&engine.poll_lock);
	list_for_each(p, &links) {
		struct link *l = list_entry(p, struct link, node);

		if (!l->peer_family)
			continue;
		dying |= ld_rlx(&l->dying);
		if (!oldest && l->nfree == l->nslots)
			oldest = l;
	}
	lock_drop(&engine.poll_lock);
	if (dying || !oldest)
		return dying;
	log_info("link %u makes room: nothing is bound on it", oldest->id);
	link_kill(oldest);
	return true;
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
	if (!hello_sane(l, h))
		return -EPROTO;
	thin_idle(l);			/* it makes room for this one */
	l->peer_ring_bytes = far(l) ? MIN(h->ring_bytes, (uint64_t)LINK_RING_FIRST) : h->ring_bytes;
	l->peer_slots = (uint16_t)h->slots;
	memcpy(l->nonce_peer, h->nonce, LINK_NONCE);
	link_death_init(l, unix_fd);
	link_send_init(l);
	if (far(l))
		far_start(l);
	/* from here on it may be polled, and found broken */
	lock_take(&engine.poll_lock);
	int err = ops(l)->qp_connect(l->qp, p);
	if (!err) {
		l->peer = ops(l)->qp_peer_slab(l->qp, &l->peer_len, &l->peer_rkey,
					      &l->peer_base);
		err = far(l) ? far_up(l, h->part) : near_up(l);
	}
	if (!err) {
		st_rlx(&l->state, LINK_UP);
		list_push(&links, &l->node);
	}
	lock_drop(&engine.poll_lock);
	if (err)
		return err;
	count(CNT_links, 1);
	link_show(l, true);
	log_info("link %u up, peer pid %u", l->id, l->peer_pid);
	if (bg_watch(&l->unix_src, EPOLLIN | EPOLLRDHUP))
		link_kill(l);		/* its end would not be heard of */
	if (config.fault.kill_link && !killer.fn) {
		killer.fn = kill_one;
		kill_later();
	}
	return 0;
}

/* ----------------------------------------------------------- slots -- */

uint16_t link_slot_take(struct link *l, void *owner)
{
	uint16_t s = l->free_slot;

	if (!s || l->state != LINK_UP)
		return 0;
	if (far(l) ? !far_slot_take(l, s) :
	    ops(l)->slab_populate(&l->slab, link_ring_off(l->ring_bytes, s),
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

	return far(l) ? 0 : ops(l)->qp_peer_populate(l->qp, at + off, bytes);
}

void link_slot_grown(struct link *l, uint16_t slot)
{
	l->slots[slot].grown = true;
}

void link_slot_recycle(struct link *l, uint16_t s)
{
	struct link_slot *sl = &l->slots[s];

	if (!sl->used || !sl->done_here || !(sl->done_there || l->state == LINK_DEAD))
		return;
	if (far(l))
		far_slot_free(l, s);
	else if (unlikely(sl->grown))
		ops(l)->slab_trim(&l->slab, link_ring_off(l->ring_bytes, s) + LINK_RING_FIRST,
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
	link_slot_recycle(l, slot);
}

/* iWARP: who has accepted waits for the other's first message. */
static bool may_speak(const struct link *l)
{
	return !l->dev->rnic->cm_only || l->asker || l->ctl_rx;
}

/* With room, to that process of that user of this host, or of that address. */
static struct link *find(uint64_t instance, uint32_t uid, uint16_t family, const uint8_t addr[16])
{
	list_for_each(n, &links) {
		struct link *l = list_entry(n, struct link, node);

		if (l->peer_instance == instance && !l->dying && l->nfree && may_speak(l) &&
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

/* ---------------------------------------------------- all of them -- */

void link_kill_all(const struct engine_dev *dev)
{
	list_for_each(n, &links) {
		struct link *l = list_entry(n, struct link, node);

		if (!dev || l->dev == dev)
			link_kill(l);
	}
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
	link_recv_forget();
	far_forget();
}
