/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * show.c - see show.h
 *
 * An entry's fields have the writers that the conn's own fields have, so each
 * is stored by one thread at a time; the reader sorts out what he meets half
 * done by gen (base/page.h).
 */
#define _GNU_SOURCE
#include "sock/show.h"

#include <stddef.h>
#include <string.h>

#include "base/page.h"
#include "base/probe.h"
#include "sock/bind.h"
#include "sock/conn.h"

static const struct page_live live = {
	.tx_kernel = offsetof(struct conn, tx.kc),
	.tx_ring = offsetof(struct conn, tx.P),
	.rx_kernel = offsetof(struct conn, rx.pos),
	.rx_given = offsetof(struct conn, rx_given),
	.rx_base = offsetof(struct conn, rx_base),
	.bytes = sizeof(struct conn),
};

static struct page_conn *entry(const struct conn *c)
{
	return page_conn(c->id);
}

static uint32_t flags_of(const struct conn *c)
{
	return (ld_rlx(&c->established) ? SHOW_ESTABLISHED : 0) |
	       (ld_rlx(&c->active) ? SHOW_ACTIVE : 0) |
	       (ld_rlx(&c->closing) ? SHOW_CLOSING : 0) |
	       (c->inherited ? SHOW_INHERITED : 0);
}

static void show_tuple(struct page_conn *e, const struct meet_tuple *t)
{
	if (ld_rlx(&e->family))
		return;
	memcpy(e->laddr, t->laddr, sizeof(e->laddr));
	memcpy(e->raddr, t->raddr, sizeof(e->raddr));
	st_rlx(&e->lport, t->lport);
	st_rlx(&e->rport, t->rport);
	st_rel(&e->family, (uint8_t)t->family);
}

static void show_common(struct page_conn *e, const struct conn *c)
{
	uint32_t listening = ld_rlx(&e->flags) & SHOW_LISTENING;

	st_rlx(&e->fd, c->fd);
	st_rlx(&e->flags, flags_of(c) | listening);
	st_rlx(&e->link, c->link ? c->link->id : 0);
	st_rlx(&e->why, (uint8_t)ld_rlx(&c->why));
	if (c->tuple_known)
		show_tuple(e, &c->tuple);
}

static void count_up(uint32_t *most, uint32_t n)
{
	for (uint32_t old = ld_rlx(most); old < n; old = ld_rlx(most))
		if (cas_acqrel(most, old, n))
			return;
}

/* May entry i be touched, or can it be brought to that? */
static bool entry_ready(struct page *p, uint32_t i)
{
	uint32_t chunk = i / PAGE_CHUNK;

	if (i >= PAGE_CONNS)
		return false;
	if (likely(ld_rlx(&p->head.ready[chunk / 64]) >> chunk % 64 & 1))
		return true;
	if (page_populate(&p->conns[chunk * PAGE_CHUNK], PAGE_CHUNK * sizeof(p->conns[0])))
		return false;
	or_acqrel(&p->head.ready[chunk / 64], 1ull << chunk % 64);
	return true;
}

static void open_entry(struct page *p, struct conn *c)
{
	uint32_t i = c->id;

	if (!entry_ready(p, i)) {
		add_rlx(&p->head.conns_lost, 1);
		return;
	}
	struct page_conn *e = &p->conns[i];

	c->past = (struct conn_past){ 0 };	/* a child's own begins here */
	st_rlx(&e->at, (uintptr_t)c);
	st_rlx(&e->ring_tx, 0);
	st_rlx(&e->ring_rx, 0);
	st_rlx(&e->attaches, 0);
	st_rlx(&e->retreats, 0);
	st_rlx(&e->flags, 0);
	st_rlx(&e->tx_path, PATH_TCP);
	st_rlx(&e->rx_path, PATH_TCP);
	st_rlx(&e->last, REASON_NONE);
	st_rlx(&e->family, 0);
	show_common(e, c);
	st_rel(&e->gen, ld_rlx(&e->gen) | 1);	/* who finds it odd finds the rest */
	count_up(&p->head.conns, i + 1);
}

void show_new(struct conn *c)
{
	counters_get();		/* the first conn makes the page */
	struct page *p = ld_acq(&page_mine);	/* pairs with counters_attach() */
	if (p)
		open_entry(p, c);
}

void show_gone(struct conn *c)
{
	struct page_conn *e = entry(c);

	if (e && (ld_rlx(&e->gen) & 1))
		st_rel(&e->gen, ld_rlx(&e->gen) + 1);
}

void show_tx(struct conn *c)
{
	struct page_conn *e = entry(c);
	struct conn_past *p = &c->past;
	uint8_t now = conn_tx_on_ring(c) ? PATH_RING : PATH_TCP;

	if (now == p->tx_path)
		return;
	if (now == PATH_RING)
		p->attaches++;
	else
		p->ring_tx += c->tx.P;
	st_rlx(&p->tx_path, now);
	if (!e)
		return;
	st_rlx(&e->attaches, p->attaches);
	st_rlx(&e->ring_tx, p->ring_tx);
	st_rlx(&e->tx_path, now);
}

void show_rx(struct conn *c)
{
	struct page_conn *e = entry(c);
	struct conn_past *p = &c->past;
	uint8_t now = conn_rx_on_ring(c) ? PATH_RING : PATH_TCP;

	if (c->rx.state == PRX_ENDED)
		now = p->rx_path == PATH_TCP ? PATH_TCP : PATH_ENDED;
	if (p->rx_path != PATH_TCP && now == PATH_TCP)
		p->ring_rx += c->rx_given - c->rx_base;
	st_rlx(&p->rx_path, now);
	if (!e)
		return;
	st_rlx(&e->ring_rx, p->ring_rx);
	st_rlx(&e->rx_path, now);
}

void show_both(struct conn *c)
{
	struct page_conn *e = entry(c);

	if (e)
		show_common(e, c);
}

void show_why(struct conn *c)
{
	struct page_conn *e = entry(c);

	if (e)
		st_rlx(&e->why, (uint8_t)ld_rlx(&c->why));
}

void show_retreat(struct conn *c, enum reason why)
{
	struct page_conn *e = entry(c);

	probe_2(retreat, c->fd, reason_name(why));
	st_rlx(&c->past.last, (uint8_t)why);
	add_rlx(&c->past.retreats, 1);
	if (!e)
		return;
	st_rlx(&e->last, (uint8_t)why);
	add_rlx(&e->retreats, 1);
}

void show_listening(struct conn *c)
{
	struct page_conn *e = entry(c);

	if (e)
		or_acqrel(&e->flags, SHOW_LISTENING);	/* both locks held, as elsewhere */
}

/* The page has just been made; some conns are there already (a child's). */
static void show_page(struct page *p)
{
	p->head.live = live;
	p->head.off = !bind_enabled();
	conn_show_all(p, open_entry);
}

void show_start(void)
{
	page_made = show_page;
}
