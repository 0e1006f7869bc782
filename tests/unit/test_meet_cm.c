/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_cm.c - meetings by rdma_cm, over a library that fails where it is told to */
#define _GNU_SOURCE
#include "fake_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/privfd.h"
#include "meet/cm.h"

static void (*channel_fn)(void *ctx, uint32_t events);
static int watch_err;

static int watch(void *arg, int fd, uint32_t events, void (*fn)(void *, uint32_t), void *ctx)
{
	if (watch_err)
		return watch_err;
	assert_true(privfd_is(fd));
	channel_fn = fn;
	return 0;
}

static void unwatch(void *arg, int fd) { channel_fn = NULL; }

static uint64_t now_ns;
static uint64_t now(void) { return now_ns; }

static const struct meet_loop loop = { .watch = watch, .unwatch = unwatch, .now_ns = now };

/* what has been heard */
static struct {
	int n[CM_GONE + 1];
	struct cm_end *end;
	struct cm_end last;		/* as it was at the last news */
} heard;

/* what the caller does in CM_REACHED, CM_ANSWERED, CM_COMING */
static int (*then)(struct cm_end *e);

static void news(struct cm_end *e, enum cm_news what)
{
	heard.n[what]++;
	heard.end = e;
	heard.last = *e;
	if (then && what != CM_FAILED && what != CM_GONE)
		then(e);
}

static const struct cm_hello ours = {
	.lport = 40000, .rport = 6379, .slots = 8, .part_pages = 64, .ring_bytes = 65536, .instance = 7 };
static const struct cm_hello theirs = {
	.lport = 6379, .rport = 40000, .slots = 4, .part_pages = 64, .ring_bytes = 4096, .instance = 9 };

static struct meet_tuple tuple(void)
{
	return (struct meet_tuple){ .family = AF_INET, .lport = 40000, .rport = 6379,
				    .laddr = { 10, 9, 0, 1 }, .raddr = { 10, 9, 0, 2 } };
}

static struct sockaddr_storage inet_addr_of(uint8_t host, uint16_t port)
{
	struct sockaddr_storage sa = { .ss_family = AF_INET };
	struct sockaddr_in *in = (void *)&sa;

	in->sin_port = htons(port);
	in->sin_addr.s_addr = htonl(0x0a090000u | host);
	return sa;
}

static int setup(void **state)
{
	fake_cm_install();
	memset(&heard, 0, sizeof(heard));
	then = NULL;
	watch_err = 0;
	now_ns = 1;
	return 0;
}

/* Nothing is left: no id, no event. */
static int teardown(void **state)
{
	cm_shut();
	assert_int_equal(fake_cm.ids, 0);
	assert_int_equal(fake_cm.unacked, 0);
	assert_null(channel_fn);
	return 0;
}

/* The devices whose QPs are ours. */
static bool usable(const char *name)
{
	return strcmp(name, "fake0") == 0 || strcmp(name, "fake2") == 0;
}

static void start(void) { assert_int_equal(cm_start(&loop, usable, false, news), 0); }

static void turn(void) { channel_fn(NULL, EPOLLIN); }

static void tell(enum rdma_cm_event_type type, const void *data, uint8_t len)
{
	fake_cm_event(fake_cm.last_id, type, data, len);
	turn();
}

static void tell_hello(enum rdma_cm_event_type type, const struct cm_hello *h)
{
	uint8_t b[196] = { 0 };		/* as an answer is padded */

	cm_hello_put(b, h);
	tell(type, b, sizeof(b));
}

static struct cm_end *ask(void)
{
	struct meet_tuple t = tuple();
	struct cm_end *e = NULL;

	assert_int_equal(cm_ask(&e, &t, 0, &heard), 0);
	return e;
}

static int connect_it(struct cm_end *e) { return cm_connect(e, &ours, 0x1234); }

static void ask_and_reach(void)
{
	int before = heard.n[CM_REACHED];

	ask();
	fake_cm_device(fake_cm.last_id, "fake0");
	tell(RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	assert_int_equal(heard.n[CM_REACHED], before);
	tell(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
}

/* From our own TCP address to the peer's, at the TCP port's number. */
static void asked_and_answered(void **state)
{
	struct sockaddr_storage from = inet_addr_of(1, 0), to = inet_addr_of(2, 6379);
	uint8_t said[CM_HELLO_BYTES];

	start();
	then = connect_it;
	ask_and_reach();
	assert_int_equal(heard.n[CM_REACHED], 1);
	assert_ptr_equal(heard.last.user, &heard);
	assert_memory_equal(&fake_cm.from, &from, sizeof(struct sockaddr_in));
	assert_memory_equal(&fake_cm.to, &to, sizeof(struct sockaddr_in));
	cm_hello_put(said, &ours);
	assert_int_equal(fake_cm.said_len, sizeof(said));
	assert_memory_equal(fake_cm.said, said, sizeof(said));
	assert_int_equal(fake_cm.param.qp_num, 0x1234);
	assert_int_equal(fake_cm.param.retry_count, 6);	/* 7 is for ever on some devices */
	then = cm_establish;
	tell_hello(RDMA_CM_EVENT_CONNECT_RESPONSE, &theirs);
	assert_int_equal(heard.n[CM_ANSWERED], 1);
	assert_int_equal(heard.last.theirs.instance, 9);
	assert_int_equal(heard.last.theirs.ring_bytes, 4096);
	assert_int_equal(fake_cm.establishes, 1);
	tell(RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
	tell(RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	assert_int_equal(heard.n[CM_GONE], 1);
	assert_int_equal(heard.n[CM_FAILED], 0);
	assert_int_equal(fake_cm.ids, 0);
}

/* iWARP: the TCP port's number is the program's own, and the answer comes when all is done. */
static void on_iwarp(void **state)
{
	struct sockaddr_in *to = (void *)&fake_cm.to, *at = (void *)&fake_cm.from;
	struct meet_tuple t = tuple();
	struct cm_end *e;

	assert_int_equal(cm_start(&loop, usable, true, news), 0);
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	assert_int_equal(ntohs(at->sin_port), cm_port(6379, 1));
	then = connect_it;
	ask_and_reach();
	assert_int_equal(ntohs(to->sin_port), cm_port(6379, 1));
	then = cm_establish;
	tell_hello(RDMA_CM_EVENT_ESTABLISHED, &theirs);
	assert_int_equal(heard.n[CM_ANSWERED], 1);
	assert_int_equal(heard.last.theirs.instance, 9);
	assert_int_equal(fake_cm.establishes, 0);
	tell(RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	assert_int_equal(heard.n[CM_GONE], 1);
	assert_int_equal(cm_ask(&e, &t, CM_PORTS - 1, NULL), 0);
	assert_int_equal(ntohs(to->sin_port), cm_port(6379, CM_PORTS));
	cm_close(e);
	/* who asks is told at once that nobody is there */
	ask();
	then = connect_it;
	fake_cm_device(fake_cm.last_id, "fake0");
	tell(RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	fake_cm.fail_at = fake_cm.calls + 1;
	fake_cm.fail_errno = ECONNREFUSED;
	tell(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
	assert_int_equal(heard.n[CM_FAILED], 1);
	assert_int_equal(heard.last.why, REASON_PEER_UNPROVEN);
	assert_int_equal(heard.last.verdict, 0);
}

static void every_way_to_fail(void **state)
{
	static const uint8_t later[] = { 'S', 'S', 'S', 'R', CM_VERSION, CM_LATER, 0, 0 };
	static const uint8_t no[] = { 'S', 'S', 'S', 'R', CM_VERSION, CM_REFUSED, REASON_SANDBOX,
				      0 };
	static const uint8_t newer[] = { 'S', 'S', 'S', 'R', CM_VERSION + 1, CM_LATER, 0, 0 };
	static const struct {
		enum rdma_cm_event_type type;
		const void *data;
		uint8_t len;
		enum reason why;
		uint8_t verdict;
	} cases[] = {
		{ RDMA_CM_EVENT_REJECTED, NULL, 0, REASON_PEER_UNPROVEN, 0 },
		{ RDMA_CM_EVENT_REJECTED, "hello, I am NFS", 15, REASON_PEER_UNPROVEN, 0 },
		{ RDMA_CM_EVENT_REJECTED, later, 8, REASON_PEER_UNPROVEN, CM_LATER },
		{ RDMA_CM_EVENT_REJECTED, no, 8, REASON_SANDBOX, CM_REFUSED },
		{ RDMA_CM_EVENT_REJECTED, newer, 8, REASON_PEER_UNPROVEN, 0 },
		{ RDMA_CM_EVENT_UNREACHABLE, NULL, 0, REASON_PEER_UNPROVEN, 0 },
		{ RDMA_CM_EVENT_CONNECT_ERROR, NULL, 0, REASON_PEER_UNPROVEN, 0 },
		{ RDMA_CM_EVENT_DEVICE_REMOVAL, NULL, 0, REASON_NO_RNIC, 0 },
		{ RDMA_CM_EVENT_CONNECT_RESPONSE, NULL, 0, REASON_PEER_UNPROVEN, 0 },
		{ RDMA_CM_EVENT_CONNECT_RESPONSE, "too short", 9, REASON_PEER_UNPROVEN, 0 },
	};

	start();
	then = connect_it;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask_and_reach();
		tell(cases[i].type, cases[i].data, cases[i].len);
		assert_int_equal(heard.n[CM_FAILED], i + 1);
		assert_int_equal(heard.last.why, cases[i].why);
		assert_int_equal(heard.last.verdict, cases[i].verdict);
		assert_int_equal(fake_cm.ids, 0);
	}
	assert_int_equal(heard.n[CM_ANSWERED], 0);
}

static void no_way_there(void **state)
{
	start();
	ask();
	tell(RDMA_CM_EVENT_ADDR_ERROR, NULL, 0);
	assert_int_equal(heard.n[CM_FAILED], 1);
	assert_int_equal(heard.last.why, REASON_NO_RNIC);
	ask();
	fake_cm_device(fake_cm.last_id, "fake0");
	tell(RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	tell(RDMA_CM_EVENT_ROUTE_ERROR, NULL, 0);
	assert_int_equal(heard.n[CM_FAILED], 2);
	assert_int_equal(heard.last.why, REASON_NO_RNIC);
	/* another device leads there than those that have our QPs */
	ask();
	fake_cm_device(fake_cm.last_id, "fake1");
	tell(RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	assert_int_equal(heard.n[CM_FAILED], 3);
	assert_int_equal(heard.last.why, REASON_NO_RNIC);
	/* or none at all */
	ask();
	tell(RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	assert_int_equal(heard.n[CM_FAILED], 4);
}

/* Who accepts at a port below 1024 has not the right to listen at that number again. */
static void a_privileged_port(void **state)
{
	struct sockaddr_in *to = (void *)&fake_cm.to, *at = (void *)&fake_cm.from;
	struct meet_tuple t = tuple();
	struct cm_end *e;

	start();
	assert_int_equal(cm_listen(AF_INET, 443), 0);
	assert_int_equal(ntohs(at->sin_port), cm_port(443, 1));
	assert_int_equal(cm_listen(AF_INET, 1024), 0);
	assert_int_equal(ntohs(at->sin_port), 1024);
	for (unsigned i = 0; i < CM_PORTS; i++) {
		t.rport = 443;
		assert_int_equal(cm_ask(&e, &t, i, NULL), 0);
		assert_int_equal(ntohs(to->sin_port), cm_port(443, i + 1));
		cm_close(e);
	}
}

static void an_answer_about_another_connection(void **state)
{
	struct cm_hello other = theirs;

	start();
	then = connect_it;
	ask_and_reach();
	other.rport++;
	tell_hello(RDMA_CM_EVENT_CONNECT_RESPONSE, &other);
	assert_int_equal(heard.n[CM_ANSWERED], 0);
	assert_int_equal(heard.n[CM_FAILED], 1);
	ask_and_reach();
	other = theirs;
	other.lport++;
	tell_hello(RDMA_CM_EVENT_CONNECT_RESPONSE, &other);
	assert_int_equal(heard.n[CM_FAILED], 2);
}

/* ---- the accepting side ---- */

static struct rdma_cm_id *request(const struct cm_hello *h, uint8_t host, uint16_t port,
				  const char *device)
{
	struct sockaddr_storage here = inet_addr_of(2, port), there = inet_addr_of(host, 51234);
	uint8_t b[CM_HELLO_BYTES];
	struct rdma_cm_id *id;

	cm_hello_put(b, h);
	id = fake_cm_request(&here, &there, device, b, sizeof(b));
	turn();
	return id;
}

static int accept_it(struct cm_end *e) { return cm_accept(e, &theirs, 99); }

static void refuse_later(struct cm_end *e) { cm_refuse(e, CM_LATER, REASON_NONE); }
static int refuse_it(struct cm_end *e)
{
	refuse_later(e);
	return 0;
}

/* Each peer is met by the device that leads to it. */
static void two_devices(void **state)
{
	start();
	ask_and_reach();
	assert_string_equal(cm_device(heard.end), "fake0");
	ask();
	fake_cm_device(fake_cm.last_id, "fake2");
	tell(RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	tell(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
	assert_int_equal(heard.n[CM_REACHED], 2);
	assert_string_equal(cm_device(heard.end), "fake2");
	cm_listen(AF_INET, 6379);
	request(&ours, 77, 6379, "fake2");
	assert_int_equal(heard.n[CM_COMING], 1);
	assert_string_equal(cm_device(heard.end), "fake2");
}

/* The addresses are those that rdma_cm saw, not what the asker might say. */
static void asked_by_another(void **state)
{
	static const uint8_t here[16] = { 10, 9, 0, 2 }, there[16] = { 10, 9, 0, 77 };
	uint8_t said[CM_HELLO_BYTES];

	start();
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	then = accept_it;
	request(&ours, 77, 6379, "fake0");
	assert_int_equal(heard.n[CM_COMING], 1);
	assert_int_equal(heard.last.tuple.family, AF_INET);
	assert_int_equal(heard.last.tuple.lport, 6379);
	assert_int_equal(heard.last.tuple.rport, 40000);
	assert_memory_equal(heard.last.tuple.laddr, here, 16);
	assert_memory_equal(heard.last.tuple.raddr, there, 16);
	assert_int_equal(heard.last.theirs.instance, 7);
	assert_null(heard.last.user);
	assert_int_equal(fake_cm.accepts, 1);
	cm_hello_put(said, &theirs);
	assert_memory_equal(fake_cm.said, said, sizeof(said));
	tell(RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
	assert_int_equal(heard.n[CM_GONE], 0);
	tell(RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	assert_int_equal(heard.n[CM_GONE], 1);
	/* nobody has taken the answer */
	request(&ours, 77, 6379, "fake0");
	tell(RDMA_CM_EVENT_UNREACHABLE, NULL, 0);
	assert_int_equal(heard.n[CM_GONE], 2);
	request(&ours, 77, 6379, "fake0");
	tell(RDMA_CM_EVENT_REJECTED, NULL, 0);
	assert_int_equal(heard.n[CM_GONE], 3);
}

static void refused(void **state)
{
	static const uint8_t want[] = { 'S', 'S', 'S', 'R', CM_VERSION, CM_LATER, 0, 0 };

	start();
	cm_listen(AF_INET, 6379);
	then = refuse_it;
	request(&ours, 77, 6379, "fake0");
	assert_int_equal(fake_cm.rejects, 1);
	assert_memory_equal(fake_cm.said, want, sizeof(want));
	assert_int_equal(fake_cm.ids, 1);	/* the listener */
}

/* It is asked first whose the connection is, and for a device of ours then. */
static void by_no_device_of_ours(void **state)
{
	static const char *const devices[] = { "fake1", NULL };

	start();
	cm_listen(AF_INET, 6379);
	for (int i = 0; i < 2; i++) {
		request(&ours, 77, 6379, devices[i]);
		assert_int_equal(heard.n[CM_COMING], i + 1);
		assert_null(cm_device(heard.end));
		cm_refuse(heard.end, CM_REFUSED, REASON_NO_RNIC);
		assert_int_equal(fake_cm.said[6], REASON_NO_RNIC);
	}
	assert_int_equal(fake_cm.ids, 1);
}

/* Refused before anybody hears of them, and with nothing left. */
static void requests_that_are_none(void **state)
{
	struct sockaddr_storage here = inet_addr_of(2, 6379), there = inet_addr_of(3, 5), six;
	uint8_t b[CM_HELLO_BYTES], not_mine[CM_REFUSAL_BYTES];

	start();
	cm_listen(AF_INET, 6380);
	/* at the number of another port than he says: that one's process may be elsewhere */
	cm_refusal_put(not_mine, &(struct cm_refusal){ .verdict = CM_NOT_MINE });
	request(&ours, 77, 6380, "fake0");
	assert_memory_equal(fake_cm.said, not_mine, sizeof(not_mine));
	cm_listen(AF_INET, 6379);
	fake_cm_request(&here, &there, "fake0", NULL, 0);
	fake_cm_request(&here, &there, "fake0", "abc", 3);
	turn();
	cm_hello_put(b, &ours);
	b[4] = CM_VERSION + 1;			/* a later version */
	fake_cm_request(&here, &there, "fake0", b, sizeof(b));
	memset(&six, 0, sizeof(six));
	six.ss_family = AF_INET6;		/* families that do not fit */
	b[4] = CM_VERSION;
	fake_cm_request(&six, &there, "fake0", b, sizeof(b));
	turn();
	assert_int_equal(fake_cm.rejects, 5);
	assert_int_equal(heard.n[CM_COMING], 0);
	assert_int_equal(fake_cm.ids, 2);	/* the listeners */
}

static int asked_again;

/* Each refusal is answered by the next request, as from many at once. */
static int refuse_and_be_asked(struct cm_end *e)
{
	struct sockaddr_storage here = inet_addr_of(2, 6379), there = inet_addr_of(77, 5);
	uint8_t b[CM_HELLO_BYTES];

	cm_refuse(e, CM_LATER, REASON_NONE);
	cm_hello_put(b, &ours);
	if (++asked_again < 10000)
		fake_cm_request(&here, &there, "fake0", b, sizeof(b));
	return 0;
}

/* The loop that calls has others to serve; what is left is told again. */
static void requests_without_end(void **state)
{
	start();
	cm_listen(AF_INET, 6379);
	then = refuse_and_be_asked;
	request(&ours, 77, 6379, "fake0");
	assert_in_range(asked_again, 1, 1000);
	while (asked_again < 10000)
		turn();
	assert_int_equal(fake_cm.rejects, 10000);
}

/* As many as there are places; the next is refused and the others live. */
static void too_many(void **state)
{
	start();
	cm_listen(AF_INET, 6379);
	then = accept_it;
	for (int i = 0; i < CM_ENDS; i++)
		request(&ours, 77, 6379, "fake0");
	assert_int_equal(heard.n[CM_COMING], CM_ENDS);
	request(&ours, 77, 6379, "fake0");
	assert_int_equal(heard.n[CM_COMING], CM_ENDS);
	assert_int_equal(fake_cm.rejects, 1);
	assert_int_equal(fake_cm.said[6], REASON_NO_MEMORY);
	assert_int_equal(fake_cm.ids, CM_ENDS + 1);

	struct meet_tuple t = tuple();
	struct cm_end *e;
	assert_int_equal(cm_ask(&e, &t, 0, NULL), -ENOSPC);
}

static void listening(void **state)
{
	start();
	assert_int_equal(cm_listen(AF_INET, 1), 0);
	assert_int_equal(cm_listen(AF_INET, 1), 0);
	assert_int_equal(fake_cm.listens, 1);
	assert_int_equal(cm_listen(AF_INET6, 1), 0);
	for (uint16_t p = 2; p < CM_LISTENERS; p++)
		assert_int_equal(cm_listen(AF_INET, p), 0);
	assert_int_equal(cm_listen(AF_INET, 9999), -ENOSPC);
	assert_int_equal(fake_cm.ids, CM_LISTENERS);
	/* its device goes: the place is free again */
	tell(RDMA_CM_EVENT_DEVICE_REMOVAL, NULL, 0);
	assert_int_equal(fake_cm.ids, CM_LISTENERS - 1);
	assert_int_equal(cm_listen(AF_INET, 9999), 0);
}

static bool even(const void *arg, uint16_t port) { return port % 2 == 0; }

/* Those at which nobody listens any more make room, the older half of them. */
static void listeners_make_room(void **state)
{
	struct sockaddr_in *at = (void *)&fake_cm.from;
	int listens;

	start();
	assert_int_equal(cm_thin(even, NULL), 0);
	for (uint16_t p = 2; p < CM_LISTENERS + 2; p++)
		assert_int_equal(cm_listen(AF_INET, p), 0);
	assert_int_equal(cm_listen(AF_INET, 9999), -ENOSPC);
	assert_int_equal(cm_thin(even, NULL), CM_LISTENERS / 4);
	assert_int_equal(fake_cm.ids, CM_LISTENERS * 3 / 4);
	listens = fake_cm.listens;
	assert_int_equal(cm_listen(AF_INET, CM_LISTENERS + 1), 0);	/* the youngest */
	assert_int_equal(cm_listen(AF_INET, 2), 0);
	assert_int_equal(fake_cm.listens, listens);
	assert_int_equal(cm_listen(AF_INET, 9999), 0);
	assert_int_equal(ntohs(at->sin_port), 9999);
	/* one that waits for a place, too */
	memset(fake_cm.taken, 0, sizeof(fake_cm.taken));
	for (unsigned i = 0; i < CM_PORTS; i++)
		fake_cm.taken[i] = cm_port(7777, i);
	assert_int_equal(cm_listen(AF_INET, 7777), -EADDRINUSE);
	while (cm_thin(even, NULL))
		;
	assert_int_equal(fake_cm.ids, CM_LISTENERS / 2);
	assert_true(cm_take_over_ns() == MEET_NEVER);
}

/* Others of the machine are there already; the asker goes from one to the next. */
static void listeners_of_one_tcp_port(void **state)
{
	struct meet_tuple t = tuple();
	struct sockaddr_in *to = (void *)&fake_cm.to, *at = (void *)&fake_cm.from;
	struct cm_end *e;

	start();
	fake_cm.taken[0] = 6379;
	fake_cm.taken[1] = cm_port(6379, 1);
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	assert_int_equal(ntohs(at->sin_port), cm_port(6379, 2));
	assert_int_equal(cm_ask(&e, &t, 2, NULL), 0);
	assert_int_equal(ntohs(to->sin_port), cm_port(6379, 2));
	/* what is asked there is about the TCP port */
	then = accept_it;
	request(&ours, 77, cm_port(6379, 2), "fake0");
	assert_int_equal(heard.n[CM_COMING], 1);
	assert_int_equal(heard.last.tuple.lport, 6379);
}

/* ---- the place of another who has gone ---- */

#define SECOND 1000000000ull

/* Others have the first n places of port 6379. */
static void others_have(unsigned n)
{
	memset(fake_cm.taken, 0, sizeof(fake_cm.taken));
	for (unsigned i = 0; i < n; i++)
		fake_cm.taken[i] = cm_port(6379, i);
}

/* Turns as they are due, until it is s seconds later. Return: how many. */
static int seconds_pass(unsigned s)
{
	uint64_t end = now_ns + s * SECOND;
	int turns = 0;

	while (cm_take_over_ns() <= end) {
		now_ns = cm_take_over_ns();
		cm_take_over();
		turns++;
	}
	now_ns = end;
	return turns;
}

static void assert_place(unsigned place)
{
	struct sockaddr_in *at = (void *)&fake_cm.from;

	assert_int_equal(ntohs(at->sin_port), cm_port(6379, place));
	assert_int_equal(fake_cm.ids, 1);	/* and the old one has gone */
}

static void the_first_process_dies_and_nobody_is_found(void **state)
{
	struct rdma_cm_id *before;

	start();
	others_have(1);
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	assert_place(1);
	before = fake_cm.listening;
	assert_int_equal(seconds_pass(10), 10);		/* he lives */
	assert_int_equal(fake_cm.ids, 1);
	assert_ptr_equal(fake_cm.listening, before);
	others_have(0);
	assert_int_equal(seconds_pass(1), 1);
	assert_place(0);
	then = accept_it;
	request(&ours, 77, 6379, "fake0");
	assert_int_equal(heard.n[CM_COMING], 1);
	assert_int_equal(heard.last.tuple.lport, 6379);
	/* nothing more to be done */
	assert_true(cm_take_over_ns() == MEET_NEVER);
	int calls = fake_cm.calls;
	cm_take_over();
	assert_int_equal(fake_cm.calls, calls);
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	assert_int_equal(fake_cm.calls, calls);
}

/* A request that is at the old place when it is given up: refused, and nothing is left. */
static void asked_at_the_place_that_was_left(void **state)
{
	struct rdma_cm_id *before;
	uint8_t b[CM_HELLO_BYTES];

	start();
	others_have(1);
	cm_listen(AF_INET, 6379);
	before = fake_cm.listening;
	others_have(0);
	struct sockaddr_storage here = inet_addr_of(2, cm_port(6379, 1)), there = inet_addr_of(3, 5);
	cm_hello_put(b, &ours);
	fake_cm_request(&here, &there, "fake0", b, sizeof(b));
	seconds_pass(1);
	assert_ptr_not_equal(fake_cm.listening, before);
	turn();
	assert_int_equal(fake_cm.rejects, 1);
	assert_int_equal(heard.n[CM_COMING], 0);
	assert_int_equal(fake_cm.ids, 1);
}

/* The lowest that is free, step by step; the further up, the more seldom. */
static void holes_close(void **state)
{
	start();
	others_have(6);
	cm_listen(AF_INET, 6379);
	assert_place(6);
	assert_int_equal(seconds_pass(60), 10);
	fake_cm.taken[4] = 0;		/* one in the middle goes, then the first */
	seconds_pass(6);
	assert_place(4);
	assert_int_equal(seconds_pass(60), 15);
	fake_cm.taken[0] = 0;
	seconds_pass(4);
	assert_place(0);
	assert_int_equal(seconds_pass(60), 0);
}

/* There are more processes than places, and later fewer. */
static void no_place_at_first(void **state)
{
	start();
	others_have(CM_PORTS);
	assert_int_equal(cm_listen(AF_INET, 6379), -EADDRINUSE);
	assert_int_equal(cm_listen(AF_INET, 6379), -EADDRINUSE);
	assert_int_equal(fake_cm.ids, 0);
	assert_int_equal(seconds_pass(160), 10);
	fake_cm.taken[9] = 0;
	assert_int_equal(seconds_pass(16), 1);
	assert_place(9);
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
}

/* At most a turn a second, for all of them. */
static void turns_of_many_ports(void **state)
{
	start();
	fake_cm.taken[0] = 6379;
	fake_cm.taken[1] = 6380;
	fake_cm.taken[2] = cm_port(6380, 1);
	fake_cm.taken[3] = 6381;
	cm_listen(AF_INET, 6379);
	now_ns += SECOND / 3;
	cm_listen(AF_INET, 6380);
	now_ns += SECOND / 3;
	cm_listen(AF_INET, 6381);
	cm_listen(AF_INET, 6382);
	assert_in_range(seconds_pass(60), 55, 60);
	fake_cm.taken[3] = 0;
	fake_cm.taken[0] = 0;
	seconds_pass(2);
	assert_in_range(seconds_pass(60), 28, 31);	/* of 6380 alone, from its third place */
	fake_cm.taken[2] = 0;
	fake_cm.taken[1] = 0;
	seconds_pass(2);
	assert_true(cm_take_over_ns() == MEET_NEVER);
	assert_int_equal(fake_cm.ids, 4);
}

/* A port below 1024, and the privilege has been given up since. */
static void taking_over_is_not_allowed(void **state)
{
	start();
	others_have(1);
	cm_listen(AF_INET, 6379);
	others_have(0);
	fake_cm.fail_at = fake_cm.calls + 2;
	fake_cm.fail_errno = EACCES;
	assert_int_equal(seconds_pass(10), 1);
	assert_int_equal(fake_cm.ids, 1);
	assert_true(cm_take_over_ns() == MEET_NEVER);
}

static void the_nth_call_of_a_take_over_fails(void **state)
{
	for (int n = 1;; n++) {
		struct rdma_cm_id *before;

		setup(NULL);
		start();
		others_have(1);
		cm_listen(AF_INET, 6379);
		before = fake_cm.listening;
		others_have(0);
		int calls = fake_cm.calls;
		fake_cm.fail_at = calls + n;
		fake_cm.fail_errno = ENOMEM;
		seconds_pass(1);
		assert_int_equal(fake_cm.ids, 1);	/* the old place, or the new one */
		if (cm_take_over_ns() != MEET_NEVER)
			seconds_pass(1);
		assert_place(0);
		assert_ptr_not_equal(fake_cm.listening, before);
		cm_shut();
		if (fake_cm.fail_at > fake_cm.calls)
			break;
		assert_true(n < 10);
	}
}

static void nothing_is_taken_over_after_the_end(void **state)
{
	start();
	others_have(1);
	cm_listen(AF_INET, 6379);
	tell(RDMA_CM_EVENT_DEVICE_REMOVAL, NULL, 0);
	assert_int_equal(fake_cm.ids, 0);
	assert_true(cm_take_over_ns() == MEET_NEVER);
	cm_listen(AF_INET, 6379);
	assert_true(cm_take_over_ns() != MEET_NEVER);
	cm_shut();
	assert_true(cm_take_over_ns() == MEET_NEVER);
	start();
	cm_listen(AF_INET, 6379);
	fake_cm.broken_errno = ENODEV;
	turn();
	fake_cm.broken_errno = 0;
	others_have(0);
	assert_true(cm_take_over_ns() == MEET_NEVER);
	int calls = fake_cm.calls;
	cm_take_over();
	assert_int_equal(fake_cm.calls, calls);
}

static void on_iwarp_places_are_kept(void **state)
{
	assert_int_equal(cm_start(&loop, usable, true, news), 0);
	fake_cm.taken[0] = cm_port(6379, 1);
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	assert_true(cm_take_over_ns() == MEET_NEVER);
}

static void ports_of_one_tcp_port(void **state)
{
	for (unsigned port = 1; port < 65536; port += 7) {
		assert_int_equal(cm_port((uint16_t)port, 0), port);
		for (unsigned i = 1; i < CM_PORTS; i++) {
			uint16_t p = cm_port((uint16_t)port, i);

			assert_true(p >= 20000 && p < 32000);
			assert_true(p != cm_port((uint16_t)port, i % (CM_PORTS - 1) + 1));
		}
	}
	assert_int_equal(cm_port(6379, 1), 26065);	/* doc/wire.md */
}

/* The caller gives up: an event that comes all the same finds nobody. */
static void given_up(void **state)
{
	struct rdma_cm_id *id, stale;
	struct cm_end *e;

	start();
	then = connect_it;
	ask_and_reach();
	id = fake_cm.last_id;
	e = heard.end;
	assert_ptr_equal(e->id, id);
	cm_close(e);
	cm_close(e);
	cm_close(NULL);
	assert_int_equal(fake_cm.ids, 0);
	fake_cm_event(&stale, RDMA_CM_EVENT_REJECTED, NULL, 0);
	turn();
	assert_int_equal(heard.n[CM_FAILED], 0);
}

static void shut_with_all_in_flight(void **state)
{
	start();
	then = connect_it;
	cm_listen(AF_INET, 6379);
	ask_and_reach();
	then = accept_it;
	request(&ours, 77, 6379, "fake0");
	ask();
	cm_shut();
	assert_int_equal(heard.n[CM_FAILED], 2);
	assert_int_equal(heard.n[CM_GONE], 1);
	assert_int_equal(fake_cm.ids, 0);
	assert_null(channel_fn);
	cm_shut();
}

/* The channel says nothing any more: all is over, and a new start is possible. */
static void the_channel_breaks(void **state)
{
	start();
	ask();
	fake_cm.broken_errno = ENODEV;
	turn();
	assert_int_equal(heard.n[CM_FAILED], 1);
	assert_null(channel_fn);
	fake_cm.broken_errno = 0;
	start();
	ask();
	assert_int_equal(fake_cm.ids, 1);
}

static void not_started(void **state)
{
	struct meet_tuple t = tuple();
	struct cm_end *e;

	assert_int_equal(cm_ask(&e, &t, 0, NULL), -ENODEV);
	assert_int_equal(cm_listen(AF_INET, 1), -ENODEV);
	watch_err = -ENOSPC;
	assert_int_equal(cm_start(&loop, usable, false, news), -ENOSPC);
	assert_int_equal(cm_ask(&e, &t, 0, NULL), -ENODEV);
}

/* The program's numbers end where ours would begin: the channel's own is not left open. */
static void no_number_for_the_channel(void **state)
{
	struct rlimit before, less;
	int next = dup(0);

	assert_true(next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &before));
	less = before;
	less.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	int err = cm_start(&loop, usable, false, news);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(err == -EMFILE || err == -EINVAL);
	assert_int_equal(fcntl(next, F_GETFD), -1);
}

/* A meeting from start to end, both sides of it. Return: all went well. */
static bool whole(void)
{
	struct meet_tuple t = tuple();
	struct cm_end *e;
	uint8_t b[CM_HELLO_BYTES];

	if (cm_start(&loop, usable, false, news))
		return false;
	if (cm_listen(AF_INET, 6379) || cm_listen(AF_INET6, 6379) || cm_ask(&e, &t, 0, NULL))
		return false;
	fake_cm_device(e->id, "fake0");
	fake_cm_event(e->id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	turn();
	if (!e->id)
		return false;
	if (cm_connect(e, &ours, 1))
		return false;
	cm_hello_put(b, &theirs);
	fake_cm_event(e->id, RDMA_CM_EVENT_CONNECT_RESPONSE, b, sizeof(b));
	turn();
	if (cm_establish(e))
		return false;
	request(&ours, 77, 6379, "fake0");
	return !cm_accept(heard.end, &theirs, 2);
}

static void the_nth_call_fails(void **state)
{
	for (int n = 1;; n++) {
		bool ok;

		setup(NULL);
		fake_cm.fail_at = n;
		fake_cm.fail_errno = n % 2 ? ENOMEM : EMFILE;
		ok = whole();
		cm_shut();
		assert_int_equal(fake_cm.ids, 0);
		assert_int_equal(fake_cm.unacked, 0);
		if (ok && fake_cm.calls < n)
			break;
		assert_true(n < 100);
		assert_false(ok);
	}
}

/* What there is is the parent's, the library too; the child begins with nothing. */
static void in_a_child(void **state)
{
	start();
	others_have(1);
	cm_listen(AF_INET, 6379);
	struct rdma_cm_id *parents = fake_cm.listening;
	const struct cm_lib *parents_library = cm;
	cm_forget();
	others_have(0);
	assert_true(cm_take_over_ns() == MEET_NEVER);
	int calls = fake_cm.calls;
	cm_take_over();
	assert_int_equal(fake_cm.calls, calls);
	parents_library->destroy_id(parents);
	channel_fn = NULL;
	assert_null(cm);
	assert_int_equal(cm_start(&loop, usable, false, news), -ENODEV);	/* there is none here */
	cm = parents_library;
	start();
	assert_int_equal(cm_listen(AF_INET, 6379), 0);
	assert_place(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_number_for_the_channel, setup, teardown),
		cmocka_unit_test_setup_teardown(not_started, setup, teardown),
		cmocka_unit_test_setup_teardown(asked_and_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(on_iwarp, setup, teardown),
		cmocka_unit_test_setup_teardown(every_way_to_fail, setup, teardown),
		cmocka_unit_test_setup_teardown(no_way_there, setup, teardown),
		cmocka_unit_test_setup_teardown(a_privileged_port, setup, teardown),
		cmocka_unit_test_setup_teardown(two_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answer_about_another_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(asked_by_another, setup, teardown),
		cmocka_unit_test_setup_teardown(refused, setup, teardown),
		cmocka_unit_test_setup_teardown(by_no_device_of_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(requests_that_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(requests_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(listening, setup, teardown),
		cmocka_unit_test_setup_teardown(listeners_make_room, setup, teardown),
		cmocka_unit_test_setup_teardown(listeners_of_one_tcp_port, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_process_dies_and_nobody_is_found, setup,
						teardown),
		cmocka_unit_test_setup_teardown(asked_at_the_place_that_was_left, setup, teardown),
		cmocka_unit_test_setup_teardown(holes_close, setup, teardown),
		cmocka_unit_test_setup_teardown(no_place_at_first, setup, teardown),
		cmocka_unit_test_setup_teardown(turns_of_many_ports, setup, teardown),
		cmocka_unit_test_setup_teardown(taking_over_is_not_allowed, setup, teardown),
		cmocka_unit_test_setup_teardown(the_nth_call_of_a_take_over_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_taken_over_after_the_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(on_iwarp_places_are_kept, setup, teardown),
		cmocka_unit_test(ports_of_one_tcp_port),
		cmocka_unit_test_setup_teardown(given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(shut_with_all_in_flight, setup, teardown),
		cmocka_unit_test_setup_teardown(the_channel_breaks, setup, teardown),
		cmocka_unit_test_setup_teardown(the_nth_call_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(in_a_child, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
