/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * join.h - the two ends of a QP that rdma_cm alone can join (iWARP)
 *
 * Each end listens at an address of its host, $SIDESTEP_CONTRACT_ADDRESS, and tells
 * it behind its parameters.  One asks there, the other answers.  No call blocks for
 * ever.  All return 0 or -errno.
 */
#ifndef TESTS_CONTRACT_JOIN_H
#define TESTS_CONTRACT_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "rnic/rnic.h"

struct rdma_event_channel;

struct join {
	struct rdma_event_channel *ch;	/* NULL: nothing is open */
	struct rdma_cm_id *listener, *id;
	uint32_t address;		/* network order, as the port */
	uint16_t port;
};

int join_open(struct join *j);
void join_close(struct join *j);

/* The parameters for the other end; slab: the memory that it will write into. */
int join_export(struct join *j, const struct rnic_ops *dev, struct ibv_qp *qp,
		const struct rnic_slab *slab, struct rnic_params *p);
/* Of two equals, the one that asks. */
bool join_asks(const struct join *j, const struct rnic_params *peers);

int join_ask(struct join *j, const struct rnic_params *peers, uint32_t qp_num);
int join_answer(struct join *j, uint32_t qp_num);
/* Until the other end has done its part. */
int join_wait(struct join *j);
/* Until the other end has gone. */
int join_gone(struct join *j);
/* The peer's parameters, as qp_connect() wants them. */
struct rnic_params join_params(const struct join *j, const struct rnic_params *peers);

#endif
