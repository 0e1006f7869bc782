/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_proto_hostile.c - events and bytes in any order, as a hostile peer sends them
 *
 * Whatever comes, the machines keep their own invariants (head of proto.h):
 * counts in order and within the window, no range outside of the ring, the
 * parser always gets on, nothing for the application after the end.
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

#define NONCE	0x0123456789abcdefull

static uint64_t rng;

static uint64_t rnd(uint64_t n)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) % n;
}

/* now small, now at the edges */
static uint64_t rnd_count(uint64_t near)
{
	switch (rnd(6)) {
	case 0: return rnd(8);
	case 1: return near + rnd(5) - 2;
	case 2: return PROTO_COUNT_MAX - rnd(3);
	case 3: return UINT64_MAX - rnd(3);
	default: return near;
	}
}

static uint16_t rnd_epoch(uint16_t near)
{
	return rnd(4) ? near : (uint16_t)(near + rnd(4) - 2);
}

static void tx_check(const struct ptx *tx)
{
	uint64_t from = 0, n = ptx_pump(tx, &from);

	assert_true(tx->state < PTX_STATES);
	assert_true(tx->K <= tx->P && tx->P - tx->K <= tx->window);
	assert_true(tx->P <= PROTO_COUNT_MAX);
	assert_true(ptx_room(tx) <= tx->window);
	assert_true(n <= tx->window && (!n || from + n == tx->P));
	assert_true(tx->rec_done < PREC_SIZE);
}

static uint32_t tx_event(struct ptx *tx)
{
	uint32_t link = rnd(8) ? tx->link : rnd(4);
	uint16_t e = rnd_epoch(tx->e);
	uint64_t from;
	size_t len;

	switch (rnd(16)) {
	case 0: return ptx_on_switched(tx, link, e);
	case 1: return ptx_on_refused(tx, link, e);
	case 2: return ptx_on_credit(tx, link, e, rnd_count(tx->P));
	case 3: return ptx_on_please(tx, link, e);
	case 4: return ptx_on_released(tx, link, e);
	case 5: return rnd(20) ? 0 : ptx_on_closing(tx, link, e, rnd_count(tx->P));
	case 6: return rnd(4) ? 0 : ptx_link_dead(tx, link);
	case 7: return ptx_on_request(tx, e);
	case 8: return ptx_retreat(tx);
	case 9: return ptx_request(tx, rnd(3));
	case 10: return rnd(20) ? 0 : rnd(2) ? ptx_shutdown(tx) : ptx_tell_end(tx);
	case 11: return ptx_record(tx, &len) ? ptx_record_wrote(tx, 1 + rnd(len)) : 0;
	case 12: return ptx_pumped(tx, rnd(ptx_pump(tx, &from) + 1));
	case 13: return ptx_put(tx, rnd(ptx_room(tx) + 2));
	case 14: return (uint32_t)ptx_bind(tx, rnd(4), rnd(2), NONCE, 64) & 0;
	default: return ptx_switch(tx, tx->kc, rnd(256));
	}
}

static void test_sender(void **state)
{
	for (int i = 0; i < 3000; i++) {
		struct ptx tx;

		rng = i;
		ptx_init(&tx, rnd(1000));
		ptx_bind(&tx, 0, rnd(2), NONCE, 64);
		for (int j = 0; j < 200; j++) {
			bool quiet = tx.state == PTX_QUIET;

			tx_event(&tx);
			tx_check(&tx);
			assert_true(!quiet || tx.state == PTX_QUIET);	/* final */
		}
	}
}

static void rx_check(const struct prx *rx)
{
	uint64_t from = 0, n = prx_avail(rx, &from);

	assert_true(rx->state < PRX_STATES);
	assert_true(rx->C <= rx->Pb && rx->Pb <= PROTO_COUNT_MAX);
	assert_true(n <= 64);
	assert_true(rx->have < PREC_SIZE);
	assert_true(rx->drop <= 64 && rx->left <= 64);
	assert_true(rx->state != PRX_READY || rx->pos == rx->N);
	assert_true(prx_next_read(rx) > 0);
}

/* a good record now and then, or the machine would never get far */
static size_t rnd_bytes(const struct prx *rx, uint8_t *p)
{
	struct prec r = { .type = 1 + rnd(3), .e = rnd_epoch(rx->e), .nonce = NONCE };
	size_t n = 1 + rnd(64);

	for (size_t i = 0; i < n; i++)
		p[i] = rnd(3) ? (uint8_t)~rx->b0 : rx->b0;
	if (rx->state == PRX_READY && rnd(4))
		r.type = PREC_SWITCH;
	else if (rnd(3) == 0)
		return n;
	r.mark = r.type == PREC_SWITCH ? (uint8_t)~rx->b0 : r.type == PREC_REQUEST ? 0x51 : 0x52;
	if (r.type == PREC_RESUME) {
		r.K = rnd_count(rx->C);
		r.P = rnd_count(rx->Pb);
	}
	prec_encode(p, &r);
	return rnd(4) ? PREC_SIZE : 1 + rnd(PREC_SIZE);
}

static void rx_bytes(struct prx *rx)
{
	uint8_t p[64];
	size_t n = rnd_bytes(rx, p), at = 0;
	unsigned int rounds = 0;
	struct prx_seg seg;

	while (at < n) {
		bool ended = rx->eof || rx->closed || rx->state == PRX_ENDED;
		size_t k = prx_eat(rx, p + at, n - at, &seg);

		assert_true(k <= n - at);
		assert_true(++rounds < 200);
		if (seg.kind == PSEG_APP) {
			assert_false(ended);
			assert_true(seg.n > 0);
			assert_true(seg.p == rx->rec ? seg.n < PREC_SIZE : seg.p == p + at && seg.n == k);
		}
		if (seg.act & PA_ANSWER)
			prx_answer(rx, rnd(4));
		rx_check(rx);
		at += k;
	}
}

static void rx_end(struct prx *rx)
{
	struct pslot s = { .e = rnd_epoch(rx->e), .state = rnd(6), .N = rnd_count(rx->N), .P = rnd_count(rx->C) };

	if (rnd(2))
		prx_on_kfin(rx);
	else
		prx_on_krst(rx);
	prx_verdict(rx, rnd(2) ? &s : NULL, rnd(2));
}

static void rx_event(struct prx *rx)
{
	uint32_t link = rnd(8) ? rx->link : rnd(4);
	uint16_t e = rnd_epoch(rx->e);
	uint64_t from;

	switch (rnd(16)) {
	case 0: prx_on_switch(rx, link, rx->sw_e + (rnd(8) != 0), rnd_count(rx->pos), rnd(256), rnd(8), rnd(8)); break;
	case 1: prx_on_data(rx, link, rnd_count(rnd(65))); break;
	case 2: prx_on_fin(rx, link, e, rnd_count(rx->Pb)); break;
	case 3: prx_on_unbind(rx, link, e); break;
	case 4: prx_on_quiet(rx, link, e, rnd_count(rx->pos)); break;
	case 5: if (!rnd(8)) prx_link_dead(rx, link); break;
	case 6: prx_peek(rx, rnd(2) ? rx->b0 : rnd(256)); break;
	case 7: prx_consumed(rx, rnd(prx_avail(rx, &from) + 1)); break;
	case 8: prx_before_sleep(rx); break;
	case 9: if (!rnd(8)) prx_want(rx); break;
	case 10: prx_unwant(rx); break;
	case 11: if (!rnd(30)) prx_close(rx); break;
	case 12: if (!rnd(10)) prx_bind(rx, rnd(4), rnd(2), NONCE, 64); break;
	case 13: if (!rnd(80)) rx_end(rx); break;
	default: rx_bytes(rx);
	}
}

static void test_receiver(void **state)
{
	unsigned int on = 0, ended = 0;

	for (int i = 0; i < 3000; i++) {
		struct prx rx;

		rng = i;
		prx_init(&rx, rnd(1000));
		prx_bind(&rx, 0, rnd(2), NONCE, 64);
		for (int j = 0; j < 200; j++) {
			enum prx_endkind end = prx_end(&rx);

			rx_event(&rx);
			rx_check(&rx);
			on += rx.state == PRX_ON;
			ended += rx.state == PRX_ENDED;
			if (end != PRX_OPEN)
				assert_int_equal(prx_end(&rx), end);	/* what was said stays said */
		}
	}
	/* the test is worth something only if it gets there */
	assert_true(on > 5000 && ended > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sender),
		cmocka_unit_test(test_receiver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
