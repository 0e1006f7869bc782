/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto_tx.c - the sender's half of a direction
 *
 *	          switch              SWITCHED             retreat
 *	RAW ---------------> SWITCHING --------> ON -----------------+
 *	 ^                       | abandon                           | RESUME
 *	 |  all out, UNBIND      v                                   v
 *	 +--------------------- PUMP <-------------------------------+
 *	any --CLOSING--> QUIET
 *
 * Retreat waits for nothing of the peer.  Before the SWITCH record has been
 * decided on it is an abandon: no record at all, ring bytes raw from 0 on.
 * Context: tx lock held by the caller; never blocks; signal safe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include "base/atomic.h"
#include "base/util.h"
#include "sock/proto.h"
#include "sock/proto_mut.h"

void ptx_init(struct ptx *tx, uint64_t kc)
{
	*tx = (struct ptx){ .state = PTX_RAW, .kc = kc };
}

int ptx_bind(struct ptx *tx, uint32_t link, bool shared, uint64_t nonce, uint64_t window)
{
	if (tx->state != PTX_RAW || tx->rec_pend)
		return -EBUSY;
	tx->link = link;
	st_rlx(&tx->shared, shared);
	tx->nonce = nonce;
	tx->window = window;
	tx->bound = true;
	tx->link_up = true;
	tx->rel = true;
	return 0;
}

void ptx_window(struct ptx *tx, uint64_t window)
{
	tx->window = MAX(window, tx->P - tx->K);
}

static bool tx_on_ring(const struct ptx *tx)
{
	return tx->state == PTX_SWITCHING || tx->state == PTX_ON;
}

uint64_t ptx_room(const struct ptx *tx)
{
	if (!tx_on_ring(tx) || tx->fin)
		return 0;
	return MIN(tx->window - (tx->P - tx->K), PROTO_COUNT_MAX - tx->P);
}

enum ptx_where ptx_where(const struct ptx *tx)
{
	if (tx->fin || tx->state == PTX_QUIET)
		return PTX_EPIPE;
	if (tx->state == PTX_RAW)
		return PTX_TO_KERNEL;
	return ptx_room(tx) ? PTX_TO_RING : PTX_WAIT;
}

void ptx_kernel_wrote(struct ptx *tx, uint64_t n)
{
	st_rlx(&tx->kc, tx->kc + n);
	if (n)
		tx->raw_after = true;
}

bool ptx_unread(const struct ptx *tx, uint64_t C)
{
	if (tx->closing)
		return tx->closeC < tx->P || tx->raw_after;
	return tx_on_ring(tx) && MAX(tx->K, C) < tx->P;
}

bool ptx_ring_free(const struct ptx *tx)
{
	return (tx->state == PTX_RAW || tx->state == PTX_QUIET) && tx->rel;
}

/* ------------------------------------------------- state transitions -- */

static uint32_t tx_slot(const struct ptx *tx)
{
	return tx->shared ? PA_SLOT : 0;
}

static uint32_t tx_linger_restore(struct ptx *tx)
{
	if (!tx->linger)
		return 0;
	tx->linger = false;
	return PA_RESTORE_LINGER;
}

static uint32_t tx_linger_arm(struct ptx *tx)
{
	if (MUT(LINGER) || tx->linger || (tx->shared && !MUT(OLD_LINGER)))
		return 0;
	tx->linger = true;
	return PA_ARM_LINGER;
}

static uint32_t tx_shut_wr(struct ptx *tx)
{
	if (!tx->fin || tx->shut)
		return 0;
	tx->shut = true;
	return PA_SHUT_WR;
}

/* PUMP is over when no record is pending and every kept byte is out. */
static uint32_t tx_pump_check(struct ptx *tx)
{
	uint32_t act;

	if (tx->state != PTX_PUMP || tx->rec_pend || tx->ps < tx->P)
		return 0;
	st_rlx(&tx->state, PTX_RAW);
	act = tx_slot(tx) | tx_linger_restore(tx) | PA_WAKE;
	if (tx->link_up)
		act |= PA_SEND_UNBIND;
	return act | tx_shut_wr(tx);
}

static uint32_t tx_pump_begin(struct ptx *tx, uint64_t from, bool ab)
{
	st_rlx(&tx->state, PTX_PUMP);
	tx->ps = from;
	tx->ab = ab;
	tx->fin_sent = false;
	return tx_slot(tx) | (tx->rec_pend ? PA_WRITE_RECORD : 0) | PA_PUMP |
	       tx_pump_check(tx);
}

static uint32_t tx_resume(struct ptx *tx)
{
	uint32_t act = MUT(OLD_LINGER) ? tx_linger_arm(tx) : 0;

	if (MUT(WHOLE) && tx->rec_done)
		tx->rec_pend = tx->rec_cur = tx->rec_done = 0;
	tx->rec_pend |= 1u << PREC_RESUME;
	return act | tx_pump_begin(tx, tx->K, false);
}

static uint32_t tx_retreat(struct ptx *tx)
{
	switch (tx->state) {
	case PTX_SWITCHING:
		if (MUT(ABANDON) && tx->link_up)
			return tx_resume(tx);
		return tx_pump_begin(tx, 0, true);
	case PTX_ON:
		return tx_resume(tx);
	default:
		return 0;
	}
}

/* an orderly end leaves the ring when the peer has consumed all of it */
static uint32_t tx_fin_check(struct ptx *tx)
{
	if (tx->state != PTX_ON || !tx->fin)
		return 0;
	if (MUT(HOLD) || (MUT(RSFIN) && tx->K == tx->P))
		return tx_shut_wr(tx);
	return tx->K == tx->P ? tx_retreat(tx) : 0;
}

/* --------------------------------------------------- the application -- */

bool ptx_may_switch(const struct ptx *tx)
{
	return tx->state == PTX_RAW && tx->bound && tx->link_up &&
	       (tx->rel || MUT(RELEASE) || MUT(EPOCH_RELEASE)) &&
	       tx->e < PROTO_EPOCH_MAX && !tx->fin;
}

uint32_t ptx_switch(struct ptx *tx, uint64_t N, uint8_t b0)
{
	if (!ptx_may_switch(tx) || N != tx->kc)
		return PA_ILLEGAL;
	st_rlx(&tx->e, tx->e + 1);
	tx->N = N;
	tx->b0 = b0;
	st_rlx(&tx->P, 0);
	tx->K = tx->ps = 0;
	tx->rel = false;
	tx->ab = false;
	tx->raw_after = false;
	st_rlx(&tx->state, PTX_SWITCHING);
	return tx_linger_arm(tx) | PA_SEND_SWITCH;
}

uint32_t ptx_put(struct ptx *tx, uint64_t n)
{
	if (n > ptx_room(tx))
		return PA_ILLEGAL;
	st_rlx(&tx->P, tx->P + n);
	/* the next byte would not fit 48 bits: a new epoch counts from 0 */
	return tx->P == PROTO_COUNT_MAX ? tx_retreat(tx) : 0;
}

uint32_t ptx_retreat(struct ptx *tx)
{
	return tx_retreat(tx);
}

uint32_t ptx_request(struct ptx *tx, uint16_t e)
{
	tx->ask = e;
	if (tx->state != PTX_ON)
		return 0;
	tx->rec_pend |= 1u << PREC_REQUEST;
	return PA_WRITE_RECORD;
}

uint32_t ptx_tell_end(struct ptx *tx)
{
	if (tx->fin || !tx_on_ring(tx) || !tx->link_up)
		return 0;
	tx->fin = tx->fin_sent = true;
	return PA_SEND_FIN;
}

uint32_t ptx_shutdown(struct ptx *tx)
{
	uint32_t act = 0;

	if (tx->fin)
		return tx_fin_check(tx);
	tx->fin = true;
	if (tx->state == PTX_RAW || tx->state == PTX_QUIET)
		return tx_shut_wr(tx);
	if (tx_on_ring(tx)) {
		tx->fin_sent = true;
		if (tx->link_up)
			act = PA_SEND_FIN;
	}
	return act | tx_fin_check(tx);
}

/* ------------------------------------------------------- the link -- */

static bool tx_current(const struct ptx *tx, uint32_t link, uint16_t e)
{
	return tx->bound && link == tx->link && tx->e &&
	       (e == tx->e || MUT(EPOCH_RELEASE) || MUT(EPOCH));
}

uint32_t ptx_on_switched(struct ptx *tx, uint32_t link, uint16_t e)
{
	if (!tx_current(tx, link, e))
		return 0;
	if (tx->state == PTX_ON)
		return PA_BREAK_LINK;
	if (tx->state != PTX_SWITCHING)
		return 0;
	st_rlx(&tx->state, PTX_ON);
	tx->rec_pend |= 1u << PREC_SWITCH;
	if (tx->ask)
		tx->rec_pend |= 1u << PREC_REQUEST;
	return tx_slot(tx) | PA_WRITE_RECORD | tx_fin_check(tx);
}

uint32_t ptx_on_refused(struct ptx *tx, uint32_t link, uint16_t e)
{
	if (!tx_current(tx, link, e))
		return 0;
	if (tx->state == PTX_ON)
		return PA_BREAK_LINK;
	tx->rel = true;
	return tx_retreat(tx);
}

uint32_t ptx_on_credit(struct ptx *tx, uint32_t link, uint16_t e, uint64_t C)
{
	if (!tx_current(tx, link, e))
		return 0;
	if (C > tx->P && !MUT(EPOCH_RELEASE) && !MUT(EPOCH))
		return PA_BREAK_LINK;
	if (MUT(LATCH) && tx->state == PTX_PUMP && !tx->ab && tx->ps == tx->K && C > tx->K)
		tx->ps = tx->K = C;
	if (tx->state != PTX_ON || C <= tx->K)
		return 0;
	tx->K = MIN(C, tx->P);
	return PA_WAKE | tx_fin_check(tx);
}

uint32_t ptx_on_please(struct ptx *tx, uint32_t link, uint16_t e)
{
	return tx_current(tx, link, e) ? tx_retreat(tx) : 0;
}

uint32_t ptx_on_released(struct ptx *tx, uint32_t link, uint16_t e)
{
	if (!tx_current(tx, link, e))
		return 0;
	/* the peer leaves an epoch only on kernel bytes that we send in PUMP */
	if (tx_on_ring(tx) && !MUT(EPOCH_RELEASE) && !MUT(EPOCH))
		return PA_BREAK_LINK;
	tx->rel = true;
	return 0;
}

uint32_t ptx_on_request(struct ptx *tx, uint16_t e)
{
	return e == tx->e ? tx_retreat(tx) : 0;
}

uint32_t ptx_on_closing(struct ptx *tx, uint32_t link, uint16_t e, uint64_t C)
{
	uint32_t act;

	if (tx->closing || MUT(QUIET))
		return 0;
	tx->closing = true;
	tx->closeC = e == tx->e ? C : tx->P;
	if (link == tx->link)
		tx->rel = true;	/* CLOSING is behind all of the peer's credit writes */
	act = PA_SEND_QUIET | PA_WAKE | tx_linger_restore(tx);
	if (tx->state != PTX_RAW)
		act |= tx_slot(tx);
	if (MUT(QUIET_RESUME) && tx->state == PTX_ON)
		tx->ab = true;
	st_rlx(&tx->state, PTX_QUIET);
	if (!MUT(QUIET_RESUME))
		tx->rec_pend = tx->rec_cur = tx->rec_done = 0;
	return act | tx_shut_wr(tx);
}

uint32_t ptx_dead(struct ptx *tx)
{
	uint32_t act;

	if (tx->state == PTX_RAW || tx->state == PTX_QUIET)
		return 0;
	st_rlx(&tx->state, PTX_QUIET);
	tx->rec_pend = tx->rec_cur = tx->rec_done = 0;
	act = tx_slot(tx) | PA_WAKE | tx_linger_restore(tx);
	return act | tx_shut_wr(tx);
}

uint32_t ptx_link_dead(struct ptx *tx, uint32_t link)
{
	if (!tx->bound || link != tx->link || !tx->link_up)
		return 0;
	tx->link_up = false;
	if (MUT(QUIET_RESUME) && tx->state == PTX_QUIET && tx->ab && !tx->shut)
		return tx_resume(tx);
	return tx_retreat(tx);
}

/* ------------------------------------------------ kernel-side output -- */

static void tx_compose(struct ptx *tx)
{
	struct prec r = { .e = tx->e, .nonce = tx->nonce };

	r.type = __builtin_ctz(tx->rec_pend);
	if (r.type == PREC_SWITCH) {
		r.mark = (uint8_t)~tx->b0;
	} else if (r.type == PREC_REQUEST) {
		r.other = tx->ask;
	} else {
		r.K = tx->K;
		r.P = tx->P;
		r.other = tx->ask;
		r.flags = tx->ask ? PREC_WANT_YOURS : 0;
	}
	if (r.type != PREC_SWITCH)
		tx->ask = 0;
	prec_encode(tx->rec, &r);
	tx->rec_cur = r.type;
	tx->rec_done = 0;
}

const uint8_t *ptx_record(struct ptx *tx, size_t *len)
{
	if (!tx->rec_pend)
		return NULL;
	if (!tx->rec_cur)
		tx_compose(tx);
	*len = PREC_SIZE - tx->rec_done;
	return tx->rec + tx->rec_done;
}

uint32_t ptx_record_wrote(struct ptx *tx, size_t n)
{
	uint32_t act = 0;

	if (!tx->rec_cur || n > PREC_SIZE - tx->rec_done)
		return PA_ILLEGAL;
	tx->rec_done += n;
	if (tx->rec_to != tx->kc)
		tx->rec_from = tx->kc;
	st_rlx(&tx->kc, tx->kc + n);
	tx->rec_to = tx->kc;
	if (tx->rec_done < PREC_SIZE)
		return 0;
	if (tx->rec_cur == PREC_SWITCH)
		act = tx_linger_restore(tx);
	tx->rec_pend &= ~(1u << tx->rec_cur);
	tx->rec_cur = tx->rec_done = 0;
	return act | tx_pump_check(tx);
}

uint64_t ptx_pump(const struct ptx *tx, uint64_t *from)
{
	if (tx->state != PTX_PUMP || tx->rec_pend)
		return 0;
	*from = tx->ps;
	return tx->P - tx->ps;
}

uint32_t ptx_pumped(struct ptx *tx, uint64_t n)
{
	uint64_t from;

	if (n > ptx_pump(tx, &from))
		return PA_ILLEGAL;
	tx->ps += n;
	ptx_kernel_wrote(tx, n);
	return tx_pump_check(tx);
}
