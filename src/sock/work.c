/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * work.c - what the background thread does for a conn: jobs, its timer, and
 * news of its kernel socket
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/counters.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "sock/act.h"
#include "sock/back.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/heir.h"
#include "sock/io.h"
#include "sock/kin.h"

#define SHUT_LOOKS	8	/* 1 to 256 ms apart */
#define RX_END_MS	500	/* longer than a link whose other end dies takes to die */

void bind_timer_at(struct conn *c, uint64_t at_ns)
{
	bool pending = c->timer.node.next && !list_empty(&c->timer.node);

	if (pending && c->timer.at_ns <= at_ns)
		return;
	if (!pending)
		conn_get(c);
	st_rlx(&c->timer_armed, true);
	bg_timer_set(&c->timer, at_ns);
}

/* An own SHUT_RD waits for bytes that are on their way to the kernel. */
static bool shut_waits(const struct conn *c)
{
	return unlikely(ld_rlx(&c->rx_shut)) && !ld_rlx(&c->rx_shut_out) && ld_rlx(&c->rx.state) == PRX_RAW;
}

static uint64_t next_deadline(struct conn *c)
{
	uint64_t at = UINT64_MAX, since = ld_rlx(&c->tx_progress_ns);

	if (since)
		at = MIN(at, MAX(since, c->tx_looked_ns) + 101 * NS_PER_MS);
	if (conn_tx_on_ring(c) && ld_rlx(&c->tx_retreat_ns))
		at = MIN(at, ld_rlx(&c->tx_retreat_ns));
	if (ld_rlx(&c->rx_end_ns) && !ld_rlx(&c->rx_end_due))
		at = MIN(at, ld_rlx(&c->rx_end_ns) + RX_END_MS * NS_PER_MS);
	if (shut_waits(c))
		at = MIN(at, clock_ns() + (NS_PER_MS << c->rx_shut_looks));
	return at;
}

static void check_deadlines(struct conn *c, uint64_t now)
{
	lock_take(&c->txl);
	/* a record to nobody would earn a RST: its end will say what becomes of this */
	bool doubt = ld_rlx(&c->tx_doubt) && c->link && link_hung_up(c->link);
	if (c->tx_progress_ns && !doubt)
		tx_stalled(c, now);
	if (c->tx_retreat_ns && now >= c->tx_retreat_ns && !doubt) {
		st_rlx(&c->tx_retreat_ns, 0);
		tx_retreat(c, REASON_FAULT);
	}
	lock_drop(&c->txl);
	if (ld_rlx(&c->rx_end_ns) && now >= ld_rlx(&c->rx_end_ns) + RX_END_MS * NS_PER_MS) {
		lock_take(&c->rxl);
		rx_end_now(c);
		lock_drop(&c->rxl);
	}
	if (shut_waits(c)) {
		lock_take(&c->rxl);
		c->rx_shut_looks += c->rx_shut_looks < SHUT_LOOKS;
		if (!c->closing)
			rx_act(c, 0);
		lock_drop(&c->rxl);
	}
}

static void kernel_news(struct conn *c, int fd, uint32_t events)
{
	lock_take(&c->rxl);
	if (fd >= 0 && c->fd == fd) {
		if (!c->closing && c->rx_inside == 0) {
			rx_pull(c);
			conn_end_look(c);
		}
		lock_take(&c->txl);
		if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			tx_unstick(c);
		lock_drop(&c->txl);
	}
	lock_drop(&c->rxl);
	if (ld_rlx(&c->closing))
		end_step(c);
	kin_look(c);
	conn_take_both(c);
	conn_watch_update(c);
	conn_unlock_both(c);
}

static void conn_timer(struct bg_timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);
	uint64_t now = clock_ns(), at;

	if (ld_rlx(&c->closing)) {
		if (!end_step(c))
			bind_timer_at(c, now + c->close_wait_ns);
		conn_put(c);
		return;
	}
	st_rlx(&c->timer_armed, false);
	fence_full();	/* pairs with who sets a deadline and then looks at timer_armed */
	check_deadlines(c, now);
	if (c->watch_missed) {
		c->watch_missed = false;
		kernel_news(c, ld_rlx(&c->fd), EPOLLIN | EPOLLOUT | EPOLLERR);
	}
	if (ld_rlx(&c->meet) == MEET_QUEUED)
		conn_todo(c, JOB_MEET);
	bind_release_try(c);
	at = next_deadline(c);
	if (at != UINT64_MAX)
		bind_timer_at(c, MAX(at, now + NS_PER_MS));
	conn_put(c);
}

static void watch_event(struct bg_src *s, uint32_t events)
{
	struct conn *c = container_of(s, struct conn, watch);

	conn_get(c);
	/* who ends the watch may be at it: kernel_news() looks again, under rxl */
	kernel_news(c, ld_rlx(&s->fd), events);
	conn_put(c);
}

/*
 * What the parent accepted and left to us is as if accepted here, and can be
 * asked for; what it connected asks by itself.
 */
static void inherit(struct conn *c)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	conn_take_both(c);
	if (heir_take(c)) {
		if (!xchg_acqrel(&c->counted, true))	/* pairs with conn_count_final(), at exit */
			count(CNT_conns_total, 1);
		if (!c->active && sys_getpeername(c->fd, (struct sockaddr *)&peer, &len) == 0)
			bind_accepted(c, c, &peer);
	}
	conn_unlock_both(c);
}

static void conn_work(struct bg_work *w)
{
	struct conn *c = container_of(w, struct conn, work);
	uint32_t todo = xchg_acqrel(&c->todo, 0);

	if (todo & JOB_BACK)
		conn_ask_back(c, REASON_FORK);
	if (todo & JOB_HEIR)
		inherit(c);
	if (todo & JOB_LISTEN)
		bind_listen(c);
	if (todo & JOB_MEET)
		bind_meet(c);
	if (todo & JOB_GRANT)
		conn_grant(c);
	if (todo & JOB_RING)
		conn_far_rings(c);
	if (todo & JOB_CREDIT) {
		lock_take(&c->rxl);
		conn_far_credit_tick(c);
		lock_drop(&c->rxl);
	}
	if (todo & JOB_CLOSE)
		end_begin(c);
	if (todo & JOB_WATCH) {
		conn_take_both(c);
		conn_watch_update(c);
		conn_unlock_both(c);
	}
	if (todo & JOB_TIMER) {
		uint64_t at = next_deadline(c);

		if (at != UINT64_MAX)
			bind_timer_at(c, at);
	}
	kin_look(c);
	bind_release_try(c);
	conn_put(c);
}

void bind_conn_init(struct conn *c)
{
	c->work.fn = conn_work;
	c->watch.fn = watch_event;
	c->timer.fn = conn_timer;
}
