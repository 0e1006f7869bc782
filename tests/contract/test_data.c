/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_data.c - the data path of a device, both ends in this process */
#include "ends.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fault.h"

#define DEPTH 64u

static void fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void expect_recv(struct end *e, uint64_t wr_id, uint32_t imm, uint32_t len)
{
	struct ibv_wc wc;

	assert_true(end_wait(e, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.imm_data, imm);
	assert_int_equal(wc.byte_len, len);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(wc.qp_num, e->qp->qp_num);
}

/* In order over ten laps of the lane, inline and not, every size from 0. */
static void order_and_wrap(void **state)
{
	static uint8_t buf[4096];

	ON_DEVICE(dev) {
		struct end a, b;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, DEPTH), 0);
		for (uint32_t i = 0; i < 10 * DEPTH; i++) {
			uint32_t len = i * 13 % sizeof(buf);
			uint64_t off = i * 4099 % (SLAB_BYTES - sizeof(buf));

			fill(buf, len, i);
			assert_int_equal(end_write(&a, buf, len, off, i,
						   i % 2 ? IBV_SEND_INLINE : 0, i), 0);
			expect_recv(&b, i, i, len);
			assert_memory_equal((uint8_t *)b.slab.addr + off, buf, len);
			assert_int_equal(end_recvs(&b, 1), 0);
			assert_true(end_taken(&a, i + 1));
		}
		assert_true(end_idle(&a) && end_idle(&b));
		ends_close(&a, &b);
	}
}

static void wr_list_with_several_sges(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		char x[] = "abc", y[] = "defgh";
		struct ibv_sge sge[2];
		struct ibv_send_wr wr[3] = { 0 }, *bad = NULL;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 4), 0);
		sge[0] = (struct ibv_sge){ (uintptr_t)x, 3, 0 };
		sge[1] = (struct ibv_sge){ (uintptr_t)y, 5, 0 };
		for (int i = 0; i < 3; i++) {
			wr[i].next = i < 2 ? &wr[i + 1] : NULL;
			wr[i].sg_list = sge;
			wr[i].num_sge = 2;
			wr[i].opcode = i ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
			wr[i].send_flags = IBV_SEND_INLINE;
			wr[i].imm_data = (uint32_t)i;
			wr[i].wr.rdma.remote_addr = a.base + 8 * (uint64_t)i;
			wr[i].wr.rdma.rkey = a.rkey;
		}
		assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
		expect_recv(&b, 0, 1, 8);
		assert_memory_equal(b.slab.addr, "abcdefghabcdefgh", 16);
		expect_recv(&b, 1, 2, 8);
		/* what precedes the bad one is posted, the bad one and the rest are not */
		wr[1].wr.rdma.rkey ^= 1;
		assert_int_equal(ibv_post_send(a.qp, wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr[1]);
		assert_true(end_idle(&b));
		ends_close(&a, &b);
	}
}

static void source_that_is_the_target(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;

		ends_open(&a, &b, dev, DEPTH);
		if (a.peer) {
			assert_int_equal(end_recvs(&b, 1), 0);
			fill(a.peer + 100, 1000, 5);
			assert_int_equal(end_write(&a, a.peer + 100, 1000, 100, 9, 0, 0), 0);
			expect_recv(&b, 0, 9, 1000);
			assert_memory_equal((uint8_t *)b.slab.addr + 100, a.peer + 100, 1000);
		}
		ends_close(&a, &b);
	}
}

static void signaled_sends_complete_when_taken(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct ibv_wc wc;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 4), 0);
		assert_int_equal(end_write(&a, "x", 1, 0, 1, IBV_SEND_SIGNALED, 77), 0);
		assert_int_equal(end_write(&a, "y", 1, 1, 2, 0, 78), 0);
		assert_int_equal(end_write(&a, "z", 1, 2, 3, IBV_SEND_SIGNALED, 79), 0);
		if (a.peer) {
			assert_true(end_idle(&a));
			assert_false(dev->wr_taken(a.qp, 1));
		}
		expect_recv(&b, 0, 1, 1);
		assert_true(end_wait(&a, &wc));
		assert_int_equal(wc.wr_id, 77);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
		assert_true(end_taken(&a, 1));
		expect_recv(&b, 1, 2, 1);
		expect_recv(&b, 2, 3, 1);
		assert_true(end_wait(&a, &wc));
		assert_int_equal(wc.wr_id, 79);
		assert_true(end_taken(&a, 3));
		assert_false(dev->wr_taken(a.qp, 4));
		/* a plain write raises nothing there and completes here */
		assert_int_equal(end_post(&a, IBV_WR_RDMA_WRITE, "w", 1, 3, 0,
					  IBV_SEND_SIGNALED, 80), 0);
		assert_true(end_wait(&a, &wc));
		assert_int_equal(wc.wr_id, 80);
		assert_true(end_idle(&a) && end_idle(&b));
		ends_close(&a, &b);
	}
}

static void wr_taken_counts_only_write_imm(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct ibv_wc wc;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, DEPTH), 0);
		for (uint32_t i = 0; i < 5 * DEPTH; i++) {
			if (a.rnic->max_send_bytes) {
				assert_int_equal(end_post(&a, IBV_WR_SEND, NULL, 0, 0, 0, 0, 0), 0);
				assert_true(end_wait(&b, &wc));
				assert_int_equal(wc.opcode, IBV_WC_RECV);
				assert_int_equal(end_recvs(&b, 1), 0);
			}
			assert_false(dev->wr_taken(a.qp, i + 1));
			assert_int_equal(end_write(&a, NULL, 0, 0, i, 0, 0), 0);
			if (a.peer)
				assert_false(dev->wr_taken(a.qp, i + 1));
			assert_true(end_wait(&b, &wc));
			assert_true(end_taken(&a, i + 1));
			assert_true(dev->wr_taken(a.qp, 1));
			assert_int_equal(end_recvs(&b, 1), 0);
		}
		ends_close(&a, &b);
	}
}

static void sends_into_posted_receives(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		char msg[] = "four bytes of iwarp", *got, big[4096] = "";
		struct ibv_sge sge;
		struct ibv_recv_wr rwr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
		struct ibv_wc wc;

		ends_open(&a, &b, dev, DEPTH);
		if (!a.rnic->max_send_bytes) {
			assert_int_equal(end_post(&a, IBV_WR_SEND, msg, 4, 0, 0, 0, 0), EOPNOTSUPP);
			ends_close(&a, &b);
			skip();
		}
		got = b.slab.addr;
		sge = (struct ibv_sge){ (uintptr_t)got, 32, b.slab.lkey };
		assert_int_equal(ibv_post_recv(b.qp, &rwr, &bad), 0);
		assert_int_equal(end_post(&a, IBV_WR_SEND_WITH_IMM, msg, sizeof(msg), 0, 42,
					  IBV_SEND_INLINE, 0), 0);
		assert_true(end_wait(&b, &wc));
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.imm_data, 42);
		assert_int_equal(wc.byte_len, sizeof(msg));
		assert_string_equal(got, msg);
		if (a.rnic->max_send_bytes < sizeof(big))
			assert_int_equal(end_post(&a, IBV_WR_SEND, big, a.rnic->max_send_bytes + 1,
						  0, 0, 0, 0), EINVAL);
		/* no room in the receive: an error, both ends hear of it */
		sge.length = 4;
		assert_int_equal(ibv_post_recv(b.qp, &rwr, &bad), 0);
		assert_int_equal(end_post(&a, IBV_WR_SEND, msg, 5, 0, 0, 0, 0), 0);
		assert_true(end_wait(&b, &wc));
		/* the verdict's name is the driver's */
		if (a.rnic->shared)
			assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
		assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(dev->qp_broken(b.qp) && end_broken(&a));
		ends_close(&a, &b);
	}
}

static void completions_wait_for_receives(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;

		if (!contract_waits())
			skip();
		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 1), 0);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(end_write(&a, &"abc"[i], 1, i, i, 0, 0), 0);
		expect_recv(&b, 0, 0, 1);
		for (int i = 0; i < 100; i++)
			assert_true(end_idle(&b));
		assert_int_equal(end_recvs(&b, 2), 0);
		expect_recv(&b, 1, 1, 1);
		expect_recv(&b, 2, 2, 1);
		ends_close(&a, &b);
	}
}

static void full_lane_and_full_queues_say_enomem(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		uint32_t n = 0;
		int err;

		if (!contract_waits())
			skip();
		ends_open(&a, &b, dev, DEPTH);
		while (!(err = end_write(&a, "x", 1, n % 100, n, 0, 0)))
			assert_true(++n <= 1u << 20);
		assert_int_equal(err, ENOMEM);
		assert_true(n >= DEPTH);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(end_recvs(&b, 1), 0);
			expect_recv(&b, i, i, 1);
		}
		/* the one refused was not published, and there is room again */
		assert_int_equal(end_recvs(&b, 1), 0);
		assert_true(end_idle(&b) && end_taken(&a, n));
		assert_int_equal(end_write(&a, "x", 1, 0, 7, 0, 0), 0);
		expect_recv(&b, n, 7, 1);
		assert_int_equal(end_recvs(&b, DEPTH), 0);
		assert_int_equal(end_recvs(&b, 1u << 17), ENOMEM);
		ends_close(&a, &b);
	}
}

static void wrong_writes_are_refused(void **state)
{
	ON_DEVICE(dev) {
		static const struct { uint64_t off; uint32_t len; } out[] = {
			{ SLAB_BYTES, 1 }, { SLAB_BYTES - 1, 2 }, { UINT64_MAX, 1 },
			{ UINT64_MAX - 1, 8 }, { (uint64_t)1 << 63, 1 }, { 1, SLAB_BYTES },
		};
		static uint8_t buf[SLAB_BYTES];
		struct end a, b;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 8), 0);
		for (size_t i = 0; i < ARRAY_SIZE(out); i++) {
			assert_int_equal(end_write(&a, buf, out[i].len, out[i].off, 0, 0, 0), EINVAL);
			assert_int_equal(end_post(&a, IBV_WR_RDMA_WRITE, buf, out[i].len,
						  out[i].off, 0, 0, 0), EINVAL);
		}
		a.rkey++;
		assert_int_equal(end_write(&a, buf, 1, 0, 0, 0, 0), EINVAL);
		assert_int_equal(end_post(&a, IBV_WR_RDMA_READ, buf, 1, 0, 0, 0, 0), EOPNOTSUPP);
		assert_true(end_idle(&a) && end_idle(&b));
		a.rkey--;
		assert_int_equal(end_write(&a, buf, SLAB_BYTES, 0, 0, 0, 0), 0);
		expect_recv(&b, 0, 0, SLAB_BYTES);
		ends_close(&a, &b);
	}
}

/* Both QPs of a connection, and a second connection, on one CQ and one thread. */
static void several_qps_on_one_cq(void **state)
{
	ON_DEVICE(dev) {
		struct end e[4];
		uint32_t seen[4] = { 0 };

		end_open(&e[0], dev, DEPTH, NULL);
		for (int i = 1; i < 4; i++)
			end_open(&e[i], dev, DEPTH, &e[0]);
		ends_connect(&e[0], &e[1]);
		ends_connect(&e[2], &e[3]);
		for (int i = 0; i < 4; i++)
			assert_int_equal(end_recvs(&e[i], DEPTH), 0);
		for (uint32_t n = 0; n < DEPTH / 2; n++)
			for (int i = 0; i < 4; i++)
				assert_int_equal(end_write(&e[i], "m", 1, n, n, 0, 0), 0);
		for (uint32_t n = 0; n < 4 * DEPTH / 2; n++) {
			struct ibv_wc wc;
			int i = 0;

			assert_true(end_wait(&e[0], &wc));
			while (i < 4 && e[i].qp->qp_num != wc.qp_num)
				i++;
			assert_true(i < 4);
			assert_int_equal(wc.imm_data, seen[i]++);
		}
		assert_true(end_idle(&e[0]));
		/* free one from the middle; the rest goes on */
		end_close(&e[1]);
		assert_true(end_broken(&e[0]));
		assert_int_equal(end_write(&e[2], "m", 1, 0, 99, 0, 0), 0);
		for (bool found = false; !found;) {
			struct ibv_wc wc;

			assert_true(end_wait(&e[0], &wc));
			found = wc.qp_num == e[3].qp->qp_num && wc.imm_data == 99;
		}
		end_close(&e[3]);
		end_close(&e[2]);
		end_close(&e[0]);
	}
}

static void expect_flush(struct end *e, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_true(end_wait(e, &wc));
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, wr_id);
}

/* Published first, then flushed; at the end that broke it and at the other. */
static void error_delivers_then_flushes(void **state)
{
	ON_DEVICE(dev)
		for (int who = 0; who < 2; who++) {
			struct end a, b;
			struct ibv_wc wc;

			ends_open(&a, &b, dev, DEPTH);
			assert_int_equal(end_recvs(&b, 5), 0);
			for (uint32_t i = 0; i < 3; i++)
				assert_int_equal(end_write(&a, "e", 1, 0, i, IBV_SEND_SIGNALED,
							   100 + i), 0);
			for (uint32_t i = 0; i < 3 && !a.peer; i++)
				assert_true(end_wait(&a, &wc));
			assert_true(a.peer || end_arrived(&a, &b));
			dev->qp_error(who ? a.qp : b.qp);
			if (a.peer)
				assert_true(dev->qp_broken(a.qp) && dev->qp_broken(b.qp));
			for (uint32_t i = 0; i < 3; i++)
				expect_recv(&b, i, i, 1);
			assert_true(end_broken(&a) && end_broken(&b));
			expect_flush(&b, 3);
			expect_flush(&b, 4);
			assert_true(end_idle(&b));
			/* posted later: flushed as well */
			assert_int_equal(end_recvs(&b, 1), 0);
			expect_flush(&b, 5);
			assert_int_equal(end_write(&b, "x", 1, 0, 0, 0, 0), EIO);
			ends_close(&a, &b);
		}
}

static void error_flushes_untaken_sends(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct ibv_wc wc;

		if (!contract_waits())
			skip();
		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 1), 0);
		assert_int_equal(end_write(&a, "1", 1, 0, 1, IBV_SEND_SIGNALED, 1), 0);
		assert_int_equal(end_write(&a, "2", 1, 0, 2, IBV_SEND_SIGNALED, 2), 0);
		expect_recv(&b, 0, 1, 1);
		if (a.peer)
			dev->qp_error(a.qp);
		assert_true(end_wait(&a, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 1);
		dev->qp_error(a.qp);
		expect_flush(&a, 2);
		assert_true(end_idle(&a));
		ends_close(&a, &b);
	}
}

/* The lane is full, so the error cannot be put into it. */
static void error_behind_a_full_lane(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		uint32_t n = 0;

		if (!contract_shared())
			skip();
		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, DEPTH), 0);
		while (!end_write(&a, "x", 1, 0, n, 0, 0))
			n++;
		dev->qp_error(a.qp);
		for (uint32_t i = 0; i < n; i++) {
			expect_recv(&b, i, i, 1);
			assert_int_equal(end_recvs(&b, 1), 0);
		}
		for (uint32_t i = 0; i < DEPTH; i++)
			expect_flush(&b, n + i);
		ends_close(&a, &b);
	}
}

static bool readable(struct end *e)
{
	struct pollfd p = { e->ch->fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void events_only_when_armed(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct ibv_wc wc;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 8), 0);
		assert_int_equal(end_write(&a, "1", 1, 0, 1, 0, 0), 0);
		assert_false(readable(&b));
		expect_recv(&b, 0, 1, 1);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_true(end_idle(&b));
		assert_false(readable(&b));
		assert_int_equal(end_write(&a, "2", 1, 0, 2, 0, 0), 0);
		assert_int_equal(end_write(&a, "3", 1, 0, 3, 0, 0), 0);
		assert_true(end_readable(&b));
		dev->channel_drain(b.ch);
		expect_recv(&b, 1, 2, 1);
		expect_recv(&b, 2, 3, 1);
		assert_false(readable(&b));
		/* a sender asleep is woken when its completion is taken */
		assert_true(a.peer || end_taken(&a, 3));
		assert_int_equal(ibv_req_notify_cq(a.cq, 0), 0);
		assert_int_equal(end_write(&a, "4", 1, 0, 4, IBV_SEND_SIGNALED, 4), 0);
		if (a.peer)
			assert_true(end_idle(&a));
		expect_recv(&b, 3, 4, 1);
		assert_true(end_readable(&a));
		assert_true(end_wait(&a, &wc));
		assert_int_equal(wc.wr_id, 4);
		/* an error wakes whoever waits for something; where memory is shared, both */
		dev->channel_drain(a.ch);
		assert_int_equal(end_recvs(&a, 1), 0);
		assert_int_equal(ibv_req_notify_cq(a.cq, 0), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		dev->qp_error(a.qp);
		assert_true(end_readable(&a));
		if (a.peer)
			assert_true(readable(&b));
		ends_close(&a, &b);
	}
}

/* Armed for what the peer wants to be heard, and for the end. */
static void events_that_are_solicited(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		uint32_t n = 0;

		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 8), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 1), 0);
		if (!a.peer && !a.rnic->cm_only) {
			assert_int_equal(end_write(&a, "1", 1, 0, 1, 0, 0), 0);
			expect_recv(&b, n++, 1, 1);
			assert_false(readable(&b));
		}
		assert_int_equal(end_write(&a, "2", 1, 0, 2, IBV_SEND_SOLICITED, 0), 0);
		assert_true(end_readable(&b));
		dev->channel_drain(b.ch);
		expect_recv(&b, n++, 2, 1);
		assert_int_equal(ibv_req_notify_cq(b.cq, 1), 0);
		dev->qp_error(b.qp);
		assert_true(end_readable(&b));
		ends_close(&a, &b);
	}
}

/* What completes by something this process does after it armed. */
static void events_of_late_posts(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct ibv_wc wc;

		if (!contract_waits())
			skip();
		ends_open(&a, &b, dev, DEPTH);
		/* a plain write */
		assert_int_equal(ibv_req_notify_cq(a.cq, 0), 0);
		assert_int_equal(end_post(&a, IBV_WR_RDMA_WRITE, "x", 1, 0, 0,
					  IBV_SEND_SIGNALED, 1), 0);
		assert_true(end_readable(&a));
		dev->channel_drain(a.ch);
		assert_true(end_wait(&a, &wc));
		/* one that the peer takes later */
		assert_int_equal(ibv_req_notify_cq(a.cq, 0), 0);
		assert_int_equal(end_write(&a, "x", 1, 0, 2, IBV_SEND_SIGNALED, 2), 0);
		assert_false(readable(&a));
		/* which lies there without a receive */
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_true(end_idle(&b));
		assert_false(readable(&b));
		assert_int_equal(end_recvs(&b, 1), 0);
		assert_true(end_readable(&b));
		expect_recv(&b, 0, 2, 1);
		assert_true(end_readable(&a));
		assert_true(end_wait(&a, &wc));
		assert_int_equal(wc.wr_id, 2);
		ends_close(&a, &b);
	}
}

static void unconnected_qp_posts_nothing(void **state)
{
	ON_DEVICE(dev) {
		struct end a;

		end_open(&a, dev, DEPTH, NULL);
		assert_int_equal(end_write(&a, "x", 1, 0, 0, 0, 0), EINVAL);
		assert_int_equal(end_recvs(&a, 2), 0);
		dev->qp_error(a.qp);
		expect_flush(&a, 0);
		expect_flush(&a, 1);
		end_close(&a);
	}
}

/* The other end may be connected first; what it sends then is ours once we are. */
static void nothing_is_delivered_before_connect(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct rnic_params pa, pb;

		if (!contract_waits())
			skip();
		end_open(&a, dev, DEPTH, NULL);
		end_open(&b, dev, DEPTH, NULL);
		assert_int_equal(end_recvs(&b, 2), 0);
		assert_int_equal(end_export(&a, &pa), 0);
		assert_int_equal(end_export(&b, &pb), 0);
		assert_int_equal(end_accept(&a, &pb), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(end_write(&a, "x", 1, 0, 7, IBV_SEND_SIGNALED, 1), 0);
		dev->channel_drain(b.ch);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_true(end_idle(&b) && end_idle(&a));
		assert_int_equal(end_accept(&b, &pa), 0);
		assert_true(end_readable(&b));
		expect_recv(&b, 0, 7, 1);
		ends_close(&a, &b);
	}
}

static uint64_t address_space_in_use(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages * 4096ull;
}

/* RLIMIT_AS is the program's: of what is left of it a slab takes a small part, or nothing. */
static void slab_leaves_the_address_space(void **state)
{
	struct rlimit old, few;
	struct rnic *rnic;
	struct rnic_slab slab;

	if (contract_device != &rnic_soft_ops)
		skip();
	assert_int_equal(rnic_soft_ops.open(&rnic, NULL), 0);
	struct ibv_pd *pd = rnic_soft_ops.pd_new(rnic);
	assert_non_null(pd);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	for (unsigned int times = 4; times <= 32; times *= 8) {
		few = old;
		few.rlim_cur = address_space_in_use() + times * SLAB_BYTES;
		assert_int_equal(setrlimit(RLIMIT_AS, &few), 0);
		int err = rnic_soft_ops.slab_new(pd, SLAB_BYTES, &slab);
		assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
		assert_int_equal(err, times < 8 ? -ENOMEM : 0);
		rnic_soft_ops.slab_free(&slab);
	}
	rnic_soft_ops.pd_free(pd);
	rnic_soft_ops.close(rnic);
}

static void slab_bounds(void **state)
{
	ON_DEVICE(dev) {
		struct end a;
		struct rnic_slab s;

		end_open(&a, dev, DEPTH, NULL);
		assert_int_equal(dev->slab_new(a.pd, 0, &s), -EINVAL);
		assert_int_equal(dev->slab_new(a.pd, 5000, &s), 0);
		assert_int_equal(s.len, 8192);
		assert_int_equal(dev->slab_populate(&s, 0, 8192), 0);
		assert_int_equal(dev->slab_populate(&s, 4096, 8192), -EINVAL);
		assert_int_equal(dev->slab_populate(&s, UINT64_MAX, 1), -EINVAL);
		dev->slab_free(&s);
		dev->slab_free(&s);
		dev->slab_free(NULL);
		end_close(&a);
	}
}

static void fail_next(uint32_t nth)
{
	config.fault.fail_mr = nth;
	fault_arm();
}

static void fault_fail_mr(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct rnic_slab s;

		ends_open(&a, &b, dev, DEPTH);
		fail_next(2);
		assert_int_equal(dev->slab_new(a.pd, 4096, &s), 0);
		dev->slab_free(&s);
		assert_int_equal(dev->slab_new(a.pd, 4096, &s), -ENOMEM);
		fail_next(1);
		assert_int_equal(end_write(&a, "x", 1, 0, 0, 0, 0), ENOMEM);
		fail_next(1);
		assert_int_not_equal(end_recvs(&b, 1), 0);
		fail_next(1);
		assert_null(dev->pd_new(a.rnic));
		fail_next(0);
		ends_close(&a, &b);
	}
}

/* On verbs the device then does it as iWARP must: the argument verbs-noimm. */
static void fault_no_write_imm_and_delay(void **state)
{
	ON_DEVICE(dev) {
		struct end a, b;
		struct ibv_wc wc;
		uint64_t t0;

		if (!contract_shared())
			skip();
		ends_open(&a, &b, dev, DEPTH);
		assert_int_equal(end_recvs(&b, 4), 0);
		config.fault.no_write_imm = 1;
		assert_int_equal(end_write(&a, "x", 1, 0, 0, 0, 0), EOPNOTSUPP);
		config.fault.no_write_imm = 0;
		config.fault.delay_completions = 20000;
		t0 = clock_ns();
		assert_int_equal(end_write(&a, "x", 1, 0, 9, 0, 0), 0);
		assert_true(end_sleep(&b, &wc));
		assert_int_equal(wc.imm_data, 9);
		assert_true(clock_ns() - t0 >= 20000 * NS_PER_US);
		config.fault.delay_completions = 0;
		ends_close(&a, &b);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_and_wrap),
		cmocka_unit_test(wr_list_with_several_sges),
		cmocka_unit_test(source_that_is_the_target),
		cmocka_unit_test(signaled_sends_complete_when_taken),
		cmocka_unit_test(wr_taken_counts_only_write_imm),
		cmocka_unit_test(sends_into_posted_receives),
		cmocka_unit_test(completions_wait_for_receives),
		cmocka_unit_test(full_lane_and_full_queues_say_enomem),
		cmocka_unit_test(wrong_writes_are_refused),
		cmocka_unit_test(several_qps_on_one_cq),
		cmocka_unit_test(error_delivers_then_flushes),
		cmocka_unit_test(error_flushes_untaken_sends),
		cmocka_unit_test(error_behind_a_full_lane),
		cmocka_unit_test(events_only_when_armed),
		cmocka_unit_test(events_that_are_solicited),
		cmocka_unit_test(events_of_late_posts),
		cmocka_unit_test(unconnected_qp_posts_nothing),
		cmocka_unit_test(nothing_is_delivered_before_connect),
		cmocka_unit_test(slab_leaves_the_address_space),
		cmocka_unit_test(slab_bounds),
		cmocka_unit_test(fault_fail_mr),
		cmocka_unit_test(fault_no_write_imm_and_delay),
	};

	int err = contract_pick(argc, argv);

	return err ? err : cmocka_run_group_tests(tests, NULL, NULL);
}
