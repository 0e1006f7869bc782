/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_meet_ask.c - asking and answering: one process, several, hostile ones
 *
 * Everything is driven by a poll loop; time passes only when a test says so,
 * or when nothing at all happens (run_ask() then jumps to the next deadline).
 */
#define _GNU_SOURCE
#include "test_meet_util.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "meet/answer.h"
#include "meet/ask.h"
#include "meet/msg.h"

#define STRANGER 65533

/* One process's answering side, with a fixed opinion. */
struct node {
	struct answer ans;
	enum meet_verdict verdict;
	enum reason why;
	unsigned asked;
	int fd;				/* handed up by mine() */
	struct meet_asker who;
};

static struct poll_loop loop;
static struct tcp_pair tcp;
static unsigned before;
static enum ask_result result;
static struct node n0, n1, n2;

static enum meet_verdict node_own(void *arg, const struct meet_asker *who, enum reason *why)
{
	struct node *n = arg;

	n->asked++;
	n->who = *who;
	*why = n->why;
	return n->verdict;
}

static void node_mine(void *arg, int fd, const struct meet_asker *who)
{
	struct node *n = arg;

	privfd_close(n->fd);		/* an earlier meeting of the same test */
	n->fd = fd;
}

static void node_open(struct node *n, enum meet_verdict v, uint64_t instance)
{
	struct answer_ops ops = { node_own, node_mine, n };

	memset(n, 0, sizeof(*n));
	n->verdict = v;
	n->why = REASON_OPTION;
	n->fd = -1;
	answer_init(&n->ans, &loop.ops, &ops, instance);
	assert_int_equal(answer_listen(&n->ans, AF_INET, tcp.port), 0);
	assert_int_equal(answer_listen(&n->ans, AF_INET, tcp.port), 0);	/* once is enough */
}

static void node_close(struct node *n)
{
	answer_fini(&n->ans);
	privfd_close(n->fd);
	n->fd = -1;
}

static void on_done(void *arg, struct ask *a, enum ask_result res)
{
	assert_int_equal(result, ASK_PENDING);
	result = res;
}

static struct ask_params params(void)
{
	return (struct ask_params){
		.tuple = tcp.tuple, .instance = 77, .owner_uid = ASK_ANY_UID, .hint = -1,
		.done = on_done,
	};
}

/* Until the result; when nothing happens the clock jumps. */
static enum ask_result run_ask(struct ask *a, enum ask_result first)
{
	result = first;
	for (int i = 0; i < 5000 && result == ASK_PENDING; i++) {
		if (poll_loop_once(&loop, 200))
			continue;
		assert_true(ask_deadline_ns(a) != MEET_NEVER);
		test_now_ns = ask_deadline_ns(a);
		ask_timeout(a, test_now_ns - 1);	/* too early does nothing */
		ask_timeout(a, test_now_ns);
	}
	assert_int_equal(ask_deadline_ns(a), MEET_NEVER);
	return result;
}

static enum ask_result go(struct ask *a, const struct ask_params *p)
{
	result = ASK_PENDING;
	return run_ask(a, ask_start(a, &loop.ops, p));
}

static int setup(void **state)
{
	before = open_fds();
	poll_loop_init(&loop);
	tcp_open(&tcp, TCP_V4);
	return 0;
}

static int teardown(void **state)
{
	tcp_close(&tcp);
	assert_int_equal(loop.n, 0);	/* nothing is watched any more */
	assert_int_equal(open_fds(), before);
	return 0;
}

/* ---- one process ---- */

static void nobody_holds_a_name(void **state)
{
	struct ask_params p = params();
	struct ask a;

	assert_int_equal(ask_start(&a, &loop.ops, &p), ASK_NOBODY);
	p.hint = 7;
	assert_int_equal(ask_start(&a, &loop.ops, &p), ASK_NOBODY);
}

static void owner_says_mine(void **state)
{
	struct ask_params p = params();
	struct meet_tuple seen;
	struct ask a;
	int fd;

	node_open(&n0, MEET_MINE, 1001);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.owner, 1001);
	assert_int_equal(a.index, 0);
	assert_int_equal(a.cred.uid, getuid());
	assert_int_equal(a.cred.pid, getpid());
	assert_int_equal(n0.who.instance, 77);
	assert_int_equal(n0.who.cred.uid, getuid());
	fd_tuple(tcp.server, &seen);
	assert_true(meet_tuple_equal(&n0.who.tuple, &seen));
	fd = ask_take_fd(&a);
	ask_stop(&a);			/* after the taking it closes nothing */
	assert_true(fd >= 0 && n0.fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	privfd_close(fd);
	node_close(&n0);
}

/* After MINE both may send descriptors; before, a new kernel stops them. */
static void hello_both_ways(void **state)
{
	struct ask_params p = params();
	struct meet_msg m, got;
	int fds[MEET_MAX_FDS], fd, zero = 0;
	unsigned nfds;
	struct ask a;

	node_open(&n0, MEET_MINE, 1001);
	assert_int_equal(go(&a, &p), ASK_MINE);
	fd = ask_take_fd(&a);
	meet_msg_init(&m, MEET_HELLO, 77);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(meet_send(i ? n0.fd : fd, &m, &zero, 1), 0);
		assert_int_equal(meet_recv(i ? fd : n0.fd, &got, fds, &nfds), 1);
		assert_int_equal(nfds, 1);
		privfd_close(fds[0]);
	}
	privfd_close(fd);
	node_close(&n0);
}

static void stranger_may_send_no_descriptors(void **state)
{
	int l = meet_listen(AF_INET, tcp.port, NULL), ret = meet_rights(l, false), zero = 0;
	int c = meet_connect(AF_INET, tcp.port, 0);
	struct meet_msg m;

	meet_msg_init(&m, MEET_HELLO, 1);
	if (ret == 0)
		assert_int_equal(meet_send(c, &m, &zero, 1), -EPERM);
	privfd_close(l);
	privfd_close(c);
	if (ret == -ENOPROTOOPT)
		skip();
	assert_int_equal(ret, 0);
}

static void second_holder_owns(void **state)
{
	struct ask_params p = params();
	struct ask a;

	node_open(&n0, MEET_NOT_MINE, 1);
	node_open(&n1, MEET_LATER, 2);
	node_open(&n2, MEET_MINE, 3);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.index, 2);
	assert_int_equal(a.owner, 3);
	assert_int_equal(n0.asked + n1.asked, 2);
	ask_stop(&a);
	node_close(&n0);
	node_close(&n1);
	node_close(&n2);
}

static void hint_is_asked_first(void **state)
{
	struct ask_params p = params();
	struct ask a;

	node_open(&n0, MEET_MINE, 1);
	node_open(&n1, MEET_MINE, 2);
	p.hint = 1;
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.index, 1);
	assert_int_equal(n0.asked, 0);
	ask_stop(&a);
	node_close(&n1);
	node_open(&n1, MEET_NOT_MINE, 2);	/* the hint is asked once, not twice */
	n0.verdict = MEET_NOT_MINE;
	assert_int_equal(go(&a, &p), ASK_NOBODY);
	assert_int_equal(n1.asked, 1);
	assert_int_equal(n0.asked, 1);
	p.hint = 200;			/* a stale one costs nothing */
	n0.verdict = MEET_MINE;
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.index, 0);
	ask_stop(&a);
	node_close(&n0);
	node_close(&n1);
}

static void later_is_asked_again(void **state)
{
	static const uint16_t delays[] = { 10, 20 };
	struct ask_params p = params();
	struct ask a;

	p.delays_ms = delays;
	p.ndelays = 2;
	node_open(&n0, MEET_LATER, 1);
	assert_int_equal(go(&a, &p), ASK_LATER);
	assert_int_equal(n0.asked, 3);

	result = ask_start(&a, &loop.ops, &p);
	while (a.state != ASK_PAUSED)
		assert_int_equal(poll_loop_once(&loop, 1000) > 0, 1);
	assert_int_equal(ask_deadline_ns(&a), test_now_ns + 10 * NS_PER_MS);
	assert_int_equal(result, ASK_PENDING);
	n0.verdict = MEET_MINE;		/* accepted meanwhile */
	assert_int_equal(run_ask(&a, ASK_PENDING), ASK_MINE);
	ask_stop(&a);
	p.ndelays = 0;
	n0.verdict = MEET_LATER;
	assert_int_equal(go(&a, &p), ASK_LATER);
	node_close(&n0);
}

static void refusal_has_a_reason(void **state)
{
	struct ask_params p = params();
	struct ask a;

	node_open(&n0, MEET_REFUSED, 1);
	assert_int_equal(go(&a, &p), ASK_REFUSED);
	assert_int_equal(a.reason, REASON_OPTION);
	n0.why = (enum reason)200;
	assert_int_equal(go(&a, &p), ASK_REFUSED);
	assert_int_equal(a.reason, REASON_REFUSED);
	node_open(&n1, MEET_MINE, 2);	/* who refuses need not be the owner */
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.index, 1);
	ask_stop(&a);
	node_close(&n0);
	node_close(&n1);
}

static void silent_holder_is_passed(void **state)
{
	struct ask_params p = params();
	uint64_t t0 = test_now_ns;
	int mute = meet_listen(AF_INET, tcp.port, NULL);
	struct ask a;

	node_open(&n0, MEET_MINE, 1);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.index, 1);
	assert_int_equal(test_now_ns - t0, ASK_SILENCE_MS * NS_PER_MS);
	ask_stop(&a);
	privfd_close(mute);
	node_close(&n0);
}

static void many_silent_holders_end_with_the_walk(void **state)
{
	struct ask_params p = params();
	uint64_t t0 = test_now_ns;
	int mute[40];
	struct ask a;

	for (int i = 0; i < 40; i++)
		mute[i] = meet_listen(AF_INET, tcp.port, NULL);
	assert_int_equal(go(&a, &p), ASK_LATER);
	assert_true(test_now_ns - t0 <= (ASK_TOTAL_MS + ASK_SILENCE_MS) * NS_PER_MS);
	for (int i = 0; i < 40; i++)
		privfd_close(mute[i]);
}

static void full_queue_means_later(void **state)
{
	struct ask_params p = params();
	int l = meet_listen(AF_INET, tcp.port, NULL), fd[200], n = 0, one;
	struct ask a;

	while ((one = meet_connect(AF_INET, tcp.port, 0)) >= 0 && n < 200)
		fd[n++] = one;
	assert_int_equal(ask_start(&a, &loop.ops, &p), ASK_LATER);
	while (n)
		privfd_close(fd[--n]);
	privfd_close(l);
}

/* What holder number i answers, by hand. */
static void answer_oddly(int listener, int i)
{
	int c = accept(listener, NULL, NULL);
	struct meet_msg m;

	assert_true(c >= 0);
	memset(&m, 0xee, sizeof(m));
	if (i == 1)
		assert_int_equal(send(c, &m, sizeof(m), 0), sizeof(m));
	if (i == 2)
		assert_int_equal(send(c, &m, 3, 0), 3);
	meet_msg_init(&m, i == 3 ? MEET_HELLO : MEET_ASK, 5);
	if (i == 3)
		assert_int_equal(meet_send(c, &m, NULL, 0), 0);
	meet_msg_init(&m, MEET_ANSWER, 5);
	if (i == 4)			/* an answer of no known kind */
		assert_int_equal(meet_send(c, &m, NULL, 0), 0);
	close(c);			/* 0: not a word */
}

static void odd_answers_are_passed(void **state)
{
	struct ask_params p = params();
	int odd[5];
	struct ask a;

	for (int i = 0; i < 5; i++)
		odd[i] = meet_listen(AF_INET, tcp.port, NULL);
	result = ask_start(&a, &loop.ops, &p);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(result, ASK_PENDING);
		assert_int_equal(a.index, i);
		answer_oddly(odd[i], i);
		assert_int_equal(poll_loop_once(&loop, 1000), 1);
	}
	assert_int_equal(result, ASK_NOBODY);
	for (int i = 0; i < 5; i++)
		privfd_close(odd[i]);
}

static void stop_in_the_middle(void **state)
{
	static const uint16_t delays[] = { 10 };
	struct ask_params p = params();
	struct ask a;

	p.delays_ms = delays;
	p.ndelays = 1;
	node_open(&n0, MEET_LATER, 1);
	result = ask_start(&a, &loop.ops, &p);
	ask_stop(&a);			/* CONNECTED */
	ask_stop(&a);
	result = ask_start(&a, &loop.ops, &p);
	while (a.state != ASK_PAUSED)
		assert_true(poll_loop_once(&loop, 1000) > 0);
	ask_stop(&a);			/* PAUSED */
	ask_timeout(&a, MEET_NEVER - 1);
	assert_int_equal(result, ASK_PENDING);
	node_close(&n0);
}

static void no_descriptors_fails(void **state)
{
	struct ask_params p = params();
	struct rlimit old, rl;
	struct ask a;
	int fd = dup(0);

	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	rl = old;
	rl.rlim_cur = (rlim_t)fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
	assert_int_equal(ask_start(&a, &loop.ops, &p), ASK_FAILED);
	assert_int_equal(a.err, -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* ---- the answering side alone ---- */

static int client_new(void)
{
	int fd = meet_connect(AF_INET, tcp.port, 0);

	assert_true(fd >= 0);
	return fd;
}

static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

static void settle(void)
{
	while (poll_loop_once(&loop, 0))
		;
}

static void silence_is_dropped_after_5_s(void **state)
{
	int c;

	node_open(&n0, MEET_MINE, 1);
	assert_int_equal(answer_deadline_ns(&n0.ans), MEET_NEVER);
	c = client_new();
	settle();
	assert_int_equal(answer_deadline_ns(&n0.ans), test_now_ns + ANSWER_SILENCE_MS * NS_PER_MS);
	test_now_ns += ANSWER_SILENCE_MS * NS_PER_MS - 1;
	answer_timeout(&n0.ans, test_now_ns);
	assert_false(hung_up(c));
	answer_timeout(&n0.ans, ++test_now_ns);
	assert_true(hung_up(c));
	assert_int_equal(n0.ans.dropped, 1);
	assert_int_equal(n0.ans.nclients, 0);
	assert_int_equal(answer_deadline_ns(&n0.ans), MEET_NEVER);
	privfd_close(c);
	node_close(&n0);
}

static void flood_is_bounded_and_drops_the_oldest(void **state)
{
	int c[3 * ANSWER_PENDING];

	node_open(&n0, MEET_MINE, 1);
	for (unsigned i = 0; i < 3 * ANSWER_PENDING; i++) {
		test_now_ns++;
		c[i] = client_new();
		settle();
		assert_true(n0.ans.nclients <= ANSWER_PENDING);
	}
	assert_int_equal(n0.ans.dropped, 2 * ANSWER_PENDING);
	for (unsigned i = 0; i < 3 * ANSWER_PENDING; i++) {
		assert_int_equal(hung_up(c[i]), i < 2 * ANSWER_PENDING);
		privfd_close(c[i]);
	}
	settle();
	assert_int_equal(n0.ans.nclients, 0);
	node_close(&n0);
}

static void question_about_another_port_is_not_ours(void **state)
{
	struct meet_msg m, got;
	int fds[MEET_MAX_FDS], c;
	unsigned nfds;

	node_open(&n0, MEET_MINE, 1);
	for (int i = 0; i < 2; i++) {
		c = client_new();
		meet_msg_init(&m, MEET_ASK, 7);
		m.ask.tuple = tcp.tuple;
		m.ask.tuple.rport = (uint16_t)(tcp.port + 1 - i);
		if (i)
			m.ask.tuple.family = AF_INET6;
		assert_int_equal(meet_send(c, &m, NULL, 0), 0);
		settle();
		assert_int_equal(meet_recv(c, &got, fds, &nfds), 1);
		assert_int_equal(got.answer.verdict, MEET_NOT_MINE);
		privfd_close(c);
	}
	assert_int_equal(n0.asked, 0);
	node_close(&n0);
}

/* Seeded noise from many clients, descriptors with it where the kernel lets them. */
static void noise_never_leaks_or_blocks(void **state)
{
	srandom(4711);
	node_open(&n0, MEET_NOT_MINE, 1);
	for (int i = 0; i < 3000; i++) {
		int c = client_new(), zero = 0;
		uint8_t b[700];
		struct meet_msg m;

		for (size_t j = 0; j < sizeof(b); j++)
			b[j] = (uint8_t)random();
		memcpy(&m, b, sizeof(m));
		switch (random() % 4) {
		case 0:
			assert_true(send(c, b, (size_t)random() % sizeof(b), 0) >= 0);
			break;
		case 1:
			meet_msg_init(&m, MEET_HELLO, 3);
			meet_send(c, &m, &zero, 1);	/* -EPERM on new kernels */
			break;
		case 2:
			m.magic = MEET_MAGIC;
			m.version = MEET_VERSION;
			m.zero = 0;
			m.type = (uint8_t)(random() % 4);
			assert_int_equal(send(c, &m, sizeof(m), 0), sizeof(m));
			break;
		}
		if (random() % 8)
			settle();
		privfd_close(c);
	}
	settle();
	assert_int_equal(n0.ans.nclients, 0);
	assert_true(n0.ans.dropped > 1000);
	node_close(&n0);
}

static void without_descriptors_it_pauses(void **state)
{
	struct rlimit old, rl;
	int c, fd;

	if (getenv("SIDESTEP_VALGRIND"))	/* it keeps descriptors of its own above the limit */
		skip();
	node_open(&n0, MEET_MINE, 1);
	c = client_new();
	fd = dup(0);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	rl = old;
	rl.rlim_cur = (rlim_t)fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
	assert_int_equal(poll_loop_once(&loop, 0), 1);
	assert_int_equal(poll_loop_once(&loop, 0), 0);	/* no spinning */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(n0.ans.nclients, 0);
	assert_int_equal(answer_deadline_ns(&n0.ans), test_now_ns + ANSWER_PAUSE_MS * NS_PER_MS);
	test_now_ns += ANSWER_PAUSE_MS * NS_PER_MS;
	answer_timeout(&n0.ans, test_now_ns);
	settle();
	assert_int_equal(n0.ans.nclients, 1);
	node_close(&n0);
	assert_true(hung_up(c));
	privfd_close(c);
}

static void ports_are_bounded(void **state)
{
	node_open(&n0, MEET_MINE, 1);
	for (unsigned i = 1; i < ANSWER_PORTS; i++)
		assert_int_equal(answer_listen(&n0.ans, AF_INET, (uint16_t)(60000 + i)), 0);
	assert_int_equal(answer_listen(&n0.ans, AF_INET6, tcp.port), -ENOSPC);
	answer_unlisten(&n0.ans, AF_INET, 60001);
	answer_unlisten(&n0.ans, AF_INET, 1);		/* not held: nothing */
	assert_int_equal(answer_listen(&n0.ans, AF_INET6, tcp.port), 0);
	node_close(&n0);
}

static bool held(uint16_t port)
{
	int fd = meet_connect(AF_INET, port, 0);

	if (fd < 0)
		return false;
	privfd_close(fd);
	return true;
}

static bool odd(const void *arg, uint16_t port)
{
	(*(unsigned *)(uintptr_t)arg)++;
	return port % 2;
}

/* 63 ports, of which the odd ones are wanted; tcp.port may be either. */
static void unwanted_ports_make_room(void **state)
{
	unsigned asked = 0, unwanted = 31 + (tcp.port % 2 == 0);

	node_open(&n0, MEET_MINE, 1);
	for (unsigned i = 1; i < ANSWER_PORTS; i++)
		assert_int_equal(answer_listen(&n0.ans, AF_INET, (uint16_t)(60000 + i)), 0);
	assert_int_equal(answer_listen(&n0.ans, AF_INET, 60002), 0);	/* again: not old any more */
	assert_int_equal(answer_thin(&n0.ans, odd, &asked), (unwanted + 1) / 2);
	assert_int_equal(asked, ANSWER_PORTS);
	assert_true(held(60001) && held(60002) && held(60063));
	assert_false(held(60004) || held(60006));
	for (unsigned i = 0; i < (unwanted + 1) / 2; i++)
		assert_int_equal(answer_listen(&n0.ans, AF_INET, (uint16_t)(61001 + 2 * i)), 0);
	assert_int_equal(answer_listen(&n0.ans, AF_INET, 62000), -ENOSPC);
	node_close(&n0);
}

/* ---- several processes ---- */

struct proc {
	pid_t pid;
	int ready;
};

/* A child that holds a name and answers, until it is killed. */
static void proc_start(struct proc *p, uid_t uid, enum meet_verdict v, uint64_t instance)
{
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	p->pid = fork();
	if (p->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		privfd_close_all(NULL);
		poll_loop_init(&loop);
		if (uid && setresuid(uid, uid, uid) < 0)
			_exit(1);
		node_open(&n0, v, instance);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			poll_loop_once(&loop, -1);
	}
	close(ready[1]);
	p->ready = ready[0];
	assert_int_equal(read(p->ready, &c, 1), 1);
}

static void proc_end(struct proc *p)
{
	int st;

	close(p->ready);
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, &st, 0), p->pid);
}

static void another_process_owns(void **state)
{
	struct ask_params p = params();
	struct proc child;
	struct ask a;

	proc_start(&child, 0, MEET_MINE, 4242);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.owner, 4242);
	assert_int_equal(a.cred.pid, child.pid);
	ask_stop(&a);
	proc_end(&child);
}

/* The first owner is killed: his index is free, the walk goes past the hole,
 * and the next to come takes it. */
static void index_is_taken_over(void **state)
{
	struct ask_params p = params();
	struct proc first, second, third;
	struct ask a;

	proc_start(&first, 0, MEET_MINE, 1);
	proc_start(&second, 0, MEET_MINE, 2);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.owner, 1);
	ask_stop(&a);
	assert_int_equal(kill(first.pid, SIGKILL), 0);
	proc_end(&first);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.owner, 2);
	assert_int_equal(a.index, 1);
	ask_stop(&a);
	proc_start(&third, 0, MEET_MINE, 3);
	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.owner, 3);
	assert_int_equal(a.index, 0);
	ask_stop(&a);
	proc_end(&second);
	proc_end(&third);
}

/* The owner dies between question and answer. */
static void owner_dies_while_asked(void **state)
{
	struct ask_params p = params();
	struct proc child;
	struct ask a;

	proc_start(&child, 0, MEET_MINE, 1);
	assert_int_equal(kill(child.pid, SIGSTOP), 0);
	result = ask_start(&a, &loop.ops, &p);
	assert_int_equal(result, ASK_PENDING);
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	assert_int_equal(run_ask(&a, ASK_PENDING), ASK_NOBODY);
	proc_end(&child);
}

/*
 * Somebody else holds index 0 and says MINE.  The kernel says whose the TCP
 * socket is, so he is not even asked; where all are asked, the uids differ
 * and ask_next() goes on to the real owner.
 */
static void squatter_is_not_believed(void **state)
{
	struct ask_params p = params();
	struct diag_result r;
	static struct diag d;
	struct proc squatter;
	struct ask a;

	if (getuid() != 0)
		skip();
	proc_start(&squatter, STRANGER, MEET_MINE, 666);
	node_open(&n0, MEET_MINE, 1);
	diag_open(&d);
	assert_int_equal(diag_lookup(&d, &tcp.tuple, diag_next(&d), test_now_ns, &r), 0);
	diag_close(&d);

	assert_int_equal(go(&a, &p), ASK_MINE);
	assert_int_equal(a.owner, 666);
	assert_int_equal(a.cred.uid, STRANGER);
	assert_int_not_equal(a.cred.uid, r.uid);
	result = ASK_PENDING;
	assert_int_equal(run_ask(&a, ask_next(&a)), ASK_MINE);
	assert_int_equal(a.owner, 1);
	assert_int_equal(a.cred.uid, r.uid);
	ask_stop(&a);

	p.owner_uid = r.uid;
	if (meet_uid_proves(r.uid)) {
		assert_int_equal(go(&a, &p), ASK_MINE);
		assert_int_equal(a.owner, 1);
		assert_int_equal(a.strangers, 1);
		ask_stop(&a);
	}
	node_close(&n0);
	assert_int_equal(go(&a, &p), ASK_NOBODY);	/* the squatter alone */
	proc_end(&squatter);
}

/* A user who takes all places does not push another one out. */
static void flood_of_one_user_spares_another(void **state)
{
	int honest, st, ready[2];
	pid_t child;
	char c;

	if (getuid() != 0)
		skip();
	node_open(&n0, MEET_NOT_MINE, 1);
	honest = client_new();
	settle();
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		int n = 0;

		if (setresuid(STRANGER, STRANGER, STRANGER) < 0)
			_exit(1);
		close(ready[0]);
		while (n < 4 * ANSWER_PENDING)		/* -EAGAIN: the queue is full */
			n += meet_connect(AF_INET, tcp.port, 0) >= 0;
		_exit(write(ready[1], "x", 1) != 1);
	}
	close(ready[1]);
	for (;;) {
		struct pollfd p = { .fd = ready[0], .events = POLLIN };

		test_now_ns++;
		settle();
		if (poll(&p, 1, 1) == 1)
			break;
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	settle();
	assert_true(n0.ans.dropped >= 3 * ANSWER_PENDING);
	assert_false(hung_up(honest));
	assert_int_equal(waitpid(child, &st, 0), child);
	assert_int_equal(st, 0);
	settle();
	assert_int_equal(n0.ans.nclients, 1);
	close(ready[0]);
	privfd_close(honest);
	settle();
	node_close(&n0);
}

/* A whole meeting of two processes: TCP, question, both proofs of who is who,
 * HELLOs with a memfd each way. */
static int owner_process(const struct tcp_pair *t)
{
	static struct diag d;
	struct diag_result r;
	struct meet_msg m;
	int fds[MEET_MAX_FDS], memfd, ret;
	unsigned nfds;
	char word[5] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	poll_loop_init(&loop);
	node_open(&n0, MEET_MINE, 2222);
	while (n0.fd < 0)
		poll_loop_once(&loop, -1);
	diag_open(&d);
	if (diag_lookup(&d, &n0.who.tuple, diag_next(&d), clock_ns(), &r) != 0 || r.uid != n0.who.cred.uid)
		return 1;
	while ((ret = meet_recv(n0.fd, &m, fds, &nfds)) == -EAGAIN)
		poll(&(struct pollfd){ .fd = n0.fd, .events = POLLIN }, 1, -1);
	if (ret != 1 || nfds != 1 || m.type != MEET_HELLO || m.instance != 77)
		return 2;
	if (pread(fds[0], word, 4, 0) != 4 || strcmp(word, "ping"))
		return 3;
	memfd = memfd_create("b", MFD_CLOEXEC);
	if (pwrite(memfd, "pong", 4, 0) != 4)
		return 4;
	meet_msg_init(&m, MEET_HELLO, 2222);
	return meet_send(n0.fd, &m, &memfd, 1) ? 5 : 0;
}

static void two_processes_meet(void **state)
{
	struct ask_params p = params();
	struct diag_result r;
	static struct diag d;
	struct meet_msg m;
	int fds[MEET_MAX_FDS], memfd, fd, st;
	static const uint16_t delays[] = { 5, 5, 5, 5, 5, 5, 5, 5, 5, 5 };
	unsigned nfds;
	struct ask a;
	char word[5] = "";
	pid_t child = fork();

	if (child == 0)
		_exit(owner_process(&tcp));
	diag_open(&d);
	assert_int_equal(diag_lookup(&d, &tcp.tuple, diag_next(&d), clock_ns(), &r), 0);
	diag_close(&d);
	p.delays_ms = delays;
	p.ndelays = 10;
	while (go(&a, &p) == ASK_NOBODY)	/* he has not got his name yet */
		assert_int_equal(waitpid(child, &st, WNOHANG), 0);
	assert_int_equal(result, ASK_MINE);
	assert_int_equal(a.cred.uid, r.uid);
	assert_int_equal(a.cred.pid, child);
	fd = ask_take_fd(&a);
	memfd = memfd_create("a", MFD_CLOEXEC);
	assert_int_equal(pwrite(memfd, "ping", 4, 0), 4);
	meet_msg_init(&m, MEET_HELLO, 77);
	assert_int_equal(meet_send(fd, &m, &memfd, 1), 0);
	close(memfd);
	poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000);
	assert_int_equal(meet_recv(fd, &m, fds, &nfds), 1);
	assert_int_equal(nfds, 1);
	assert_int_equal(m.instance, 2222);
	assert_int_equal(pread(fds[0], word, 4, 0), 4);
	assert_string_equal(word, "pong");
	privfd_close(fds[0]);
	privfd_close(fd);
	assert_int_equal(waitpid(child, &st, 0), child);
	assert_int_equal(st, 0);
}

/* A filter that answers EACCES to connect() and bind(): no meeting, for ever. */
static void sandbox_forbids(void **state)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bind, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };
	struct ask_params p = params();
	pid_t child = fork();
	int st;

	if (child == 0) {
		struct ask a;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
			_exit(77);
		if (ask_start(&a, &loop.ops, &p) != ASK_FORBIDDEN || a.err != -EACCES)
			_exit(1);
		_exit(!meet_forbidden(meet_listen(AF_INET, tcp.port, NULL)));
	}
	assert_int_equal(waitpid(child, &st, 0), child);
	assert_true(WIFEXITED(st));
	if (WEXITSTATUS(st) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(st), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(nobody_holds_a_name),
		T(owner_says_mine),
		T(hello_both_ways),
		T(stranger_may_send_no_descriptors),
		T(second_holder_owns),
		T(hint_is_asked_first),
		T(later_is_asked_again),
		T(refusal_has_a_reason),
		T(silent_holder_is_passed),
		T(many_silent_holders_end_with_the_walk),
		T(full_queue_means_later),
		T(odd_answers_are_passed),
		T(stop_in_the_middle),
		T(no_descriptors_fails),
		T(silence_is_dropped_after_5_s),
		T(flood_is_bounded_and_drops_the_oldest),
		T(question_about_another_port_is_not_ours),
		T(noise_never_leaks_or_blocks),
		T(without_descriptors_it_pauses),
		T(ports_are_bounded),
		cmocka_unit_test(unwanted_ports_make_room),
		T(another_process_owns),
		T(index_is_taken_over),
		T(owner_dies_while_asked),
		T(squatter_is_not_believed),
		T(flood_of_one_user_spares_another),
		T(two_processes_meet),
		T(sandbox_forbids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
