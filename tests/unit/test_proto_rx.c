/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_proto_rx.c - the receiver of a direction: every state by every event,
 * the verdict's table, the slot's shared words
 *
 * Each cell says the state afterwards and exactly the actions to be taken.
 * The parser has its own file, test_proto_eat.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/util.h"
#include "sock/proto.h"
#include "sock/proto_shm.h"

#define LINK	7u
#define OTHER	8u
#define E	3
#define N0	100u
#define B0	0x41
#define WINDOW	64u
#define NONCE	0x1122334455667788ull

struct cell { uint8_t st; uint32_t act; };

/* ---------------------------------------------------------- receiver -- */

/* RAW with bytes to drop, and with resent bytes to come, are states of their own here */
enum rx_setup { R_RAW, R_DROP, R_LEFT, R_NOTED, R_READY, R_ON, R_ENDED, R_SETUPS };

static void rx_feed_record(struct prx *rx, const struct prec *r)
{
	uint8_t buf[PREC_SIZE];
	struct prx_seg seg;

	prec_encode(buf, r);
	assert_int_equal(prx_eat(rx, buf, PREC_SIZE, &seg), PREC_SIZE);
	assert_int_equal(seg.kind, PSEG_RECORD);
}

static void rx_turn_on(struct prx *rx)
{
	rx_feed_record(rx, &(struct prec){ .type = PREC_SWITCH, .mark = (uint8_t)~B0,
					   .e = rx->e, .nonce = NONCE });
	assert_int_equal(rx->state, PRX_ON);
}

static void rx_resume(struct prx *rx, uint64_t K, uint64_t P)
{
	rx_feed_record(rx, &(struct prec){ .type = PREC_RESUME, .e = rx->e,
					   .nonce = NONCE, .K = K, .P = P });
	assert_int_equal(rx->state, PRX_RAW);
}

/* epoch E, 10 bytes have arrived in the ring, 6 are consumed when ON was reached */
static struct prx rx_make_n(enum rx_setup st, bool shared, uint64_t N)
{
	struct prx rx;

	prx_init(&rx, N0);
	prx_bind(&rx, LINK, shared, NONCE, WINDOW);
	if (st == R_RAW)
		return rx;
	prx_on_switch(&rx, LINK, E, N, B0, true, true);
	prx_on_data(&rx, LINK, 10);
	if (st == R_NOTED || st == R_READY)
		return rx;
	rx_turn_on(&rx);
	prx_consumed(&rx, 6);
	if (st == R_DROP)
		rx_resume(&rx, 4, 10);
	if (st == R_LEFT)
		rx_resume(&rx, 6, 10);
	if (st == R_ENDED) {
		prx_on_kfin(&rx);
		prx_link_dead(&rx, LINK);
		prx_verdict(&rx, NULL, false);
	}
	return rx;
}

static struct prx rx_make(enum rx_setup st, bool shared)
{
	return rx_make_n(st, shared, st == R_NOTED ? N0 + 5 : N0);
}

#define RX_EVENTS(X) \
	X(SWITCH_AT, prx_on_switch(rx, LINK, E + 1, rx->pos, B0, true, true)) \
	X(SWITCH_AT_ASLEEP, prx_on_switch(rx, LINK, E + 1, rx->pos, B0, true, false)) \
	X(SWITCH_AHEAD, prx_on_switch(rx, LINK, E + 1, rx->pos + 9, B0, true, true)) \
	X(SWITCH_BEHIND, prx_on_switch(rx, LINK, E + 1, rx->pos - 1, B0, true, true)) \
	X(SWITCH_NO_EVIDENCE, prx_on_switch(rx, LINK, E + 1, rx->pos, B0, false, true)) \
	X(SWITCH_UNBOUND, prx_on_switch(rx, OTHER, E + 1, rx->pos, B0, true, true)) \
	X(SWITCH_AGAIN, prx_on_switch(rx, LINK, rx->sw_e, rx->pos, B0, true, true)) \
	X(DATA, prx_on_data(rx, LINK, 1)) \
	X(DATA_LINK, prx_on_data(rx, OTHER, 1)) \
	X(DATA_MUCH, prx_on_data(rx, LINK, WINDOW + 1)) \
	X(FIN, prx_on_fin(rx, LINK, E, 10)) \
	X(FIN_OLD, prx_on_fin(rx, LINK, E - 1, 10)) \
	X(FIN_WRONG, prx_on_fin(rx, LINK, E, 11)) \
	X(UNBIND, prx_on_unbind(rx, LINK, E)) \
	X(QUIET, prx_on_quiet(rx, LINK, E, rx->pos)) \
	X(LINK_DEAD, prx_link_dead(rx, LINK)) \
	X(OTHER_DEAD, prx_link_dead(rx, OTHER)) \
	X(ANSWER, prx_answer(rx, true)) \
	X(PEEK_B0, prx_peek(rx, B0)) \
	X(PEEK_REC, prx_peek(rx, (uint8_t)~B0)) \
	X(PEEK_ELSE, prx_peek(rx, B0 + 1)) \
	X(CONSUMED, prx_consumed(rx, 1)) \
	X(CONSUMED_MUCH, prx_consumed(rx, 11)) \
	X(SLEEP, prx_before_sleep(rx)) \
	X(WANT, prx_want(rx)) \
	X(CLOSE, prx_close(rx))

enum rx_event {
#define X(sym, call) RX_##sym,
	RX_EVENTS(X)
#undef X
	RX_EVENT_COUNT
};

static uint32_t rx_fire(struct prx *rx, enum rx_event ev)
{
	switch (ev) {
#define X(sym, call) case RX_##sym: return call;
	RX_EVENTS(X)
#undef X
	default: return 0;
	}
}

static const char *rx_event_name(enum rx_event ev)
{
	static const char *const names[] = {
#define X(sym, call) #sym,
		RX_EVENTS(X)
#undef X
	};

	return names[ev];
}

#define ILL	PA_ILLEGAL
#define BRK	PA_BREAK_LINK
#define RAW	PRX_RAW
#define NTD	PRX_NOTED
#define RDY	PRX_READY
#define ON	PRX_ON
#define END	PRX_ENDED
#define REF	PA_SEND_REFUSED
#define SWD	PA_SEND_SWITCHED
#define LEA	(PA_SEND_RELEASED | PA_WAKE)
#define CRD	PA_SEND_CREDIT
#define WAK	PA_WAKE
#define FGT	(PA_SEND_REFUSED | PA_WAKE)
#define SAME(a)	{ {RAW, a}, {RAW, a}, {RAW, a}, {NTD, a}, {RDY, a}, {ON, a}, {END, a} }

static const struct cell rx_cells[RX_EVENT_COUNT][R_SETUPS] = {
	/*                      RAW         DROP        LEFT        NOTED       READY       ON          ENDED */
	[RX_SWITCH_AT]       = { {RDY, SWD}, {RAW, REF}, {RDY, SWD}, {NTD, REF}, {RDY, REF}, {ON, REF},  {END, REF} },
	[RX_SWITCH_AT_ASLEEP] = { {RAW, FGT}, {RAW, REF}, {RAW, FGT}, {NTD, REF}, {RDY, REF}, {ON, REF}, {END, REF} },
	[RX_SWITCH_AHEAD]    = { {NTD, 0},   {RAW, REF}, {NTD, 0},   {NTD, REF}, {RDY, REF}, {ON, REF},  {END, REF} },
	[RX_SWITCH_BEHIND]   = SAME(REF),
	[RX_SWITCH_NO_EVIDENCE] = SAME(REF),
	[RX_SWITCH_UNBOUND]  = SAME(REF),
	[RX_SWITCH_AGAIN]    = { {RAW, BRK}, {RAW, BRK}, {RAW, BRK}, {NTD, BRK}, {RDY, BRK}, {ON, BRK},  {END, REF} },
	[RX_DATA]            = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {NTD, 0},   {RDY, 0},   {ON, WAK},  {END, 0} },
	[RX_DATA_LINK]       = SAME(0),
	[RX_DATA_MUCH]       = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {NTD, BRK}, {RDY, BRK}, {ON, BRK},  {END, 0} },
	[RX_FIN]             = SAME(0),
	[RX_FIN_OLD]         = SAME(0),
	[RX_FIN_WRONG]       = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {NTD, BRK}, {RDY, BRK}, {ON, BRK},  {END, 0} },
	[RX_UNBIND]          = SAME(0),
	[RX_QUIET]           = SAME(BRK),
	[RX_LINK_DEAD]       = { {RAW, 0},   {RAW, WAK}, {RAW, WAK}, {RAW, WAK}, {RDY, WAK}, {ON, WAK},  {END, 0} },
	[RX_OTHER_DEAD]      = SAME(0),
	[RX_ANSWER]          = SAME(ILL),
	[RX_PEEK_B0]         = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {NTD, 0},   {RAW, LEA}, {ON, 0},    {END, 0} },
	[RX_PEEK_REC]        = SAME(0),
	[RX_PEEK_ELSE]       = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {NTD, 0},   {RAW, LEA | BRK}, {ON, 0}, {END, 0} },
	[RX_CONSUMED]        = { {RAW, ILL}, {RAW, ILL}, {RAW, ILL}, {NTD, ILL}, {RDY, ILL}, {ON, 0},    {END, 0} },
	[RX_CONSUMED_MUCH]   = SAME(ILL),
	[RX_SLEEP]           = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {NTD, 0},   {RDY, 0},   {ON, CRD},  {END, 0} },
	[RX_WANT]            = { {RAW, 0},   {RAW, 0},   {RAW, 0},   {RAW, FGT},
				 {RDY, PA_ASK_TX | PA_SEND_PLEASE}, {ON, PA_ASK_TX | PA_SEND_PLEASE}, {END, 0} },
	[RX_CLOSE]           = { {RAW, 0},   {RAW, PA_SEND_CLOSING}, {RAW, PA_SEND_CLOSING}, {RAW, FGT},
				 {RDY, PA_SEND_CLOSING}, {ON, PA_SEND_CLOSING}, {END, 0} },
};

static void test_rx_every_state_every_event(void **state)
{
	for (int ev = 0; ev < RX_EVENT_COUNT; ev++)
		for (int st = 0; st < R_SETUPS; st++) {
			struct prx rx = rx_make(st, true);
			uint32_t act = rx_fire(&rx, ev);
			struct cell want = rx_cells[ev][st];

			if (act != want.act || rx.state != want.st)
				fail_msg("event %s in setup %d: state %d actions 0x%x, expected %d 0x%x",
					 rx_event_name(ev), st, rx.state, act, want.st, want.act);
		}
}

static const uint32_t rx_link_actions = PA_SEND_SWITCHED | PA_SEND_CREDIT | PA_SEND_PLEASE |
	PA_SEND_RELEASED | PA_SEND_CLOSING;

static void test_rx_says_nothing_on_a_dead_link(void **state)
{
	for (int ev = 0; ev < RX_EVENT_COUNT; ev++)
		for (int st = 0; st < R_SETUPS; st++) {
			struct prx rx = rx_make(st, true);

			prx_link_dead(&rx, LINK);
			assert_int_equal(rx_fire(&rx, ev) & rx_link_actions, 0);
		}
}

static void test_rx_want_is_sticky(void **state)
{
	struct prx rx = rx_make(R_RAW, true);

	prx_want(&rx);
	assert_int_equal(prx_on_switch(&rx, LINK, 1, N0, B0, true, true), REF);
	assert_int_equal(rx.refused, 1);
	prx_unwant(&rx);
	assert_int_equal(prx_on_switch(&rx, LINK, 2, N0, B0, true, true), SWD);
}

static void test_rx_want_takes_no_data(void **state)
{
	struct prx rx = rx_make(R_ON, true);
	uint64_t from;

	assert_int_equal(prx_avail(&rx, &from), 4);
	prx_want(&rx);
	assert_int_equal(prx_avail(&rx, &from), 0);
	assert_false(prx_is_raw(&rx, 1000));
	rx_resume(&rx, 6, 10);
	assert_false(prx_is_raw(&rx, 3));		/* resent bytes must have come */
	assert_true(prx_is_raw(&rx, 4));
}

static void test_rx_fin_ends_when_all_is_consumed(void **state)
{
	struct prx rx = rx_make(R_ON, true);

	assert_int_equal(prx_on_fin(&rx, LINK, E, 10), 0);
	assert_int_equal(prx_end(&rx), PRX_OPEN);
	assert_int_equal(prx_on_data(&rx, LINK, 1), BRK);	/* nothing after FIN */
	assert_int_equal(prx_consumed(&rx, 4), CRD | WAK);
	assert_int_equal(prx_end(&rx), PRX_EOF);
	prx_on_krst(&rx);
	assert_true(prx_verdict(&rx, NULL, true));
	assert_int_equal(prx_end(&rx), PRX_EOF);		/* an EOF given stays given */
}

static void test_rx_resume_forgets_fin(void **state)
{
	struct prx rx = rx_make(R_ON, true);

	prx_on_fin(&rx, LINK, E, 10);
	rx_resume(&rx, 6, 10);
	assert_int_equal(rx.finP, PROTO_NO_FIN);
	assert_int_equal(prx_end(&rx), PRX_OPEN);
}

static void test_rx_credit(void **state)
{
	struct prx rx = rx_make(R_ON, true);
	uint64_t w;

	prx_on_data(&rx, LINK, 40);
	assert_int_equal(prx_consumed(&rx, WINDOW / 4 - 6), CRD);
	w = prx_credit_take(&rx);
	assert_int_equal(credit_epoch(w), E);
	assert_int_equal(credit_count(w), WINDOW / 4);
	assert_int_equal(prx_consumed(&rx, 1), 0);
	assert_int_equal(prx_before_sleep(&rx), CRD);
	prx_credit_take(&rx);
	assert_int_equal(prx_before_sleep(&rx), 0);
}

static void test_rx_ring_is_free_after_unbind_only(void **state)
{
	struct prx rx = rx_make(R_RAW, true);

	assert_true(prx_ring_free(&rx, LINK));
	rx = rx_make(R_ON, true);
	prx_on_unbind(&rx, LINK, E);
	assert_false(prx_ring_free(&rx, LINK));		/* still in the epoch */
	rx = rx_make(R_LEFT, true);
	assert_false(prx_ring_free(&rx, LINK));
	prx_on_unbind(&rx, LINK, E - 1);
	assert_false(prx_ring_free(&rx, LINK));
	prx_on_unbind(&rx, LINK, E);
	assert_false(prx_ring_free(&rx, LINK));		/* a RST may take away what is left */
	rx.left = 0;
	assert_true(prx_ring_free(&rx, LINK));
}

/* the peer left the ring and closed; our RST took its RESUME away: we go on reading the ring */
static void test_rx_ring_is_kept_while_the_end_reads_from_it(void **state)
{
	struct prx rx = rx_make(R_ON, false);
	uint64_t from;

	prx_on_unbind(&rx, LINK, E);
	prx_on_krst(&rx);
	assert_true(prx_verdict(&rx, NULL, false));
	assert_int_equal(prx_avail(&rx, &from), 4);
	assert_false(prx_ring_free(&rx, LINK));
	prx_consumed(&rx, 4);
	assert_true(prx_ring_free(&rx, LINK));
}

static void test_rx_window_grows(void **state)
{
	struct prx rx = rx_make(R_ON, true);

	assert_int_equal(prx_on_data(&rx, LINK, 2 * WINDOW - 4), BRK);
	prx_window(&rx, 2 * WINDOW);
	assert_int_equal(prx_on_data(&rx, LINK, 2 * WINDOW - 4), WAK);
	prx_window(&rx, WINDOW);			/* never shrinks under an epoch */
	assert_int_equal(rx.window, 2 * WINDOW);
}

static void test_rx_answer_waits_for_nobody(void **state)
{
	struct prx rx = rx_make(R_NOTED, true);
	uint8_t cold[5] = { 1, 2, 3, 4, 5 };
	struct prx_seg seg;

	assert_int_equal(prx_eat(&rx, cold, 5, &seg), 5);
	assert_int_equal(seg.act, PA_ANSWER);
	assert_int_equal(prx_answer(&rx, false), FGT);
	assert_int_equal(rx.state, PRX_RAW);

	rx = rx_make(R_NOTED, true);
	prx_eat(&rx, cold, 5, &seg);
	assert_int_equal(prx_answer(&rx, true), SWD);
	assert_int_equal(rx.state, PRX_READY);
}

/* one cell of the verdict's table */
struct verdict {
	enum rx_setup st;
	bool shared, link_up, fin, rst, unread;
	uint8_t slot_state;
	uint64_t slot_P;
	bool judged;
	uint64_t from, n;
	enum prx_endkind end;
};

static const struct verdict verdicts[] = {
	/* verbs */
	{ R_RAW, .judged = true, .end = PRX_EOF },
	{ R_RAW, .rst = true, .judged = true, .end = PRX_CONNRESET },
	{ R_LEFT, .judged = true, .from = 0, .end = PRX_CONNRESET },
	{ R_NOTED, .judged = true, .end = PRX_CONNRESET },
	{ R_READY, .judged = true, .end = PRX_CONNRESET },
	{ R_ON, .link_up = true },
	{ R_ON, .judged = true, .from = 6, .n = 4, .end = PRX_CONNRESET },
	{ R_ON, .fin = true, .judged = true, .from = 6, .n = 4, .end = PRX_EOF },
	{ R_ON, .fin = true, .link_up = true, .judged = true, .from = 6, .n = 4, .end = PRX_EOF },
	{ R_ON, .fin = true, .unread = true, .judged = true, .from = 6, .n = 4, .end = PRX_CONNRESET },
	{ R_ON, .rst = true, .link_up = true, .judged = true, .from = 6, .n = 4, .end = PRX_CONNRESET },
	{ R_ON, .fin = true, .rst = true, .judged = true, .from = 6, .n = 4, .end = PRX_EOF },
	/* soft: FINISH from the slot, link and state make no difference */
	{ R_RAW, true, .slot_state = SLOT_RAW, .judged = true, .end = PRX_EOF },
	{ R_RAW, true, .slot_state = SLOT_SWITCHING, .slot_P = 9, .judged = true, .n = 9, .end = PRX_EOF },
	{ R_RAW, true, .slot_state = SLOT_PUMP, .slot_P = 9, .rst = true, .judged = true, .n = 9, .end = PRX_CONNRESET },
	{ R_READY, true, .slot_state = SLOT_ON, .slot_P = 12, .judged = true, .n = 12, .end = PRX_EOF },
	{ R_ON, true, .slot_state = SLOT_ON, .slot_P = 12, .judged = true, .from = 6, .n = 6, .end = PRX_EOF },
	{ R_ON, true, .slot_state = SLOT_PUMP, .slot_P = 6, .judged = true, .from = 6, .n = 0, .end = PRX_EOF },
	{ R_ON, true, .slot_state = SLOT_ON, .slot_P = 12, .unread = true, .judged = true, .from = 6, .n = 6, .end = PRX_CONNRESET },
	{ R_ON, true, .slot_state = SLOT_RAW, .slot_P = 12, .judged = true, .end = PRX_CONNRESET },
	{ R_DROP, true, .slot_state = SLOT_PUMP, .slot_P = 10, .judged = true, .from = 6, .n = 4, .end = PRX_EOF },
	{ R_LEFT, true, .slot_state = SLOT_BARRED, .slot_P = 10, .judged = true, .end = PRX_EOF },
	/* a slot that lies */
	{ R_ON, true, .slot_state = SLOT_ON, .slot_P = 6 + WINDOW + 1, .judged = true, .end = PRX_CONNRESET },
	{ R_NOTED, true, .slot_state = SLOT_ON, .slot_P = 9, .judged = true, .end = PRX_CONNRESET },
};

static void verdict_check(const struct verdict *v, size_t row)
{
	struct prx rx = rx_make(v->st, v->shared);
	struct pslot s = { .e = E, .state = v->slot_state, .N = v->st == R_NOTED ? N0 + 5 : N0, .P = v->slot_P };
	uint64_t from = 0, n;

	if (v->fin)
		prx_on_fin(&rx, LINK, E, 10);
	if (!v->link_up)
		prx_link_dead(&rx, LINK);
	if (v->st == R_NOTED)
		rx.state = PRX_NOTED;
	if (v->rst)
		prx_on_krst(&rx);
	else
		prx_on_kfin(&rx);
	if (prx_verdict(&rx, v->shared ? &s : NULL, v->unread) != v->judged)
		fail_msg("verdict row %zu: judged", row);
	if (!v->judged)
		return;
	n = prx_avail(&rx, &from);
	if (n != v->n || (n && from != v->from))
		fail_msg("verdict row %zu: range %lu+%lu", row, from, n);
	prx_consumed(&rx, n);
	if (prx_end(&rx) != v->end)
		fail_msg("verdict row %zu: end %d", row, prx_end(&rx));
	assert_true(prx_verdict(&rx, NULL, true));		/* once and for all */
	assert_int_equal(prx_end(&rx), v->end);
}

static void test_rx_verdict(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		verdict_check(&verdicts[i], i);
}

/* The resend was whole, but a RST has dropped what the kernel had still to send of it. */
static void test_rx_finish_after_a_reset_behind_the_resend(void **state)
{
	struct pslot s = { .e = E, .state = SLOT_RAW, .N = N0, .P = 12 };
	struct prx rx = rx_make(R_ON, true);
	uint64_t C = rx.C, from = 0;
	struct prx_seg seg;

	rx_resume(&rx, C, 12);
	assert_int_equal(rx.state, PRX_RAW);
	assert_int_equal(prx_eat(&rx, (const uint8_t *)"r", 1, &seg), 1);	/* and no more */
	prx_on_krst(&rx);
	assert_true(prx_verdict(&rx, &s, false));
	assert_int_equal(prx_avail(&rx, &from), 12 - C - 1);
	assert_int_equal(from, C + 1);
	prx_consumed(&rx, 12 - C - 1);
	assert_int_equal(prx_end(&rx), PRX_CONNRESET);
}

static void test_rx_finish_after_a_cut_resend(void **state)
{
	struct prx rx = rx_make(R_ON, true);
	struct pslot s = { .e = E, .state = SLOT_PUMP, .N = N0, .P = 12 };
	uint8_t raw[5] = { 4, 5, 6, 7, 8 };
	struct prx_seg seg;
	uint64_t from;

	rx_resume(&rx, 4, 12);
	assert_int_equal(prx_eat(&rx, raw, 5, &seg), 2);	/* C - K dropped */
	assert_int_equal(seg.kind, PSEG_DROP);
	assert_int_equal(seg.act, LEA);
	assert_int_equal(prx_eat(&rx, raw + 2, 3, &seg), 3);
	assert_int_equal(seg.kind, PSEG_APP);
	prx_on_kfin(&rx);
	prx_verdict(&rx, &s, false);
	assert_int_equal(prx_avail(&rx, &from), 3);
	assert_int_equal(from, 9);
}

/* LAST: which ends let go of the dup; the table's columns are the exits */
static void test_last(void **state)
{
	struct prx rx = rx_make(R_ON, true);
	struct ptx tx;

	ptx_init(&tx, N0);
	assert_false(prx_last(&rx, &tx, true, true));		/* not closed */
	prx_close(&rx);
	assert_false(prx_last(&rx, &tx, true, true));		/* own FIN not out */
	ptx_shutdown(&tx);
	assert_false(prx_last(&rx, &tx, false, false));
	assert_true(prx_last(&rx, &tx, true, false));
	assert_true(prx_last(&rx, &tx, false, true));
	prx_on_quiet(&rx, LINK, E, rx.pos + 3);
	assert_false(prx_last(&rx, &tx, false, false));		/* 3 bytes are on their way */
	rx.qcount = rx.pos;
	assert_true(prx_last(&rx, &tx, false, false));
	rx = rx_make(R_LEFT, true);
	prx_close(&rx);
	assert_false(prx_last(&rx, &tx, false, false));
	rx.left = 0;
	assert_true(prx_last(&rx, &tx, false, false));
	rx = rx_make(R_ON, true);
	prx_close(&rx);
	prx_on_kfin(&rx);
	assert_true(prx_last(&rx, &tx, false, false));
}

static void test_close_refuses_and_swallows(void **state)
{
	struct prx rx = rx_make(R_RAW, true);
	uint8_t raw[3] = { 1, 2, 3 };
	struct prx_seg seg;

	assert_int_equal(prx_close(&rx), 0);
	assert_int_equal(prx_close(&rx), 0);
	assert_int_equal(prx_on_switch(&rx, LINK, 1, N0, B0, true, true), REF);
	assert_int_equal(prx_eat(&rx, raw, 3, &seg), 3);
	assert_int_equal(seg.kind, PSEG_DROP);
}

/* ------------------------------------------------------ shared words -- */

static void test_slot_words(void **state)
{
	struct slot_shm s = { 0 };
	struct pslot v;

	assert_true(slot_attach(&s, PROTO_EPOCH_MAX, 77, 0xff, 18));
	assert_false(slot_bar(&s));
	slot_publish(&s, PROTO_COUNT_MAX, 18);
	v = slot_read(&s);
	assert_int_equal(v.e, PROTO_EPOCH_MAX);
	assert_int_equal(v.state, SLOT_SWITCHING);
	assert_int_equal(v.b0, 0xff);
	assert_int_equal(v.N, 77);
	assert_true(v.P == PROTO_COUNT_MAX);
	assert_int_equal(slot_p_window_log2(s.p), 18);
	slot_state_set(&s, SLOT_ON);
	assert_int_equal(slot_read(&s).state, SLOT_ON);
	assert_int_equal(slot_read(&s).e, PROTO_EPOCH_MAX);
	slot_state_set(&s, SLOT_RAW);
	assert_true(slot_bar(&s));
	assert_true(slot_bar(&s));
	assert_false(slot_attach(&s, 2, 77, 1, 18));
	slot_unbar(&s);
	assert_true(slot_attach(&s, 2, 78, 1, 18));
}

static void test_credit_word(void **state)
{
	uint64_t w = credit_pack(PROTO_EPOCH_MAX, PROTO_COUNT_MAX);

	assert_true(w == UINT64_MAX);
	assert_int_equal(credit_epoch(w), PROTO_EPOCH_MAX);
	assert_true(credit_count(w) == PROTO_COUNT_MAX);
	w = credit_pack(1, 0);
	assert_int_equal(credit_epoch(w), 1);
	assert_int_equal(credit_count(w), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rx_every_state_every_event),
		cmocka_unit_test(test_rx_says_nothing_on_a_dead_link),
		cmocka_unit_test(test_rx_want_is_sticky),
		cmocka_unit_test(test_rx_want_takes_no_data),
		cmocka_unit_test(test_rx_fin_ends_when_all_is_consumed),
		cmocka_unit_test(test_rx_resume_forgets_fin),
		cmocka_unit_test(test_rx_credit),
		cmocka_unit_test(test_rx_ring_is_free_after_unbind_only),
		cmocka_unit_test(test_rx_ring_is_kept_while_the_end_reads_from_it),
		cmocka_unit_test(test_rx_window_grows),
		cmocka_unit_test(test_rx_answer_waits_for_nobody),
		cmocka_unit_test(test_rx_verdict),
		cmocka_unit_test(test_rx_finish_after_a_cut_resend),
		cmocka_unit_test(test_rx_finish_after_a_reset_behind_the_resend),
		cmocka_unit_test(test_last),
		cmocka_unit_test(test_close_refuses_and_swallows),
		cmocka_unit_test(test_slot_words),
		cmocka_unit_test(test_credit_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
