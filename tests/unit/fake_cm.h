/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fake_cm.h - a librdmacm of memory alone, which fails on request
 *
 * Each call that may fail counts; the fail_at-th fails with fail_errno.  Ids and
 * events that are alive are counted.  What rdma_cm would tell is queued by the
 * test; what it was told last is kept.
 */
#ifndef TESTS_UNIT_FAKE_CM_H
#define TESTS_UNIT_FAKE_CM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rnic/verbs_lib.h"

#define FAKE_CM_EVENTS	16
#define FAKE_CM_TAKEN	16

struct fake_cm {
	int calls, fail_at, fail_errno;
	int ids, unacked;
	struct rdma_cm_id *last_id;	/* made last */
	struct sockaddr_storage from, to;	/* resolve_addr(), or bind_addr() */
	struct rdma_cm_id *listening;	/* made listen last */
	uint16_t taken[FAKE_CM_TAKEN];	/* ports that others have; bind_addr() says so in either way */
	int listens, connects, accepts, rejects, establishes;
	uint8_t said[256];		/* private data of the last connect, accept or reject */
	uint8_t said_len;
	struct rdma_conn_param param;
	struct rdma_cm_event *queue[FAKE_CM_EVENTS];
	unsigned int head, tail;
	int broken_errno;		/* get_cm_event() ends with it, when nothing is queued */
	uint8_t port_num;		/* of init_qp_attr() */
};

extern struct fake_cm fake_cm;

/* Put it in the library's place, all counts at zero. */
void fake_cm_install(void);

void fake_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *data,
		   uint8_t len);
/* A new id comes to the one that listened last, between these addresses; device NULL: none. */
struct rdma_cm_id *fake_cm_request(const struct sockaddr_storage *here,
				   const struct sockaddr_storage *there,
				   const char *device, const void *data, uint8_t len);
/* The device behind an id. */
void fake_cm_device(struct rdma_cm_id *id, const char *device);

#endif
