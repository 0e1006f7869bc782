/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_diag.c - whose is the TCP socket at the other end: real sockets */
#define _GNU_SOURCE
#include "test_meet_util.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "meet/scan.h"

static struct diag d;
static const enum tcp_kind kinds[] = { TCP_V4, TCP_V6, TCP_MAPPED };

static uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* A connection that is there now. */
static int ask(const struct meet_tuple *t, uint64_t now, struct diag_result *r)
{
	return diag_lookup(&d, t, diag_next(&d), now, r);
}

static void expect(const struct meet_tuple *t, uint64_t now, int fd)
{
	struct diag_result r;

	memset(&r, 0xff, sizeof(r));
	assert_int_equal(ask(t, now, &r), 0);
	assert_int_equal(r.uid, getuid());
	assert_int_equal(r.inode, inode_of(fd));
	assert_int_equal(r.state, TCP_ESTABLISHED);
}

/* Each end finds the other; use_proc: without netlink. */
static void both_ends(bool use_proc)
{
	for (unsigned i = 0; i < 3; i++) {
		struct tcp_pair p;
		struct meet_tuple s;

		tcp_open(&p, kinds[i]);
		fd_tuple(p.server, &s);
		diag_open(&d);
		if (use_proc)
			diag_close(&d);
		else
			assert_true(d.fd >= 0 && privfd_is(d.fd));
		expect(&p.tuple, 0, p.server);
		expect(&s, 100 * NS_PER_S, p.client);
		diag_close(&d);
		tcp_close(&p);
	}
}

static void netlink_finds_both_ends(void **state)
{
	both_ends(false);
	assert_int_equal(d.scan.begun, 0);	/* /proc was not needed */
}

static void proc_finds_both_ends(void **state)
{
	both_ends(true);
	assert_int_equal(d.scan.begun, 6);
}

static void not_accepted_yet(void **state)
{
	for (unsigned i = 0; i < 6; i++) {
		struct tcp_pair p;
		struct diag_result r;

		tcp_listen(&p, kinds[i % 3]);
		tcp_connect(&p);
		diag_open(&d);
		if (i >= 3)
			diag_close(&d);
		assert_int_equal(ask(&p.tuple, 0, &r), 0);
		assert_int_equal(r.inode, 0);
		assert_int_equal(r.state, TCP_ESTABLISHED);
		tcp_accept(&p);
		expect(&p.tuple, 100 * NS_PER_S, p.server);
		diag_close(&d);
		tcp_close(&p);
	}
}

/* The other end is not here, but a listener on its port is: no socket. */
static void elsewhere_is_enoent(void **state)
{
	for (unsigned i = 0; i < 6; i++) {
		struct tcp_pair p;
		struct meet_tuple t;
		struct diag_result r;
		uint32_t before = d.scan.begun;

		tcp_open(&p, kinds[i % 3]);
		diag_open(&d);
		if (i >= 3)
			diag_close(&d);
		t = p.tuple;
		t.lport ^= 1;		/* nobody has connected from there */
		if (i < 3)
			expect(&p.tuple, 0, p.server);
		assert_int_equal(ask(&t, 100 * NS_PER_S, &r), -ENOENT);
		assert_int_equal(d.scan.begun != before, i >= 3);
		t = p.tuple;
		t.raddr[t.family == AF_INET ? 3 : 15] = 77;
		assert_int_equal(ask(&t, 200 * NS_PER_S, &r), -ENOENT);
		diag_close(&d);
		tcp_close(&p);
	}
}

/* ENOENT is believed at once when our own end can be seen. */
static void enoent_is_checked_against_our_own_end(void **state)
{
	struct tcp_pair p;
	struct diag_result r;
	struct meet_tuple t;

	tcp_open(&p, TCP_V4);
	t = p.tuple;
	close(p.server);
	close(p.listener);
	p.server = p.listener = -1;
	diag_open(&d);
	/* the server's end is gone to FIN_WAIT2: still there, but nobody's */
	assert_int_equal(ask(&t, 0, &r), 0);
	assert_int_equal(r.inode, 0);
	assert_int_not_equal(r.state, TCP_ESTABLISHED);
	uint32_t before = d.scan.begun;
	d.proven = false;
	t.lport ^= 1;
	assert_int_equal(ask(&t, 0, &r), -ENOENT);
	assert_int_equal(d.scan.begun, before + 1);		/* neither end: netlink may be blind, /proc was asked */
	diag_close(&d);
	close(p.client);
}

/* As with fault no-netlink. */
static void open_without_netlink(void)
{
	diag_open(&d);
	diag_close(&d);
}

static void proc_at_most_once_per_100_ms(void **state)
{
	struct tcp_pair p;
	struct diag_result r;
	uint64_t t0 = 5 * NS_PER_S;

	tcp_open(&p, TCP_V4);
	open_without_netlink();
	expect(&p.tuple, t0, p.server);
	assert_int_equal(ask(&p.tuple, t0 + 1, &r), -EAGAIN);
	assert_int_equal(ask(&p.tuple, t0 + 100 * NS_PER_MS - 1, &r), -EAGAIN);
	assert_true(d.scan.until_ns >= t0 + 100 * NS_PER_MS);
	assert_int_equal(ask(&p.tuple, d.scan.until_ns - 1, &r), -EAGAIN);
	t0 = d.scan.until_ns;
	expect(&p.tuple, t0, p.server);
	assert_int_equal(ask(&p.tuple, t0 + 50 * NS_PER_MS, &r), -EAGAIN);
	diag_close(&d);
	tcp_close(&p);
}

/* A burst: who was there before it is answered by one scan, with yes and with no. */
static void proc_once_for_all_that_were_there(void **state)
{
	enum { PAIRS = 48 };
	struct tcp_pair p[PAIRS];
	struct diag_result r;
	struct meet_tuple s;
	uint64_t t0 = 5 * NS_PER_S;

	open_without_netlink();
	uint32_t first = diag_next(&d);
	for (unsigned i = 0; i < PAIRS; i++)
		tcp_open(&p[i], kinds[i % 3]);
	for (unsigned i = 0; i < PAIRS; i++) {
		assert_int_equal(diag_lookup(&d, &p[i].tuple, first, t0 + i, &r), 0);
		assert_int_equal(r.inode, inode_of(p[i].server));
		assert_int_equal(r.uid, getuid());
		assert_int_equal(r.state, TCP_ESTABLISHED);
		fd_tuple(p[i].server, &s);
		assert_int_equal(diag_lookup(&d, &s, first, t0 + i, &r), 0);
		assert_int_equal(r.inode, inode_of(p[i].client));
		s.laddr[s.family == AF_INET ? 3 : 15] = 77;
		assert_int_equal(diag_lookup(&d, &s, first, t0 + i, &r), -ENOENT);
	}
	assert_int_equal(d.scan.begun, first);
	assert_true(diag_ready(&d, first, t0 + 1) && !diag_ready(&d, first + 1, t0 + 1));
	assert_true(diag_ready(&d, first + 1, d.scan.until_ns));
	diag_close(&d);
	for (unsigned i = 0; i < PAIRS; i++)
		tcp_close(&p[i]);
}

/* A pair whose client's port is nobody else's, not even one's that is in TIME_WAIT. */
static void tcp_open_alone(struct tcp_pair *p)
{
	struct sockaddr_storage me;
	socklen_t ml = sizeof(me);
	int one = 1, err = -1;

	for (int i = 0; err && i < 100; i++) {
		if (i)
			tcp_close(p);
		tcp_open(p, TCP_V4);
		int probe = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
		assert_int_equal(setsockopt(p->client, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
		assert_int_equal(getsockname(p->client, (struct sockaddr *)&me, &ml), 0);
		err = bind(probe, (struct sockaddr *)&me, ml);
		close(probe);
	}
	assert_int_equal(err, 0);
}

/* The same four numbers, another connection: what was seen before does not count. */
static void proc_before_is_not_believed(void **state)
{
	struct tcp_pair p;
	struct diag_result r;
	struct linger now = { .l_onoff = 1 };
	struct sockaddr_storage me, srv;
	socklen_t ml = sizeof(me), sl = sizeof(srv);
	uint64_t t0 = 5 * NS_PER_S;
	int one = 1;

	tcp_open_alone(&p);
	open_without_netlink();
	uint32_t first = diag_next(&d);
	expect(&p.tuple, t0, p.server);
	assert_int_equal(getsockname(p.client, (struct sockaddr *)&me, &ml), 0);
	assert_int_equal(getpeername(p.client, (struct sockaddr *)&srv, &sl), 0);
	uint64_t old = inode_of(p.server);
	assert_int_equal(setsockopt(p.client, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(p.client);
	close(p.server);
	p.client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(setsockopt(p.client, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(p.client, (struct sockaddr *)&me, ml), 0);
	assert_int_equal(connect(p.client, (struct sockaddr *)&srv, sl), 0);
	tcp_accept(&p);
	assert_int_not_equal(inode_of(p.server), old);
	/* the former connection has been answered for, this one has not */
	assert_int_equal(diag_lookup(&d, &p.tuple, first, t0 + 1, &r), 0);
	assert_int_equal(r.inode, old);
	first = diag_next(&d);
	assert_int_equal(diag_lookup(&d, &p.tuple, first, t0 + 1, &r), -EAGAIN);
	assert_int_equal(diag_lookup(&d, &p.tuple, first, d.scan.until_ns, &r), 0);
	assert_int_equal(r.inode, inode_of(p.server));
	diag_close(&d);
	tcp_close(&p);
}

/* More sockets than are kept: who is not among them has a scan of his own, as all had before. */
static void proc_more_than_is_kept(void **state)
{
	enum { PAIRS = 8 };
	struct tcp_pair p[PAIRS];
	struct diag_result r;
	uint64_t now = 5 * NS_PER_S;
	unsigned later = 0;

	open_without_netlink();
	d.scan.most = 2;
	uint32_t first = diag_next(&d);
	for (unsigned i = 0; i < PAIRS; i++)
		tcp_open(&p[i], kinds[i % 3]);
	for (unsigned i = 0; i < PAIRS; i++) {
		int err = diag_lookup(&d, &p[i].tuple, first, now, &r);

		if (err) {
			assert_int_equal(err, -EAGAIN);
			later++;
			now = d.scan.until_ns;
			err = diag_lookup(&d, &p[i].tuple, first, now, &r);
		}
		assert_int_equal(err, 0);
		assert_int_equal(r.inode, inode_of(p[i].server));
	}
	assert_true(later >= PAIRS - 3);
	struct meet_tuple t = p[0].tuple;
	t.laddr[3] = 77;
	assert_int_equal(diag_lookup(&d, &t, first, now, &r), -EAGAIN);
	assert_int_equal(diag_lookup(&d, &t, first, d.scan.until_ns, &r), -ENOENT);
	assert_int_equal(diag_lookup(&d, &t, first, d.scan.until_ns - 1, &r), -ENOENT);
	diag_close(&d);
	for (unsigned i = 0; i < PAIRS; i++)
		tcp_close(&p[i]);
}

/* A child has the numbers of the scans, and nothing of what they found. */
static void proc_is_read_anew_in_a_child(void **state)
{
	struct tcp_pair p;
	struct diag_result r;
	uint64_t t0 = 5 * NS_PER_S;
	int st;

	tcp_open(&p, TCP_V4);
	open_without_netlink();
	uint32_t first = diag_next(&d);
	expect(&p.tuple, t0, p.server);
	pid_t child = fork();
	if (child == 0) {
		diag_forget(&d);
		_exit(d.scan.lines || d.scan.begun != first ||
		      diag_lookup(&d, &p.tuple, first, t0 + 1, &r) || d.scan.begun != first + 1);
	}
	assert_int_equal(waitpid(child, &st, 0), child);
	assert_int_equal(st, 0);
	assert_non_null(d.scan.lines);
	diag_drop(&d);
	assert_null(d.scan.lines);
	expect(&p.tuple, t0 + 2, p.server);
	diag_close(&d);
	tcp_close(&p);
}

static void another_users_socket(void **state)
{
	struct tcp_pair p;
	struct diag_result r;
	int st;
	pid_t child;
	int go[2], there[2];
	char c;

	if (getuid() != 0)
		skip();
	tcp_listen(&p, TCP_V4);
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(there), 0);
	tcp_connect(&p);
	child = fork();
	if (child == 0) {
		if (setresuid(65533, 65533, 65533) < 0 || accept(p.listener, NULL, NULL) < 0)
			_exit(1);
		_exit(write(there[1], "x", 1) != 1 || read(go[0], &c, 1) != 1);
	}
	assert_int_equal(read(there[0], &c, 1), 1);
	for (int proc = 0; proc < 2; proc++) {
		diag_open(&d);
		if (proc)
			diag_close(&d);
		assert_int_equal(ask(&p.tuple, 0, &r), 0);
		assert_int_equal(r.uid, 65533);
		assert_int_not_equal(r.inode, 0);
		diag_close(&d);
	}
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(child, &st, 0), child);
	assert_int_equal(st, 0);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(there[i]);
	}
	tcp_close(&p);
}

static int scan_one(const char *path, const struct meet_tuple *t, struct diag_result *r)
{
	scan_begin(&d.scan, t);
	d.scan.err = scan_file(&d.scan, path);
	d.scan.err6 = -ENOENT;
	return scan_kept(&d.scan, t, r);
}

/* Lines longer than the buffer, cut lines, and junk. */
static void proc_file_odd(void **state)
{
	static const char good[] =
		"   9: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1\n";
	static const char *const odd[] = {
		"", "\n\n\n", "garbage", "   0: 0100007F:1F90 0100007F:9C40 01\n",
		"   9: 0100007F:1F90 0100007F:9C4 01 0:0 00:0 0 1000 0 4711 1\n",
		"   9: 0100007G:1F90 0100007F:9C40 01 0:0 00:0 0 1000 0 4711 1\n",
		"   9: 0100007F:1F90 0100007F:9C40 0A 0:0 00:0 0 1000 0 4711 1\n",
		"   9: 0100007F:1F90 0100007F:9C40 06 0:0 00:0 0 1000 0 4711 1\n",
		"   9: 0100007F:1F90 0100007F:9C40 01 0:0 00:0 0 10x0 0 4711 1\n",
	};
	char path[] = "/tmp/test_meet_diag.XXXXXX";
	struct meet_tuple t = { .family = AF_INET, .lport = 8080, .rport = 40000, .laddr = { 127, 0, 0, 1 }, .raddr = { 127, 0, 0, 1 } };
	struct diag_result r;
	int fd = mkstemp(path);

	diag_open(&d);
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, odd[i], strlen(odd[i]), 0), (ssize_t)strlen(odd[i]));
		assert_int_equal(scan_one(path, &t, &r), -ENOENT);
	}
	/* far behind: many buffers of other lines */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	for (int i = 0; i < 2000; i++)
		assert_true(dprintf(fd, "%4d: 0100007F:%04X 0100007F:0016 01 00000000:00000000 00:00000000 00000000 1 0 %d 1\n", i, i + 1, i) > 0);
	assert_int_equal(write(fd, good, sizeof(good) - 1), sizeof(good) - 1);
	assert_int_equal(scan_one(path, &t, &r), 0);
	assert_int_equal(r.uid, 1000);
	assert_int_equal(r.inode, 4711);
	assert_int_equal(r.state, TCP_ESTABLISHED);
	/* one line without an end */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ftruncate(fd, 2 * DIAG_SCAN_BYTES), 0);
	assert_int_equal(scan_one(path, &t, &r), -EFBIG);
	close(fd);
	unlink(path);
	assert_int_equal(scan_one(path, &t, &r), -EOPNOTSUPP);	/* no /proc */
	diag_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(netlink_finds_both_ends),
		cmocka_unit_test(proc_finds_both_ends),
		cmocka_unit_test(not_accepted_yet),
		cmocka_unit_test(elsewhere_is_enoent),
		cmocka_unit_test(enoent_is_checked_against_our_own_end),
		cmocka_unit_test(proc_at_most_once_per_100_ms),
		cmocka_unit_test(proc_once_for_all_that_were_there),
		cmocka_unit_test(proc_before_is_not_believed),
		cmocka_unit_test(proc_more_than_is_kept),
		cmocka_unit_test(proc_is_read_anew_in_a_child),
		cmocka_unit_test(another_users_socket),
		cmocka_unit_test(proc_file_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
