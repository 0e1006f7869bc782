/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * death.c - how a link ends: who says so, what is drained first, who frees it
 *
 * Order at the end of a link: the QP is moved to the error state, the CQ is
 * drained (what the peer had published is handed out, the flushed receives
 * follow), and only then user->dead() runs, all under poll_lock.  So a
 * message never arrives after the death.
 *
 * link_hold(), link_drop() and link_kill() are any thread's; the rest runs in
 * the background thread, with no lock held.
 */
#define _GNU_SOURCE
#include "link/link.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "link/far.h"
#include "link/inner.h"
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
	if (far(l) && sys_recvfrom(s->fd, &said, 1, MSG_DONTWAIT) == 1) {
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
	bool over = ld_acq(&l->dying) || now >= l->hup_until_ns || link_user_ended(l);
	lock_drop(&engine.poll_lock);
	if (over)
		link_kill(l);
	else
		bg_timer_set(t, now + HUP_MS * NS_PER_MS);
}

bool link_hung_up(struct link *l)
{
	struct pollfd p = { l->unix_src.fd, POLLRDHUP, 0 };
	struct timespec zero = { 0, 0 };

	if (ld_acq(&l->dying))		/* its socket may be gone */
		return true;
	if (sys_ppoll(&p, 1, &zero, NULL) <= 0)
		return false;
	bg_queue(&l->death);
	return true;
}

static void link_dead(struct link *l)
{
	bg_timer_stop(&l->flush_again);
	lock_take(&engine.poll_lock);
	st_rlx(&l->state, LINK_DEAD);
	list_del(&l->node);
	link_show(l, false);
	link_user_dead(l);
	for (uint16_t s = 1; s <= l->nslots; s++)
		link_slot_recycle(l, s);	/* closed here, and the peer's RESET comes no more */
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
	bool flushed = !far(l) || !l->recvs_out;
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
	if (far(l))
		sys_sendto(l->unix_src.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!l->guarded)
		unix_close(l);
	engine_poll_all();
	lock_take(&engine.poll_lock);
	lock_take(&engine.post_lock);
	ops(l)->qp_error(l->qp);
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

	bool up = l->state == LINK_UP && !l->draining;

	if (up && !ld_acq(&l->dying) && l->hup_until_ns)
		hup_timer(&l->hup);	/* somebody cannot wait */
	else if (up && ld_acq(&l->dying))
		link_die(l);
	else if (l->state == LINK_DEAD && ld_acq(&l->refs) == 0)
		bury(&l->flush_again);
}

void link_death_init(struct link *l, int unix_fd)
{
	l->death.fn = death_work;
	l->hup.fn = hup_timer;
	l->unix_src = (struct bg_src){ .fd = unix_fd, .fn = unix_event };
}
