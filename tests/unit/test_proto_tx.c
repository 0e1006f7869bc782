/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_proto_tx.c - the sender of a direction: every state by every event
 *
 * Each cell says the state afterwards and exactly the actions to be taken.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/util.h"
#include "sock/proto.h"

#define LINK	7u
#define OTHER	8u
#define E	3
#define N0	100u
#define B0	0x41
#define WINDOW	64u
#define NONCE	0x1122334455667788ull

/* ------------------------------------------------------------ sender -- */

/* how the sender is set up before the event */
enum flavour { SOFT, VERBS, DEAD, FLAVOURS };	/* DEAD: soft, link known dead */

static struct ptx tx_make(enum ptx_state st, enum flavour fl)
{
	struct ptx tx;

	ptx_init(&tx, N0);
	tx.e = E - 1;
	assert_int_equal(ptx_bind(&tx, LINK, fl != VERBS, NONCE, WINDOW), 0);
	if (st == PTX_QUIET) {
		tx.e = E;
		ptx_on_closing(&tx, LINK, E, 0);
	} else if (st == PTX_RAW) {
		tx.e = E;
		tx.rel = false;
	} else {
		ptx_switch(&tx, N0, B0);
		ptx_put(&tx, 10);
	}
	if (st == PTX_ON || st == PTX_PUMP) {
		ptx_on_switched(&tx, LINK, E);
		ptx_record_wrote(&tx, (ptx_record(&tx, &(size_t){ 0 }), PREC_SIZE));
		ptx_on_credit(&tx, LINK, E, 4);
	}
	if (st == PTX_PUMP)
		ptx_retreat(&tx);
	if (fl == DEAD)
		tx.link_up = false;
	assert_int_equal(tx.state, st);
	return tx;
}

#define TX_EVENTS(X) \
	X(SWITCHED, ptx_on_switched(tx, LINK, E)) \
	X(SWITCHED_OLD, ptx_on_switched(tx, LINK, E - 1)) \
	X(SWITCHED_LINK, ptx_on_switched(tx, OTHER, E)) \
	X(REFUSED, ptx_on_refused(tx, LINK, E)) \
	X(REFUSED_OLD, ptx_on_refused(tx, LINK, E - 1)) \
	X(CREDIT, ptx_on_credit(tx, LINK, E, 6)) \
	X(CREDIT_ALL, ptx_on_credit(tx, LINK, E, tx->P)) \
	X(CREDIT_OLD, ptx_on_credit(tx, LINK, E - 1, 6)) \
	X(CREDIT_BACK, ptx_on_credit(tx, LINK, E, tx->K)) \
	X(CREDIT_MORE, ptx_on_credit(tx, LINK, E, tx->P + 1)) \
	X(PLEASE, ptx_on_please(tx, LINK, E)) \
	X(PLEASE_OLD, ptx_on_please(tx, LINK, E - 1)) \
	X(PLEASE_LINK, ptx_on_please(tx, OTHER, E)) \
	X(RELEASED, ptx_on_released(tx, LINK, E)) \
	X(RELEASED_OLD, ptx_on_released(tx, LINK, E - 1)) \
	X(CLOSING, ptx_on_closing(tx, LINK, E, 5)) \
	X(CLOSING_OLD, ptx_on_closing(tx, LINK, E - 1, 5)) \
	X(LINK_DEAD, ptx_link_dead(tx, LINK)) \
	X(OTHER_DEAD, ptx_link_dead(tx, OTHER)) \
	X(REQUEST, ptx_on_request(tx, E)) \
	X(REQUEST_OLD, ptx_on_request(tx, E - 1)) \
	X(RETREAT, ptx_retreat(tx)) \
	X(ASK, ptx_request(tx, 9)) \
	X(SHUTDOWN, ptx_shutdown(tx)) \
	X(PUT, ptx_put(tx, 1)) \
	X(PUT_MUCH, ptx_put(tx, WINDOW + 1)) \
	X(SWITCH, ptx_switch(tx, tx->kc, B0)) \
	X(SWITCH_N, ptx_switch(tx, tx->kc + 1, B0)) \
	X(RECORD_OUT, (ptx_record(tx, &(size_t){ 0 }), ptx_record_wrote(tx, PREC_SIZE))) \
	X(PUMPED, ptx_pumped(tx, 1))

enum tx_event {
#define X(sym, call) TX_##sym,
	TX_EVENTS(X)
#undef X
	TX_EVENT_COUNT
};

static uint32_t tx_fire(struct ptx *tx, enum tx_event ev)
{
	switch (ev) {
#define X(sym, call) case TX_##sym: return call;
	TX_EVENTS(X)
#undef X
	default: return 0;
	}
}

static const char *tx_event_name(enum tx_event ev)
{
	static const char *const names[] = {
#define X(sym, call) #sym,
		TX_EVENTS(X)
#undef X
	};

	return names[ev];
}

struct cell { uint8_t st; uint32_t act; };

#define RAW	PTX_RAW
#define SWG	PTX_SWITCHING
#define ON	PTX_ON
#define PMP	PTX_PUMP
#define QT	PTX_QUIET
#define ILL	PA_ILLEGAL
#define BRK	PA_BREAK_LINK
/* a retreat on soft: out of SWITCHING, out of ON */
#define ABA	(PA_SLOT | PA_PUMP)
#define RSM	(PA_SLOT | PA_WRITE_RECORD | PA_PUMP)
#define QUI	(PA_SEND_QUIET | PA_WAKE)
#define QUS	(QUI | PA_SLOT)

/* [event][state] on soft with a live link; PUMP is one with RESUME pending */
static const struct cell tx_soft[TX_EVENT_COUNT][PTX_STATES] = {
	/*                    RAW          SWITCHING    ON           PUMP         QUIET */
	[TX_SWITCHED]     = { {RAW, 0},    {ON, PA_SLOT | PA_WRITE_RECORD},
							{ON, BRK},   {PMP, 0},    {QT, 0} },
	[TX_SWITCHED_OLD] = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_SWITCHED_LINK] = { {RAW, 0},   {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_REFUSED]      = { {RAW, 0},    {PMP, ABA},  {ON, BRK},   {PMP, 0},    {QT, 0} },
	[TX_REFUSED_OLD]  = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_CREDIT]       = { {RAW, BRK},  {SWG, 0},    {ON, PA_WAKE}, {PMP, 0},  {QT, BRK} },
	[TX_CREDIT_ALL]   = { {RAW, 0},    {SWG, 0},    {ON, PA_WAKE}, {PMP, 0},  {QT, 0} },
	[TX_CREDIT_OLD]   = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_CREDIT_BACK]  = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_CREDIT_MORE]  = { {RAW, BRK},  {SWG, BRK},  {ON, BRK},   {PMP, BRK},  {QT, BRK} },
	[TX_PLEASE]       = { {RAW, 0},    {PMP, ABA},  {PMP, RSM},  {PMP, 0},    {QT, 0} },
	[TX_PLEASE_OLD]   = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_PLEASE_LINK]  = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_RELEASED]     = { {RAW, 0},    {SWG, BRK},  {ON, BRK},   {PMP, 0},    {QT, 0} },
	[TX_RELEASED_OLD] = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_CLOSING]      = { {QT, QUI},   {QT, QUS},   {QT, QUS},   {QT, QUS},   {QT, 0} },
	[TX_CLOSING_OLD]  = { {QT, QUI},   {QT, QUS},   {QT, QUS},   {QT, QUS},   {QT, 0} },
	[TX_LINK_DEAD]    = { {RAW, 0},    {PMP, ABA},  {PMP, RSM},  {PMP, 0},    {QT, 0} },
	[TX_OTHER_DEAD]   = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_REQUEST]      = { {RAW, 0},    {PMP, ABA},  {PMP, RSM},  {PMP, 0},    {QT, 0} },
	[TX_REQUEST_OLD]  = { {RAW, 0},    {SWG, 0},    {ON, 0},     {PMP, 0},    {QT, 0} },
	[TX_RETREAT]      = { {RAW, 0},    {PMP, ABA},  {PMP, RSM},  {PMP, 0},    {QT, 0} },
	[TX_ASK]          = { {RAW, 0},    {SWG, 0},    {ON, PA_WRITE_RECORD}, {PMP, 0}, {QT, 0} },
	[TX_SHUTDOWN]     = { {RAW, PA_SHUT_WR}, {SWG, PA_SEND_FIN}, {ON, PA_SEND_FIN},
								     {PMP, 0},    {QT, PA_SHUT_WR} },
	[TX_PUT]          = { {RAW, ILL},  {SWG, 0},    {ON, 0},     {PMP, ILL},  {QT, ILL} },
	[TX_PUT_MUCH]     = { {RAW, ILL},  {SWG, ILL},  {ON, ILL},   {PMP, ILL},  {QT, ILL} },
	[TX_SWITCH]       = { {RAW, ILL},  {SWG, ILL},  {ON, ILL},   {PMP, ILL},  {QT, ILL} },
	[TX_SWITCH_N]     = { {RAW, ILL},  {SWG, ILL},  {ON, ILL},   {PMP, ILL},  {QT, ILL} },
	[TX_RECORD_OUT]   = { {RAW, ILL},  {SWG, ILL},  {ON, ILL},   {PMP, 0},    {QT, ILL} },
	[TX_PUMPED]       = { {RAW, ILL},  {SWG, ILL},  {ON, ILL},   {PMP, ILL},  {QT, ILL} },
};

/* what differs on verbs: no slot; LINGER is armed in SWITCHING and taken back */
static uint32_t tx_as_verbs(enum tx_event ev, enum ptx_state st, uint32_t act)
{
	act &= ~PA_SLOT;
	if (st == PTX_SWITCHING && (ev == TX_CLOSING || ev == TX_CLOSING_OLD))
		act |= PA_RESTORE_LINGER;
	return act;
}

/* what differs when the link's death is known: nothing is sent on it */
static struct cell tx_as_dead(enum tx_event ev, enum ptx_state st, struct cell c)
{
	if (ev == TX_LINK_DEAD)
		return (struct cell){ st, 0 };
	c.act &= ~PA_SEND_FIN;
	return c;
}

static void tx_check(enum tx_event ev, enum ptx_state st, enum flavour fl)
{
	struct cell want = tx_soft[ev][st];
	struct ptx tx = tx_make(st, fl);
	uint32_t act = tx_fire(&tx, ev);

	if (fl == VERBS)
		want.act = tx_as_verbs(ev, st, want.act);
	if (fl == DEAD)
		want = tx_as_dead(ev, st, want);
	if (act != want.act || tx.state != want.st)
		fail_msg("event %s in state %d, flavour %d: state %d actions 0x%x, expected %d 0x%x",
			 tx_event_name(ev), st, fl, tx.state, act, want.st, want.act);
}

static void test_tx_every_state_every_event(void **state)
{
	for (int ev = 0; ev < TX_EVENT_COUNT; ev++)
		for (int st = 0; st < PTX_STATES; st++)
			for (int fl = 0; fl < FLAVOURS; fl++)
				tx_check(ev, st, fl);
}

static void test_tx_retreat_latches_k(void **state)
{
	struct ptx tx = tx_make(PTX_ON, SOFT);
	struct prec r;
	uint64_t from;
	size_t len;

	ptx_retreat(&tx);
	assert_int_equal(ptx_pump(&tx, &from), 0);	/* the record first */
	ptx_on_credit(&tx, LINK, E, 8);
	assert_int_equal(prec_decode(&r, ptx_record(&tx, &len)), 0);
	assert_int_equal(r.type, PREC_RESUME);
	assert_int_equal(r.K, 4);
	assert_int_equal(r.P, 10);
	assert_int_equal(len, PREC_SIZE);
	assert_int_equal(ptx_record_wrote(&tx, 5), 0);
	ptx_record(&tx, &len);
	assert_int_equal(len, PREC_SIZE - 5);
	assert_int_equal(ptx_record_wrote(&tx, len), 0);
	assert_int_equal(ptx_pump(&tx, &from), 6);
	assert_int_equal(from, 4);
	assert_int_equal(ptx_pumped(&tx, 2), 0);
	assert_int_equal(ptx_pumped(&tx, 4), PA_SLOT | PA_SEND_UNBIND | PA_WAKE);
	assert_int_equal(tx.state, PTX_RAW);
	assert_int_equal(tx.kc, N0 + 2 * PREC_SIZE + 6);
}

static void test_tx_linger_on_verbs_only_where_a_death_is_silent(void **state)
{
	struct ptx tx = tx_make(PTX_RAW, VERBS);
	size_t len;

	tx.rel = true;
	assert_int_equal(ptx_switch(&tx, N0, B0), PA_ARM_LINGER | PA_SEND_SWITCH);
	ptx_put(&tx, 3);
	ptx_on_switched(&tx, LINK, E + 1);
	assert_true(tx.linger);				/* until the record is whole */
	ptx_record(&tx, &len);
	ptx_record_wrote(&tx, len - 1);
	assert_true(tx.linger);
	assert_int_equal(ptx_record_wrote(&tx, 1), PA_RESTORE_LINGER);
	assert_int_equal(ptx_retreat(&tx), PA_WRITE_RECORD | PA_PUMP);
	assert_false(tx.linger);

	tx = tx_make(PTX_SWITCHING, VERBS);
	ptx_retreat(&tx);
	assert_true(tx.linger);				/* the PUMP of an abandon too */
	assert_int_equal(ptx_pumped(&tx, 10), PA_RESTORE_LINGER | PA_SEND_UNBIND | PA_WAKE);

	tx = tx_make(PTX_RAW, SOFT);
	tx.rel = true;
	assert_int_equal(ptx_switch(&tx, N0, B0), PA_SEND_SWITCH);
}

static void test_tx_attach_again_needs_release_or_a_new_link(void **state)
{
	struct ptx tx = tx_make(PTX_PUMP, SOFT);
	uint64_t from;
	size_t len;

	assert_int_equal(ptx_bind(&tx, OTHER, true, NONCE, WINDOW), -EBUSY);
	ptx_record(&tx, &len);
	ptx_record_wrote(&tx, len);
	ptx_pumped(&tx, ptx_pump(&tx, &from));
	assert_int_equal(tx.state, PTX_RAW);
	assert_false(ptx_may_switch(&tx));
	assert_false(ptx_ring_free(&tx));
	ptx_on_released(&tx, LINK, E);
	assert_true(ptx_may_switch(&tx));
	assert_true(ptx_ring_free(&tx));
	tx.rel = false;
	assert_int_equal(ptx_bind(&tx, OTHER, true, NONCE, WINDOW), 0);
	assert_true(ptx_may_switch(&tx));
	ptx_link_dead(&tx, OTHER);
	assert_false(ptx_may_switch(&tx));
}

static void test_tx_last_epoch(void **state)
{
	struct ptx tx = tx_make(PTX_RAW, SOFT);

	tx.e = PROTO_EPOCH_MAX - 1;
	tx.rel = true;
	assert_true(ptx_may_switch(&tx));
	assert_int_equal(ptx_switch(&tx, N0, B0), PA_SEND_SWITCH);
	assert_int_equal(tx.e, PROTO_EPOCH_MAX);
	ptx_put(&tx, 1);
	ptx_on_refused(&tx, LINK, PROTO_EPOCH_MAX);
	ptx_pumped(&tx, 1);
	assert_int_equal(tx.state, PTX_RAW);
	assert_false(ptx_may_switch(&tx));
	assert_int_equal(ptx_switch(&tx, tx.kc, B0), PA_ILLEGAL);
}

static void test_tx_counts_stop_at_48_bits(void **state)
{
	struct ptx tx = tx_make(PTX_ON, SOFT);

	tx.P = tx.K = PROTO_COUNT_MAX - 5;
	assert_int_equal(ptx_room(&tx), 5);
	assert_int_equal(ptx_put(&tx, 6), PA_ILLEGAL);
	assert_int_equal(ptx_put(&tx, 4), 0);
	assert_int_equal(ptx_put(&tx, 1), RSM);
	assert_int_equal(tx.state, PTX_PUMP);
}

static void test_tx_orderly_end_leaves_the_ring_first(void **state)
{
	struct ptx tx = tx_make(PTX_ON, SOFT);
	size_t len;

	assert_int_equal(ptx_shutdown(&tx), PA_SEND_FIN);
	assert_int_equal(ptx_where(&tx), PTX_EPIPE);
	assert_int_equal(ptx_on_credit(&tx, LINK, E, 9), PA_WAKE);
	assert_int_equal(ptx_on_credit(&tx, LINK, E, 10), PA_WAKE | RSM);
	ptx_record(&tx, &len);
	assert_int_equal(ptx_record_wrote(&tx, len),
			 PA_SLOT | PA_SEND_UNBIND | PA_SHUT_WR | PA_WAKE);
	assert_int_equal(ptx_shutdown(&tx), 0);
}

static void test_tx_end_is_told_before_the_ring_is_left(void **state)
{
	struct ptx tx = tx_make(PTX_ON, SOFT);

	tx.K = tx.P;
	assert_int_equal(ptx_tell_end(&tx), PA_SEND_FIN);
	assert_int_equal(tx.state, PTX_ON);
	assert_int_equal(ptx_tell_end(&tx), 0);
	assert_int_equal(ptx_shutdown(&tx), RSM);
	tx = tx_make(PTX_RAW, SOFT);
	assert_int_equal(ptx_tell_end(&tx), 0);
	assert_int_equal(ptx_shutdown(&tx), PA_SHUT_WR);
}

static void test_tx_quiet_drops_what_it_had(void **state)
{
	struct ptx tx = tx_make(PTX_PUMP, SOFT);
	uint64_t from;
	size_t len;

	ptx_record(&tx, &len);
	ptx_record_wrote(&tx, 7);
	ptx_on_closing(&tx, LINK, E, 4);
	assert_null(ptx_record(&tx, &len));
	assert_int_equal(ptx_pump(&tx, &from), 0);
	assert_int_equal(tx.kc, N0 + PREC_SIZE + 7);	/* the count names the cut record too */
	assert_int_equal(ptx_where(&tx), PTX_EPIPE);
	assert_true(ptx_unread(&tx, 0));
}

static void test_tx_asks_in_its_own_record(void **state)
{
	struct ptx tx = tx_make(PTX_ON, SOFT);
	struct prec r;
	size_t len;

	ptx_request(&tx, 9);
	assert_int_equal(prec_decode(&r, ptx_record(&tx, &len)), 0);
	assert_int_equal(r.type, PREC_REQUEST);
	assert_int_equal(r.other, 9);

	tx = tx_make(PTX_SWITCHING, SOFT);
	ptx_request(&tx, 9);
	ptx_on_switched(&tx, LINK, E);
	ptx_record(&tx, &len);
	ptx_record_wrote(&tx, len);			/* SWITCHREC first */
	ptx_retreat(&tx);
	assert_int_equal(prec_decode(&r, ptx_record(&tx, &len)), 0);
	assert_int_equal(r.type, PREC_REQUEST);

	tx = tx_make(PTX_ON, SOFT);
	ptx_retreat(&tx);
	ptx_request(&tx, 9);
	assert_int_equal(prec_decode(&r, ptx_record(&tx, &len)), 0);
	assert_int_equal(r.type, PREC_RESUME);
	assert_int_equal(r.flags, PREC_WANT_YOURS);
	assert_int_equal(r.other, 9);
}

static void test_tx_where(void **state)
{
	static const enum ptx_where want[PTX_STATES] = {
		PTX_TO_KERNEL, PTX_TO_RING, PTX_TO_RING, PTX_WAIT, PTX_EPIPE,
	};
	struct ptx tx;

	for (int st = 0; st < PTX_STATES; st++) {
		tx = tx_make(st, SOFT);
		assert_int_equal(ptx_where(&tx), want[st]);
	}
	tx = tx_make(PTX_ON, SOFT);
	ptx_put(&tx, ptx_room(&tx));
	assert_int_equal(ptx_where(&tx), PTX_WAIT);
	ptx_window(&tx, 1);
	assert_int_equal(ptx_room(&tx), 0);
	ptx_window(&tx, 2 * WINDOW);
	assert_int_equal(ptx_room(&tx), WINDOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tx_every_state_every_event),
		cmocka_unit_test(test_tx_retreat_latches_k),
		cmocka_unit_test(test_tx_linger_on_verbs_only_where_a_death_is_silent),
		cmocka_unit_test(test_tx_attach_again_needs_release_or_a_new_link),
		cmocka_unit_test(test_tx_last_epoch),
		cmocka_unit_test(test_tx_counts_stop_at_48_bits),
		cmocka_unit_test(test_tx_orderly_end_leaves_the_ring_first),
		cmocka_unit_test(test_tx_end_is_told_before_the_ring_is_left),
		cmocka_unit_test(test_tx_quiet_drops_what_it_had),
		cmocka_unit_test(test_tx_asks_in_its_own_record),
		cmocka_unit_test(test_tx_where),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
