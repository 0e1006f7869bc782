/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_msg.c - messages and descriptors, honest and hostile */
#define _GNU_SOURCE
#include "test_meet_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/privfd.h"
#include "meet/msg.h"

static int sv[2];
static unsigned before;

static int setup(void **state)
{
	before = open_fds();
	return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv);
}

static int teardown(void **state)
{
	close(sv[0]);
	if (sv[1] >= 0)
		close(sv[1]);
	assert_int_equal(open_fds(), before);
	return 0;
}

static struct meet_msg hello(void)
{
	struct meet_msg m;

	meet_msg_init(&m, MEET_HELLO, 0x1122334455667788);
	m.hello.caps = 5;
	m.hello.rnic_bytes = 128;
	m.hello.slots = 64;
	m.hello.ring_bytes = 1 << 18;
	memset(m.hello.rnic, 0x5a, sizeof(m.hello.rnic));
	memset(m.hello.opaque, 0xa5, sizeof(m.hello.opaque));
	return m;
}

static struct meet_msg question(void)
{
	struct meet_msg m;

	meet_msg_init(&m, MEET_ASK, 42);
	m.ask.tuple.family = AF_INET;
	m.ask.tuple.lport = 40000;
	m.ask.tuple.rport = 6379;
	m.ask.tuple.laddr[0] = m.ask.tuple.raddr[0] = 127;
	return m;
}

/* Raw sendmsg with as many descriptors as wanted. */
static ssize_t send_raw(const void *p, size_t n, int nfds)
{
	char ctl[CMSG_SPACE(64 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c = (void *)ctl;

	if (nfds) {
		mh.msg_control = ctl;
		mh.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		for (int i = 0; i < nfds; i++)
			((int *)(void *)CMSG_DATA(c))[i] = 0;
	}
	return sendmsg(sv[0], &mh, 0);
}

static int take(struct meet_msg *m)
{
	int fds[MEET_MAX_FDS], ret;
	unsigned nfds = 99;

	ret = meet_recv(sv[1], m, fds, &nfds);
	assert_int_equal(nfds, 0);
	return ret;
}

static void hello_with_descriptors(void **state)
{
	struct meet_msg m = hello(), got;
	int p[2], fds[MEET_MAX_FDS], in[MEET_MAX_FDS];
	unsigned nfds;
	char c = 0;

	assert_int_equal(pipe(p), 0);
	for (unsigned n = 0; n <= MEET_MAX_FDS; n++) {
		for (unsigned i = 0; i < n; i++)
			in[i] = p[1];
		assert_int_equal(meet_send(sv[0], &m, in, n), 0);
		assert_int_equal(meet_recv(sv[1], &got, fds, &nfds), 1);
		assert_memory_equal(&got, &m, sizeof(m));
		assert_int_equal(nfds, n);
		for (unsigned i = 0; i < n; i++) {
			assert_true(privfd_is(fds[i]));
			assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
			assert_int_equal(write(fds[i], "x", 1), 1);
			assert_int_equal(read(p[0], &c, 1), 1);
			privfd_close(fds[i]);
		}
	}
	close(p[0]);
	close(p[1]);
}

static void send_refuses_what_is_not_a_hello(void **state)
{
	struct meet_msg h = hello(), q = question(), got;
	int fds[MEET_MAX_FDS + 1] = { 0 };

	assert_int_equal(meet_send(sv[0], &q, fds, 1), -EINVAL);
	assert_int_equal(meet_send(sv[0], &h, fds, MEET_MAX_FDS + 1), -EINVAL);
	assert_int_equal(take(&got), -EAGAIN);
	assert_int_equal(meet_send(sv[0], &q, NULL, 0), 0);
	assert_int_equal(take(&got), 1);
	assert_memory_equal(&got, &q, sizeof(q));
}

static void wrong_sizes(void **state)
{
	static const size_t sizes[] = { 1, 8, 15, 16, 17, 511, 513, 4096 };
	char big[4096];
	struct meet_msg m = hello(), got;

	memset(big, 0, sizeof(big));
	memcpy(big, &m, sizeof(m));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(send_raw(big, sizes[i], 2), sizes[i]);
		assert_int_equal(take(&got), -EPROTO);
	}
	assert_int_equal(send_raw(big, 0, 2), 0);	/* empty, but with descriptors */
	assert_int_equal(take(&got), -EPROTO);
}

static void surplus_descriptors(void **state)
{
	struct meet_msg m = hello(), q = question(), got;

	for (int n = MEET_MAX_FDS + 1; n < 60; n += 9) {
		assert_int_equal(send_raw(&m, sizeof(m), n), sizeof(m));
		assert_int_equal(take(&got), -EPROTO);
	}
	assert_int_equal(send_raw(&q, sizeof(q), 1), sizeof(q));
	assert_int_equal(take(&got), -EPROTO);
}

static void wrong_fields(void **state)
{
	struct meet_msg bad[12], got;
	unsigned n = 0;

	for (unsigned i = 0; i < 12; i++)
		bad[i] = question();
	bad[n++].magic ^= 1;
	bad[n++].version = 2;
	bad[n++].type = 0;
	bad[n++].type = 4;
	bad[n++].zero = 1;
	bad[n++].ask.tuple.family = AF_UNIX;
	bad[n++].ask.tuple.lport = 0;
	bad[n++].ask.tuple.rport = 0;
	bad[n++].ask.tuple.laddr[5] = 1;
	meet_msg_init(&bad[n++], MEET_ANSWER, 1);
	meet_msg_init(&bad[n], MEET_ANSWER, 1);
	bad[n++].answer.verdict = MEET_REFUSED + 1;
	bad[n] = hello();
	bad[n++].hello.rnic_bytes = 129;
	assert_int_equal(n, 12);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(meet_send(sv[0], &bad[i], NULL, 0), 0);
		assert_int_equal(take(&got), -EPROTO);
	}
}

static void mapped_tuple_is_refused(void **state)
{
	struct meet_msg q = question(), got;

	q.ask.tuple.family = AF_INET6;
	q.ask.tuple.laddr[0] = 0;
	q.ask.tuple.laddr[10] = q.ask.tuple.laddr[11] = 0xff;
	assert_int_equal(meet_send(sv[0], &q, NULL, 0), 0);
	assert_int_equal(take(&got), -EPROTO);
}

static void full_queue_and_closed_peer(void **state)
{
	struct meet_msg m = hello(), got;
	int ret, sent = 0;

	while ((ret = meet_send(sv[0], &m, NULL, 0)) == 0)
		sent++;
	assert_int_equal(ret, -EAGAIN);
	for (int i = 0; i < sent; i++)
		assert_int_equal(take(&got), 1);
	assert_int_equal(take(&got), -EAGAIN);
	close(sv[0]);
	assert_int_equal(take(&got), 0);
	assert_int_equal(meet_send(sv[1], &m, NULL, 0), -EPIPE);
	sv[0] = dup(0);
}

static void reset_reads_as_closed(void **state)
{
	struct meet_msg m = hello(), got;

	assert_int_equal(meet_send(sv[1], &m, NULL, 0), 0);
	close(sv[0]);			/* with something unread: ECONNRESET on the other side */
	assert_int_equal(take(&got), 0);
	sv[0] = dup(0);
}

/* Seeded noise, some of it around a good head; each is refused, nothing leaks. */
static void random_bytes(void **state)
{
	unsigned good = 0;

	srandom(20240607);
	for (int i = 0; i < 20000; i++) {
		union {
			struct meet_msg m;
			uint8_t b[700];
		} u;
		struct meet_msg got;
		int fds[MEET_MAX_FDS], nfds = (int)(random() % 8), ret;
		size_t n = random() % 3 ? sizeof(u.m) : (size_t)(random() % 700 + 1);
		unsigned k;

		for (size_t j = 0; j < sizeof(u.b); j++)
			u.b[j] = (uint8_t)random();
		if (random() % 4) {
			u.m.magic = MEET_MAGIC;
			u.m.version = MEET_VERSION;
			u.m.type = (uint8_t)(random() % 5);
			u.m.zero = 0;
		}
		if (random() % 2)
			u.m.hello.rnic_bytes = (uint32_t)(random() % 140);
		if (nfds > 5)
			nfds = 0;
		assert_int_equal(send_raw(&u, n, nfds), (ssize_t)n);
		ret = meet_recv(sv[1], &got, fds, &k);
		assert_true(ret == 1 || ret == -EPROTO);
		assert_true(ret == 1 ? k == (unsigned)nfds : k == 0);
		good += ret == 1;
		while (k)
			privfd_close(fds[--k]);
	}
	assert_true(good > 100);	/* the noise reaches the deep checks */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(hello_with_descriptors),
		T(send_refuses_what_is_not_a_hello),
		T(wrong_sizes),
		T(surplus_descriptors),
		T(wrong_fields),
		T(mapped_tuple_is_refused),
		T(full_queue_and_closed_peer),
		T(reset_reads_as_closed),
		T(random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
