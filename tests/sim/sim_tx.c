/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim_tx.c - one end of the connection: its writer, and how it ends
 *
 * Each function is one atomic step; it returns false when it has nothing to
 * do.  Locks are the steps themselves: the only thing that stretches over
 * several steps is a reader inside a kernel read with bytes in its hand.
 */
#include <string.h>
#include "sim.h"

/* -------------------------------------------------- the application -- */

static bool may_write(const struct end *e)
{
	return alive(e) && !e->exec_failed && !e->appclosed && !e->wantfin && !e->epipe &&
	       !e->execing && e->sent < e->nbytes;
}

static struct byte app_byte(const struct end *e, unsigned int i)
{
	return (struct byte){ sim_app_byte(e->x, i), (int)i };
}

static void ring_put(struct end *e)
{
	struct ring *r = tx_ring(e);
	unsigned int n = 1 + sim_rnd(min3(ptx_room(&e->tx), e->nbytes - e->sent, 3));
	struct msg m = { .type = WIRE_TYPE_END, .dir = e->x, .e = e->tx.e, .n = n, .off = e->tx.P };
	bool lands = w.sc.soft || (w.sc.early_land && !w.link[e->tx.link].dead);

	for (unsigned int i = 0; i < n; i++) {
		struct byte b = app_byte(e, e->sent + i);
		uint64_t at = (e->tx.P + i) % w.sc.window;

		m.d[i] = b;
		r->tx[at] = b;
		if (lands) {
			if (r->freed)
				sim_fail("end %d stores into a ring that was given away", e->x);
			r->mem[at] = b;
		}
	}
	end_tx_actions(e, ptx_put(&e->tx, n), e->tx.link);
	e->sent += n;
	if (w.sc.soft)
		slot_publish(&r->shm, e->tx.P, 4);
	link_post(e->tx.link, e->x, m);
}

bool end_write(struct end *e)
{
	struct byte b[4];
	size_t n;

	if (!may_write(e))
		return false;
	if (e->kerr || (!e->dumb && ptx_where(&e->tx) == PTX_EPIPE)) {
		e->epipe = true;
		return true;
	}
	if (!e->dumb && ptx_where(&e->tx) == PTX_TO_RING) {
		ring_put(e);
		return true;
	}
	if (!e->dumb && ptx_where(&e->tx) != PTX_TO_KERNEL)
		return false;
	n = min3(kernel_room(e), e->nbytes - e->sent, 1 + sim_rnd(3));
	if (!n)
		return false;
	for (size_t i = 0; i < n; i++)
		b[i] = app_byte(e, e->sent + i);
	kernel_send(e, b, n);
	ptx_kernel_wrote(&e->tx, n);
	e->sent += n;
	return true;
}

bool end_attach(struct end *e)
{
	struct ring *r = tx_ring(e);
	uint8_t b0 = sim_app_byte(e->x, e->sent);

	if (!lib(e) || !may_write(e) || e->noattach || e->kerr || !ptx_may_switch(&e->tx) ||
	    e->tx.e >= w.sc.maxe)
		return false;
	if (w.sc.soft && !slot_attach(&r->shm, ptx_next_epoch(&e->tx), e->tx.kc, b0, 4))
		return false;
	if (r->freed)
		sim_fail("end %d attaches to a ring that was given away", e->x);
	e->base = e->sent;
	sim_note("end %d attaches, epoch %u link %u N %lu", e->x, e->tx.e + 1, e->tx.link, e->tx.kc);
	end_tx_actions(e, ptx_switch(&e->tx, e->tx.kc, b0), e->tx.link);
	ring_put(e);
	return true;
}

/* the sender's kernel output: records, then kept ring bytes */
bool end_records(struct end *e)
{
	struct byte b[PREC_SIZE];
	const uint8_t *p;
	size_t n;

	if (!lib(e))
		return false;
	p = ptx_record(&e->tx, &n);
	if (!p)
		return false;
	n = MIN(n, kernel_room(e));
	if (!n)
		return false;
	if (sim_rnd(4) == 0)
		n = 1 + sim_rnd(n);
	for (size_t i = 0; i < n; i++)
		b[i] = (struct byte){ p[i], TAG_RECORD };
	kernel_send(e, b, n);
	sim_note("end %d writes %zu bytes of record type %d", e->x, n, e->tx.rec_cur);
	end_tx_actions(e, ptx_record_wrote(&e->tx, n), e->tx.link);
	return true;
}

bool end_pump(struct end *e)
{
	uint64_t from, n;
	struct byte b[4];
	struct ring *r = tx_ring(e);

	if (!lib(e))
		return false;
	n = min3(ptx_pump(&e->tx, &from), kernel_room(e), 1 + sim_rnd(4));
	if (!n)
		return false;
	if (w.sc.soft && r->freed)
		sim_fail("end %d sends again out of a ring that was given away", e->x);
	for (uint64_t i = 0; i < n; i++) {
		b[i] = (w.sc.soft ? r->mem : r->tx)[(from + i) % w.sc.window];
		if (b[i].tag != (int)(e->base + from + i))
			sim_fail("end %d sends byte %d again for %lu", e->x, b[i].tag, e->base + from + i);
	}
	kernel_send(e, b, n);
	end_tx_actions(e, ptx_pumped(&e->tx, n), e->tx.link);
	return true;
}

/* ------------------------------------------------------------ ending -- */

static bool nothing_unread(const struct end *e)
{
	uint64_t from;

	if (e->inside && e->hand_n)
		return false;
	if (e->dumb)
		return !kernel_queued(e);
	return !prx_avail(&e->rx, &from) && (e->rx.drop || e->rx.state >= PRX_READY || !kernel_queued(e));
}

static void app_close(struct end *e)
{
	sim_note("end %d: the application closes", e->x);
	e->appclosed = true;
	e->early = !e->eof;
	if (e->dumb) {
		kernel_close(e, false);
		return;
	}
	e->inside = false;
	end_rx_actions(e, prx_close(&e->rx), e->rx.link);
	end_tx_actions(e, ptx_shutdown(&e->tx), e->tx.link);
}

/* SHUT_WR, or of a close no more than what has haste: app_close() comes later */
static void end_told(struct end *e)
{
	uint32_t acts = sim_rnd(2) ? ptx_tell_end(&e->tx) : 0;

	end_tx_actions(e, acts ? acts : ptx_shutdown(&e->tx), e->tx.link);
}

bool end_finish(struct end *e)
{
	bool written = e->sent == e->nbytes || e->epipe;

	if (!alive(e) || e->exec_failed || e->execing || e->appclosed || !written)
		return false;
	if (e->kind == PATIENT && !e->wantfin) {
		e->wantfin = true;
		if (e->dumb)
			kernel_shut_wr(e);
		else
			end_told(e);
		return true;
	}
	if ((e->kind == PATIENT && (e->eof || e->rst)) || (e->kind == EARLY && nothing_unread(e))) {
		app_close(e);
		return true;
	}
	return false;
}

/* the timer T of the protocol: the peer does not read, and we have more to say */
static bool no_progress(struct end *e)
{
	return peer(e)->frozen && (!ptx_room(&e->tx) || e->tx.fin);
}

/* a closed end: leave the ring in a hurry (exit), and let go of the socket */
bool end_last(struct end *e)
{
	if (!lib(e))
		return false;
	if ((e->tx.state == PTX_SWITCHING || e->tx.state == PTX_ON) && !e->tx.shut &&
	    ((w.sc.hasten && e->tx.fin) || no_progress(e))) {
		end_tx_actions(e, ptx_retreat(&e->tx), e->tx.link);
		return true;
	}
	if (e->appclosed && e->open && prx_last(&e->rx, &e->tx, kernel_fin_acked(e), false)) {
		kernel_close(e, false);
		return true;
	}
	return false;
}
