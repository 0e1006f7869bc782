/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_ready.c - edges of a conn whose bytes are between ring and kernel
 *
 * One end of a real connection is a conn of ours that reads from a ring, the
 * other end is the test itself: it writes the peer's records.  No background
 * thread runs: what it would do, pull() does when it suits the test.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ready/ready.h"
#include "sock/act.h"
#include "sock/conn.h"
#include "sock/fdtab.h"
#include "sock/io.h"
#include "sock/sock.h"

#define NONCE	0x1122334455667788ull
#define LINK	1
#define EPOCH	1
#define FIRST	'h'
#define RING	16384

struct scene {
	int peer, fd, ep;
	struct conn *c;
	struct slot_shm words;
	uint8_t ring[RING];
};

static void pair(struct scene *s)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(l, (struct sockaddr *)&sa, len) | listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&sa, &len), 0);
	s->peer = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(s->peer, (struct sockaddr *)&sa, len), 0);
	s->fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);
	assert_true(s->fd >= 0);
	close(l);
}

/* Send what the peer's sender would; behind it bytes, or its end. */
static void record(struct scene *s, enum prec_type type, uint64_t K, uint64_t P)
{
	struct prec r = { .type = type, .e = EPOCH, .nonce = NONCE, .K = K, .P = P };
	uint8_t buf[PREC_SIZE];

	if (type == PREC_SWITCH)
		r.mark = (uint8_t)~FIRST;
	prec_encode(buf, &r);
	assert_int_equal(send(s->peer, buf, sizeof(buf), 0), sizeof(buf));
}

static void pull(struct scene *s)
{
	lock_take(&s->c->rxl);
	rx_pull(s->c);
	lock_drop(&s->c->rxl);
}

/* Until there is none. */
static int events_drain(struct scene *s)
{
	const struct timespec zero = { 0 };
	struct epoll_event ev;
	int n = 0;

	while (n < 8 && ready_epoll_wait(CALL_epoll_wait, s->ep, &ev, 1, &zero, NULL) == 1)
		n++;
	return n;
}

/* The one event that is there now, within a second. */
static uint32_t event_take(struct scene *s)
{
	const struct timespec second = { 1, 0 };
	struct epoll_event ev = { 0 };

	return ready_epoll_wait(CALL_epoll_wait, s->ep, &ev, 1, &second, NULL) == 1 ? ev.events : 0;
}

static ssize_t take(struct scene *s, size_t most)
{
	char buf[64];
	struct iovec v = { buf, most };
	struct io io = { .call = CALL_recv, .iov = &v, .cnt = 1 };

	return rx_run(s->fd, &io);
}

/* The program has sent its end, reads from the ring, and waits for edges. */
static struct scene *scene_open(void)
{
	static struct scene scene;
	struct scene *s = &scene;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	struct conn *c;

	memset(s, 0, sizeof(*s));
	pair(s);
	s->c = c = conn_new(s->fd);
	assert_non_null(c);
	assert_int_equal(fdtab_set(s->fd, c, FDTAB_CONN), 0);
	c->established = c->nonblock = c->ever_bound = true;
	c->meet = MEET_OVER;
	c->rx_ring = s->ring;
	c->rx_ring_bytes = RING;
	c->rx_words = &s->words;
	s->ep = epoll_create1(0);
	ready_epoll_created(s->ep);
	assert_int_equal(ready_epoll_ctl(s->ep, EPOLL_CTL_ADD, s->fd, &ev), 0);
	assert_true(slot_attach(&s->words, EPOCH, 0, FIRST, 14));
	lock_take(&c->rxl);
	prx_bind(&c->rx, LINK, true, NONCE, RING);
	rx_act(c, prx_on_switch(&c->rx, LINK, EPOCH, 0, FIRST, true, true));
	lock_drop(&c->rxl);
	record(s, PREC_SWITCH, 0, 0);
	pull(s);
	assert_int_equal(c->rx.state, PRX_ON);
	memcpy(s->ring, "hello", 5);
	slot_publish(&s->words, 5, 14);
	assert_int_equal(sock_shutdown(s->fd, SHUT_WR), 0);
	return s;
}

static void scene_close(struct scene *s)
{
	close(s->ep);
	close(s->peer);
	close(s->fd);
	fdtab_set(s->fd, NULL, FDTAB_CONN);
}

static void fin_comes(struct scene *s)
{
	lock_take(&s->c->rxl);
	rx_look(s->c);
	rx_act(s->c, prx_on_fin(&s->c->rx, LINK, EPOCH, 5) | PA_WAKE);
	lock_drop(&s->c->rxl);
}

/* FIN was lost with the link; the kernel's is seen before the record in front of it. */
static void end_is_told_behind_its_record(void **state)
{
	struct scene *s = scene_open();

	events_drain(s);
	assert_int_equal(take(s, 64), 5);
	assert_int_equal(take(s, 64), -EAGAIN);
	events_drain(s);
	record(s, PREC_RESUME, 5, 5);
	shutdown(s->peer, SHUT_WR);
	assert_true(event_take(s) & EPOLLHUP);
	assert_int_equal(take(s, 64), -EAGAIN);
	events_drain(s);
	pull(s);
	assert_int_equal(s->c->rx.state, PRX_RAW);
	assert_true(event_take(s) & EPOLLIN);
	assert_int_equal(take(s, 64), 0);
	scene_close(s);
}

/* The end is known from the ring, and then the bytes before it come by the kernel. */
static void end_is_told_with_resent_bytes(void **state)
{
	struct scene *s = scene_open();

	fin_comes(s);
	assert_true(event_take(s) & EPOLLHUP);
	record(s, PREC_RESUME, 0, 5);
	pull(s);
	assert_int_equal(s->c->rx.left, 5);
	assert_int_equal(take(s, 64), -EAGAIN);
	events_drain(s);
	assert_int_equal(take(s, 64), -EAGAIN);	/* who is told of bytes on the way looks again */
	send(s->peer, "hello", 5, MSG_MORE);
	shutdown(s->peer, SHUT_WR);
	assert_true(event_take(s) & EPOLLIN);
	assert_int_equal(take(s, 64), 5);
	assert_int_equal(take(s, 64), 0);
	scene_close(s);
}

/* ... in two parts: a program that stops at a short read is told of the second. */
static void short_read_is_no_end(void **state)
{
	struct scene *s = scene_open();

	fin_comes(s);
	assert_true(event_take(s) & EPOLLHUP);
	record(s, PREC_RESUME, 0, 5);
	send(s->peer, "abc", 3, 0);
	pull(s);
	events_drain(s);
	assert_int_equal(take(s, 64), 3);
	send(s->peer, "de", 2, MSG_MORE);
	shutdown(s->peer, SHUT_WR);
	assert_true(event_take(s) & EPOLLIN);
	assert_int_equal(take(s, 64), 2);
	assert_int_equal(take(s, 64), 0);
	scene_close(s);
}

/* Whoever has been told, and finds all of it, is not told again. */
static void end_is_told_once(void **state)
{
	struct scene *s = scene_open();

	fin_comes(s);
	assert_true(event_take(s) & EPOLLHUP);
	assert_int_equal(take(s, 64), 5);
	events_drain(s);
	record(s, PREC_RESUME, 5, 5);
	shutdown(s->peer, SHUT_WR);
	pull(s);
	assert_int_equal(events_drain(s), 0);
	assert_int_equal(take(s, 64), 0);
	scene_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end_is_told_behind_its_record),
		cmocka_unit_test(end_is_told_with_resent_bytes),
		cmocka_unit_test(short_read_is_no_end),
		cmocka_unit_test(end_is_told_once),
	};

	clock_init();
	real.epoll_wait = epoll_wait;
	ready_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
