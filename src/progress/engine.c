/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* engine.c - see engine.h */
#define _GNU_SOURCE
#include "progress/engine.h"

#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "progress/wait.h"

#define CQ_DEPTH	65536
#define BATCH		32

struct engine engine;

int engine_start(const struct engine_sink *sink)
{
	struct engine *e = &engine;

	if (e->cq)
		return 0;
	if (e->err)
		return e->err;
	e->sink = sink;
	e->err = rnic_soft_ops.open(&e->rnic, NULL);
	if (e->err)
		goto fail;
	e->channel = e->rnic->ops->channel_new(e->rnic);
	if (!e->channel) {
		e->err = -ENOMEM;
		goto fail_rnic;
	}
	struct ibv_cq *cq = e->rnic->ops->cq_new(e->rnic, MIN(CQ_DEPTH, (int)e->rnic->max_cqe),
						 e->channel);
	if (!cq) {
		e->err = -ENOMEM;
		goto fail_channel;
	}
	st_rel(&e->cq, cq);	/* pairs with engine_up() */
	return 0;

fail_channel:
	e->rnic->ops->channel_free(e->channel);
	e->channel = NULL;
fail_rnic:
	e->rnic->ops->close(e->rnic);
	e->rnic = NULL;
fail:
	log_error("no engine: error %d, using kernel tcp", -e->err);
	return e->err;
}

static int poll_locked(void)
{
	struct ibv_wc wc[BATCH];
	int total = 0, n;

	do {
		n = ibv_poll_cq(engine.cq, BATCH, wc);
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			void *ctx = (void *)(uintptr_t)wc[i].wr_id;

			if (unlikely(wc[i].status != IBV_WC_SUCCESS))
				engine.sink->broken(ctx, &wc[i]);
			else if (wc[i].opcode & IBV_WC_RECV)
				engine.sink->recv(ctx, &wc[i]);
		}
		total += n;
		engine.sink->batch_end();
	} while (n == BATCH && total < 8 * BATCH);
	return total;
}

int engine_poll(void)
{
	if (!engine_up() || lock_held(&engine.poll_lock) || !lock_try(&engine.poll_lock))
		return 0;
	int n = poll_locked();
	lock_drop(&engine.poll_lock);
	if (n) {
		st_rlx(&engine.active, ld_rlx(&engine.active) + 1);
		wait_wake_ready();
	}
	return n;
}

int engine_poll_all(void)
{
	if (!engine_up())
		return 0;
	lock_take(&engine.poll_lock);
	int n = poll_locked();
	lock_drop(&engine.poll_lock);
	if (n) {
		st_rlx(&engine.active, ld_rlx(&engine.active) + 1);
		wait_wake_ready();
	}
	return n;
}

void engine_arm(void)
{
	lock_take(&engine.poll_lock);
	ibv_req_notify_cq(engine.cq, 0);
	lock_drop(&engine.poll_lock);
}

void engine_forget(void)
{
	memset(&engine, 0, sizeof(engine));
}
