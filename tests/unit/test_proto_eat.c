/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_proto_eat.c - the parser of kernel bytes, in every split, and the record codec
 *
 * A script of bytes (cold bytes, SWITCHREC, RESUME, dropped, resent and raw
 * bytes, a second epoch) must give the same application bytes and the same
 * final state whatever pieces it is read in.
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
#define NONCE	0xa5a5a5a5deadbeefull
#define WINDOW	64u

static uint64_t rng = 88172645463325252ull;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % n;
}

/* ------------------------------------------------------------- codec -- */

static void test_codec_round_trip(void **state)
{
	for (int i = 0; i < 10000; i++) {
		uint64_t P = (((uint64_t)rnd(UINT32_MAX) << 24) ^ rnd(UINT32_MAX)) & PROTO_COUNT_MAX;
		struct prec in = { .type = 1 + rnd(3), .e = rnd(65536), .nonce = NONCE * (i + 1) }, out;
		uint8_t buf[PREC_SIZE];

		in.mark = in.type == PREC_SWITCH ? rnd(256) : in.type == PREC_REQUEST ? 0x51 : 0x52;
		if (in.type != PREC_SWITCH)
			in.other = rnd(65536);
		if (in.type == PREC_RESUME) {
			in.flags = rnd(2);
			in.P = P;
			in.K = P ? P - rnd(1) : 0;
		}
		prec_encode(buf, &in);
		assert_int_equal(prec_decode(&out, buf), 0);
		assert_int_equal(in.type, out.type);
		assert_int_equal(in.mark, out.mark);
		assert_int_equal(in.flags, out.flags);
		assert_int_equal(in.e, out.e);
		assert_int_equal(in.other, out.other);
		assert_true(in.nonce == out.nonce && in.K == out.K && in.P == out.P);
	}
}

/* the layout that doc/wire.md shows */
static void test_codec_bytes(void **state)
{
	static const uint8_t want[PREC_SIZE] = {
		0x52, 3, 0x02, 0x01, 1, 1, 0x09, 0x00,
		0xef, 0xbe, 0xad, 0xde, 0xa5, 0xa5, 0xa5, 0xa5,
		0x04, 0x03, 0, 0, 0, 0, 0, 0,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
	};
	struct prec r = { .type = PREC_RESUME, .e = 0x102, .flags = PREC_WANT_YOURS, .other = 9,
			  .nonce = NONCE, .K = 0x304, .P = PROTO_COUNT_MAX };
	uint8_t buf[PREC_SIZE];

	prec_encode(buf, &r);
	assert_memory_equal(buf, want, PREC_SIZE);
}

static void test_codec_refuses(void **state)
{
	static const struct { uint8_t at, xor; } damage[] = {
		{ 0, 1 }, { 1, 0x40 }, { 4, 2 }, { 5, 1 }, { 30, 1 }, { 23, 0x80 },
	};
	struct prec r = { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 1, .P = 2 }, out;
	uint8_t buf[PREC_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(damage); i++) {
		prec_encode(buf, &r);
		assert_int_equal(prec_decode(&out, buf), 0);
		buf[damage[i].at] ^= damage[i].xor;
		assert_int_equal(prec_decode(&out, buf), -EPROTO);
	}
}

/* ------------------------------------------------------------ parser -- */

struct script {
	uint8_t bytes[256];
	size_t n;
	uint8_t b0;
	size_t switch1, turn_on1, switch2;	/* offsets */
};

static void put(struct script *s, const void *p, size_t n)
{
	memcpy(s->bytes + s->n, p, n);
	s->n += n;
}

static void put_record(struct script *s, const struct prec *r)
{
	uint8_t buf[PREC_SIZE];

	prec_encode(buf, r);
	put(s, buf, PREC_SIZE);
}

/*
 * 5 cold bytes | SWITCHREC e1 | (8 in the ring, 5 consumed) RESUME K=2 P=8 |
 * ring bytes 2..7 again | 4 raw | SWITCHREC e2
 */
static void script_make(struct script *s, uint8_t b0)
{
	uint8_t again[6], raw[4];

	memset(s, 0, sizeof(*s));
	s->b0 = b0;
	for (int i = 0; i < 6; i++)
		again[i] = 0x80 + 2 + i;
	memset(raw, (uint8_t)~b0, sizeof(raw));		/* collides with a record's first byte */
	put(s, "\x52\x51\xff\x00\x01", 5);
	s->switch1 = s->n;
	put_record(s, &(struct prec){ .type = PREC_SWITCH, .mark = (uint8_t)~b0, .e = 1, .nonce = NONCE });
	s->turn_on1 = s->n;
	put_record(s, &(struct prec){ .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 2, .P = 8 });
	put(s, again, 6);
	put(s, raw, 4);
	s->switch2 = s->n;
	put_record(s, &(struct prec){ .type = PREC_SWITCH, .mark = (uint8_t)~b0, .e = 2, .nonce = NONCE });
}

struct sink { uint8_t bytes[256]; size_t n; unsigned int records, released; };

/* one read's bytes through the machine, as the library does it */
static void feed(struct prx *rx, const uint8_t *p, size_t n, struct sink *out)
{
	struct prx_seg seg;

	while (n) {
		size_t k = prx_eat(rx, p, n, &seg);

		assert_true(k <= n);
		if (seg.kind == PSEG_APP) {
			memcpy(out->bytes + out->n, seg.p, seg.n);
			out->n += seg.n;
		}
		if (seg.kind == PSEG_RECORD)
			out->records++;
		if (seg.act & PA_SEND_RELEASED)
			out->released++;
		assert_int_equal(seg.act & (PA_BREAK_LINK | PA_RESET), 0);
		if (seg.act & PA_ANSWER)
			prx_answer(rx, true);
		p += k;
		n -= k;
		if (seg.kind == PSEG_RECORD && rx->state == PRX_ON && rx->e == 1)
			prx_consumed(rx, 5);
	}
}

/* cut[i]: a read ends before byte i; reads never go past a point where the machine forbids it */
static void run_script(const struct script *s, const uint8_t *cut, struct prx *rx, struct sink *out)
{
	size_t at = 0;

	memset(out, 0, sizeof(*out));
	prx_init(rx, 0);
	prx_bind(rx, LINK, true, NONCE, WINDOW);
	prx_on_switch(rx, LINK, 1, s->switch1, s->b0, true, true);
	prx_on_data(rx, LINK, 8);
	while (at < s->n) {
		size_t end = at + 1;

		while (end < s->n && !cut[end] && end != s->switch1 && end != s->switch2 &&
		       end - at < prx_next_read(rx))
			end++;
		feed(rx, s->bytes + at, end - at, out);
		at = end;
		if (at == s->switch2)
			prx_on_switch(rx, LINK, 2, s->switch2, s->b0, true, true);
	}
}

static void check_script(const struct script *s, const uint8_t *cut)
{
	struct prx rx;
	struct sink out;
	uint8_t want[12];

	run_script(s, cut, &rx, &out);
	memcpy(want, s->bytes, 5);
	for (int i = 0; i < 3; i++)
		want[5 + i] = 0x80 + 5 + i;		/* 5 of 8 were consumed: 2..4 are dropped */
	memset(want + 8, (uint8_t)~s->b0, 4);
	assert_int_equal(out.n, sizeof(want));
	assert_memory_equal(out.bytes, want, sizeof(want));
	assert_int_equal(out.records, 3);
	assert_int_equal(out.released, 1);
	assert_int_equal(rx.state, PRX_ON);
	assert_int_equal(rx.e, 2);
	assert_int_equal(rx.pos, s->n);
	assert_int_equal(rx.left, 0);
}

static void test_byte_by_byte_and_whole(void **state)
{
	struct script s;
	uint8_t cut[256];

	for (int b0 = 0; b0 < 256; b0++) {
		script_make(&s, b0);
		memset(cut, 1, sizeof(cut));
		check_script(&s, cut);
		memset(cut, 0, sizeof(cut));
		check_script(&s, cut);
	}
}

static void test_every_two_cuts(void **state)
{
	struct script s;
	uint8_t cut[256];

	script_make(&s, 0x41);
	for (size_t a = 1; a < s.n; a++)
		for (size_t b = a; b < s.n; b++) {
			memset(cut, 0, sizeof(cut));
			cut[a] = cut[b] = 1;
			check_script(&s, cut);
		}
}

static void test_random_splits(void **state)
{
	struct script s;
	uint8_t cut[256];

	for (int i = 0; i < 20000; i++) {
		script_make(&s, rnd(256));
		for (size_t j = 0; j < sizeof(cut); j++)
			cut[j] = rnd(1 + i % 9) == 0;
		check_script(&s, cut);
	}
}

static void rx_ready(struct prx *rx, uint8_t b0)
{
	prx_init(rx, 10);
	prx_bind(rx, LINK, true, NONCE, WINDOW);
	assert_int_equal(prx_on_switch(rx, LINK, 1, 10, b0, true, true), PA_SEND_SWITCHED);
}

/* b0 decides alone, for every value, also where it looks like the rest of a record */
static void test_ready_first_byte_decides(void **state)
{
	struct prx_seg seg;
	struct prx rx;

	for (int b0 = 0; b0 < 256; b0++)
		for (int first = 0; first < 256; first++) {
			uint8_t p[2] = { first, 1 };
			bool rec = first == (uint8_t)~b0;

			rx_ready(&rx, b0);
			assert_int_equal(prx_eat(&rx, p, 1, &seg), 1);
			assert_int_equal(rx.state, rec ? PRX_READY : PRX_RAW);
			assert_int_equal(seg.kind, rec ? PSEG_PART : PSEG_APP);
			assert_int_equal(seg.act, rec ? 0 : PA_SEND_RELEASED | PA_WAKE |
					 (first == b0 ? 0 : PA_BREAK_LINK));
		}
}

/* a foreign nonce at any byte: nothing is lost, nothing is swallowed, the link goes */
static void test_ready_bad_record_is_raw(void **state)
{
	struct prec good = { .type = PREC_SWITCH, .mark = (uint8_t)~0x41, .e = 1, .nonce = NONCE };

	for (size_t bad = 1; bad < PREC_SIZE; bad++)
		for (size_t split = 1; split <= PREC_SIZE; split++) {
			uint8_t buf[PREC_SIZE], got[2 * PREC_SIZE];
			size_t n = 0, at = 0, end = split;
			uint32_t act = 0;
			struct prx_seg seg;
			struct prx rx;

			prec_encode(buf, &good);
			buf[bad] ^= 0x10;
			rx_ready(&rx, 0x41);
			while (at < PREC_SIZE) {
				at += prx_eat(&rx, buf + at, end - at, &seg);
				if (seg.kind == PSEG_APP) {
					memcpy(got + n, seg.p, seg.n);
					n += seg.n;
				}
				act |= seg.act;
				if (at == end)
					end = PREC_SIZE;
			}
			assert_int_equal(n, PREC_SIZE);
			assert_memory_equal(got, buf, PREC_SIZE);
			assert_int_equal(act & PA_BREAK_LINK, PA_BREAK_LINK);
			assert_int_equal(rx.state, PRX_RAW);
			assert_int_equal(rx.pos, 10 + PREC_SIZE);
		}
}

static void rx_on(struct prx *rx)
{
	uint8_t buf[PREC_SIZE];
	struct prx_seg seg;

	rx_ready(rx, 0x41);
	prec_encode(buf, &(struct prec){ .type = PREC_SWITCH, .mark = (uint8_t)~0x41, .e = 1, .nonce = NONCE });
	assert_int_equal(prx_eat(rx, buf, PREC_SIZE, &seg), PREC_SIZE);
	assert_int_equal(seg.act, PA_WAKE);
	prx_on_data(rx, LINK, 8);
	prx_consumed(rx, 5);
}

/* a record in ON: what the machine makes of it */
struct on_case { const char *name; struct prec r; uint8_t st; uint32_t act; };

#define LOST	(PA_RESET | PA_BREAK_LINK | PA_WAKE)

static const struct on_case on_cases[] = {
	{ "resume", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 5, .P = 8 }, PRX_RAW, PA_SEND_RELEASED | PA_WAKE },
	{ "resume with drop", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 4, .P = 8 }, PRX_RAW, PA_WAKE },
	{ "resume, more than has arrived", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 5, .P = 9 }, PRX_RAW, PA_SEND_RELEASED | PA_WAKE },
	{ "resume, want yours", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 5, .P = 8, .flags = 1, .other = 4 }, PRX_RAW, PA_SEND_RELEASED | PA_WAKE | PA_RETREAT_TX },
	{ "request", { .type = PREC_REQUEST, .e = 1, .nonce = NONCE, .other = 4 }, PRX_ON, PA_RETREAT_TX },
	{ "K beyond C", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 6, .P = 8 }, PRX_ENDED, LOST },
	{ "P below C", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 3, .P = 4 }, PRX_ENDED, LOST },
	{ "P below what has arrived", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 5, .P = 7 }, PRX_ENDED, LOST },
	{ "more than a window", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 5, .P = 6 + WINDOW }, PRX_ENDED, LOST },
	{ "K beyond P", { .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 9, .P = 8 }, PRX_ENDED, LOST },
	{ "another epoch", { .type = PREC_RESUME, .e = 2, .nonce = NONCE, .K = 5, .P = 8 }, PRX_ENDED, LOST },
	{ "another nonce", { .type = PREC_RESUME, .e = 1, .nonce = NONCE + 1, .K = 5, .P = 8 }, PRX_ENDED, LOST },
	{ "a second switch", { .type = PREC_SWITCH, .mark = (uint8_t)~0x41, .e = 1, .nonce = NONCE }, PRX_ENDED, LOST },
	{ "no record", { .type = 0x77, .e = 1, .nonce = NONCE }, PRX_ENDED, LOST },
};

static void test_on_records(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(on_cases); i++) {
		const struct on_case *c = &on_cases[i];
		uint8_t buf[PREC_SIZE];
		struct prx_seg seg;
		struct prx rx;

		rx_on(&rx);
		prec_encode(buf, &c->r);
		assert_int_equal(prx_eat(&rx, buf, PREC_SIZE, &seg), PREC_SIZE);
		if (rx.state != c->st || seg.act != c->act || seg.kind != PSEG_RECORD)
			fail_msg("%s: state %d actions 0x%x", c->name, rx.state, seg.act);
		if (c->act & PA_RETREAT_TX)
			assert_int_equal(seg.other, 4);
		if (c->st == PRX_ENDED)
			assert_int_equal(prx_end(&rx), PRX_CONNRESET);
	}
}

static void test_next_read_is_exact_on_the_ring(void **state)
{
	uint8_t buf[PREC_SIZE];
	struct prx_seg seg;
	struct prx rx;

	prx_init(&rx, 0);
	assert_true(prx_next_read(&rx) == UINT64_MAX);
	rx_on(&rx);
	assert_int_equal(prx_next_read(&rx), PREC_SIZE);
	assert_true(prx_no_kernel_read(&rx));
	prec_encode(buf, &(struct prec){ .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 3, .P = 8 });
	prx_eat(&rx, buf, 9, &seg);
	assert_int_equal(prx_next_read(&rx), PREC_SIZE - 9);
	prx_eat(&rx, buf + 9, PREC_SIZE - 9, &seg);
	assert_int_equal(prx_next_read(&rx), 2);	/* just what is to be dropped */
	assert_true(prx_no_kernel_read(&rx));
	prx_eat(&rx, buf, 2, &seg);
	assert_true(prx_next_read(&rx) == UINT64_MAX);
	assert_false(prx_no_kernel_read(&rx));
}

/* the short cut and the parser count alike, and the short cut knows where it ends */
static void test_plain_is_the_parser_in_short(void **state)
{
	struct prx a, b;
	struct prx_seg seg;
	uint8_t raw[9] = { 0 };

	prx_init(&a, 3);
	prx_init(&b, 3);
	assert_true(prx_plain(&a));
	prx_took(&a, sizeof(raw));
	assert_int_equal(prx_eat(&b, raw, sizeof(raw), &seg), sizeof(raw));
	assert_int_equal(a.pos, b.pos);
	assert_int_equal(a.since, b.since);
	a.left = 1;
	assert_false(prx_plain(&a));
	a.left = 0;
	prx_close(&a);
	assert_false(prx_plain(&a));
	rx_on(&b);
	assert_false(prx_plain(&b));
}

static void test_nothing_after_eof(void **state)
{
	uint8_t buf[PREC_SIZE];
	struct prx_seg seg;
	struct prx rx;

	rx_on(&rx);
	prx_consumed(&rx, 3);
	prx_on_fin(&rx, LINK, 1, 8);
	assert_int_equal(prx_end(&rx), PRX_EOF);
	prec_encode(buf, &(struct prec){ .type = PREC_RESUME, .e = 1, .nonce = NONCE, .K = 8, .P = 8 });
	prx_eat(&rx, buf, PREC_SIZE, &seg);
	assert_int_equal(rx.state, PRX_RAW);
	assert_int_equal(prx_eat(&rx, buf, 3, &seg), 3);
	assert_int_equal(seg.kind, PSEG_DROP);
	assert_int_equal(prx_end(&rx), PRX_EOF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codec_round_trip),
		cmocka_unit_test(test_codec_bytes),
		cmocka_unit_test(test_codec_refuses),
		cmocka_unit_test(test_byte_by_byte_and_whole),
		cmocka_unit_test(test_every_two_cuts),
		cmocka_unit_test(test_random_splits),
		cmocka_unit_test(test_ready_first_byte_decides),
		cmocka_unit_test(test_ready_bad_record_is_raw),
		cmocka_unit_test(test_on_records),
		cmocka_unit_test(test_next_read_is_exact_on_the_ring),
		cmocka_unit_test(test_plain_is_the_parser_in_short),
		cmocka_unit_test(test_nothing_after_eof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
