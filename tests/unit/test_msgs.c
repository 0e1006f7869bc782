/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_msgs.c - what a peer may say before it has proven itself
 *
 * The conn has sent BIND, on a link whose other end may be anybody's: on another host
 * whoever listens at the port is asked.  No background thread runs.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ready/ready.h"
#include "sock/conn.h"
#include "sock/msgs.h"

static struct {
	int fds[2];
	struct conn *c;
	struct link *l;
} s;

static void asking(bool closing)
{
	struct conn *c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s.fds), 0);
	s.l = calloc(1, sizeof(*s.l));
	s.c = c = conn_new(s.fds[0]);
	assert_true(s.l && c);
	s.l->id = 7;
	s.l->refs = 1;
	s.l->nslots = FAR_SLOTS;
	s.l->ring_bytes = s.l->peer_ring_bytes = 65536;
	c->established = true;
	c->link = s.l;
	c->slot = 1;
	st_rlx(&c->meet, MEET_BINDING);
	if (closing)
		prx_close(&c->rx);
}

static void over(void)
{
	s.c->link = NULL;
	close(s.fds[0]);
	close(s.fds[1]);
	free(s.l);
}

static const enum wire_type types[] = {
	WIRE_GRANT, WIRE_SWITCH, WIRE_SWITCHED, WIRE_REFUSED, WIRE_CREDIT, WIRE_WANT_CREDIT,
	WIRE_PLEASE, WIRE_RELEASED, WIRE_FIN, WIRE_UNBIND, WIRE_CLOSING, WIRE_QUIET, WIRE_WINDOW,
	WIRE_RESET, WIRE_WANT_RING, WIRE_RING,
};
static const uint64_t numbers[] = { 0, 1, 65536, UINT64_MAX };

static void say_all(uint16_t epoch, uint64_t a)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct wire_msg m = { .type = (uint8_t)types[i], .slot = 1, .epoch = epoch,
				      .a = a, .b = a };

		lock_take(&engine.poll_lock);
		msgs_user.msg(s.l, s.c, &m);
		lock_drop(&engine.poll_lock);
	}
}

/* The stream stays the kernel's, both ways. */
static void an_unproven_peer(void **state)
{
	for (int closing = 0; closing < 2; closing++) {
		asking(closing);
		for (uint16_t epoch = 0; epoch < 3; epoch++)
			for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
				say_all(epoch, numbers[i]);
		assert_int_equal(s.c->tx.state, PTX_RAW);
		assert_int_equal(ptx_where(&s.c->tx), PTX_TO_KERNEL);
		assert_int_equal(s.c->rx.state, PRX_RAW);
		assert_false(s.c->tx.closing || s.c->rx.quiet || s.c->rx.eof || s.c->reset);
		over();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unproven_peer),
	};

	ready_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
