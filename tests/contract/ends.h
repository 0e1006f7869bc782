/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ends.h - one end of a queue pair as the contract tests use it
 *
 * Written against rnic.h: every device in contract_devices[] must pass.
 */
#ifndef TESTS_CONTRACT_ENDS_H
#define TESTS_CONTRACT_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "rnic/rnic.h"

#define SLAB_BYTES	(1u << 20)
#define BOUND_MS	5000

extern const struct rnic_ops *const contract_devices[];
extern const size_t contract_ndevices;

struct end {
	const struct rnic_ops *dev;
	struct rnic *rnic;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	bool cq_shared;			/* cq, ch, pd and rnic belong to another end */
	struct ibv_qp *qp;
	struct rnic_slab slab;
	uint32_t rkey;
	uint64_t base;
	uint8_t *peer;			/* mapped peer slab, NULL where not shared */
	uint64_t next_recv;		/* wr_id of the next receive */
};

/* The functions below fail the running test. */
void end_open(struct end *e, const struct rnic_ops *dev, uint32_t depth, struct end *share);
void end_close(struct end *e);
void ends_connect(struct end *a, struct end *b);
void ends_open(struct end *a, struct end *b, const struct rnic_ops *dev, uint32_t depth);
void ends_close(struct end *a, struct end *b);

/* These return what went wrong, so that a child process can use them too. */
int end_export(struct end *e, struct rnic_params *p);
int end_accept(struct end *e, const struct rnic_params *p);
int end_recvs(struct end *e, uint32_t n);
int end_write(struct end *e, const void *src, uint32_t len, uint64_t off, uint32_t imm,
	      unsigned int flags, uint64_t wr_id);
int end_post(struct end *e, enum ibv_wr_opcode op, const void *src, uint32_t len, uint64_t off,
	     uint32_t imm, unsigned int flags, uint64_t wr_id);
/* One completion within BOUND_MS by polling; false: none came. */
bool end_wait(struct end *e, struct ibv_wc *wc);
/* The same, asleep on the channel in between. */
bool end_sleep(struct end *e, struct ibv_wc *wc);
bool end_idle(struct end *e);

/* Parameters over a socket: for two processes. */
bool params_send(int sock, struct rnic_params *p);
bool params_recv(int sock, struct rnic_params *p);

#define FOR_EACH_DEVICE(dev) \
	for (size_t _d = 0; _d < contract_ndevices; _d++) \
		for (const struct rnic_ops *dev = contract_devices[_d]; dev; dev = NULL)

#endif
