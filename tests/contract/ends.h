/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ends.h - one end of a queue pair as the contract tests use it
 *
 * Written against rnic.h: every device must pass, the software one by default,
 * another by argument.  What only memory shared by both ends can promise (to
 * know at once, and what the peer's program does) is asked of such a device only.
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
#include "join.h"
#include "rnic/rnic.h"

#define SLAB_BYTES	(1u << 20)
#define BOUND_MS	20000

extern const struct rnic_ops *contract_device;

/* By the program's argument: soft, far (the fault of that name), verbs, or
 * verbs-noimm (as iWARP does it); a second one picks cases by pattern.
 * Return: 0; 77 if there is no such device here, 2 if there is no such name. */
int contract_pick(int argc, char **argv);
bool contract_shared(void);
/* Does what meets no receive wait for one?  On iWARP it breaks the QP. */
bool contract_waits(void);

struct end {
	const struct rnic_ops *dev;
	struct rnic *rnic;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	bool cq_shared;			/* cq, ch, pd and rnic belong to another end */
	struct ibv_qp *qp;
	struct rnic_slab slab;
	struct rnic_slab source;	/* what is sent and not inline, where that must be registered */
	size_t source_at;
	uint32_t rkey;
	uint64_t base;
	uint8_t *peer;			/* mapped peer slab, NULL where not shared */
	uint64_t next_recv;		/* wr_id of the next receive */
	struct join join;		/* where rnic->cm_only */
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
/*
 * At once where memory is shared.  Elsewhere soon: end_taken() polls, and is
 * for an end that expects no completion; end_broken() sends something.
 */
bool end_taken(struct end *e, uint64_t seq);
bool end_broken(struct end *e);
bool end_readable(struct end *e);
/* What e has sent is at its peer, an end of this process: so is what is written behind it. */
bool end_arrived(struct end *e, struct end *peer);

#define ON_DEVICE(dev) \
	for (const struct rnic_ops *dev = contract_device; dev; dev = NULL)

#endif
