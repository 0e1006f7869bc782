/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_hostile.c - a peer that writes anything anywhere it can
 *
 * Software device only: a verbs peer cannot reach what is corrupted here.
 * The test maps the lanes a second time, as a peer process could, through the
 * descriptors that qp_export() gives away.
 */
#define _GNU_SOURCE
#include "ends.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/memfd.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/privfd.h"
#include "rnic/lane.h"

#define DEPTH 64u
#define LANE_BYTES (sizeof(struct lane) + DEPTH * sizeof(struct cqe))

static const struct rnic_ops *const dev = &rnic_soft_ops;

/* a is honest; its lane and the lane it writes to are in our hands */
struct scene {
	struct end a, b;
	struct lane *a_in, *a_out;
};

static struct lane *lane_of(struct end *e)
{
	struct rnic_params p;
	struct lane *l;

	assert_int_equal(end_export(e, &p), 0);
	l = mmap(NULL, LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p.fds[0], 0);
	assert_ptr_not_equal(l, MAP_FAILED);
	for (uint32_t i = 0; i < p.nfds; i++)
		privfd_close(p.fds[i]);
	return l;
}

static void scene_open(struct scene *s)
{
	ends_open(&s->a, &s->b, dev, DEPTH);
	s->a_in = lane_of(&s->a);
	s->a_out = lane_of(&s->b);
	assert_int_equal(end_recvs(&s->a, DEPTH), 0);
}

static void scene_close(struct scene *s)
{
	munmap(s->a_in, LANE_BYTES);
	munmap(s->a_out, LANE_BYTES);
	ends_close(&s->a, &s->b);
}

/* Everything a does, bounded; nothing it returns may exceed what was posted. */
static uint32_t exercise(struct end *e)
{
	uint32_t polled = 0, recvs = DEPTH;

	for (int i = 0; i < 300; i++) {
		struct ibv_wc wc[8];
		int n = ibv_poll_cq(e->cq, 8, wc);
		int err = end_write(e, "abcdefgh", 8, (uint64_t)i, (uint32_t)i,
				    i % 3 ? 0 : IBV_SEND_SIGNALED, 1u << 30);

		assert_in_range(n, 0, 8);
		assert_true(err == 0 || err == ENOMEM || err == EIO);
		dev->wr_taken(e->qp, (uint64_t)i);
		ibv_req_notify_cq(e->cq, 0);
		for (int k = 0; k < n; k++) {
			if (wc[k].wr_id != 1u << 30) {
				assert_true(wc[k].wr_id < e->next_recv);
				polled++;
			}
			if (wc[k].status == IBV_WC_SUCCESS)
				assert_true(wc[k].byte_len <= SLAB_BYTES);
		}
		if (!end_recvs(e, 1))
			recvs++;
	}
	assert_true(polled <= recvs);
	return polled;
}

static const uint32_t garbage[] = { 0, 1, 2, 63, 64, 65, 0x7fffffff, 0x80000000, 0xfffffffe,
				    0xffffffff, 0xdeadbeef, 4096, SLAB_BYTES, SLAB_BYTES + 1 };

static void garbage_in_control_words(void **state)
{
	static const size_t words[] = { offsetof(struct lane, head),
		offsetof(struct lane, armed_rx), offsetof(struct lane, armed_tx),
		offsetof(struct lane, tx_error), offsetof(struct lane, rx_error) };

	for (size_t w = 0; w < ARRAY_SIZE(words); w++)
		for (size_t g = 0; g < ARRAY_SIZE(garbage); g++)
			for (int which = 0; which < 2; which++) {
				struct scene s;
				struct lane *l;

				scene_open(&s);
				l = which ? s.a_in : s.a_out;
				for (int i = 0; i < 3; i++)
					assert_int_equal(end_write(&s.a, "x", 1, 0, 0,
								   IBV_SEND_SIGNALED, 1u << 30), 0);
				*(volatile uint32_t *)(void *)((uint8_t *)l + words[w]) = garbage[g];
				exercise(&s.a);
				scene_close(&s);
			}
}

static void impossible_consumer_index_breaks_the_qp(void **state)
{
	static const uint32_t heads[] = { 4, 64, 0x80000000, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		struct scene s;
		struct ibv_wc wc;

		scene_open(&s);
		for (int k = 0; k < 3; k++)
			assert_int_equal(end_write(&s.a, "x", 1, 0, 0, IBV_SEND_SIGNALED, 7), 0);
		st_rlx(&s.a_out->head, heads[i]);
		/* asking is not checking: the lie shows when sends are reaped */
		assert_true(dev->wr_taken(s.a.qp, 1) || heads[i] >= 0x80000000);
		for (uint32_t k = 0; k < 3 + DEPTH; k++) {
			assert_true(end_wait(&s.a, &wc));
			assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		}
		assert_true(dev->qp_broken(s.a.qp));
		assert_true(end_idle(&s.a));
		/* one that goes back only makes the liar wait longer */
		scene_close(&s);
		scene_open(&s);
		assert_int_equal(end_write(&s.a, "x", 1, 0, 0, 0, 0), 0);
		assert_int_equal(end_write(&s.a, "x", 1, 0, 0, 0, 0), 0);
		st_rlx(&s.a_out->head, 2);
		assert_true(dev->wr_taken(s.a.qp, 2));
		assert_false(dev->qp_broken(s.a.qp));
		st_rlx(&s.a_out->head, 1);
		assert_false(dev->wr_taken(s.a.qp, 2));
		assert_false(dev->qp_broken(s.a.qp));
		scene_close(&s);
	}
}

static void forge(struct lane *l, uint32_t index, uint32_t op, uint32_t len)
{
	struct cqe *c = &l->cqe[index % DEPTH];

	st_rlx(&c->op, op);
	st_rlx(&c->byte_len, len);
	st_rel(&c->seq, index + 1);	/* pairs with lane_take() */
}

static void garbage_in_a_cqe(void **state)
{
	for (size_t o = 0; o < ARRAY_SIZE(garbage); o++)
		for (size_t g = 0; g < ARRAY_SIZE(garbage); g++) {
			struct scene s;
			struct ibv_wc wc;
			uint32_t op = garbage[o] % 7, len = garbage[g];
			bool good = (op == CQE_WRITE_IMM && len <= SLAB_BYTES) ||
				    ((op == CQE_SEND || op == CQE_SEND_IMM) && !len);

			scene_open(&s);
			forge(s.a_in, 0, op, len);
			assert_true(end_wait(&s.a, &wc));
			assert_int_equal(wc.wr_id, 0);
			if (good) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
			} else {
				assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
				assert_true(dev->qp_broken(s.a.qp) && dev->qp_broken(s.b.qp));
			}
			exercise(&s.a);
			scene_close(&s);
		}
}

/* Forged for ever: a poll is bounded by its caller, the drain by the lane. */
static void endless_stream_after_an_error_is_cut(void **state)
{
	struct scene s;
	uint32_t n = 0;

	scene_open(&s);
	forge(s.a_in, 0, CQE_WRITE_IMM, 1);
	dev->qp_error(s.a.qp);
	for (uint32_t i = 0; i < 100 * DEPTH; i++) {
		struct ibv_wc wc;

		/* one ahead, so that the lane is never found empty */
		forge(s.a_in, i + 1, CQE_WRITE_IMM, 1);
		if (ibv_poll_cq(s.a.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
			n++;
		end_recvs(&s.a, 1);
	}
	assert_int_equal(n, DEPTH);
	scene_close(&s);
}

static void random_garbage_everywhere(void **state)
{
	unsigned int seed = 12345;

	for (int round = 0; round < 300; round++) {
		struct scene s;
		uint32_t *words;

		scene_open(&s);
		for (int k = 0; k < 20; k++) {
			uint32_t at = (uint32_t)rand_r(&seed) % (DEPTH * 4);

			words = (uint32_t *)&s.a_in->cqe[at / 4];
			st_rlx(&words[at % 4], rand_r(&seed) % 2 ? at / 4 + 1 :
			       (uint32_t)rand_r(&seed));
			words = (uint32_t *)(rand_r(&seed) % 2 ? s.a_in : s.a_out);
			st_rlx(&words[16 * (rand_r(&seed) % 5)],
			       garbage[(size_t)rand_r(&seed) % ARRAY_SIZE(garbage)]);
			if (k % 5 == 4)
				exercise(&s.a);
		}
		scene_close(&s);
	}
}

/* A connection of others on the same CQ is not touched by it. */
static void neighbours_are_safe(void **state)
{
	struct scene s;
	struct end c, d;
	struct ibv_wc wc;
	uint32_t seen = 0;

	scene_open(&s);
	end_open(&c, dev, DEPTH, &s.a);
	end_open(&d, dev, DEPTH, NULL);
	ends_connect(&c, &d);
	assert_int_equal(end_recvs(&c, DEPTH), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		forge(s.a_in, 0, i, i * 977);
		st_rlx(&s.a_out->head, i * 331);
		assert_int_equal(end_write(&d, &i, 4, 0, i, 0, 0), 0);
		do
			assert_true(end_wait(&s.a, &wc));
		while (wc.qp_num != c.qp->qp_num);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.imm_data, seen++);
		assert_memory_equal(c.slab.addr, &i, 4);
		assert_int_equal(end_recvs(&c, 1), 0);
	}
	end_close(&d);
	end_close(&c);
	scene_close(&s);
}

enum memfd_kind { GOOD, UNSEALED, HALF_SEALED, WRITE_SEALED, SHORT, LONG, READ_ONLY, HUGE,
		  NO_MEMFD, MEMFD_KINDS };

static int memfd_of(enum memfd_kind kind, size_t bytes)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (kind == HUGE ? MFD_HUGETLB : 0);
	char path[64];
	int fd, ro;

	if (kind == NO_MEMFD)
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	fd = memfd_create("hostile", flags);
	if (fd < 0)
		return -1;	/* no hugetlbfs: connect must refuse -1 just the same */
	bytes += kind == LONG ? 4096 : kind == SHORT ? (size_t)-4096 : 0;
	if (kind == HUGE)
		bytes = 2u << 20;
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (kind == HALF_SEALED)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	else if (kind == WRITE_SEALED)
		fcntl(fd, F_ADD_SEALS, seals | F_SEAL_WRITE);
	else if (kind != UNSEALED)
		fcntl(fd, F_ADD_SEALS, seals);
	if (kind != READ_ONLY)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	return ro;
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 20000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void wrong_memory_is_refused(void **state)
{
	int before = open_fds();

	for (int which = 0; which < 2; which++)
		for (int kind = 0; kind < MEMFD_KINDS; kind++) {
			struct end a, b;
			struct rnic_params p;

			end_open(&a, dev, DEPTH, NULL);
			end_open(&b, dev, DEPTH, NULL);
			assert_int_equal(end_export(&b, &p), 0);
			privfd_close(p.fds[which]);
			p.fds[which] = memfd_of(kind, which ? SLAB_BYTES : LANE_BYTES);
			assert_int_equal(dev->qp_connect(a.qp, &p), kind ? -EPROTO : 0);
			ends_close(&a, &b);
		}
	assert_int_equal(open_fds(), before);
}

static void wrong_event_fd_is_refused(void **state)
{
	for (int kind = 0; kind < 3; kind++) {
		struct end a, b;
		struct rnic_params p;
		int pipes[2];

		end_open(&a, dev, DEPTH, NULL);
		end_open(&b, dev, DEPTH, NULL);
		assert_int_equal(end_export(&b, &p), 0);
		privfd_close(p.fds[2]);
		assert_int_equal(pipe2(pipes, O_NONBLOCK | O_CLOEXEC), 0);
		close(pipes[0]);
		/* a blocking eventfd, a pipe, nothing */
		p.fds[2] = kind == 0 ? eventfd(0, EFD_CLOEXEC) : kind == 1 ? dup(pipes[1]) : -1;
		close(pipes[1]);
		assert_int_equal(dev->qp_connect(a.qp, &p), -EPROTO);
		ends_close(&a, &b);
	}
}

/* Each byte of the parameters, each bit: refused, or connected and harmless. */
static void every_bit_of_the_parameters(void **state)
{
	struct rnic_params probe;
	uint32_t nbytes;
	struct end a, b;

	end_open(&b, dev, DEPTH, NULL);
	assert_int_equal(end_export(&b, &probe), 0);
	nbytes = probe.nbytes;
	for (uint32_t i = 0; i < probe.nfds; i++)
		privfd_close(probe.fds[i]);
	for (uint32_t bit = 0; bit < 8 * nbytes; bit++) {
		struct rnic_params p;
		int err;

		end_open(&a, dev, DEPTH, NULL);
		assert_int_equal(end_export(&b, &p), 0);
		p.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		err = dev->qp_connect(a.qp, &p);
		assert_true(err == 0 || err == -EPROTO);
		if (bit < 8 * 6)	/* magic and version */
			assert_int_equal(err, -EPROTO);
		end_close(&a);
	}
	end_close(&b);
	/* counts that are out of range */
	for (int k = 0; k < 4; k++) {
		struct rnic_params p;

		end_open(&a, dev, DEPTH, NULL);
		end_open(&b, dev, DEPTH, NULL);
		assert_int_equal(end_export(&b, &p), 0);
		if (k == 0)
			p.nbytes++;
		if (k == 1)
			p.nbytes = 0;
		if (k == 2)
			p.nfds = UINT32_MAX;
		if (k == 3)
			privfd_close(p.fds[--p.nfds]);
		/* what lies beyond the announced descriptors is not looked at */
		p.fds[RNIC_PARAM_FDS - 1] = -1;
		assert_int_equal(dev->qp_connect(a.qp, &p), -EPROTO);
		ends_close(&a, &b);
	}
}

/* In a child: fallocate fails as on a full host. */
static int populate_without_memory(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(f), f };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct rnic_slab slab;
	struct rnic *r;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	if (dev->open(&r, NULL) || !(pd = dev->pd_new(r)) || !(cq = dev->cq_new(r, 64, NULL)))
		return 1;
	attr.send_cq = attr.recv_cq = cq;
	if (dev->slab_new(pd, 1u << 20, &slab))
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &prog))
		return 77;
	if (dev->slab_populate(&slab, 0, 4096) != -ENOSPC)
		return 3;
	if (dev->qp_new(pd, &attr))
		return 4;
	dev->slab_free(&slab);
	dev->cq_free(cq);
	dev->pd_free(pd);
	dev->close(r);
	return 0;
}

static void no_memory_for_the_slab(void **state)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid)
		_exit(populate_without_memory());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_for_the_slab),
		cmocka_unit_test(garbage_in_control_words),
		cmocka_unit_test(impossible_consumer_index_breaks_the_qp),
		cmocka_unit_test(garbage_in_a_cqe),
		cmocka_unit_test(endless_stream_after_an_error_is_cut),
		cmocka_unit_test(random_garbage_everywhere),
		cmocka_unit_test(neighbours_are_safe),
		cmocka_unit_test(wrong_memory_is_refused),
		cmocka_unit_test(wrong_event_fd_is_refused),
		cmocka_unit_test(every_bit_of_the_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
