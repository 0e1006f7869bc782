/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_verbs.c - the verbs device over a libibverbs that fails where it is told to */
#include "fake_verbs.h"

#include "fake_cm.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/privfd.h"
#include "base/util.h"
#include "rnic/verbs.h"

#define DEPTH	64u
#define SLAB	8192u

static const struct rnic_ops *const dev = &rnic_verbs_ops;

struct world {
	struct rnic *r;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct rnic_slab slab, source;
	struct rnic_params p;
	uint64_t base;
	uint32_t rkey;
};

static struct ibv_qp *qp_make(struct world *w)
{
	struct ibv_qp_init_attr attr = { .send_cq = w->cq, .recv_cq = w->cq,
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			.max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 } };

	return dev->qp_new(w->pd, &attr);
}

/* All steps up to a connected QP.  Return: 0, what a step said, or -1 for NULL. */
static int world_make(struct world *w)
{
	size_t len;
	int err;

	memset(w, 0, sizeof(*w));
	err = dev->open(&w->r, NULL);
	if (err)
		return err;
	if (!(w->pd = dev->pd_new(w->r)) || !(w->ch = dev->channel_new(w->r)) ||
	    !(w->cq = dev->cq_new(w->r, 8, w->ch)))
		return -1;
	if ((err = dev->slab_new(w->pd, SLAB, &w->slab)) ||
	    (err = dev->source_new(w->pd, SLAB, &w->source)))
		return err;
	w->qp = qp_make(w);
	if (!w->qp)
		return -1;
	/* to itself: the parameters are good ones */
	if ((err = dev->qp_export(w->qp, &w->slab, &w->p)) ||
	    (err = dev->qp_connect(w->qp, &w->p)))
		return err;
	assert_null(dev->qp_peer_slab(w->qp, &len, &w->rkey, &w->base));
	assert_int_equal(len, SLAB);
	return 0;
}

static void world_end(struct world *w)
{
	dev->qp_free(w->qp);
	dev->slab_free(&w->source);
	dev->slab_free(&w->slab);
	dev->cq_free(w->cq);
	dev->channel_free(w->ch);
	dev->pd_free(w->pd);
	dev->close(w->r);
}

static void world_open(struct world *w)
{
	fake_install();
	assert_int_equal(world_make(w), 0);
}

static void world_close(struct world *w)
{
	world_end(w);
	assert_int_equal(fake.alive, 0);
}

static int fds_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Memory that is registered by and by, here and at the peer. */
static void a_slab_in_parts(void **state)
{
	struct ibv_sge sge = { .length = 8, .lkey = 7 };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct rnic_part parts[2];
	struct rnic_slab slab;
	struct world w;

	world_open(&w);
	assert_int_equal(dev->slab_reserve(w.pd, 4 * SLAB + 1, &slab), -EINVAL);
	assert_int_equal(dev->slab_reserve(w.pd, 4 * SLAB, &slab), 0);
	assert_int_equal(slab.rkey, 0);
	assert_int_equal(dev->part_new(w.pd, &slab, 0, SLAB, true, &parts[0]), 0);
	assert_int_equal(slab.rkey, parts[0].rkey);
	assert_int_equal(dev->part_new(w.pd, &slab, SLAB, 4 * SLAB, true, &parts[1]), -EINVAL);
	fake.fail_at = fake.calls + 1;
	fake.fail_errno = ENOMEM;
	assert_int_equal(dev->part_new(w.pd, &slab, SLAB, SLAB, false, &parts[1]), -ENOMEM);
	assert_int_equal(dev->part_new(w.pd, &slab, SLAB, SLAB, false, &parts[1]), 0);
	assert_int_equal(parts[1].off, SLAB);
	dev->part_free(&parts[1]);
	dev->part_free(&parts[0]);
	dev->slab_free(&slab);

	/* the second page of the peer's has a key of its own */
	assert_int_equal(dev->qp_peer_part(w.qp, SLAB / 2, SLAB, 99), -EPROTO);
	assert_int_equal(dev->qp_peer_part(w.qp, SLAB / 2, SLAB / 2, 99), 0);
	sge.addr = (uintptr_t)w.source.addr;
	wr.wr.rdma.rkey = 99;
	wr.wr.rdma.remote_addr = w.base + SLAB / 2;
	assert_int_equal(ibv_post_send(w.qp, &wr, &bad), 0);
	wr.wr.rdma.remote_addr = w.base + SLAB / 2 - 1;
	assert_int_equal(ibv_post_send(w.qp, &wr, &bad), EINVAL);
	wr.wr.rdma.remote_addr = w.base + SLAB - 7;
	assert_int_equal(ibv_post_send(w.qp, &wr, &bad), EINVAL);
	wr.wr.rdma.remote_addr = w.base + SLAB / 2;
	wr.wr.rdma.rkey = 98;
	assert_int_equal(ibv_post_send(w.qp, &wr, &bad), EINVAL);
	world_close(&w);
}

/* Bytes of the slab for which huge pages are asked. */
static size_t huge_asked(const struct rnic_slab *slab)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from = 0, to = 0, a, b;
	char line[512];
	size_t n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
			from = a;
			to = b;
		} else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " hg") &&
			   from >= (uintptr_t)slab->addr && to <= (uintptr_t)slab->addr + slab->len) {
			n += to - from;
		}
	}
	if (f)
		fclose(f);
	return n;
}

/* Huge pages lie in large parts, and reach beyond none. */
static void huge_pages_where_they_fit(void **state)
{
	enum { MIB = 1 << 20 };
	struct rnic_part parts[3];
	struct rnic_slab slab;
	struct world w;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		skip();
	world_open(&w);
	assert_int_equal(dev->slab_reserve(w.pd, 16 * MIB, &slab), 0);
	assert_int_equal(dev->part_new(w.pd, &slab, 0, MIB, true, &parts[0]), 0);
	assert_int_equal(huge_asked(&slab), 0);
	assert_int_equal(dev->part_new(w.pd, &slab, MIB, 4 * MIB + 4096, true, &parts[1]), 0);
	assert_in_range(huge_asked(&slab), 2 * MIB, 4 * MIB);
	assert_int_equal(dev->part_new(w.pd, &slab, 5 * MIB + 4096, 8 * MIB, true, &parts[2]), 0);
	assert_in_range(huge_asked(&slab), 8 * MIB, 12 * MIB);
	for (int i = 0; i < 3; i++)
		dev->part_free(&parts[i]);
	dev->slab_free(&slab);
	world_close(&w);
}

static void every_call_fails_in_turn(void **state)
{
	static const int errnos[] = { ENOMEM, EMFILE, EPERM };
	int fds, calls, failed = 0;
	struct world w;

	world_open(&w);
	calls = fake.calls;
	world_close(&w);
	fds = fds_open();
	assert_true(calls > 12);
	for (int n = 1; n <= calls; n++) {
		int err;

		fake_install();
		fake.fail_at = n;
		fake.fail_errno = errnos[n % 3];
		err = world_make(&w);
		/* but the probing of inline sizes, which tries a smaller one, a
		 * port, which is then no active one, and a CQ made twice as large as need be */
		assert_true(err == 0 || err == -1 || err == -fake.fail_errno || err == -ENETDOWN);
		failed += err != 0;
		world_end(&w);
		assert_int_equal(fake.alive, 0);
		assert_int_equal(fds_open(), fds);
	}
	assert_true(failed >= calls - 3);
}

static void descriptors_are_private(void **state)
{
	struct world w;

	world_open(&w);
	assert_true(privfd_is(w.ch->fd) && privfd_is(w.r->ctx->async_fd));
	world_close(&w);
}

static void limits_are_asked_for(void **state)
{
	struct world w;

	fake_install();
	fake.max_inline = 100;
	assert_int_equal(world_make(&w), 0);
	assert_int_equal(w.r->max_inline, 64);
	assert_int_equal(w.r->max_send_wr, 1023);
	assert_int_equal(w.r->max_cqe, 8192);
	assert_false(w.r->shared);
	world_close(&w);
	assert_int_equal(dev->open(&w.r, "fake0"), 0);
	dev->close(w.r);
	assert_int_equal(dev->open(&w.r, "other"), -ENODEV);
	assert_int_equal(fake.alive, 0);
}

static int post(struct world *w, enum ibv_wr_opcode op, unsigned int flags, uint64_t wr_id)
{
	char c = 'x';
	struct ibv_sge sge = { (uintptr_t)&c, 1, 0 };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
				  .send_flags = flags | IBV_SEND_INLINE, .imm_data = 99,
				  .wr.rdma = { w->base + wr_id % SLAB, w->rkey } }, *bad = NULL;
	int err = ibv_post_send(w->qp, &wr, &bad);

	assert_true(!err || bad == &wr);
	return err;
}

static int poll_all(struct world *w, struct ibv_wc *wc, int max)
{
	int n = 0, got;

	while (n < max && (got = ibv_poll_cq(w->cq, max - n, wc + n)) > 0)
		n += got;
	return n;
}

/* The device completes some of what is under way, at any point; in the end all
 * is known to be taken without another post, and few were signalled. */
static void few_are_signaled_and_always_the_last(void **state)
{
	for (unsigned int burst = 1; burst <= DEPTH; burst++) {
		struct ibv_wc wc[8];
		struct world w;
		unsigned int signaled = 0;

		world_open(&w);
		for (uint64_t n = 1; n <= 400; n++) {
			assert_int_equal(post(&w, IBV_WR_RDMA_WRITE_WITH_IMM, 0, n), 0);
			if (n % burst)
				continue;
			fake_complete(fake.nsent - n % 3, IBV_WC_SUCCESS);
			assert_int_equal(poll_all(&w, wc, 8), 0);
			fake_complete(fake.nsent, IBV_WC_SUCCESS);
			assert_int_equal(poll_all(&w, wc, 8), 0);
			/* a mark may have been posted */
			fake_complete(fake.nsent, IBV_WC_SUCCESS);
			assert_int_equal(poll_all(&w, wc, 8), 0);
			assert_true(dev->wr_taken(w.qp, n));
			assert_false(dev->wr_taken(w.qp, n + 1));
		}
		for (unsigned int i = 0; i < fake.nsent; i++)
			signaled += !!(fake.sent[i].send_flags & IBV_SEND_SIGNALED);
		assert_true(signaled <= 400 / burst * (3 + burst / 8) + 1);
		world_close(&w);
	}
}

static void the_callers_completions_are_its_own(void **state)
{
	struct ibv_wc wc[DEPTH];
	struct world w;
	uint64_t next = 0;

	world_open(&w);
	for (uint64_t n = 0; n < 1000; n++) {
		int got;

		assert_int_equal(post(&w, n % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
				      n % 3 ? 0 : IBV_SEND_SIGNALED, n), 0);
		if (n % 10)
			continue;
		fake_complete(fake.nsent, IBV_WC_SUCCESS);
		got = poll_all(&w, wc, DEPTH);
		for (int i = 0; i < got; i++, next += 3) {
			assert_int_equal(wc[i].wr_id, next);
			assert_int_equal(wc[i].opcode, next % 2 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
			assert_int_equal(wc[i].byte_len, 1);
		}
	}
	assert_true(next > 980);
	world_close(&w);
}

static void a_full_queue_says_enomem_and_recovers(void **state)
{
	struct ibv_wc wc[8];
	struct world w;

	world_open(&w);
	for (int round = 0; round < 20; round++) {
		for (uint32_t n = 0; n < DEPTH; n++)
			assert_int_equal(post(&w, IBV_WR_RDMA_WRITE, 0, n), 0);
		/* plain writes are signalled one in so many: the rest stays */
		assert_int_equal(post(&w, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0), ENOMEM);
		assert_true(fake.sent[fake.nsent - 1].wr_id & 1ull << 63);
		fake_complete(fake.nsent, IBV_WC_SUCCESS);
		assert_int_equal(poll_all(&w, wc, 8), 0);
		assert_int_equal(post(&w, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0), 0);
		fake_complete(fake.nsent, IBV_WC_SUCCESS);
		assert_int_equal(poll_all(&w, wc, 8), 0);
	}
	world_close(&w);
}

/* A list in two pieces; the device takes so many of it. */
#define LIST	40

static void what_the_device_refuses_is_taken_back(void **state)
{
	static const struct { int says, err; } answers[] = {
		{ -EINVAL, EINVAL }, { EINVAL, EINVAL }, { ENOMEM, ENOMEM }, { EACCES, EIO },
		{ -EIO, EIO },
	};

	for (unsigned int k = 0; k < LIST; k++)
		for (size_t a = 0; a < ARRAY_SIZE(answers); a++) {
			struct ibv_send_wr wr[LIST], *bad = NULL;
			struct ibv_wc wc[8];
			struct world w;

			world_open(&w);
			for (int i = 0; i < LIST; i++)
				wr[i] = (struct ibv_send_wr){ .wr_id = (uint64_t)i,
					.next = i < LIST - 1 ? &wr[i + 1] : NULL,
					.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					.send_flags = i == 7 ? IBV_SEND_SIGNALED : 0 };
			for (int again = 0; again < 50; again++) {
				fake.refuse_after = k;
				fake.refuse_with = answers[a].says;
				assert_int_equal(ibv_post_send(w.qp, wr, &bad), answers[a].err);
				assert_ptr_equal(bad, &wr[k]);
				fake.refuse_with = 0;
				assert_false(dev->wr_taken(w.qp, (again + 1) * k + again + 1));
				assert_int_equal(post(&w, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1), 0);
				for (int i = 0; i < 3; i++) {
					fake_complete(fake.nsent, IBV_WC_SUCCESS);
					assert_int_equal(poll_all(&w, wc, 8), i == 0 && k > 7);
				}
				assert_true(dev->wr_taken(w.qp, (again + 1) * (k + 1)));
			}
			world_close(&w);
		}
}

static void without_immediates_a_send_stands_for_one(void **state)
{
	struct ibv_recv_wr rwr = { .wr_id = 5 }, *badr;
	struct ibv_wc wc[4];
	struct world w;
	uint32_t *msg;

	fake_install();
	config.fault.no_write_imm = 1;
	assert_int_equal(world_make(&w), 0);
	config.fault.no_write_imm = 0;
	assert_int_equal(w.r->max_send_bytes, 0);
	assert_int_equal(post(&w, IBV_WR_SEND, 0, 0), EOPNOTSUPP);
	assert_int_equal(post(&w, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, 3), 0);
	assert_int_equal(fake.nsent, 2);
	assert_int_equal(fake.sent[0].opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(fake.sent[1].opcode, IBV_WR_SEND);
	assert_int_equal(((uint32_t *)(void *)fake.inlined[1])[0], 99);
	assert_int_equal(((uint32_t *)(void *)fake.inlined[1])[1], 1);
	fake_complete(2, IBV_WC_SUCCESS);
	assert_int_equal(poll_all(&w, wc, 4), 1);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_WRITE);

	/* what comes in: an honest one, then one that lies about its length */
	for (int lie = 0; lie < 2; lie++) {
		assert_int_equal(ibv_post_recv(w.qp, &rwr, &badr), 0);
		msg = (void *)fake.received[fake.nreceived - 1].next;
		msg[0] = 77;
		msg[1] = lie ? SLAB + 1 : SLAB;
		fake_wc((struct ibv_wc){ .wr_id = fake.received[fake.nreceived - 1].wr_id,
					 .opcode = IBV_WC_RECV, .byte_len = 8 });
		assert_int_equal(poll_all(&w, wc, 4), 1);
		assert_int_equal(wc[0].wr_id, 5);
		if (lie)
			assert_int_not_equal(wc[0].status, IBV_WC_SUCCESS);
		else
			assert_int_equal(wc[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(dev->qp_broken(w.qp), lie);
	}
	world_close(&w);
}

/* Its kernel moves the QP further, when rdma_cm is told its number. */
static void iwarp_wants_rdma_cm(void **state)
{
	struct rdma_cm_id id = { .verbs = NULL };
	struct rnic_params p = { .nbytes = RNIC_CM_BYTES, .cm = &id };
	struct world w;
	uint32_t rkey;
	size_t len;

	fake_install();
	fake_cm_install();
	fake.transport = IBV_TRANSPORT_IWARP;
	assert_int_equal(world_make(&w), -EOPNOTSUPP);
	assert_true(w.r->cm_only);
	assert_int_equal(fake.last_qp->state, IBV_QPS_INIT);
	assert_int_equal(dev->cm_export(w.qp, &w.slab, p.bytes), 0);
	assert_int_equal(dev->qp_connect(w.qp, &p), 0);
	assert_int_equal(fake.last_qp->state, IBV_QPS_INIT);
	assert_null(dev->qp_peer_slab(w.qp, &len, &rkey, &w.base));
	assert_int_equal(len, SLAB);
	assert_int_equal(rkey, w.slab.rkey);
	world_close(&w);
}

static void a_broken_qp_flushes_in_order(void **state)
{
	struct ibv_wc wc[8];
	struct world w;

	world_open(&w);
	for (uint64_t i = 0; i < 5; i++) {
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;

		/* two of them when it is known to be broken: the device never sees those */
		if (i == 3)
			dev->qp_error(w.qp);
		assert_int_equal(ibv_post_recv(w.qp, &wr, &bad), 0);
	}
	assert_int_equal(fake.nreceived, 3);
	assert_int_equal(post(&w, IBV_WR_RDMA_WRITE, 0, 0), EIO);
	assert_int_equal(poll_all(&w, wc, 8), 0);
	for (unsigned int i = 0; i < 3; i++)
		fake_wc((struct ibv_wc){ .wr_id = fake.received[i].wr_id,
					 .status = IBV_WC_WR_FLUSH_ERR });
	assert_int_equal(poll_all(&w, wc, 8), 5);
	for (unsigned int i = 0; i < 5; i++) {
		assert_int_equal(wc[i].wr_id, i);
		assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc[i].opcode, IBV_WC_RECV);
	}
	world_close(&w);
}

static void completions_of_a_freed_qp_find_nobody(void **state)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_wc wc[8];
	struct world w;

	world_open(&w);
	assert_int_equal(ibv_post_recv(w.qp, &wr, &bad), 0);
	assert_int_equal(post(&w, IBV_WR_SEND, IBV_SEND_SIGNALED, 0), 0);
	dev->qp_free(w.qp);
	w.qp = qp_make(&w);
	fake_complete(1, IBV_WC_SUCCESS);
	fake_wc((struct ibv_wc){ .wr_id = fake.received[0].wr_id });
	assert_int_equal(poll_all(&w, wc, 8), 0);
	world_close(&w);
}

/* Its memory is locked.  Where it cannot grow, all that there may be is had at once. */
static void a_cq_begins_small(void **state)
{
	struct ibv_cq *cq;
	struct world w;

	world_open(&w);
	fake.cq_limit = 65536;
	cq = dev->cq_new(w.r, 65536, w.ch);
	assert_int_equal(cq->cqe, VERBS_CQ_FIRST);
	dev->cq_free(cq);
	fake.fail_at = fake.calls + 2;		/* resize_cq() */
	fake.fail_errno = EOPNOTSUPP;
	cq = dev->cq_new(w.r, 65536, w.ch);
	assert_int_equal(cq->cqe, 65536);
	dev->cq_free(cq);
	fake.cq_limit = 20000;
	fake.fail_at = fake.calls + 2;
	cq = dev->cq_new(w.r, 65536, w.ch);
	assert_int_equal(cq->cqe, 16384);
	dev->cq_free(cq);
	world_close(&w);
}

static void a_cq_grows_before_a_qp_is_added(void **state)
{
	struct ibv_qp *more[4];
	struct world w;

	world_open(&w);
	assert_int_equal(w.cq->cqe, 2 * (2 * DEPTH + 1));
	fake.cq_limit = 4 * (2 * (int)DEPTH + 1);
	for (int i = 0; i < 4; i++)
		more[i] = qp_make(&w);
	assert_true(more[0] && more[1] && more[2] && !more[3]);
	assert_int_equal(w.cq->cqe, 4 * (2 * DEPTH + 1));
	/* the room of one that has gone is used again */
	dev->qp_free(more[0]);
	more[0] = qp_make(&w);
	assert_non_null(more[0]);
	for (int i = 0; i < 3; i++)
		dev->qp_free(more[i]);
	world_close(&w);
}

/* Each byte of a peer's parameters wrong in turn, and its length, and descriptors. */
static void wrong_parameters_are_refused(void **state)
{
	struct rnic_params p;
	struct world w;
	int refused = 0;

	world_open(&w);
	for (uint32_t i = 0; i < w.p.nbytes; i++) {
		struct ibv_qp *qp = qp_make(&w);

		p = w.p;
		p.bytes[i] ^= 0xff;
		refused += dev->qp_connect(qp, &p) == -EPROTO;
		dev->qp_free(qp);
	}
	/* magic, version, mtu, flags and the high bytes of qpn and psn at the least */
	assert_true(refused >= 10);
	for (uint32_t n = 0; n < RNIC_PARAM_BYTES; n++) {
		struct ibv_qp *qp = qp_make(&w);

		p = w.p;
		p.nbytes = n;
		assert_int_equal(dev->qp_connect(qp, &p), n == w.p.nbytes ? 0 : -EPROTO);
		assert_int_equal(dev->qp_connect(qp, &w.p), n == w.p.nbytes ? -EISCONN : 0);
		dev->qp_free(qp);
	}
	p = w.p;
	p.nfds = 1;
	p.fds[0] = dup(0);
	dev->qp_free(w.qp);
	w.qp = qp_make(&w);
	assert_int_equal(dev->qp_connect(w.qp, &p), -EPROTO);
	assert_int_equal(close(p.fds[0]), -1);
	world_close(&w);
}

/* ---- joined by rdma_cm: it knows the path, we the slab ---- */

static struct rdma_cm_id some_id;

static struct rnic_params by_cm(struct world *w)
{
	struct rnic_params p = { .nbytes = RNIC_CM_BYTES, .cm = &some_id };

	assert_int_equal(dev->cm_export(w->qp, &w->slab, p.bytes), 0);
	return p;
}

static void joined_by_rdma_cm(void **state)
{
	struct ibv_qp *qp;
	struct world w;
	uint32_t rkey;
	uint64_t base;
	size_t len;

	world_open(&w);
	fake_cm_install();
	struct rnic_params p = by_cm(&w);
	memset(fake.moved, 0, sizeof(fake.moved));
	qp = qp_make(&w);
	assert_int_equal(dev->qp_connect(qp, &p), 0);
	assert_null(dev->qp_peer_slab(qp, &len, &rkey, &base));
	assert_int_equal(len, SLAB);
	assert_int_equal(rkey, w.rkey);
	assert_int_equal(base, w.base);
	/* no more than what a link needs, and an end after half a second */
	assert_int_equal(fake.moved[IBV_QPS_INIT].qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(fake.moved[IBV_QPS_RTS].timeout, 14);
	assert_int_equal(fake.moved[IBV_QPS_RTS].retry_cnt, 6);
	assert_int_equal(fake.moved[IBV_QPS_RTS].rnr_retry, 7);
	assert_int_equal(dev->qp_connect(qp, &p), -EISCONN);
	dev->qp_free(qp);
	world_close(&w);
}

/* rdma_cm may lead through another port than the one that our QPs are at. */
static void another_port_leads_there(void **state)
{
	struct ibv_qp *qp;
	struct world w;

	world_open(&w);
	fake_cm_install();
	struct rnic_params p = by_cm(&w);
	fake_cm.port_num = 2;
	qp = qp_make(&w);
	assert_int_equal(dev->qp_connect(qp, &p), -EHOSTUNREACH);
	dev->qp_free(qp);
	world_close(&w);
}

static void every_step_by_rdma_cm_fails_in_turn(void **state)
{
	for (int n = 1; n <= 3; n++) {
		struct ibv_qp *qp;
		struct world w;

		world_open(&w);
		fake_cm_install();
		struct rnic_params p = by_cm(&w);
		qp = qp_make(&w);
		fake_cm.fail_at = n;
		fake_cm.fail_errno = EINVAL;
		assert_int_equal(dev->qp_connect(qp, &p), -EINVAL);
		dev->qp_free(qp);
		qp = qp_make(&w);
		fake.fail_at = fake.calls + n;
		fake.fail_errno = EIO;
		assert_int_equal(dev->qp_connect(qp, &p), -EIO);
		dev->qp_free(qp);
		world_close(&w);
	}
}

static void wrong_bytes_by_rdma_cm_are_refused(void **state)
{
	static const struct { uint8_t at, n, value; } bad[] = {
		{ 8, 4, 0 }, { 16, 1, 9 }, { 17, 1, 0xff }, { 0, 8, 0xff } };
	struct world w;

	world_open(&w);
	fake_cm_install();
	struct rnic_params good = by_cm(&w), p;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ibv_qp *qp = qp_make(&w);

		p = good;
		memset(p.bytes + bad[i].at, bad[i].value, bad[i].n);
		assert_int_equal(dev->qp_connect(qp, &p), -EPROTO);
		dev->qp_free(qp);
	}
	for (uint32_t n = 0; n <= RNIC_PARAM_BYTES; n++) {
		struct ibv_qp *qp = qp_make(&w);

		p = good;
		p.nbytes = n;
		assert_int_equal(dev->qp_connect(qp, &p), n == RNIC_CM_BYTES ? 0 : -EPROTO);
		dev->qp_free(qp);
	}
	world_close(&w);
}

static void news_of_the_device(void **state)
{
	static const struct { enum ibv_event_type is; enum rnic_event_kind kind; } news[] = {
		{ IBV_EVENT_QP_FATAL, RNIC_EVENT_QP }, { IBV_EVENT_QP_ACCESS_ERR, RNIC_EVENT_QP },
		{ IBV_EVENT_CQ_ERR, RNIC_EVENT_CQ }, { IBV_EVENT_DEVICE_FATAL, RNIC_EVENT_GONE },
		{ IBV_EVENT_PORT_ERR, RNIC_EVENT_PORT_DOWN },
		{ IBV_EVENT_PORT_ACTIVE, RNIC_EVENT_PORT_UP },
		{ IBV_EVENT_GID_CHANGE, RNIC_EVENT_OTHER },
	};
	struct rnic_event ev;
	struct world w;

	for (size_t i = 0; i < ARRAY_SIZE(news); i++) {
		world_open(&w);
		assert_int_equal(dev->event_take(w.r, &ev), -EAGAIN);
		fake.event = (struct ibv_async_event){ .element.qp = fake.last_qp,
						       .event_type = news[i].is };
		fake.event_there = true;
		assert_int_equal(dev->event_take(w.r, &ev), 0);
		assert_int_equal(ev.kind, news[i].kind);
		assert_ptr_equal(ev.qp, news[i].kind == RNIC_EVENT_QP ? w.qp : NULL);
		assert_int_equal(dev->qp_broken(w.qp), news[i].kind == RNIC_EVENT_QP);
		assert_int_equal(fake.acked, 1);
		/* the driver is unloaded */
		fake.fail_at = fake.calls + 1;
		fake.fail_errno = EIO;
		assert_int_equal(dev->event_take(w.r, &ev), -EIO);
		assert_int_equal(ev.kind, RNIC_EVENT_GONE);
		world_close(&w);
	}
}

static uint64_t counted(enum counter c)
{
	struct counters sum;

	counters_sum(&sum);
	return sum.v[c];
}

static void errors_are_counted_and_flushes_are_not(void **state)
{
	struct ibv_wc wc[4];
	struct rnic_event ev;
	struct world w;

	world_open(&w);
	counters_reset();
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(post(&w, IBV_WR_SEND, IBV_SEND_SIGNALED, i), 0);
	fake_complete(1, IBV_WC_SUCCESS);
	poll_all(&w, wc, 4);
	assert_int_equal(counted(CNT_wc_errors), 0);
	fake_complete(2, IBV_WC_RETRY_EXC_ERR);
	fake_complete(3, IBV_WC_WR_FLUSH_ERR);
	poll_all(&w, wc, 4);
	assert_int_equal(counted(CNT_wc_errors), 1);

	fake.event = (struct ibv_async_event){ .event_type = IBV_EVENT_CQ_ERR };
	fake.event_there = true;
	assert_int_equal(counted(CNT_cq_errors), 0);
	assert_int_equal(dev->event_take(w.r, &ev), 0);
	assert_int_equal(counted(CNT_cq_errors), 1);
	world_close(&w);
}

/* As the child of a fork loads librdmacm: each time one more, with variables of its own. */
static void a_library_once_more(void **state)
{
	void *libs[4] = { dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL) };
	void *calls[4];

	if (!libs[0])
		skip();
	for (unsigned i = 1; i < 4; i++)
		libs[i] = lib_copy(libs[0], i - 1);
	for (int i = 0; i < 4; i++) {
		assert_non_null(libs[i]);
		calls[i] = dlsym(libs[i], "rdma_create_id");
		assert_non_null(calls[i]);
		for (int k = 0; k < i; k++)
			assert_ptr_not_equal(calls[i], calls[k]);
	}
	assert_null(lib_copy(libs[0], 100));	/* not without end */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slab_in_parts),
		cmocka_unit_test(huge_pages_where_they_fit),
		cmocka_unit_test(every_call_fails_in_turn),
		cmocka_unit_test(descriptors_are_private),
		cmocka_unit_test(limits_are_asked_for),
		cmocka_unit_test(few_are_signaled_and_always_the_last),
		cmocka_unit_test(the_callers_completions_are_its_own),
		cmocka_unit_test(a_full_queue_says_enomem_and_recovers),
		cmocka_unit_test(what_the_device_refuses_is_taken_back),
		cmocka_unit_test(without_immediates_a_send_stands_for_one),
		cmocka_unit_test(iwarp_wants_rdma_cm),
		cmocka_unit_test(a_broken_qp_flushes_in_order),
		cmocka_unit_test(completions_of_a_freed_qp_find_nobody),
		cmocka_unit_test(a_cq_begins_small),
		cmocka_unit_test(a_cq_grows_before_a_qp_is_added),
		cmocka_unit_test(wrong_parameters_are_refused),
		cmocka_unit_test(joined_by_rdma_cm),
		cmocka_unit_test(another_port_leads_there),
		cmocka_unit_test(every_step_by_rdma_cm_fails_in_turn),
		cmocka_unit_test(wrong_bytes_by_rdma_cm_are_refused),
		cmocka_unit_test(news_of_the_device),
		cmocka_unit_test(errors_are_counted_and_flushes_are_not),
		cmocka_unit_test(a_library_once_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
