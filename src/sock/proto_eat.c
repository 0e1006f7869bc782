/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto_eat.c - the one parser of kernel bytes of a direction
 *
 * Every byte that any kernel read of the direction returned goes through
 * prx_eat(), in order, under the rx lock, before the application sees it.
 *
 * A SWITCH record is wholly known beforehand ({~b0, e, nonce}), so it is
 * compared byte by byte: the first byte alone tells it from raw data (b0),
 * and a later mismatch, which no peer of ours causes, gives the bytes kept so
 * far back as raw ones without waiting for more.
 */
#define _GNU_SOURCE
#include <string.h>
#include "base/atomic.h"
#include "base/util.h"
#include "sock/proto.h"
#include "sock/proto_mut.h"
#include "sock/proto_rx.h"

static uint32_t rx_released(const struct prx *rx)
{
	return !rx->drop && rx->link_up ? PA_SEND_RELEASED : 0;
}

/* Out of the epoch: everything after this is raw. */
static uint32_t rx_leave(struct prx *rx)
{
	st_rlx(&rx->state, PRX_RAW);
	rx->have = 0;
	st_rlx(&rx->finP, PROTO_NO_FIN);
	return PA_WAKE | rx_released(rx);
}

/* bytes outside of any record */
static size_t eat_raw(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg)
{
	bool dropping = rx->drop > 0;
	size_t k = dropping ? MIN(n, rx->drop) : n;

	st_rlx(&rx->left, rx->left - MIN(rx->left, k));
	if (!dropping || !MUT(COUNT))
		st_rlx(&rx->pos, rx->pos + k);
	seg->p = p;
	seg->n = k;
	seg->kind = dropping || rx->closed || rx->eof ? PSEG_DROP : PSEG_APP;
	if (dropping) {
		st_rlx(&rx->drop, rx->drop - k);
		if (!rx->drop)
			seg->act |= rx_released(rx) | PA_WAKE;
	} else {
		rx->since += k;
	}
	return k;
}

/* up to N the bytes are raw; one beyond N proves that the sender has abandoned */
static size_t eat_noted(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg)
{
	size_t k;

	if (rx->pos >= rx->N) {
		seg->act |= rx_leave(rx);
		return eat_raw(rx, p, n, seg);
	}
	k = eat_raw(rx, p, MIN(n, rx->N - rx->pos), seg);
	if (rx->pos == rx->N && k == n && rx->state == PRX_NOTED)
		seg->act |= PA_ANSWER;
	return k;
}

static void rx_expect(const struct prx *rx, uint8_t buf[PREC_SIZE])
{
	struct prec r = {
		.type = PREC_SWITCH,
		.mark = (uint8_t)~rx->b0,
		.e = rx->e,
		.nonce = rx->nonce,
	};

	prec_encode(buf, &r);
}

static void rx_turn_on(struct prx *rx, struct prx_seg *seg)
{
	rx->have = 0;
	st_rlx(&rx->met, rx->e);
	rx->since = 0;
	st_rlx(&rx->state, PRX_ON);
	seg->kind = PSEG_RECORD;
	seg->act |= PA_WAKE | rx_eof_check(rx);
}

/* Not our record: kept bytes are raw, and neither b0 nor ~b0 is no peer of ours. */
static size_t eat_not_ours(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg)
{
	size_t have = rx->have;

	seg->act |= rx_leave(rx);
	if (have) {
		seg->act |= PA_BREAK_LINK;
		eat_raw(rx, rx->rec, have, seg);
		return 0;
	}
	if (p[0] != rx->b0)
		seg->act |= PA_BREAK_LINK;
	return eat_raw(rx, p, n, seg);
}

static size_t eat_ready(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg)
{
	uint8_t expect[PREC_SIZE];
	size_t k = 0;

	if (MUT(DELAY) && rx->pos < rx->N)
		return eat_noted(rx, p, n, seg);
	rx_expect(rx, expect);
	while (k < n && rx->have < PREC_SIZE) {
		if (p[k] != expect[rx->have])
			return k + eat_not_ours(rx, p + k, n - k, seg);
		rx->rec[rx->have++] = p[k++];
	}
	seg->kind = PSEG_PART;
	seg->n = k;
	if (rx->have < PREC_SIZE)
		return k;
	if (!MUT(COUNT))
		st_rlx(&rx->pos, rx->pos + PREC_SIZE);
	rx_turn_on(rx, seg);
	return k;
}

static bool rx_resume_fits(const struct prx *rx, const struct prec *r)
{
	return r->K <= rx->C && rx->C <= r->P && rx->Pb <= r->P &&
	       r->P - r->K <= rx->window;
}

/* The kernel carries nothing but records while ON: anything else is the end. */
static void rx_record(struct prx *rx, struct prx_seg *seg)
{
	struct prec r;

	if (prec_decode(&r, rx->rec) || r.e != rx->e || r.nonce != rx->nonce ||
	    r.type == PREC_SWITCH ||
	    (r.type == PREC_RESUME && !rx_resume_fits(rx, &r))) {
		st_rlx(&rx->state, PRX_ENDED);
		st_rlx(&rx->end_reset, true);
		st_rlx(&rx->Pb, rx->C);
		seg->act |= PA_RESET | PA_BREAK_LINK | PA_WAKE;
		return;
	}
	if (r.type == PREC_RESUME) {
		st_rlx(&rx->drop, rx->C - r.K);
		st_rlx(&rx->left, r.P - r.K);
		rx->since = 0;
		seg->act |= rx_leave(rx);
	}
	if (r.type == PREC_REQUEST || (r.flags & PREC_WANT_YOURS)) {
		seg->other = r.other;
		seg->act |= PA_RETREAT_TX;
	}
}

static size_t eat_on(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg)
{
	size_t k = MIN(n, (size_t)PREC_SIZE - rx->have);

	memcpy(rx->rec + rx->have, p, k);
	rx->have += k;
	seg->kind = PSEG_PART;
	seg->n = k;
	if (rx->have < PREC_SIZE)
		return k;
	rx->have = 0;
	if (!MUT(COUNT))
		st_rlx(&rx->pos, rx->pos + PREC_SIZE);
	seg->kind = PSEG_RECORD;
	rx_record(rx, seg);
	return k;
}

size_t prx_eat(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg)
{
	*seg = (struct prx_seg){ .kind = PSEG_DROP };
	if (!n)
		return 0;
	switch (rx->state) {
	case PRX_RAW: return eat_raw(rx, p, n, seg);
	case PRX_NOTED: return eat_noted(rx, p, n, seg);
	case PRX_READY: return eat_ready(rx, p, n, seg);
	case PRX_ON: return eat_on(rx, p, n, seg);
	default:
		st_rlx(&rx->pos, rx->pos + n);
		seg->n = n;
		return n;
	}
}

uint64_t prx_next_read(const struct prx *rx)
{
	switch (rx->state) {
	case PRX_READY:
	case PRX_ON: return PREC_SIZE - rx->have;
	case PRX_RAW: return rx->drop ? rx->drop : UINT64_MAX;
	default: return UINT64_MAX;
	}
}

uint32_t prx_peek(struct prx *rx, uint8_t byte)
{
	uint8_t expect[PREC_SIZE];

	if (rx->state != PRX_READY || rx->have)
		return 0;
	rx_expect(rx, expect);
	if (byte == expect[0])
		return 0;
	return rx_leave(rx) | (byte == rx->b0 ? 0 : PA_BREAK_LINK);
}
