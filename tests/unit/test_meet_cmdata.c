/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_cmdata.c - what hosts tell each other in a request, honest and hostile */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/reasons.h"
#include "meet/cmdata.h"

static const struct cm_hello hello = {
	.lport = 40000, .rport = 6379, .slots = 8, .ring_bytes = 262144,
	.instance = 0x1122334455667788,
	.nonce = { 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
		   0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf },
	.rnic = { 1, 2, 3, [17] = 18 },
	.part_pages = 0x1234,
};

/* doc/wire.md has these bytes */
static const uint8_t bytes[CM_HELLO_BYTES] = {
	0x53, 0x53, 0x53, 0x43, 0x02, 0x12, 0x08, 0x00, 0x40, 0x9c, 0xeb, 0x18,
	0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
	0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
	0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf,
	1, 2, 3, [53] = 18, 0x34, 0x12,
};

static int take(const uint8_t *b, size_t len)
{
	struct cm_hello h;
	uint8_t guarded[CM_HELLO_BYTES + 200];

	memset(guarded, 0, sizeof(guarded));
	memcpy(guarded, b, len < CM_HELLO_BYTES ? len : CM_HELLO_BYTES);
	return cm_hello_get(&h, guarded, len);
}

static void layout(void **state)
{
	uint8_t b[CM_HELLO_BYTES];
	struct cm_hello h;

	cm_hello_put(b, &hello);
	assert_memory_equal(b, bytes, sizeof(b));
	assert_int_equal(cm_hello_get(&h, b, sizeof(b)), 0);
	assert_int_equal(h.lport, 40000);
	assert_int_equal(h.rport, 6379);
	assert_int_equal(h.slots, 8);
	assert_int_equal(h.ring_bytes, 262144);
	assert_int_equal(h.instance, hello.instance);
	assert_memory_equal(h.nonce, hello.nonce, sizeof(h.nonce));
	assert_memory_equal(h.rnic, hello.rnic, sizeof(h.rnic));
	assert_int_equal(h.part_pages, hello.part_pages);
}

/* An answer comes with as many bytes as the device's answers have. */
static void padding_is_nothing(void **state)
{
	assert_int_equal(take(bytes, CM_HELLO_BYTES + 140), 0);
}

static void short_ones(void **state)
{
	for (size_t n = 0; n < CM_HELLO_BYTES; n++)
		assert_int_equal(take(bytes, n), -EPROTO);
}

static void another_version(void **state)
{
	uint8_t b[CM_HELLO_BYTES];

	memcpy(b, bytes, sizeof(b));
	for (int v = 0; v < 256; v++) {
		b[4] = (uint8_t)v;
		assert_int_equal(take(b, sizeof(b)), v == CM_VERSION ? 0 : -EPROTONOSUPPORT);
		/* a later one may be shorter */
		if (v != CM_VERSION)
			assert_int_equal(take(b, 8), -EPROTONOSUPPORT);
	}
}

static void hostile(void **state)
{
	static const struct {
		uint8_t at, n, value;
		int want;
	} cases[] = {
		{ 0, 1, 0x54, -EPROTO }, { 3, 1, 0x52, -EPROTO },	/* another magic */
		{ 5, 1, 11, -EPROTO }, { 5, 1, 12, 0 }, { 5, 1, 24, 0 },	/* rings */
		{ 5, 1, 25, -EPROTO }, { 5, 1, 64, -EPROTO }, { 5, 1, 255, -EPROTO },
		{ 6, 2, 0, -EPROTO }, { 6, 2, 255, 0 },			/* slots: the link judges */
		{ 8, 2, 0, -EPROTO }, { 10, 2, 0, -EPROTO },		/* ports */
		{ 12, 8, 0, -EPROTO },					/* instance */
		{ 54, 2, 0, -EPROTO },					/* nothing registered */
		{ 20, 16, 0, 0 }, { 36, 20, 255, 0 },			/* any */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t b[CM_HELLO_BYTES];

		memcpy(b, bytes, sizeof(b));
		memset(b + cases[i].at, cases[i].value, cases[i].n);
		assert_int_equal(take(b, sizeof(b)), cases[i].want);
	}
}

static void refusals(void **state)
{
	static const uint8_t want[CM_REFUSAL_BYTES] = { 0x53, 0x53, 0x53, 0x52, 2, 2, 3, 0 };
	struct cm_refusal r = { .verdict = CM_NOT_MINE, .reason = 3 };
	uint8_t b[CM_REFUSAL_BYTES + 140] = { 0 };

	cm_refusal_put(b, &r);
	assert_memory_equal(b, want, sizeof(want));
	memset(&r, 0, sizeof(r));
	assert_int_equal(cm_refusal_get(&r, b, sizeof(b)), 0);
	assert_int_equal(r.verdict, CM_NOT_MINE);
	assert_int_equal(r.reason, 3);
	for (size_t n = 0; n < CM_REFUSAL_BYTES; n++)
		assert_int_equal(cm_refusal_get(&r, b, n), -EPROTO);
	for (int v = 0; v < 256; v++) {
		b[5] = (uint8_t)v;
		assert_int_equal(cm_refusal_get(&r, b, sizeof(b)),
				 v >= CM_LATER && v <= CM_REFUSED ? 0 : -EPROTO);
	}
	b[5] = CM_REFUSED;
	b[6] = REASON_COUNT;
	assert_int_equal(cm_refusal_get(&r, b, sizeof(b)), -EPROTO);
	b[6] = 0;
	b[4] = 9;
	assert_int_equal(cm_refusal_get(&r, b, sizeof(b)), -EPROTONOSUPPORT);
	/* a hello is none, nor the other way round */
	assert_int_equal(cm_refusal_get(&r, bytes, sizeof(bytes)), -EPROTO);
	b[4] = 1;
	assert_int_equal(take(b, sizeof(bytes)), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(padding_is_nothing),
		cmocka_unit_test(short_ones),
		cmocka_unit_test(another_version),
		cmocka_unit_test(hostile),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
