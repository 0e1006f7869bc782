/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_procs.c - two threads, two processes, and the death of one
 *
 * The child is forked before either end uses the device; parameters cross a
 * socket pair.  Children report by exit status: 0, or the number of a step.
 */
#define _GNU_SOURCE
#include "ends.h"
#include "../../tools/device/params.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"

#define DEPTH		64u
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAMMER_MSGS	25000u
#else
#define HAMMER_MSGS	100000u	/* twice: threads and processes */
#endif
#define MSG_BYTES	96u
/* more places than CQEs that can be under way, so none is overwritten unread */
#define PLACES		(4 * DEPTH)

/* Software RDMA on an emulated processor is slow: rounds for a device without shared memory. */
static uint32_t rounds(uint32_t shared, uint32_t other)
{
	return contract_shared() ? shared : other;
}

static void payload(uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < MSG_BYTES; i += 4)
		memcpy(p + i, &(uint32_t){ n * 2654435761u + i }, 4);
}

static uint64_t place(uint32_t n)
{
	return (uint64_t)(n % PLACES) * MSG_BYTES;
}

static int send_nth(struct end *e, uint32_t n)
{
	uint8_t buf[MSG_BYTES];
	uint64_t until = 0;
	int err;

	payload(buf, n);
	while ((err = end_write(e, buf, MSG_BYTES, place(n), n, IBV_SEND_INLINE, n)) == ENOMEM) {
		/* the clock only here: it varies the instructions a message takes */
		if (!until)
			until = clock_ns() + BOUND_MS * NS_PER_MS;
		if (clock_ns() > until)
			return ETIMEDOUT;
		/* done entries come back by polling; what else is found is let go */
		if (!e->rnic->shared)
			end_idle(e);
		sched_yield();
	}
	return err;
}

static bool nth_is_right(struct end *e, const struct ibv_wc *wc, uint32_t n)
{
	uint8_t want[MSG_BYTES];

	payload(want, n);
	return wc->status == IBV_WC_SUCCESS && wc->imm_data == n && wc->byte_len == MSG_BYTES &&
	       !memcmp((uint8_t *)e->slab.addr + place(n), want, MSG_BYTES);
}

static bool wait_taken(struct end *e, uint64_t seq)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;

	while (!e->dev->wr_taken(e->qp, seq)) {
		if (!e->rnic->shared)
			end_idle(e);
		if (clock_ns() > until)
			return false;
	}
	return true;
}

/*
 * One message at a time, or the next one would make good a lost wake-up.  The
 * pause puts the post now before, now into, now after the arming.
 */
static int hammer_send(struct end *e)
{
	unsigned int seed = 7;

	for (uint32_t n = 0; n < rounds(HAMMER_MSGS, 1000); n++) {
		uint32_t spins = (uint32_t)rand_r(&seed) % 500;

		for (uint32_t i = 0; i < spins; i++)
			fence_signal();
		if (send_nth(e, n))
			return 11;
		if (!wait_taken(e, n + 1))
			return 16;
	}
	return 0;
}

static int hammer_recv(struct end *e)
{
	for (uint32_t n = 0; n < rounds(HAMMER_MSGS, 1000); n++) {
		struct ibv_wc wc;

		if (!end_sleep(e, &wc))
			return 12;
		if (!nth_is_right(e, &wc, n))
			return 13;
		if (end_recvs(e, 1))
			return 14;
	}
	return 0;
}

static void *hammer_thread(void *e)
{
	return (void *)(intptr_t)hammer_recv(e);
}

static void arm_race_of_two_threads(void **state)
{
	if (!contract_waits())
		skip();
	ON_DEVICE(dev) {
		struct end a, b;
		pthread_t t;
		void *ret = NULL;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, DEPTH), 0);
		assert_int_equal(pthread_create(&t, NULL, hammer_thread, &b), 0);
		assert_int_equal(hammer_send(&a), 0);
		assert_int_equal(pthread_join(t, &ret), 0);
		assert_int_equal((intptr_t)ret, 0);
		ends_close(&a, &b);
	}
}

/* Open an end and connect it to the one at the other end of sock. */
static int end_meet(struct end *e, const struct rnic_ops *dev, int sock)
{
	struct rnic_params p;
	char c;

	end_open(e, dev, DEPTH, NULL);
	if (end_recvs(e, DEPTH) || end_export(e, &p) || !params_send(sock, &p))
		return 1;
	if (!params_recv(sock, &p) || end_accept(e, &p))
		return 1;
	if (!e->rnic->cm_only)
		return 0;
	/* who has accepted sends nothing before the other is ready */
	return join_asks(&e->join, &p) ? send(sock, "", 1, 0) != 1 : recv(sock, &c, 1, 0) != 1;
}

/* Fork; the child runs body on its end and exits with what that returns. */
static pid_t child_of(struct end *mine, const struct rnic_ops *dev, int (*body)(struct end *),
		      int *sock)
{
	int pair[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct end e;
		int ret;
		char c;

		close(pair[0]);
		ret = end_meet(&e, dev, pair[1]) ? 10 : body(&e);
		if (!ret && recv(pair[1], &c, 1, 0) < 0)
			ret = 15;	/* the parent says when it has seen all */
		_exit(ret);
	}
	close(pair[1]);
	assert_int_equal(end_meet(mine, dev, pair[0]), 0);
	*sock = pair[0];
	return pid;
}

static int child_end(pid_t pid, int sock)
{
	int status = -1;

	close(sock);
	waitpid(pid, &status, 0);
	return status;
}

static void arm_race_of_two_processes(void **state)
{
	if (!contract_waits())
		skip();
	ON_DEVICE(dev) {
		struct end e;
		int sock;
		pid_t pid = child_of(&e, dev, hammer_send, &sock);
		int ret = hammer_recv(&e);

		assert_int_equal(child_end(pid, sock), 0);
		assert_int_equal(ret, 0);
		end_close(&e);
	}
}

static int echo(struct end *e)
{
	for (uint32_t n = 0; n < rounds(2000, 400); n++) {
		struct ibv_wc wc;

		if (!end_sleep(e, &wc) || !nth_is_right(e, &wc, n))
			return 21;
		if (end_recvs(e, 1) || send_nth(e, n))
			return 22;
	}
	return 0;
}

static void both_asleep_in_turn(void **state)
{
	ON_DEVICE(dev) {
		struct end e;
		int sock;
		pid_t pid = child_of(&e, dev, echo, &sock);

		for (uint32_t n = 0; n < rounds(2000, 400); n++) {
			struct ibv_wc wc;

			assert_int_equal(send_nth(&e, n), 0);
			assert_true(end_sleep(&e, &wc));
			assert_true(nth_is_right(&e, &wc, n));
			assert_int_equal(end_recvs(&e, 1), 0);
		}
		assert_int_equal(child_end(pid, sock), 0);
		end_close(&e);
	}
}

/* The receiver's count, in the sender's slab behind the places. */
#define CREDIT_AT	(PLACES * MSG_BYTES)
#define CREDIT_EVERY	(DEPTH / 4)

static bool credit_wait(struct end *e, uint32_t n)
{
	const uint64_t *credit = (const void *)((const uint8_t *)e->slab.addr + CREDIT_AT);
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;

	/* pairs with the device: receives were posted before it was written */
	while (n - ld_acq(credit) >= DEPTH)
		if (!end_idle(e) || clock_ns() > until)
			return false;
	return true;
}

static int stream_on_credit(struct end *e)
{
	for (uint32_t n = 0; n < rounds(20000, 2000); n++)
		if (!credit_wait(e, n) || send_nth(e, n))
			return 51;
	return credit_wait(e, rounds(20000, 2000) + DEPTH - 1) ? 0 : 52;
}

static int credit_give(struct end *e, uint64_t count)
{
	if (count % CREDIT_EVERY)
		return 0;
	return end_post(e, IBV_WR_RDMA_WRITE, &count, sizeof(count), CREDIT_AT, 0,
			IBV_SEND_INLINE, 0);
}

/* What a link does: never more messages under way than receives are posted.  A
 * device that counts what met no receive must have counted nothing. */
static void credits_bound_a_stream(void **state)
{
	ON_DEVICE(dev) {
		struct end e;
		int sock;
		pid_t pid = child_of(&e, dev, stream_on_credit, &sock);

		for (uint32_t n = 0; n < rounds(20000, 2000); n++) {
			struct ibv_wc wc;

			assert_true(end_wait(&e, &wc));
			assert_true(nth_is_right(&e, &wc, n));
			assert_int_equal(end_recvs(&e, 1), 0);
			assert_int_equal(credit_give(&e, n + 1), 0);
		}
		assert_int_equal(child_end(pid, sock), 0);
		end_close(&e);
	}
}

/* A dead child's stream: all that was published is right, then the flush.
 * Return: messages found. */
static uint32_t finish_dead_stream(struct end *e, uint32_t n)
{
	uint32_t flushed = 0, first = n;

	e->dev->qp_error(e->qp);
	for (struct ibv_wc wc; flushed < DEPTH && end_wait(e, &wc);) {
		if (wc.status == IBV_WC_WR_FLUSH_ERR) {
			flushed++;
			continue;
		}
		assert_int_equal(flushed, 0);
		assert_true(nth_is_right(e, &wc, n));
		n++;
		assert_int_equal(end_recvs(e, 1), 0);
	}
	assert_int_equal(flushed, DEPTH);
	assert_true(end_idle(e) && n - first <= DEPTH);
	return n - first;
}

static int stream_for_ever(struct end *e)
{
	for (uint32_t n = 0;; n++)
		if ((!contract_waits() && !credit_wait(e, n)) || send_nth(e, n))
			return 31;
}

static void killed_while_streaming(void **state)
{
	ON_DEVICE(dev) {
		unsigned int seed = 99;

		for (uint32_t round = 0; round < rounds(60, 8); round++) {
			struct end e;
			int sock, status;
			pid_t pid = child_of(&e, dev, stream_for_ever, &sock);
			uint32_t n, stop = (uint32_t)rand_r(&seed) % 300;

			for (n = 0; n < stop; n++) {
				struct ibv_wc wc;

				assert_true(end_wait(&e, &wc));
				assert_true(nth_is_right(&e, &wc, n));
				assert_int_equal(end_recvs(&e, 1), 0);
				assert_int_equal(contract_waits() ? 0 : credit_give(&e, n + 1), 0);
			}
			kill(pid, SIGKILL);
			status = child_end(pid, sock);
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			finish_dead_stream(&e, n);
			end_close(&e);
		}
	}
}

static int stream_traced(struct end *e)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return 77;
	raise(SIGSTOP);
	return stream_for_ever(e);
}

/* Single-step: false when tracing is not allowed here. */
static bool step(pid_t pid, uint32_t n)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return false;
	while (n--) {
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) || waitpid(pid, &status, 0) != pid ||
		    !WIFSTOPPED(status))
			return false;
	}
	return true;
}

/* Every few instructions of the first posts; sanitizers multiply those. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEPS	20000u
#define STEP	401u
#else
#define STEPS	3000u
#define STEP	7u
#endif

static void killed_at_every_step(void **state)
{
	if (!contract_waits())
		skip();
	ON_DEVICE(dev) {
		uint32_t found = 0, most = 0;

		for (uint32_t n = 0; n < STEPS; n += rounds(STEP, 251)) {
			struct end e;
			int sock;
			pid_t pid = child_of(&e, dev, stream_traced, &sock);
			bool traced = step(pid, n);

			kill(pid, SIGKILL);
			child_end(pid, sock);
			if (traced) {
				found = finish_dead_stream(&e, 0);
				most = MAX(most, found);
			}
			end_close(&e);
			if (!traced)
				skip();
		}
		assert_true(most >= 1);
	}
}

/* The consumer dies: the producer runs into the full lane, then hears of it. */
static int take_some(struct end *e)
{
	struct ibv_wc wc;

	for (uint32_t n = 0; n < 10; n++)
		if (!end_wait(e, &wc) || !nth_is_right(e, &wc, n))
			return 41;
	return 0;
}

static void consumer_killed(void **state)
{
	if (!contract_waits())
		skip();
	ON_DEVICE(dev) {
		struct end e;
		struct ibv_wc wc;
		int sock, err;
		uint32_t n = 0, done = 0;
		pid_t pid = child_of(&e, dev, take_some, &sock);

		for (uint32_t i = 0; i < 10; i++)
			assert_int_equal(send_nth(&e, n++), 0);
		assert_true(wait_taken(&e, 10));
		kill(pid, SIGKILL);
		child_end(pid, sock);
		while (!(err = end_write(&e, "x", 1, 0, n, IBV_SEND_SIGNALED, n)))
			assert_true(++n < 1u << 20);
		assert_int_equal(err, ENOMEM);
		dev->qp_error(e.qp);
		for (; done < n - 10 + DEPTH && end_wait(&e, &wc); done++)
			/* the first may have found out by itself */
			assert_true(wc.status == IBV_WC_WR_FLUSH_ERR ||
				    (!contract_shared() && done == 0 &&
				     wc.status == IBV_WC_RETRY_EXC_ERR));
		assert_int_equal(done, n - 10 + DEPTH);
		assert_true(end_idle(&e));
		assert_int_equal(end_write(&e, "x", 1, 0, n, 0, n), EIO);
		end_close(&e);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_asleep_in_turn),
		cmocka_unit_test(arm_race_of_two_threads),
		cmocka_unit_test(arm_race_of_two_processes),
		cmocka_unit_test(credits_bound_a_stream),
		cmocka_unit_test(killed_while_streaming),
		cmocka_unit_test(killed_at_every_step),
		cmocka_unit_test(consumer_killed),
	};

	int err = contract_pick(argc, argv);

	return err ? err : cmocka_run_group_tests(tests, NULL, NULL);
}
