/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fake_cm.c - see fake_cm.h */
#define _GNU_SOURCE
#include "fake_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

struct fake_cm fake_cm;
static struct rdma_event_channel *channel;

/* librdmacm's own, which it opens once */
#define DEVICES	3

static struct ibv_device devices[DEVICES];
static struct ibv_context contexts[DEVICES];

static bool fails(void)
{
	if (++fake_cm.calls != fake_cm.fail_at)
		return false;
	errno = fake_cm.fail_errno;
	return true;
}

static int outcome(void) { return fails() ? -1 : 0; }

static struct rdma_event_channel *create_event_channel(void)
{
	static struct rdma_event_channel one;

	if (fails())
		return NULL;
	one.fd = eventfd(0, EFD_CLOEXEC);
	assert_true(one.fd >= 0);
	channel = &one;
	return channel;
}

static struct rdma_cm_id *id_new(void *context)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	assert_non_null(id);
	id->context = context;
	id->port_num = 1;
	fake_cm.ids++;
	fake_cm.last_id = id;
	return id;
}

static int create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context,
		     enum rdma_port_space ps)
{
	if (fails())
		return -1;
	assert_int_equal(ps, RDMA_PS_TCP);
	*id = id_new(context);
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	assert_non_null(id);
	assert_int_equal(fake_cm.unacked, 0);	/* the real one would wait for it */
	free(id);
	fake_cm.ids--;
	return 0;
}

static int get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	eventfd_t news;

	if (fake_cm.head == fake_cm.tail) {
		eventfd_read(ch->fd, &news);
		errno = fake_cm.broken_errno ? fake_cm.broken_errno : EAGAIN;
		return -1;
	}
	*ev = fake_cm.queue[fake_cm.head++ % FAKE_CM_EVENTS];
	fake_cm.unacked++;
	return 0;
}

static int ack_cm_event(struct rdma_cm_event *ev)
{
	fake_cm.unacked--;
	free((void *)(uintptr_t)ev->param.conn.private_data);
	free(ev);
	return 0;
}

static int set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t len)
{
	return outcome();
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const void *)addr;	/* a port is at the same place in both */

	memcpy(&fake_cm.from, addr, addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
	       sizeof(struct sockaddr_in6));
	for (int i = 0; i < FAKE_CM_TAKEN; i++)
		if (fake_cm.taken[i] && in->sin_port == htons(fake_cm.taken[i])) {
			errno = i % 2 ? EADDRINUSE : EADDRNOTAVAIL;
			return -1;
		}
	return outcome();
}

static int cm_listen_call(struct rdma_cm_id *id, int backlog)
{
	fake_cm.listens++;
	fake_cm.listening = id;
	return outcome();
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	size_t len = src->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
		     sizeof(struct sockaddr_in6);

	memcpy(&fake_cm.from, src, len);
	memcpy(&fake_cm.to, dst, len);
	return outcome();
}

static int resolve_route(struct rdma_cm_id *id, int ms) { return outcome(); }

static void keep(const void *data, uint8_t len)
{
	fake_cm.said_len = len;
	memcpy(fake_cm.said, data, len);
}

static int cm_connect_call(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	fake_cm.connects++;
	fake_cm.param = *param;
	assert_true(param->private_data_len <= 56);	/* InfiniBand has no more */
	keep(param->private_data, param->private_data_len);
	return outcome();
}

static int establish(struct rdma_cm_id *id)
{
	fake_cm.establishes++;
	return outcome();
}

static int cm_accept_call(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	fake_cm.accepts++;
	fake_cm.param = *param;
	keep(param->private_data, param->private_data_len);
	return outcome();
}

static int reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	fake_cm.rejects++;
	keep(data, len);
	return 0;
}

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (fails())
		return -1;
	*mask = IBV_QP_STATE;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	attr->port_num = attr->ah_attr.port_num = fake_cm.port_num;
	attr->timeout = 19;
	attr->retry_cnt = attr->rnr_retry = 0;
	if (attr->qp_state == IBV_QPS_INIT)
		*mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	else if (attr->qp_state == IBV_QPS_RTR)
		*mask |= IBV_QP_AV;
	else
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
	return 0;
}

static const struct cm_lib table = {
	.create_event_channel = create_event_channel,
	.get_cm_event = get_cm_event,
	.ack_cm_event = ack_cm_event,
	.create_id = create_id,
	.destroy_id = destroy_id,
	.set_option = set_option,
	.bind_addr = bind_addr,
	.resolve_addr = resolve_addr,
	.resolve_route = resolve_route,
	.establish = establish,
	.reject = reject,
	.init_qp_attr = init_qp_attr,
	.connect = cm_connect_call,
	.accept = cm_accept_call,
	.listen = cm_listen_call,
};

void fake_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *data,
		   uint8_t len)
{
	struct rdma_cm_event *ev = calloc(1, sizeof(*ev));

	assert_non_null(ev);
	ev->id = id;
	ev->event = type;
	if (len) {
		uint8_t *copy = malloc(len);

		assert_non_null(copy);
		memcpy(copy, data, len);
		ev->param.conn.private_data = copy;
		ev->param.conn.private_data_len = len;
	}
	assert_true(fake_cm.tail - fake_cm.head < FAKE_CM_EVENTS);
	fake_cm.queue[fake_cm.tail++ % FAKE_CM_EVENTS] = ev;
	if (channel)		/* whoever watches it hears of that */
		eventfd_write(channel->fd, 1);
}

void fake_cm_device(struct rdma_cm_id *id, const char *device)
{
	for (int i = 0; i < DEVICES; i++) {
		if (strcmp(devices[i].name, device))
			continue;
		id->verbs = &contexts[i];
		return;
	}
	fail();
}

struct rdma_cm_id *fake_cm_request(const struct sockaddr_storage *here,
				   const struct sockaddr_storage *there,
				   const char *device, const void *data, uint8_t len)
{
	struct rdma_cm_id *id = id_new(NULL);

	id->route.addr.src_storage = *here;
	id->route.addr.dst_storage = *there;
	if (device)
		fake_cm_device(id, device);
	fake_cm_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, data, len);
	fake_cm.queue[(fake_cm.tail - 1) % FAKE_CM_EVENTS]->listen_id = fake_cm.listening;
	return id;
}

void fake_cm_install(void)
{
	memset(&fake_cm, 0, sizeof(fake_cm));
	channel = NULL;
	fake_cm.port_num = 1;
	for (int i = 0; i < DEVICES; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "fake%d", i);
		contexts[i] = (struct ibv_context){ .device = &devices[i], .cmd_fd = -1,
						    .async_fd = -1 };
	}
	cm = &table;
}
