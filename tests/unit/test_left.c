/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_left.c - a FIN, and what the slot's words say of who sent it
 *
 * The conn has switched, its peer has ended the kernel socket.  No background
 * thread runs and there is no link: only the verdict is asked for.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ready/ready.h"
#include "sock/act.h"
#include "sock/conn.h"

#define RING 16384

static struct {
	int peer, fd;
	struct conn *c;
	struct slot_shm rx_words, tx_words;
	uint8_t ring[RING];
} s;

static void pair(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(l, (struct sockaddr *)&sa, len) | listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&sa, &len), 0);
	s.peer = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(s.peer, (struct sockaddr *)&sa, len), 0);
	s.fd = accept(l, NULL, NULL);
	assert_true(s.fd >= 0);
	close(l);
}

/* Four bytes are in the ring, and nobody has taken them. */
static void switched(void)
{
	struct conn *c;

	memset(&s, 0, sizeof(s));
	pair();
	s.c = c = conn_new(s.fd);
	assert_non_null(c);
	c->established = c->ever_bound = true;
	c->meet = MEET_OVER;
	c->rx_words = &s.rx_words;
	c->tx_words = &s.tx_words;
	c->tx_ring = s.ring;
	c->tx_ring_bytes = RING;
	c->tx_wlog = 14;
	lock_take(&c->txl);
	assert_int_equal(ptx_bind(&c->tx, 1, true, 7, RING), 0);
	prx_bind(&c->rx, 1, true, 7, RING);
	assert_true(slot_attach(&s.tx_words, 1, 0, 'b', 14));
	assert_false(ptx_switch(&c->tx, 0, 'b') & PA_ILLEGAL);
	assert_int_equal(ptx_put(&c->tx, 4), 0);
	memcpy(s.ring, "byte", 4);
	lock_drop(&c->txl);
}

static void fin(uint64_t said)
{
	if (said)
		slot_end_set(&s.rx_words, said);
	assert_int_equal(shutdown(s.peer, SHUT_WR), 0);
	lock_take(&s.c->rxl);
	conn_end_look(s.c);
	lock_drop(&s.c->rxl);
}

static void over(void)
{
	close(s.peer);
	close(s.fd);
}

static void silent_fin_is_a_death(void **state)
{
	switched();
	fin(0);
	assert_int_equal(s.c->tx.state, PTX_QUIET);
	assert_true(s.c->reset);
	over();
}

static void half_a_close_reads_on(void **state)
{
	switched();
	fin(SLOT_END_FIN);
	assert_int_equal(s.c->tx.state, PTX_SWITCHING);
	assert_false(s.c->reset);
	over();
}

/* Its link had died, of which we have not heard yet: what it did later is not said here. */
static void who_left_the_slot_reads_on(void **state)
{
	char buf[8];

	switched();
	fin(SLOT_END_LEFT);
	assert_int_equal(s.c->tx.state, PTX_SWITCHING);
	assert_false(s.c->reset);
	/* now we hear of it, too */
	lock_take(&s.c->txl);
	tx_act(s.c, ptx_link_dead(&s.c->tx, 1));
	lock_drop(&s.c->txl);
	assert_int_equal(recv(s.peer, buf, sizeof(buf), 0), 4);
	assert_memory_equal(buf, "byte", 4);
	over();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_fin_is_a_death),
		cmocka_unit_test(half_a_close_reads_on),
		cmocka_unit_test(who_left_the_slot_reads_on),
	};

	ready_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
