/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_unread.c - how much is there to read, by a peer that says anything
 *
 * No background thread runs and there is no link: only the count is asked for.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ready/ready.h"
#include "sock/conn.h"
#include "sock/far.h"
#include "sock/unread.h"

#define RING 16384

static struct {
	int fds[2];
	struct conn *c;
	struct slot_shm words;
} s;

static void bound(bool shared, enum prx_state state)
{
	struct conn *c;

	memset(&s, 0, sizeof(s));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s.fds), 0);
	s.c = c = conn_new(s.fds[0]);
	assert_non_null(c);
	c->established = c->ever_bound = true;
	c->rx_words = &s.words;
	c->rx_ring_bytes = RING;
	c->rx_wlog = 14;
	st_rlx(&c->rx_switch_N, FAR_NO_SWITCH);
	prx_bind(&c->rx, 1, shared, 7, RING);
	c->rx.state = (uint8_t)state;
}

static void over(void)
{
	close(s.fds[0]);
	close(s.fds[1]);
}

static int unread(void)
{
	lock_take(&s.c->rxl);
	int n = unread_now(s.c);
	lock_drop(&s.c->rxl);
	return n;
}

static const uint64_t lies[] = { 99, 1u << 20, 1u << 30, 1ull << 31, PROTO_COUNT_MAX };

/* 100 bytes were read of the epoch. */
static void in_the_ring(void **state)
{
	bound(true, PRX_ON);
	s.c->rx.C = s.c->rx.Pb = 100;
	st_rlx(&s.words.p, slot_p_pack(107, 14));
	assert_int_equal(unread(), 7);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		st_rlx(&s.words.p, slot_p_pack(lies[i], 14));
		assert_in_range(unread(), 0, RING);
	}
	over();
}

static void behind_the_kernels(void **state)
{
	bound(true, PRX_RAW);
	st_rlx(&s.words.state, slot_state_pack(1, 'b', SLOT_SWITCHING));
	st_rlx(&s.words.p, slot_p_pack(7, 14));
	assert_int_equal(write(s.fds[1], "abc", 3), 3);
	assert_int_equal(unread(), 10);
	for (size_t i = 1; i < ARRAY_SIZE(lies); i++) {
		st_rlx(&s.words.p, slot_p_pack(lies[i], 14));
		assert_in_range(unread(), 0, 3 + RING);
	}
	over();
}

/* A switch that was refused: its bytes come by the kernel. */
static void on_their_way_from_afar(void **state)
{
	bound(false, PRX_RAW);
	s.c->rx.sw_e = 1;
	s.c->rx.pos = 50;
	st_rlx(&s.c->rx_switch_N, 53);
	st_rlx(&s.words.p, slot_p_pack(7, 14));
	assert_int_equal(write(s.fds[1], "abc", 3), 3);
	assert_int_equal(unread(), 10);
	for (size_t i = 1; i < ARRAY_SIZE(lies); i++) {
		st_rlx(&s.c->rx_switch_N, lies[i]);
		assert_in_range(unread(), 0, 3 + RING);
	}
	over();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_the_ring),
		cmocka_unit_test(behind_the_kernels),
		cmocka_unit_test(on_their_way_from_afar),
	};

	ready_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
