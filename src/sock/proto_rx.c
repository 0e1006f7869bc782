/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto_rx.c - the receiver's half of a direction: link, wishes, verdict
 *
 *	      SWITCH         pos = N, SWITCHED       ~b0 ... record
 *	RAW ---------> NOTED ------------------> READY -------------> ON
 *	 ^ forget, byte > N |           b0 |               RESUME |
 *	 +------------------+--------------+----------------------+
 *	any --kernel FIN or RST, judged--> ENDED
 *
 * The parser of kernel bytes, which makes the transitions drawn on bytes, is
 * proto_eat.c.
 * Context: rx lock held by the caller; never blocks; signal safe.
 */
#define _GNU_SOURCE
#include <string.h>
#include "base/atomic.h"
#include "base/util.h"
#include "sock/proto.h"
#include "sock/proto_mut.h"
#include "sock/proto_rx.h"
#include "sock/proto_shm.h"

void prx_init(struct prx *rx, uint64_t pos)
{
	*rx = (struct prx){ .state = PRX_RAW, .pos = pos, .finP = PROTO_NO_FIN };
}

void prx_bind(struct prx *rx, uint32_t link, bool shared, uint64_t nonce, uint64_t window)
{
	rx->bind_link = link;
	st_rlx(&rx->bind_shared, shared);
	rx->bind_nonce = nonce;
	rx->bind_window = window;
	rx->bind_up = true;
}

void prx_window(struct prx *rx, uint64_t window)
{
	rx->bind_window = window;
	if (rx->link == rx->bind_link && window > rx->window)
		rx->window = window;
}

static bool rx_in_epoch(const struct prx *rx)
{
	return rx->state == PRX_NOTED || rx->state == PRX_READY || rx->state == PRX_ON;
}

/* SWITCHED is out and RESUME (or b0) has not come: A's direction must be asked for */
static bool rx_promised(const struct prx *rx)
{
	return rx->state == PRX_READY || rx->state == PRX_ON;
}

static uint32_t rx_refuse(struct prx *rx, uint16_t e)
{
	rx->refused = e;
	return PA_SEND_REFUSED;
}

/* forget a note; nothing was promised */
static uint32_t rx_forget(struct prx *rx)
{
	st_rlx(&rx->state, PRX_RAW);
	st_rlx(&rx->finP, PROTO_NO_FIN);
	return PA_WAKE | (rx->link_up ? rx_refuse(rx, rx->e) : 0);
}

/* -------------------------------------------------------- the link -- */

static bool rx_may_note(const struct prx *rx, uint64_t N)
{
	if ((rx->want && !MUT(REPEAT)) || (rx->closed && !MUT(REFCL)))
		return false;
	if (rx->kfin || rx->krst || rx->eof)
		return false;
	if (MUT(REFUSE))
		return true;
	return rx->state == PRX_RAW && !rx->drop && rx->pos <= N;
}

static void rx_note(struct prx *rx, uint32_t link, uint16_t e, uint64_t N, uint8_t b0)
{
	st_rlx(&rx->state, PRX_NOTED);
	rx->link = link;
	rx->link_up = rx->bind_up;
	rx->shared = rx->bind_shared;
	rx->nonce = rx->bind_nonce;
	rx->window = rx->bind_window;
	st_rlx(&rx->e, e);
	rx->N = N;
	rx->b0 = b0;
	st_rlx(&rx->C, 0);
	st_rlx(&rx->Pb, 0);
	rx->credited = 0;
	st_rlx(&rx->finP, PROTO_NO_FIN);
	rx->have = 0;
}

uint32_t prx_on_switch(struct prx *rx, uint32_t link, uint16_t e, uint64_t N, uint8_t b0,
		       bool evidence_ok, bool wake_ok)
{
	if (link != rx->bind_link || !rx->bind_up)
		return rx_refuse(rx, e);
	if (e <= rx->sw_e)
		return PA_BREAK_LINK;
	st_rlx(&rx->sw_e, e);
	st_rlx(&rx->unbound, false);
	if (!evidence_ok || !rx_may_note(rx, N))
		return rx_refuse(rx, e);
	rx_note(rx, link, e, N, b0);
	if (MUT(DELAY)) {
		st_rlx(&rx->state, PRX_READY);
		return PA_SEND_SWITCHED;
	}
	return rx->pos == N ? prx_answer(rx, wake_ok) : 0;
}

uint32_t prx_answer(struct prx *rx, bool wake_ok)
{
	if (rx->state != PRX_NOTED || rx->pos != rx->N)
		return PA_ILLEGAL;
	if (!wake_ok)
		return rx_forget(rx);
	st_rlx(&rx->state, PRX_READY);
	return PA_SEND_SWITCHED;
}

/* DATA belongs to the last SWITCH on its slot; one that was refused has none here */
static bool rx_data_is_ours(const struct prx *rx, uint32_t link)
{
	return rx_in_epoch(rx) && link == rx->link && rx->sw_e == rx->e;
}

uint32_t prx_on_data(struct prx *rx, uint32_t link, uint64_t n)
{
	if (!rx_data_is_ours(rx, link))
		return 0;
	if (n > rx->window - (rx->Pb - rx->C) || n > PROTO_COUNT_MAX - rx->Pb ||
	    rx->finP != PROTO_NO_FIN)
		return PA_BREAK_LINK;
	st_rlx(&rx->Pb, rx->Pb + n);
	return rx->state == PRX_ON ? PA_WAKE : 0;
}

/* all of the stream has been consumed: the end stays, whatever comes */
uint32_t rx_eof_check(struct prx *rx)
{
	if (rx->state != PRX_ON || rx->finP != rx->C || rx->eof)
		return 0;
	st_rlx(&rx->eof, true);
	return PA_WAKE | (rx->link_up && !rx->closed ? PA_SEND_CREDIT : 0);
}

uint32_t prx_on_fin(struct prx *rx, uint32_t link, uint16_t e, uint64_t P)
{
	if (!rx_in_epoch(rx) || link != rx->link || e != rx->e)
		return 0;
	if (P != rx->Pb || rx->finP != PROTO_NO_FIN)
		return PA_BREAK_LINK;
	st_rlx(&rx->finP, P);
	st_rlx(&rx->fin_seen, true);
	return rx_eof_check(rx);
}

uint32_t prx_on_unbind(struct prx *rx, uint32_t link, uint16_t e)
{
	if (link == rx->bind_link && e == rx->sw_e)
		st_rlx(&rx->unbound, true);
	return 0;
}

uint32_t prx_on_quiet(struct prx *rx, uint32_t link, uint16_t e, uint64_t count)
{
	if (!rx->closed || rx->quiet)
		return PA_BREAK_LINK;
	/* pos may be beyond count: the peer's program has written after QUIET */
	rx->quiet = true;
	rx->qcount = count;
	return PA_WAKE | prx_on_unbind(rx, link, e);
}

uint32_t prx_link_dead(struct prx *rx, uint32_t link)
{
	if (link == rx->bind_link)
		rx->bind_up = false;
	if (link != rx->link || !rx->link_up)
		return 0;
	rx->link_up = false;
	return rx->state == PRX_NOTED ? rx_forget(rx) : PA_WAKE;
}

bool prx_ring_free(const struct prx *rx, uint32_t link)
{
	if (rx->link == link && rx_in_epoch(rx))
		return false;
	if (rx->state == PRX_ENDED && rx->C != rx->Pb)
		return false;	/* a RST took RESUME away: the rest is read from the ring */
	if (rx->link == link && rx->left)
		return false;	/* ... or may yet take what follows it */
	return MUT(FREE) || !rx->sw_e || rx->unbound;
}

/* -------------------------------------------------- the application -- */

uint64_t prx_avail(const struct prx *rx, uint64_t *from)
{
	/* what is asked back comes with RESUME, but for a sender that has ended */
	bool may = (rx->state == PRX_ON && !rx->want) || rx->state == PRX_ENDED;

	if (!may || rx->closed)
		return 0;
	*from = rx->C;
	return rx->Pb - rx->C;
}

uint32_t prx_consumed(struct prx *rx, uint64_t n)
{
	uint64_t from;

	if (n > prx_avail(rx, &from))
		return PA_ILLEGAL;
	st_rlx(&rx->C, rx->C + n);
	if (rx->state != PRX_ON)
		return 0;
	if (rx->link_up && rx->C - rx->credited >= rx->window / 4)
		return PA_SEND_CREDIT | rx_eof_check(rx);
	return rx_eof_check(rx);
}

uint32_t prx_before_sleep(struct prx *rx)
{
	return rx->state == PRX_ON && rx->link_up && !rx->closed &&
	       rx->credited != rx->C ? PA_SEND_CREDIT : 0;
}

uint64_t prx_credit_take(struct prx *rx)
{
	rx->credited = rx->C;
	return credit_pack(rx->e, rx->C);
}

uint32_t prx_want(struct prx *rx)
{
	uint32_t act = 0;

	st_rlx(&rx->want, true);
	if (rx->state == PRX_NOTED)
		return rx_forget(rx);
	if (rx_promised(rx)) {
		act = PA_ASK_TX;
		if (rx->link_up)
			act |= PA_SEND_PLEASE;
	}
	return act;
}

uint32_t prx_decline(struct prx *rx)
{
	return rx->state == PRX_NOTED ? rx_forget(rx) : 0;
}

void prx_unwant(struct prx *rx)
{
	st_rlx(&rx->want, false);
}

bool prx_is_raw(const struct prx *rx, uint64_t queued)
{
	if (rx->state != PRX_RAW || rx->drop || rx->have)
		return false;
	return MUT(BAR) || queued >= rx->left;
}

uint32_t prx_close(struct prx *rx)
{
	if (rx->closed)
		return 0;
	rx->closed = true;
	if (rx->state == PRX_NOTED)
		return rx_forget(rx);
	if (!rx_promised(rx) && !(rx->left && rx->state == PRX_RAW))
		return 0;
	return rx->link_up ? PA_SEND_CLOSING : 0;
}

bool prx_last(const struct prx *rx, const struct ptx *tx, bool fin_acked, bool late)
{
	if (!rx->closed || !tx->shut)
		return false;
	if (MUT(LAST) || rx->kfin || rx->krst || late)
		return true;
	if (rx->quiet && (rx->pos + rx->have >= rx->qcount || MUT(QUIET_EARLY)))
		return true;
	if (fin_acked && !MUT(ACKED) && !MUT(QUIET) && !MUT(REFCL))
		return true;
	return rx->state == PRX_RAW && (!rx->left || MUT(LEFT2));
}

/* --------------------------------------------------------- the end -- */

void prx_on_kfin(struct prx *rx)
{
	rx->kfin = true;
}

void prx_on_krst(struct prx *rx)
{
	st_rlx(&rx->krst, true);
}

bool prx_fin_known(const struct prx *rx)
{
	return rx->state == PRX_ON && rx->finP != PROTO_NO_FIN;
}

/*
 * The rest of the stream is ring bytes [from, to), then EOF or ECONNRESET: a
 * reset behind the peer's FIN is no end of what can be read.
 */
static bool rx_end(struct prx *rx, uint64_t from, uint64_t to, bool reset)
{
	reset &= !(rx->krst && prx_fin_known(rx) && rx->finP == to);
	st_rlx(&rx->state, PRX_ENDED);
	rx->have = 0;
	st_rlx(&rx->drop, 0);
	st_rlx(&rx->C, from);
	st_rlx(&rx->Pb, to);
	st_rlx(&rx->end_reset, reset);
	return true;
}

void prx_cut(struct prx *rx)
{
	st_rlx(&rx->krst, true);
	rx_end(rx, rx->C, rx->Pb, true);
}

void prx_moved(struct prx *rx)
{
	st_rlx(&rx->C, rx->Pb);
}

void prx_over(struct prx *rx, bool reset)
{
	rx_end(rx, 0, 0, reset);
}

/* j: stream bytes beyond the slot's N that the application has had; false: fewer than none */
static bool rx_had(const struct prx *rx, const struct pslot *s, uint64_t *j)
{
	if (s->e == rx->met) {
		*j = rx->state == PRX_ON ? rx->C : rx->C + rx->since;
		return true;
	}
	*j = rx->pos - s->N;
	return rx->pos >= s->N;
}

/* FINISH: what the dead sender has stored is final and is all there */
static bool rx_verdict_soft(struct prx *rx, const struct pslot *s, bool unread)
{
	uint64_t P = s->P, j, window = MAX(rx->window, rx->bind_window);

	if (MUT(SHARED) && rx->state != PRX_ON)
		return rx_end(rx, 0, 0, rx->krst);
	if (MUT(REREAD) && rx->state == PRX_ON)
		P = rx->Pb;
	/* all was in the kernel; but a RST may have taken the rest of it away there */
	if (s->e == 0 || s->state == SLOT_BARRED || (s->state == SLOT_RAW && !rx->krst))
		return rx_end(rx, 0, 0, rx->krst || rx->state == PRX_ON);
	if (s->state == SLOT_RAW && (s->e != rx->met || (!rx->left && rx->state != PRX_ON)))
		return rx_end(rx, 0, 0, true);
	if (!rx_had(rx, s, &j) || (j < P && P - j > window))
		return rx_end(rx, 0, 0, true);
	return rx_end(rx, MIN(j, P), P, rx->krst || (unread && !MUT(UNREAD)));
}

/* A's NIC may not have sent all: an end is clean only if nothing can be missing */
static bool rx_verdict_verbs(struct prx *rx, bool unread)
{
	if (rx->state == PRX_RAW)
		return rx_end(rx, 0, 0, rx->krst || (rx->left && !MUT(LEFT)));
	if (rx->state != PRX_ON)
		return rx_end(rx, 0, 0, !MUT(LINGER));
	if (MUT(VERDICT))
		return rx_end(rx, rx->C, rx->Pb, rx->krst);
	if (rx->finP != rx->Pb && rx->link_up && !rx->krst)
		return false;
	return rx_end(rx, rx->C, rx->Pb,
		      rx->krst || (unread && !MUT(UNREAD)) || rx->finP != rx->Pb);
}

bool prx_verdict(struct prx *rx, const struct pslot *slot, bool unread)
{
	if (rx->state == PRX_ENDED)
		return true;
	if (!rx->kfin && !rx->krst)
		return false;
	if (rx->eof || rx->closed)
		return rx_end(rx, 0, 0, rx->krst);
	if (slot)
		return rx_verdict_soft(rx, slot, unread);
	return rx_verdict_verbs(rx, unread);
}

enum prx_endkind prx_end(const struct prx *rx)
{
	if (rx->eof)
		return PRX_EOF;
	if (rx->state != PRX_ENDED || rx->C != rx->Pb)
		return PRX_OPEN;
	return rx->end_reset ? PRX_CONNRESET : PRX_EOF;
}
