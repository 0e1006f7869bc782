/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fake_verbs.h - a libibverbs of memory alone, which fails on request
 *
 * One device with one port.  Each call that may fail counts; the fail_at-th
 * fails with fail_errno.  Objects alive are counted: what is left is a leak.
 * The data path records requests and plays back the completions it is given.
 */
#ifndef TESTS_UNIT_FAKE_VERBS_H
#define TESTS_UNIT_FAKE_VERBS_H

#include <stdbool.h>

#include "rnic/verbs_lib.h"

#define FAKE_WRS	4096

struct fake {
	int calls, fail_at, fail_errno;
	int alive;			/* objects, mappings of the library's own included */
	enum ibv_transport_type transport;
	int max_inline, max_qp_wr, max_cqe;
	bool port_down;
	int cq_limit;			/* create_cq() and resize_cq() refuse beyond */

	struct ibv_send_wr sent[FAKE_WRS];
	uint8_t inlined[FAKE_WRS][8];	/* first bytes of inline requests */
	unsigned int nsent, ncompleted;
	unsigned int refuse_after;	/* post_send takes so many more, then ... */
	int refuse_with;		/* ... returns this; 0: takes all */

	struct ibv_recv_wr received[FAKE_WRS];
	unsigned int nreceived;

	struct ibv_wc wc[FAKE_WRS];
	unsigned int nwc, wc_taken;

	struct ibv_async_event event;
	bool event_there;
	int acked;
	struct ibv_qp *last_qp;
	struct ibv_qp_attr moved[IBV_QPS_ERR + 1];	/* modify_qp(), by the state moved to */
};

extern struct fake fake;

/* Put it in the library's place, all counts at zero. */
void fake_install(void);

/* All requests up to number n (counted from 1) have been done: the signalled
 * among them complete. */
void fake_complete(unsigned int n, enum ibv_wc_status status);
void fake_wc(struct ibv_wc wc);

#endif
