/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * end.h - one end of a queue pair, for sidestep-bench rnic
 *
 * All calls say what has failed, and return false or -1 then.
 */
#ifndef TOOLS_RNIC_END_H
#define TOOLS_RNIC_END_H

#include <stdbool.h>
#include <stdint.h>

#include "rnic/rnic.h"

#define SLAB_BYTES	(4u << 20)
#define WINDOW_BYTES	(2u << 20)	/* a ring, as a stream has it */
#define CREDIT_OFF	(3u << 20)	/* the word that counts consumed messages */
#define SRC_BYTES	(64u << 10)
#define DEPTH		1024u		/* receives posted, and sends */
#define MAX_BATCH	16
#define POLL_BATCH	32

struct end {
	struct rnic *rnic;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct rnic_slab slab;
	struct rnic_slab source;	/* what is sent lies here, if sources are registered */
	uint32_t rkey;
	uint64_t base;
	bool event;			/* sleep for completions */
	uint8_t *src, *dst;		/* the program's buffers */
	uint64_t told;			/* wr_id of the last send known done */
};

extern const struct rnic_ops *bench_device;
extern const char *bench_device_name;		/* NULL: the first */

bool fail(const char *what);

/* An end with DEPTH receives posted, connected to the peer's over a socket. */
bool end_open(struct end *e, int sock, bool event);
void end_close(struct end *e);

bool end_post_recvs(struct end *e, uint32_t n);

/* Fill in a write of bytes of src to offset off of the peer's slab. */
void end_write(struct end *e, struct ibv_send_wr *wr, struct ibv_sge *sge, uint64_t off,
	       uint32_t bytes, enum ibv_wr_opcode opcode);

/* Post; a full queue is waited for by taking completions of sends. */
bool end_post(struct end *e, struct ibv_send_wr *wr);

/* Completions of receives, at least one, polling or sleeping; -1. */
int end_wait_recvs(struct end *e, struct ibv_wc *wc, int max);

/* Whatever completions of sends there are. */
bool end_take_sends(struct end *e);

#endif
