/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* join.c - see join.h */
#define _GNU_SOURCE
#include "join.h"

#include <config.h>
#include <errno.h>

#ifdef HAVE_VERBS

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/verbs_lib.h"

#define WAIT_MS	10000

/* behind the device's bytes */
struct place {
	uint32_t address;
	uint16_t port;
} __attribute__((packed));

static struct place place_of(const struct rnic_params *p)
{
	struct place at;

	memcpy(&at, p->bytes + RNIC_CM_BYTES, sizeof(at));
	return at;
}

static struct sockaddr_in sockaddr_of(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port,
				     .sin_addr.s_addr = address };
}

static int listen_at(struct join *j)
{
	struct sockaddr_in at = sockaddr_of(j->address, 0);

	if (cm->create_id(j->ch, &j->listener, NULL, RDMA_PS_TCP))
		return -errno;
	if (cm->bind_addr(j->listener, (void *)&at) || cm->listen(j->listener, 4))
		return -errno;
	j->port = j->listener->route.addr.src_sin.sin_port;
	return 0;
}

int join_open(struct join *j)
{
	const char *address = getenv("SIDESTEP_CONTRACT_ADDRESS");
	int err = cm_load();

	if (err || j->ch)
		return err;
	if (!address || inet_pton(AF_INET, address, &j->address) != 1)
		return -EDESTADDRREQ;
	j->ch = cm->create_event_channel();
	return j->ch ? listen_at(j) : -errno;
}

/* The channel's descriptor stays: a test's process does not last. */
void join_close(struct join *j)
{
	if (j->id)
		cm->destroy_id(j->id);
	if (j->listener)
		cm->destroy_id(j->listener);
	*j = (struct join){ .ch = NULL };
}

int join_export(struct join *j, const struct rnic_ops *dev, struct ibv_qp *qp,
		const struct rnic_slab *slab, struct rnic_params *p)
{
	int err = join_open(j);
	struct place at = { j->address, j->port };

	memset(p, 0, sizeof(*p));
	if (!err)
		err = dev->cm_export(qp, slab, p->bytes);
	memcpy(p->bytes + RNIC_CM_BYTES, &at, sizeof(at));
	p->nbytes = RNIC_CM_BYTES + sizeof(at);
	return err;
}

bool join_asks(const struct join *j, const struct rnic_params *peers)
{
	struct place mine = { j->address, j->port }, theirs = place_of(peers);

	return memcmp(&mine, &theirs, sizeof(mine)) < 0;
}

/* The next event, which must be this one. */
static int event_wait(struct join *j, enum rdma_cm_event_type want)
{
	struct pollfd p = { j->ch->fd, POLLIN, 0 };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, WAIT_MS) != 1)
		return -ETIMEDOUT;
	if (cm->get_cm_event(j->ch, &ev))
		return -errno;
	int err = ev->event == want ? 0 : ev->status < 0 ? ev->status : -ECONNABORTED;
	if (!err && want == RDMA_CM_EVENT_CONNECT_REQUEST)
		j->id = ev->id;
	cm->ack_cm_event(ev);
	return err;
}

static struct rdma_conn_param conn_param(uint32_t qp_num)
{
	return (struct rdma_conn_param){ .responder_resources = 1, .initiator_depth = 1,
					 .qp_num = qp_num };
}

int join_ask(struct join *j, const struct rnic_params *peers, uint32_t qp_num)
{
	struct place at = place_of(peers);
	struct sockaddr_in from = sockaddr_of(j->address, 0), to = sockaddr_of(at.address, at.port);
	struct rdma_conn_param p = conn_param(qp_num);
	int err;

	if (cm->create_id(j->ch, &j->id, NULL, RDMA_PS_TCP) ||
	    cm->resolve_addr(j->id, (void *)&from, (void *)&to, WAIT_MS))
		return -errno;
	err = event_wait(j, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!err && cm->resolve_route(j->id, WAIT_MS))
		err = -errno;
	if (!err)
		err = event_wait(j, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return err ? err : cm->connect(j->id, &p) ? -errno : 0;
}

int join_answer(struct join *j, uint32_t qp_num)
{
	struct rdma_conn_param p = conn_param(qp_num);
	int err = event_wait(j, RDMA_CM_EVENT_CONNECT_REQUEST);

	return err ? err : cm->accept(j->id, &p) ? -errno : 0;
}

int join_wait(struct join *j)
{
	return event_wait(j, RDMA_CM_EVENT_ESTABLISHED);
}

int join_gone(struct join *j)
{
	return event_wait(j, RDMA_CM_EVENT_DISCONNECTED);
}

struct rnic_params join_params(const struct join *j, const struct rnic_params *peers)
{
	struct rnic_params p = *peers;

	p.nbytes = RNIC_CM_BYTES;
	p.cm = j->id ? j->id : j->listener;	/* not asked yet: the device wants none but iWARP's */
	return p;
}

#else

int join_open(struct join *j) { return -EOPNOTSUPP; }
void join_close(struct join *j) { }
int join_export(struct join *j, const struct rnic_ops *dev, struct ibv_qp *qp,
		const struct rnic_slab *slab, struct rnic_params *p) { return -EOPNOTSUPP; }
bool join_asks(const struct join *j, const struct rnic_params *peers) { return false; }
int join_ask(struct join *j, const struct rnic_params *peers, uint32_t n) { return -EOPNOTSUPP; }
int join_answer(struct join *j, uint32_t qp_num) { return -EOPNOTSUPP; }
int join_wait(struct join *j) { return -EOPNOTSUPP; }
int join_gone(struct join *j) { return -EOPNOTSUPP; }
struct rnic_params join_params(const struct join *j, const struct rnic_params *peers) { return *peers; }

#endif
