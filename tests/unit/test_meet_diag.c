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

static struct diag d;
static const enum tcp_kind kinds[] = { TCP_V4, TCP_V6, TCP_MAPPED };

static uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void expect(const struct meet_tuple *t, uint64_t now, int fd)
{
	struct diag_result r;

	memset(&r, 0xff, sizeof(r));
	assert_int_equal(diag_lookup(&d, t, now, &r), 0);
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
		expect(&s, NS_PER_S, p.client);
		diag_close(&d);
		tcp_close(&p);
	}
}

static void netlink_finds_both_ends(void **state)
{
	both_ends(false);
	assert_false(d.scanned);	/* /proc was not needed */
}

static void proc_finds_both_ends(void **state)
{
	both_ends(true);
	assert_true(d.scanned);
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
		assert_int_equal(diag_lookup(&d, &p.tuple, 0, &r), 0);
		assert_int_equal(r.inode, 0);
		assert_int_equal(r.state, TCP_ESTABLISHED);
		tcp_accept(&p);
		expect(&p.tuple, NS_PER_S, p.server);
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

		tcp_open(&p, kinds[i % 3]);
		diag_open(&d);
		if (i >= 3)
			diag_close(&d);
		t = p.tuple;
		t.lport ^= 1;		/* nobody has connected from there */
		if (i < 3)
			expect(&p.tuple, 0, p.server);
		assert_int_equal(diag_lookup(&d, &t, NS_PER_S, &r), -ENOENT);
		assert_int_equal(d.scanned, i >= 3);
		t = p.tuple;
		t.raddr[t.family == AF_INET ? 3 : 15] = 77;
		assert_int_equal(diag_lookup(&d, &t, 2 * NS_PER_S, &r), -ENOENT);
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
	assert_int_equal(diag_lookup(&d, &t, 0, &r), 0);
	assert_int_equal(r.inode, 0);
	assert_int_not_equal(r.state, TCP_ESTABLISHED);
	d.proven = false;
	t.lport ^= 1;
	assert_int_equal(diag_lookup(&d, &t, 0, &r), -ENOENT);
	assert_true(d.scanned);		/* neither end: netlink may be blind, /proc was asked */
	diag_close(&d);
	close(p.client);
}

static void proc_at_most_once_per_100_ms(void **state)
{
	struct tcp_pair p;
	struct diag_result r;
	uint64_t t0 = 5 * NS_PER_S;

	tcp_open(&p, TCP_V4);
	diag_open(&d);
	diag_close(&d);
	expect(&p.tuple, t0, p.server);
	assert_int_equal(diag_lookup(&d, &p.tuple, t0 + 1, &r), -EAGAIN);
	assert_int_equal(diag_lookup(&d, &p.tuple, t0 + 100 * NS_PER_MS - 1, &r), -EAGAIN);
	expect(&p.tuple, t0 + 100 * NS_PER_MS, p.server);
	assert_int_equal(diag_lookup(&d, &p.tuple, t0 + 150 * NS_PER_MS, &r), -EAGAIN);
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
		assert_int_equal(diag_lookup(&d, &p.tuple, 0, &r), 0);
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
		"   9: 0100007F:1F90 0100007F:9C40 01 0:0 00:0 0 10x0 0 4711 1\n",
	};
	char path[] = "/tmp/test_meet_diag.XXXXXX";
	struct meet_tuple t = { .family = AF_INET, .lport = 8080, .rport = 40000, .laddr = { 127, 0, 0, 1 }, .raddr = { 127, 0, 0, 1 } };
	struct diag_result r;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, odd[i], strlen(odd[i]), 0), (ssize_t)strlen(odd[i]));
		assert_int_equal(diag_scan_file(&d, path, &t, &r), -ENOENT);
	}
	/* far behind: many buffers of other lines */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	for (int i = 0; i < 2000; i++)
		assert_true(dprintf(fd, "%4d: 0100007F:%04X 0100007F:0016 01 00000000:00000000 00:00000000 00000000 1 0 %d 1\n", i, i + 1, i) > 0);
	assert_int_equal(write(fd, good, sizeof(good) - 1), sizeof(good) - 1);
	assert_int_equal(diag_scan_file(&d, path, &t, &r), 0);
	assert_int_equal(r.uid, 1000);
	assert_int_equal(r.inode, 4711);
	assert_int_equal(r.state, TCP_ESTABLISHED);
	/* one line without an end */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ftruncate(fd, 2 * DIAG_SCAN_BYTES), 0);
	assert_int_equal(diag_scan_file(&d, path, &t, &r), -EFBIG);
	close(fd);
	unlink(path);
	assert_int_equal(diag_scan_file(&d, path, &t, &r), -ENOENT);
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
		cmocka_unit_test(another_users_socket),
		cmocka_unit_test(proc_file_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
