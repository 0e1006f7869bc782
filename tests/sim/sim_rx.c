/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim_rx.c - one end of the connection: its reader, the parser's caller, the verdict
 *
 * Each function is one atomic step; it returns false when it has nothing to
 * do.  Locks are the steps themselves: the only thing that stretches over
 * several steps is a reader inside a kernel read with bytes in its hand.
 */
#include <string.h>
#include "sim.h"

/* ------------------------------------------------------- the reader -- */

static void deliver(struct end *e, struct byte b)
{
	if (e->eof || e->rst)
		sim_fail("end %d: byte after the end", e->x);
	if (b.tag == TAG_RECORD)
		sim_fail("end %d: a record byte reached the application", e->x);
	else if (b.tag != (int)e->rcvd || b.v != sim_app_byte(!e->x, e->rcvd))
		sim_fail("end %d: byte %d where %u was due", e->x, b.tag, e->rcvd);
	e->rcvd++;
}

static bool want_read(const struct end *e)
{
	return !e->appclosed && !e->execing && !e->eof && !e->rst && !(e->frozen && !e->inside);
}

static void parse(struct end *e, const struct byte *b, size_t n)
{
	uint8_t raw[64];
	struct prx_seg seg;
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		raw[i] = b[i].v;
	while (at < n) {
		size_t have = e->rx.have;
		size_t k = prx_eat(&e->rx, raw + at, n - at, &seg);

		if (seg.kind == PSEG_PART || seg.p == e->rx.rec)
			memcpy(e->kept + have, b + at, k * sizeof(*b));
		if (seg.kind == PSEG_APP)
			for (size_t i = 0; i < seg.n; i++)
				deliver(e, seg.p == e->rx.rec ? e->kept[i] : b[at + i]);
		if (seg.kind == PSEG_RECORD)
			sim_note("end %d has met a record, state %d", e->x, e->rx.state);
		at += k;
		end_rx_actions(e, seg.act, e->rx.link);
		if (seg.act & PA_RETREAT_TX)
			end_tx_actions(e, ptx_on_request(&e->tx, seg.other), e->tx.link);
	}
}

/* what a kernel read of the application's thread returned */
static void parse_read(struct end *e, const struct byte *b, size_t n)
{
	if (!prx_plain(&e->rx) || sim_rnd(2)) {
		parse(e, b, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		deliver(e, b[i]);
	prx_took(&e->rx, n);
}

static bool read_ring(struct end *e)
{
	uint64_t from, n = prx_avail(&e->rx, &from);
	struct ring *r;

	if (!n)
		return false;
	n = 1 + sim_rnd(n);
	r = &w.link[e->rx.state == PRX_ENDED && e->fin_link >= 0 ? (unsigned int)e->fin_link : e->rx.link].ring[!e->x];
	if (r->freed)
		sim_fail("end %d reads a ring that it gave away", e->x);
	for (uint64_t i = 0; i < n; i++)
		deliver(e, r->mem[(from + i) % w.sc.window]);
	end_rx_actions(e, prx_consumed(&e->rx, n), e->rx.link);
	return true;
}

/* the slot of the highest epoch of this end's receive direction */
static bool best_slot(struct end *e, struct pslot *best)
{
	best->e = 0;
	e->fin_link = -1;
	for (unsigned int l = 0; w.sc.soft && l < w.sc.links; l++) {
		struct pslot s = slot_read(&w.link[l].ring[!e->x].shm);

		if (s.e > best->e) {
			*best = s;
			e->fin_link = l;
		}
	}
	return w.sc.soft;
}

static bool judge(struct end *e)
{
	bool soft, unread, died = peer(e)->crashed, krst = e->rx.krst;
	enum prx_state before = e->rx.state;
	struct pslot s;

	if (e->rx.state == PRX_ENDED || (!e->rx.kfin && !e->rx.krst))
		return false;
	soft = best_slot(e, &s);
	unread = ptx_unread(&e->tx, soft && credit_epoch(tx_ring(e)->shm.credit) == e->tx.e ?
			    credit_count(tx_ring(e)->shm.credit) : 0);
	if (!prx_verdict(&e->rx, soft ? &s : NULL, unread))
		return false;
	sim_note("end %d: verdict in state %d: %lu..%lu reset %d", e->x, before, e->rx.C, e->rx.Pb, e->rx.end_reset);
	if (died && unread && before == PRX_ON && !e->rx.eof && !e->rx.end_reset && !krst)
		sim_fail("end %d: the peer died with unread bytes of ours, but EOF", e->x);
	return true;
}

static bool told_end(struct end *e)
{
	switch (prx_end(&e->rx)) {
	case PRX_EOF:
		e->eof = true;
		if (e->rcvd != peer(e)->sent)
			sim_fail("end %d: EOF after %u of %u bytes", e->x, e->rcvd, peer(e)->sent);
		return true;
	case PRX_CONNRESET:
		e->rst = true;
		return true;
	default:
		return false;
	}
}

/* the kernel read itself: bytes are in hand, nobody has looked at them */
static bool read_inside(struct end *e)
{
	if (e->hand_n) {
		size_t n = e->hand_n;

		e->hand_n = 0;
		e->inside = false;
		parse_read(e, e->hand, n);
		return true;
	}
	if (kernel_queued(e)) {
		e->hand_n = kernel_take(e, e->hand, MIN(e->inside_max, sizeof(e->hand) / sizeof(e->hand[0])));
		return true;
	}
	if (kernel_at_fin(e) || kernel_at_rst(e)) {
		e->inside = false;
		return true;
	}
	return false;
}

static bool read_dumb(struct end *e)
{
	struct byte b;

	if (kernel_take(e, &b, 1)) {
		deliver(e, b);
		return true;
	}
	if (kernel_at_rst(e)) {
		e->rst = true;
		return true;
	}
	if (!kernel_at_fin(e))
		return false;
	e->eof = true;
	if (e->rcvd != peer(e)->sent)
		sim_fail("end %d (after exec): EOF after %u of %u bytes", e->x, e->rcvd, peer(e)->sent);
	return true;
}

static bool see_kernel_end(struct end *e)
{
	if (e->inside || e->rx.kfin || e->rx.krst)
		return false;
	if (kernel_at_fin(e))
		prx_on_kfin(&e->rx);
	else if (kernel_at_rst(e))
		prx_on_krst(&e->rx);
	else
		return false;
	return true;
}

bool end_read(struct end *e)
{
	uint32_t act;

	if (!alive(e) || e->exec_failed || !want_read(e))
		return false;
	if (e->dumb)
		return read_dumb(e);
	if (e->inside)
		return read_inside(e);
	if (read_ring(e) || told_end(e) || see_kernel_end(e) || judge(e))
		return true;
	act = prx_before_sleep(&e->rx);
	if (act) {
		end_rx_actions(e, act, e->rx.link);
		return true;
	}
	if (prx_no_kernel_read(&e->rx) || e->rx.state >= PRX_READY || e->rx.kfin || e->rx.krst)
		return false;
	e->inside = true;
	e->inside_max = MIN(prx_next_read(&e->rx), 1 + sim_rnd(40));
	return true;
}

/* records, bytes to be dropped, and after the close everything: taken at once */
bool end_background(struct end *e)
{
	struct byte b[PREC_SIZE];
	size_t n;

	if (!lib(e) || e->inside || !e->open)
		return false;
	if (e->appclosed && see_kernel_end(e))
		return true;
	if (!kernel_queued(e) || e->rx.state == PRX_NOTED || e->rx.state == PRX_ENDED ||
	    (e->rx.state == PRX_RAW && !e->rx.drop && !e->rx.closed))
		return false;
	if (e->rx.state == PRX_READY && !e->rx.have) {
		uint32_t act = prx_peek(&e->rx, w.k[!e->x].b[w.k[!e->x].rd].v);

		end_rx_actions(e, act, e->rx.link);
		if (act)
			return true;
	}
	n = MIN(prx_next_read(&e->rx), (uint64_t)ARRAY_SIZE(b));
	n = kernel_take(e, b, sim_rnd(3) ? n : 1 + sim_rnd(n));
	parse(e, b, n);
	return true;
}
