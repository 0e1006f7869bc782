/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim_end.c - one end of the connection: actions, the link's handler, misfortunes
 *
 * Each function is one atomic step; it returns false when it has nothing to
 * do.  Locks are the steps themselves: the only thing that stretches over
 * several steps is a reader inside a kernel read with bytes in its hand.
 */
#include <string.h>
#include "sim.h"

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
