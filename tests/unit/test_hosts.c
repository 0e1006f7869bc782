/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_hosts.c - links to other hosts over a device and a rdma_cm that fail where they are told to
 *
 * All that concerns them runs in the background thread, one step of the test at a time.
 */
#define _GNU_SOURCE
#include "fake_cm.h"
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/config.h"
#include "meet/cm.h"
#include "ready/ready.h"
#include "sock/bind.h"
#include "sock/conn.h"
#include "sock/hosts.h"
#include "sock/meeting.h"

#define WAIT_MS	60000

/* ---- steps in the background thread ---- */

static sem_t done_step;
static void (*step)(void);

static void work_fn(struct bg_work *w)
{
	step();
	sem_post(&done_step);
}

static struct bg_work work = { .fn = work_fn };

static void in_loop(void (*fn)(void))
{
	step = fn;
	bg_queue(&work);
	sem_wait(&done_step);
}

/* ---- who asks ---- */

static struct conn *c;
static struct {
	int n;
	struct link *l;
	enum reason why;
} told;

static void done(struct conn *who, struct link *l, enum reason why)
{
	told.n++;
	told.l = l;
	told.why = why;
}

static void conn_make(void)
{
	c = conn_new(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_non_null(c);
	c->tuple = (struct meet_tuple){ .family = AF_INET, .lport = 40000, .rport = 6379,
					.laddr = { 10, 9, 0, 1 }, .raddr = { 10, 9, 0, 2 } };
}

static const struct cm_hello theirs = {
	.lport = 6379, .rport = 40000, .slots = 1024, .part_pages = 128, .ring_bytes = 65536,
	.instance = 9, .rnic = { [8] = 0, 4, [12] = 8, [16] = 1, 0 } };

static struct rdma_cm_id *id;

static void ask(void)
{
	struct rdma_cm_id *before = fake_cm.last_id;

	hosts_ask(c, done);
	id = fake_cm.last_id == before ? NULL : fake_cm.last_id;
}

static void resolved(void)
{
	fake_cm_device(id, "fake0");
	fake_cm_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
}

static void reached(void) { fake_cm_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0); }

static void answered(void)
{
	uint8_t b[CM_HELLO_BYTES];

	cm_hello_put(b, &theirs);
	fake_cm_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, b, sizeof(b));
}

static void hung_up(void) { fake_cm_event(id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0); }

static bool all_heard;
static void look(void) { all_heard = fake_cm.head == fake_cm.tail && !fake_cm.unacked; }

static void play(void (*fn)(void))
{
	in_loop(fn);
	do
		in_loop(look);
	while (!all_heard);
}

/* Return: the link has come up. */
static bool whole_ask(void)
{
	static void (*const steps[])(void) = { ask, resolved, reached, answered };

	memset(&told, 0, sizeof(told));
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !told.n; i++)
		play(steps[i]);
	assert_int_equal(told.n, 1);
	return told.l != NULL;
}

static void await_links(uint32_t n)
{
	for (int ms = 0; link_count() != n && ms < WAIT_MS; ms++)
		usleep(1000);
	assert_int_equal(link_count(), n);
}

static void await_no_links(void)
{
	await_links(0);
	in_loop(look);
}

static void forget_silence(void) { hosts_shut(); hosts_forget(); fake_cm_install(); }

static void begin(void)
{
	in_loop(forget_silence);
	fake.nsent = 0;
	fake.fail_at = fake_cm.fail_at = 0;
}

/* With the nth call of the one library, then of the other. */
static void the_nth_call_fails(bool (*whole)(void))
{
	int before = fake.alive;

	for (int n = 1, well = 0; well < 2; n++) {
		begin();
		fake.fail_errno = fake_cm.fail_errno = n % 2 ? ENOMEM : EMFILE;
		*(well ? &fake_cm.fail_at : &fake.fail_at) = (well ? fake_cm.calls : fake.calls) + n;
		int calls = fake_cm.calls;
		bool ok = whole();
		if (!ok && fake_cm.calls == calls) {	/* it is not asked each time */
			usleep(100000);
			n--;
			continue;
		}
		bool all = well ? fake_cm.calls < fake_cm.fail_at : fake.calls < fake.fail_at;
		if (ok)
			play(hung_up);
		await_no_links();
		assert_int_equal(fake.alive, before);
		in_loop(hosts_shut);
		assert_int_equal(fake_cm.ids, 0);
		assert_int_equal(ld_rlx(&c->refs), 1);
		assert_true(n < 100);
		if (ok && all) {
			well++;
			n = 0;
		}
	}
}

static void asked(void **state) { the_nth_call_fails(whole_ask); }

/* ---- who is asked ---- */

static enum meet_verdict own(const struct meet_tuple *t, enum reason *why)
{
	return MEET_MINE;
}

static int listen_err;
static void listen_there(void) { listen_err = hosts_listen(AF_INET, 6379, own); }

static struct sockaddr_storage address(uint8_t host, uint16_t port)
{
	struct sockaddr_storage sa = { .ss_family = AF_INET };
	struct sockaddr_in *in = (void *)&sa;

	in->sin_port = htons(port);
	in->sin_addr.s_addr = htonl(0x0a090000u | host);
	return sa;
}

static struct cm_hello coming_hello;

static void request(const uint8_t *data, uint8_t len)
{
	struct sockaddr_storage here = address(1, 6379), there = address(77, 51234);

	id = fake_cm_request(&here, &there, "fake0", data, len);
}

static void coming(void)
{
	uint8_t b[CM_HELLO_BYTES];

	cm_hello_put(b, &coming_hello);
	request(b, sizeof(b));
}

static bool whole_coming(void)
{
	coming_hello = theirs;
	coming_hello.lport = 40000;
	coming_hello.rport = 6379;
	play(listen_there);
	if (listen_err)
		return false;
	play(coming);
	return fake_cm.accepts && link_count();
}

static void asked_by_another(void **state) { the_nth_call_fails(whole_coming); }

/* ---- what may be said ---- */

static uint64_t dice = 88172645463325252ull;

static uint32_t roll(uint32_t n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 20) % n;
}

static uint8_t said[196];
static uint8_t said_len;

static void garble(const struct cm_hello *h)
{
	memset(said, 0, sizeof(said));
	cm_hello_put(said, h);
	for (uint32_t i = roll(4); i-- > 0;)
		said[12 + roll(44)] = (uint8_t)(roll(3) ? roll(256) : 255 * roll(2));
	if (!roll(4))
		said[roll(56)] ^= (uint8_t)(1 << roll(8));
	said_len = (uint8_t)(roll(8) ? 56 : roll(196));
}

static void garbled_answer(void)
{
	garble(&theirs);
	fake_cm_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, said, said_len);
}

static void garbled_request(void)
{
	garble(&coming_hello);
	request(said, said_len);
}

static void whatever_is_said(void **state)
{
	int before = fake.alive, up = 0;

	for (int i = 0; i < 60; i++) {
		begin();
		memset(&told, 0, sizeof(told));
		if (i % 2) {
			play(ask);
			play(resolved);
			play(reached);
			play(garbled_answer);
			assert_int_equal(told.n, 1);
		} else {
			play(listen_there);
			play(garbled_request);
		}
		up += link_count() != 0;
		if (link_count())
			play(hung_up);
		await_no_links();
		assert_int_equal(fake.alive, before);
		in_loop(hosts_shut);
		assert_int_equal(fake_cm.ids, 0);
	}
	assert_in_range(up, 1, 59);
}

/* ---- a peer that takes a link and answers nothing on it ---- */

static int sent_bind;
static void send_bind(void) { sent_bind = bind_send(c, told.l); }
static bool waits;
static void look_overdue(void) { waits = bind_look_overdue(); }

static void bind_is_never_answered(void **state)
{
	begin();
	assert_true(whole_ask());
	in_loop(send_bind);
	assert_int_equal(sent_bind, 0);
	assert_int_equal(c->meet, MEET_BINDING);
	in_loop(look_overdue);
	assert_true(waits);
	usleep(50000);
	assert_int_equal(link_count(), 1);
	c->bind_ns -= 61 * NS_PER_S;
	in_loop(look_overdue);
	await_no_links();
	assert_null(c->link);
	in_loop(look_overdue);
	assert_false(waits);
}

/* ---- no room ---- */

#define MOST	256		/* CROSSINGS of hosts.c */

static struct conn *others[MOST];

static void all_ask(void)
{
	for (int i = 0; i < MOST; i++) {
		others[i] = conn_new(i);
		others[i]->tuple = c->tuple;
		others[i]->tuple.raddr[0] = 11;
		others[i]->tuple.raddr[2] = (uint8_t)i;
		hosts_ask(others[i], done);
	}
}

static void meet_elsewhere(void)
{
	c->elsewhere = c->active = true;
	c->meet_tries = 0;
	st_rlx(&c->meet, MEET_QUEUED);
	st_rlx(&c->why, REASON_NONE);
	meeting_try_known(c);
}

static void assert_later(enum reason why)
{
	assert_int_equal(c->meet, MEET_IDLE);
	assert_int_equal(c->why, why);
}

/* As many links as there may be, or no memory for the next: asked again with more traffic. */
static void no_room_for_a_link(void **state)
{
	begin();
	play(all_ask);
	assert_int_equal(fake_cm.ids, MOST);
	in_loop(meet_elsewhere);
	assert_later(REASON_NO_MEMORY);
	begin();
	fake_cm.fail_errno = EMFILE;
	do {				/* of the channel, then of an id */
		fake_cm.fail_at = fake_cm.calls + 2;
		usleep(100000);
		in_loop(meet_elsewhere);
	} while (c->why == REASON_NO_RNIC);
	assert_later(REASON_NO_MEMORY);
}

/* Links live as long as both processes, also when nothing is bound on them any more. */
static void idle_links_make_room(void **state)
{
	begin();
	for (int i = 0; i < MOST; i++) {
		c->tuple.raddr[2] = (uint8_t)i;
		assert_true(whole_ask());
		if (i == 1)
			in_loop(send_bind);
	}
	assert_int_equal(sent_bind, 0);
	c->tuple.raddr[0] = 11;
	play(ask);
	assert_ptr_equal(told.l, NULL);
	assert_int_equal(told.why, REASON_NONE);	/* soon */
	await_links(MOST - 1);
	assert_true(whole_ask());
	/* who is asked does the same */
	play(listen_there);
	play(coming);
	assert_int_equal(fake_cm.said[5], CM_LATER);
	await_links(MOST - 1);
	play(coming);
	assert_int_equal(fake_cm.accepts, 1);
	assert_non_null(c->link);		/* that one is in use */
	in_loop(hosts_shut);
	await_no_links();
	c->tuple.raddr[0] = 10;
}

/* ---- the device goes ---- */

static int count_of(const int *fds, int n, int fd)
{
	int k = 0;

	while (n-- > 0)
		k += fds[n] == fd;
	return k;
}

static void device_event(void)
{
	fake.event = (struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL };
	fake.event_there = true;
	eventfd_write(engine.there->rnic->ctx->async_fd, 1);
}

/* As Linux has it: one event, nothing behind it, and a channel that is readable from then on. */
static void the_device_goes(void **state)
{
	struct engine_dev *d = engine.there;
	int fds[ENGINE_FDS], channel = d->channel->fd;

	begin();
	assert_true(whole_ask());
	assert_int_equal(count_of(fds, engine_fds(fds), channel), 1);
	in_loop(device_event);
	await_no_links();
	assert_int_equal(fake.acked, 1);
	assert_true(d->gone);
	assert_int_equal(count_of(fds, engine_fds(fds), channel), 0);	/* nobody sleeps on it */
	/* one of that name that is there again is another one */
	begin();
	assert_true(whole_ask());
	assert_ptr_not_equal(told.l->dev, d);
	assert_string_equal(told.l->dev->rnic->name, d->rnic->name);
	play(hung_up);
	await_no_links();
}

/* ---- listeners ---- */

static struct conn *listener;

static void listener_make(void)
{
	listener = conn_new(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_non_null(listener);
	st_rlx(&listener->listening, true);
	st_rlx(&listener->listen_there, true);
	st_rlx(&listener->listen_family, AF_INET);
	st_rlx(&listener->listen_port, 7000);
}

static void listen_now(void) { bind_listen(listener); }

/* Who accepts before the port of the device is up is found when it is. */
static void the_port_is_not_up_yet(void **state)
{
	fake_install();
	fake.max_qp_wr = 4096;
	fake.max_cqe = fake.cq_limit = 1 << 20;
	fake_cm_install();
	listener_make();
	fake.port_down = true;
	in_loop(listen_now);
	assert_int_equal(fake_cm.listens, 0);
	assert_false(listener->listen_there);	/* so the next accept() asks again */
	fake.port_down = false;
	st_rlx(&listener->listen_there, true);
	for (int ms = 0; !fake_cm.listens && ms < WAIT_MS; ms += 100) {
		usleep(100000);			/* the device is not asked each time */
		st_rlx(&listener->listen_there, true);
		in_loop(listen_now);
	}
	assert_int_equal(fake_cm.listens, 1);
	assert_true(listener->listen_there);
	assert_non_null(engine.there);
}

/* A server that listens at a port for a while, and then at another, as FTP's do. */
static void many_ports_one_by_one(void **state)
{
	begin();
	for (uint16_t port = 7000; port < 7000 + 3 * CM_LISTENERS; port++) {
		const struct sockaddr_in *at = (void *)&fake_cm.from;

		st_rlx(&listener->listen_port, port);
		in_loop(listen_now);
		assert_int_equal(ntohs(at->sin_port), port);
	}
	assert_in_range(fake_cm.ids, 1, CM_LISTENERS);
	in_loop(hosts_shut);
	assert_int_equal(fake_cm.ids, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_port_is_not_up_yet),
		cmocka_unit_test(asked),
		cmocka_unit_test(asked_by_another),
		cmocka_unit_test(whatever_is_said),
		cmocka_unit_test(bind_is_never_answered),
		cmocka_unit_test(no_room_for_a_link),
		cmocka_unit_test(idle_links_make_room),
		cmocka_unit_test(the_device_goes),
		cmocka_unit_test(many_ports_one_by_one),
	};

	config_load(NULL);
	ready_init();
	bind_start();
	sem_init(&done_step, 0, 0);
	if (bg_start())
		return 77;
	conn_make();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
