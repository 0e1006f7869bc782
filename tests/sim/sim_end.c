/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim_end.c - one end of the connection: application, library, link handler
 *
 * Each function is one atomic step; it returns false when it has nothing to
 * do.  Locks are the steps themselves: the only thing that stretches over
 * several steps is a reader inside a kernel read with bytes in its hand.
 */
#include <string.h>
#include "sim.h"

static struct end *peer(const struct end *e)
{
	return &w.end[!e->x];
}

static bool alive(const struct end *e)
{
	return !e->crashed;
}

static bool lib(const struct end *e)	/* the library runs in this process */
{
	return alive(e) && !e->dumb && !e->exec_failed;
}

static struct ring *tx_ring(struct end *e)
{
	return &w.link[e->tx.link].ring[e->x];
}

/* ----------------------------------------------------------- actions -- */

static void check_honest(const struct end *e, uint32_t act)
{
	/* with a rule taken out, only what the applications see counts */
	if (!proto_mutant && (act & (PA_BREAK_LINK | PA_RESET | PA_ILLEGAL)))
		sim_fail("end %d: honest peers, but actions 0x%x", e->x, act);
}

static void tx_post(struct end *e, unsigned int l, uint8_t type, uint64_t a)
{
	link_post(l, e->x, (struct msg){ .type = type, .dir = e->x, .e = e->tx.e, .a = a, .b0 = e->tx.b0 });
}

static void rx_post(struct end *e, unsigned int l, uint8_t type, uint16_t ep, uint64_t a)
{
	link_post(l, e->x, (struct msg){ .type = type, .dir = !e->x, .e = ep, .a = a });
}

/* l: the link that an answer goes to */
void end_tx_actions(struct end *e, uint32_t act, unsigned int l)
{
	check_honest(e, act);
	if (act & PA_SLOT)
		slot_state_set(&tx_ring(e)->shm, ptx_slot_state(&e->tx));
	if (act & PA_SEND_SWITCH)
		tx_post(e, e->tx.link, WIRE_SWITCH, e->tx.N);
	if (act & PA_SEND_FIN)
		tx_post(e, e->tx.link, WIRE_FIN, e->tx.P);
	if (act & PA_SEND_UNBIND)
		tx_post(e, e->tx.link, WIRE_UNBIND, 0);
	if (act & PA_SEND_QUIET)
		tx_post(e, l, WIRE_QUIET, e->tx.kc);
	if (act & PA_SHUT_WR)
		kernel_shut_wr(e);
}

static void send_credit(struct end *e)
{
	struct ring *r = &w.link[e->rx.link].ring[!e->x];
	uint64_t word = prx_credit_take(&e->rx);

	if (w.link[e->rx.link].dead)
		return;
	if (r->tx_freed)
		sim_fail("end %d writes a credit into a recycled word", e->x);
	r->credit_word = word;
	if (w.sc.soft)
		st_rel(&r->shm.credit, word);
	rx_post(e, e->rx.link, WIRE_CREDIT, credit_epoch(word), credit_count(word));
}

void end_rx_actions(struct end *e, uint32_t act, unsigned int l)
{
	check_honest(e, act);
	if (act & PA_ANSWER)
		end_rx_actions(e, prx_answer(&e->rx, !w.sc.wake_strict || !e->inside), e->rx.link);
	if (act & PA_SEND_SWITCHED)
		rx_post(e, e->rx.link, WIRE_SWITCHED, e->rx.e, 0);
	if (act & PA_SEND_REFUSED)
		rx_post(e, l, WIRE_REFUSED, e->rx.refused, 0);
	if (act & PA_SEND_CREDIT)
		send_credit(e);
	if (act & PA_SEND_PLEASE)
		rx_post(e, e->rx.link, WIRE_PLEASE, e->rx.e, 0);
	if (act & PA_SEND_RELEASED)
		rx_post(e, e->rx.link, WIRE_RELEASED, e->rx.e, 0);
	if (act & PA_SEND_CLOSING)
		rx_post(e, e->rx.link, WIRE_CLOSING, e->rx.e, e->rx.C);
	if (act & PA_ASK_TX)
		end_tx_actions(e, ptx_request(&e->tx, e->rx.e), e->tx.link);
}

/* -------------------------------------------------- the application -- */

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

/* ------------------------------------------------------- the reader -- */

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
		parse(e, e->hand, n);
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
			end_tx_actions(e, ptx_shutdown(&e->tx), e->tx.link);
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

/* --------------------------------------------------------- the link -- */

static void land(struct end *e, unsigned int l, const struct msg *m)
{
	struct ring *r = &w.link[l].ring[m->dir];

	if (!w.sc.soft && !w.sc.early_land) {
		if (r->freed)
			sim_fail("an RDMA write lands in a ring that end %d gave away", e->x);
		for (unsigned int i = 0; i < m->n; i++)
			r->mem[(m->off + i) % w.sc.window] = m->d[i];
	}
	end_rx_actions(e, prx_on_data(&e->rx, l, m->n), l);
}

static void rx_msg(struct end *e, unsigned int l, const struct msg *m)
{
	struct prx *rx = &e->rx;

	switch (m->type) {
	case WIRE_TYPE_END:
		land(e, l, m);
		break;
	case WIRE_SWITCH:
		end_rx_actions(e, prx_on_switch(rx, l, m->e, m->a, m->b0, sim_rnd(16) != 0,
						!w.sc.wake_strict || !e->inside), l);
		break;
	case WIRE_FIN:
		end_rx_actions(e, prx_on_fin(rx, l, m->e, m->a), l);
		break;
	case WIRE_UNBIND:
		end_rx_actions(e, prx_on_unbind(rx, l, m->e), l);
		break;
	default:
		end_rx_actions(e, prx_on_quiet(rx, l, m->e, m->a), l);
	}
}

static void tx_msg(struct end *e, unsigned int l, const struct msg *m)
{
	struct ptx *tx = &e->tx;
	uint32_t act;

	switch (m->type) {
	case WIRE_SWITCHED: act = ptx_on_switched(tx, l, m->e); break;
	case WIRE_REFUSED: act = ptx_on_refused(tx, l, m->e); break;
	case WIRE_CREDIT: act = ptx_on_credit(tx, l, m->e, m->a); break;
	case WIRE_PLEASE: act = ptx_on_please(tx, l, m->e); break;
	case WIRE_RELEASED: act = ptx_on_released(tx, l, m->e); break;
	default: act = ptx_on_closing(tx, l, m->e, m->a);
	}
	end_tx_actions(e, act, l);
}

bool end_link(struct end *e)
{
	unsigned int l = sim_rnd(w.sc.links);

	if (!lib(e))
		return false;
	for (unsigned int i = 0; i < w.sc.links; i++, l = (l + 1) % w.sc.links) {
		struct queue *q = &w.link[l].q[!e->x];
		const struct msg *m;

		if (w.link[l].known[e->x] || q->head == q->tail)
			continue;
		m = &q->m[q->head++];
		sim_note("end %d gets message %d e %u a %lu on link %u", e->x, m->type, m->e, m->a, l);
		if (m->dir == e->x)
			tx_msg(e, l, m);
		else
			rx_msg(e, l, m);
		return true;
	}
	return false;
}

/* each end learns of a death alone; soft drains what was published before */
bool end_notice(struct end *e)
{
	if (!lib(e) || (MUT(NOTICE) && e->x == w.sc.blind))
		return false;
	for (unsigned int l = 0; l < w.sc.links; l++) {
		struct queue *q = &w.link[l].q[!e->x];

		if (!w.link[l].dead || w.link[l].known[e->x] || (w.sc.soft && q->head != q->tail))
			continue;
		sim_note("end %d notices the death of link %u", e->x, l);
		w.link[l].known[e->x] = true;
		end_rx_actions(e, prx_link_dead(&e->rx, l), l);
		end_tx_actions(e, ptx_link_dead(&e->tx, l), l);
		return true;
	}
	return false;
}

/* the credit word is read whenever the writer likes, not in order with messages */
bool end_credit_word(struct end *e)
{
	struct ring *r = tx_ring(e);
	uint64_t word = r->credit_word;

	if (!lib(e) || !word || w.link[e->tx.link].known[e->x])
		return false;
	r->credit_word = 0;
	end_tx_actions(e, ptx_on_credit(&e->tx, e->tx.link, credit_epoch(word), credit_count(word)), e->tx.link);
	return true;
}

/* --------------------------------------------------- misfortunes -- */

bool end_retreat(struct end *e)
{
	if (!lib(e) || !w.sc.vol || (e->tx.state != PTX_SWITCHING && e->tx.state != PTX_ON) || e->tx.shut)
		return false;
	w.sc.vol--;
	sim_note("end %d retreats", e->x);
	end_tx_actions(e, ptx_retreat(&e->tx), e->tx.link);
	return true;
}

bool end_crash(struct end *e)
{
	if (!alive(e) || !w.sc.crashes || !e->open)
		return false;
	w.sc.crashes--;
	sim_note("end %d is killed", e->x);
	e->crashed = true;
	for (unsigned int l = 0; l < LINKS; l++)
		link_kill(l);
	kernel_close(e, e->tx.linger && !e->dumb);
	return true;
}

bool end_freeze(struct end *e)
{
	if (!lib(e) || !w.sc.freezes || e->kind != HOLD || e->execing)
		return false;
	w.sc.freezes--;
	sim_note("end %d stops reading", e->x);
	e->frozen = true;
	return true;
}

/* a waiter that we cannot see: its direction must come back, the other one stays */
bool end_want(struct end *e)
{
	if (!lib(e) || !w.sc.wants || e->execing || e->appclosed || e->rx.state == PRX_ENDED)
		return false;
	w.sc.wants--;
	sim_note("end %d wants its direction raw", e->x);
	e->wanting = true;
	end_rx_actions(e, prx_want(&e->rx), e->rx.link);
	return true;
}

bool end_want_step(struct end *e)
{
	if (!lib(e) || !e->wanting || e->execing)
		return false;
	if (e->rx.state != PRX_ENDED && !e->rx.closed && !e->eof && !e->kerr &&
	    !prx_is_raw(&e->rx, kernel_queued(e)))
		return false;
	e->wanting = false;
	prx_unwant(&e->rx);
	return true;
}

bool end_exec(struct end *e)
{
	if (!lib(e) || !w.sc.execs || e->inside || e->execing || e->appclosed || e->wantfin ||
	    e->eof || e->rst || e->rx.kfin || e->rx.krst)
		return false;
	w.sc.execs--;
	sim_note("end %d wants to exec", e->x);
	e->execing = true;
	e->wanting = false;
	e->noattach = true;
	end_rx_actions(e, prx_want(&e->rx), e->rx.link);
	end_tx_actions(e, ptx_retreat(&e->tx), e->tx.link);
	return true;
}

/* soft: every slot of the direction must be barred, or A could still be on one */
static bool all_barred(struct end *e)
{
	for (unsigned int l = 0; w.sc.soft && !MUT(BAR) && l < w.sc.links; l++)
		if (!slot_bar(&w.link[l].ring[!e->x].shm))
			return false;
	return true;
}

static void exec_gives_up(struct end *e)
{
	sim_note("end %d: exec met the peer's death, reset", e->x);
	e->rst = true;
	e->exec_failed = true;
	e->execing = false;
	for (unsigned int l = 0; l < LINKS; l++)
		link_kill(l);
	kernel_close(e, false);
}

bool end_exec_step(struct end *e)
{
	bool over = kernel_at_fin(e) || kernel_at_rst(e);

	if (!lib(e) || !e->execing)
		return false;
	if (e->tx.state == PTX_RAW && !e->tx.rec_pend && prx_is_raw(&e->rx, kernel_queued(e)) && all_barred(e)) {
		sim_note("end %d execs", e->x);
		e->execing = false;
		e->dumb = true;
		for (unsigned int l = 0; l < LINKS; l++)
			link_kill(l);
		return true;
	}
	/* the peer has died: its direction will never be raw and whole */
	if (peer(e)->crashed && (e->kerr || (w.k[!e->x].fin_moved && (e->rx.state != PRX_RAW ? over : 
	    w.sc.soft ? !all_barred(e) : kernel_queued(e) < e->rx.left)))) {
		exec_gives_up(e);
		return true;
	}
	if (e->kerr || e->tx.state == PTX_QUIET) {
		exec_gives_up(e);
		return true;
	}
	return false;
}

/* a meeting on the next link; A knows that its present one is dead */
bool end_rebind(struct end *e)
{
	unsigned int l = w.bound[e->x] + 1;
	struct end *p = peer(e);

	if (!lib(e) || !lib(p) || l >= w.sc.links || !w.link[l - 1].known[e->x] || e->noattach || e->appclosed)
		return false;
	if (w.link[l].dead || ptx_bind(&e->tx, l, w.sc.soft, w.sc.nonce[e->x] + l, w.sc.window))
		return false;
	prx_bind(&p->rx, l, w.sc.soft, w.sc.nonce[e->x] + l, w.sc.window);
	w.bound[e->x] = l;
	return true;
}

/* after the last epoch that there will be, ring and credit word go to other conns */
bool end_recycle(struct end *e)
{
	struct ring *r = &w.link[e->rx.bind_link].ring[!e->x];
	struct ring *t = tx_ring(e);

	if (!lib(e))
		return false;
	if (!r->freed && e->rx.sw_e == w.sc.maxe && !w.link[e->rx.bind_link].known[e->x] &&
	    prx_ring_free(&e->rx, e->rx.bind_link)) {
		r->freed = true;
		for (unsigned int i = 0; i < WINDOW_MAX; i++)
			r->mem[i] = (struct byte){ 0xee, TAG_POISON };
		return true;
	}
	if (!t->tx_freed && e->tx.e == w.sc.maxe && ptx_ring_free(&e->tx)) {
		t->tx_freed = true;
		return true;
	}
	return false;
}
