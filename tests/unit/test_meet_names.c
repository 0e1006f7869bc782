/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_meet_names.c - tuples, names, credentials */
#define _GNU_SOURCE
#include "test_meet_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/privfd.h"

static void name_bytes(void **state)
{
	struct sockaddr_un sa;
	static const char want[] = "\0sidestep/1/4/6379/0", want6[] = "\0sidestep/1/6/65535/255";
	int len = meet_name(&sa, AF_INET, 6379, 0);

	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + sizeof(want) - 1);
	assert_memory_equal(sa.sun_path, want, sizeof(want) - 1);
	len = meet_name(&sa, AF_INET6, 65535, 255);
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + sizeof(want6) - 1);
	assert_memory_equal(sa.sun_path, want6, sizeof(want6) - 1);
}

static void listen_takes_the_lowest_free_index(void **state)
{
	struct tcp_pair p;
	unsigned i, before = open_fds();
	int a, b, c;

	tcp_listen(&p, TCP_V4);		/* nobody else has this port's names */
	a = meet_listen(AF_INET, p.port, &i);
	assert_true(a >= 0 && privfd_is(a));
	assert_int_equal(i, 0);
	assert_int_equal(fcntl(a, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(a, F_GETFL) & O_NONBLOCK);
	b = meet_listen(AF_INET, p.port, &i);
	assert_int_equal(i, 1);
	privfd_close(a);
	c = meet_listen(AF_INET, p.port, &i);
	assert_int_equal(i, 0);
	a = meet_listen(AF_INET6, p.port, &i);	/* families do not meet */
	assert_int_equal(i, 0);
	privfd_close(a);
	privfd_close(b);
	privfd_close(c);
	tcp_close(&p);
	assert_int_equal(open_fds(), before);
}

static void all_names_taken(void **state)
{
	struct tcp_pair p;
	int fd[MEET_NAMES];
	unsigned at;

	tcp_listen(&p, TCP_V4);
	for (unsigned i = 0; i < MEET_NAMES; i++) {
		fd[i] = meet_listen(AF_INET, p.port, &at);
		assert_true(fd[i] >= 0);
		assert_int_equal(at, i);
	}
	assert_int_equal(meet_listen(AF_INET, p.port, NULL), -EADDRINUSE);
	for (unsigned i = 0; i < MEET_NAMES; i++)
		privfd_close(fd[i]);
	tcp_close(&p);
}

static void connect_refused_full_and_good(void **state)
{
	struct tcp_pair p;
	int l, fd[200], n = 0, ret;

	tcp_listen(&p, TCP_V4);
	assert_int_equal(meet_connect(AF_INET, p.port, 0), -ECONNREFUSED);
	l = meet_listen(AF_INET, p.port, NULL);
	while ((ret = meet_connect(AF_INET, p.port, 0)) >= 0 && n < 200)
		fd[n++] = ret;
	assert_int_equal(ret, -EAGAIN);
	assert_true(n >= 64);
	assert_true(privfd_is(fd[0]));
	while (n)
		privfd_close(fd[--n]);
	privfd_close(l);
	assert_int_equal(meet_connect(AF_INET, p.port, 0), -ECONNREFUSED);
	tcp_close(&p);
}

static void forbidden(void **state)
{
	assert_true(meet_forbidden(-EACCES));
	assert_true(meet_forbidden(-EPERM));
	assert_false(meet_forbidden(-EADDRINUSE));
	assert_false(meet_forbidden(0));
}

static void peer_uid(void **state)
{
	struct tcp_pair p;
	uid_t uid;
	pid_t pid;
	int l, c, want;

	tcp_listen(&p, TCP_V4);
	l = meet_listen(AF_INET, p.port, NULL);
	c = meet_connect(AF_INET, p.port, 0);
	want = meet_uid_proves(getuid()) ? 0 : -ENODATA;
	assert_int_equal(meet_peer_uid(c, &uid, &pid), want);
	assert_int_equal(uid, getuid());
	assert_int_equal(pid, getpid());
	assert_int_equal(meet_peer_uid(p.listener, &uid, &pid), -ENODATA);	/* TCP: nobody */
	assert_int_equal(uid, (uid_t)-1);
	assert_int_equal(meet_peer_uid(-1, &uid, &pid), -EBADF);
	privfd_close(c);
	privfd_close(l);
	tcp_close(&p);
}

static void overflow_uid_proves_nothing(void **state)
{
	assert_false(meet_uid_proves(65534));
	assert_false(meet_uid_proves((uid_t)-1));
}

/* In a namespace that maps nobody, or one user only, no number is a proof. */
static void user_namespace_proves_nothing(void **state)
{
	pid_t child = fork();
	int st;

	if (child == 0) {
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(77);
		_exit(meet_uid_proves(0) || meet_uid_proves(getuid()));
	}
	assert_int_equal(waitpid(child, &st, 0), child);
	assert_true(WIFEXITED(st));
	if (WEXITSTATUS(st) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(st), 0);
}

static void tuples(void **state)
{
	struct sockaddr_storage l = { 0 }, r = { 0 };
	struct sockaddr_in6 *l6 = (void *)&l, *r6 = (void *)&r;
	struct meet_tuple t, s;

	assert_int_equal(meet_tuple_set(&t, &l, &r), -EAFNOSUPPORT);
	l.ss_family = AF_INET;
	assert_int_equal(meet_tuple_set(&t, &l, &r), -EAFNOSUPPORT);
	l6->sin6_family = r6->sin6_family = AF_INET6;
	l6->sin6_port = htons(1);
	r6->sin6_port = htons(2);
	l6->sin6_addr.s6_addr[0] = 0xfe;
	r6->sin6_addr.s6_addr[0] = 0xfd;
	r6->sin6_scope_id = 3;
	assert_int_equal(meet_tuple_set(&t, &l, &r), 0);
	assert_true(meet_tuple_sane(&t));
	assert_int_equal(t.scope, 3);
	meet_tuple_swap(&s, &t);
	assert_int_equal(s.lport, 2);
	assert_int_equal(s.laddr[0], 0xfd);
	assert_false(meet_tuple_equal(&s, &t));
	meet_tuple_swap(&s, &s);
	s.scope = 0;
	assert_true(meet_tuple_equal(&s, &t));
}

/* An IPv4 client and its dual-stack server name the connection alike. */
static void mapped_is_ipv4(void **state)
{
	struct tcp_pair p;
	struct meet_tuple s;

	tcp_open(&p, TCP_MAPPED);
	fd_tuple(p.server, &s);
	assert_int_equal(s.family, AF_INET);
	meet_tuple_swap(&s, &s);
	assert_true(meet_tuple_equal(&s, &p.tuple));
	tcp_close(&p);
}

static void random_is_random(void **state)
{
	uint64_t a = 0, b = 0;

	meet_random(&a, sizeof(a));
	meet_random(&b, sizeof(b));
	assert_true(a != b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_bytes),
		cmocka_unit_test(listen_takes_the_lowest_free_index),
		cmocka_unit_test(all_names_taken),
		cmocka_unit_test(connect_refused_full_and_good),
		cmocka_unit_test(forbidden),
		cmocka_unit_test(peer_uid),
		cmocka_unit_test(overflow_uid_proves_nothing),
		cmocka_unit_test(user_namespace_proves_nothing),
		cmocka_unit_test(tuples),
		cmocka_unit_test(mapped_is_ipv4),
		cmocka_unit_test(random_is_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
