/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* fake_verbs.c - see fake_verbs.h */
#define _GNU_SOURCE
#include "fake_verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

struct fake fake;

static bool fails(void)
{
	if (++fake.calls != fake.fail_at)
		return false;
	errno = fake.fail_errno;
	return true;
}

/* NULL, or zeroed memory that counts as alive. */
static void *thing(size_t bytes)
{
	void *p;

	if (fails())
		return NULL;
	p = calloc(1, bytes);
	assert_non_null(p);
	fake.alive++;
	return p;
}

static int gone(void *p)
{
	assert_non_null(p);
	free(p);
	fake.alive--;
	return 0;
}

static struct ibv_device device = { .name = "fake0" };

static struct ibv_device **get_device_list(int *n)
{
	struct ibv_device **list = thing(2 * sizeof(*list));

	*n = 0;
	if (!list)
		return NULL;
	device.transport_type = fake.transport;
	list[0] = &device;
	*n = 1;
	return list;
}

static void free_device_list(struct ibv_device **list) { gone(list); }
static const char *get_device_name(struct ibv_device *dev) { return dev->name; }

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		if (fake.refuse_with && fake.refuse_after-- == 0) {
			*bad = wr;
			return fake.refuse_with;
		}
		assert_true(fake.nsent < FAKE_WRS);
		fake.sent[fake.nsent] = *wr;
		if (wr->num_sge && (wr->send_flags & IBV_SEND_INLINE))
			memcpy(fake.inlined[fake.nsent], (void *)(uintptr_t)wr->sg_list[0].addr,
			       wr->sg_list[0].length < 8 ? wr->sg_list[0].length : 8);
		fake.nsent++;
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		fake.received[fake.nreceived % FAKE_WRS] = *wr;
		if (wr->num_sge)
			fake.received[fake.nreceived % FAKE_WRS].next =
				(void *)(uintptr_t)wr->sg_list[0].addr;
		fake.nreceived++;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	int n = 0;

	while (n < num && fake.wc_taken < fake.nwc)
		wc[n++] = fake.wc[fake.wc_taken++];
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only) { return 0; }

void fake_wc(struct ibv_wc wc)
{
	assert_true(fake.nwc < FAKE_WRS);
	fake.wc[fake.nwc++] = wc;
}

void fake_complete(unsigned int n, enum ibv_wc_status status)
{
	for (; fake.ncompleted < n && fake.ncompleted < fake.nsent; fake.ncompleted++) {
		const struct ibv_send_wr *wr = &fake.sent[fake.ncompleted];

		if (status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SIGNALED))
			fake_wc((struct ibv_wc){ .wr_id = wr->wr_id, .status = status });
	}
}

static struct ibv_context *open_device(struct ibv_device *dev)
{
	struct ibv_context *ctx = thing(sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->device = dev;
	ctx->cmd_fd = eventfd(0, EFD_CLOEXEC);
	ctx->async_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(ctx->cmd_fd >= 0 && ctx->async_fd >= 0);
	ctx->ops.post_send = post_send;
	ctx->ops.post_recv = post_recv;
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.req_notify_cq = req_notify_cq;
	return ctx;
}

static int close_device(struct ibv_context *ctx)
{
	assert_int_equal(close(ctx->cmd_fd), 0);
	assert_int_equal(close(ctx->async_fd), 0);
	return gone(ctx);
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1, .max_qp_wr = fake.max_qp_wr, .max_sge = 16,
					  .max_cqe = fake.max_cqe, .max_mr_size = 1u << 30 };
	return fails() ? fake.fail_errno : 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *to)
{
	struct ibv_port_attr *attr = (void *)to;

	attr->state = fake.port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_1024;
	attr->gid_tbl_len = 3;
	attr->max_msg_sz = 1u << 30;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return fails() ? fake.fail_errno : 0;
}

/* A link-local one, then the one of an IPv4 address; the third place is empty. */
static int query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	static const union ibv_gid gids[2] = {
		{ .raw = { 0xfe, 0x80, [15] = 1 } },
		{ .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } } };

	if (index > 1)
		return ENODATA;
	*entry = (struct ibv_gid_entry){ .gid = gids[index], .gid_index = index,
					 .gid_type = IBV_GID_TYPE_ROCE_V2 };
	return 0;
}

static int get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	if (fails())
		return -1;
	errno = EAGAIN;
	if (!fake.event_there)
		return -1;
	fake.event_there = false;
	*ev = fake.event;
	return 0;
}

static void ack_async_event(struct ibv_async_event *ev) { fake.acked++; }

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = thing(sizeof(*pd));

	if (pd)
		pd->context = ctx;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd) { return gone(pd); }

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = thing(sizeof(*mr));

	if (mr)
		*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr,
				       .length = len, .lkey = 7, .rkey = 8 };
	return mr;
}

static int dereg_mr(struct ibv_mr *mr) { return gone(mr); }

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch = thing(sizeof(*ch));

	if (ch)
		*ch = (struct ibv_comp_channel){ .context = ctx, .fd = eventfd(0, EFD_CLOEXEC) };
	return ch;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	assert_int_equal(close(ch->fd), 0);
	return gone(ch);
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
				struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq = cqe > fake.cq_limit ? NULL : thing(sizeof(*cq));

	if (!cq)
		return NULL;
	cq->context = ctx;
	cq->channel = ch;
	cq->cqe = cqe;
	return cq;
}

static int resize_cq(struct ibv_cq *cq, int cqe)
{
	if (fails())
		return fake.fail_errno;
	if (cqe > fake.cq_limit)
		return EINVAL;
	cq->cqe = cqe;
	return 0;
}

static int destroy_cq(struct ibv_cq *cq) { return gone(cq); }

static int get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
	return -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int n) { }

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = thing(sizeof(*qp));

	if (!qp)
		return NULL;
	if ((int)attr->cap.max_inline_data > fake.max_inline) {
		gone(qp);
		errno = EINVAL;
		return NULL;
	}
	*qp = (struct ibv_qp){ .context = pd->context, .qp_context = attr->qp_context, .pd = pd,
			       .qp_num = 42, .state = IBV_QPS_RESET, .qp_type = attr->qp_type };
	fake.last_qp = qp;
	return qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (fails())
		return fake.fail_errno;
	qp->state = attr->qp_state;
	fake.moved[attr->qp_state] = *attr;
	return 0;
}

static int destroy_qp(struct ibv_qp *qp) { return gone(qp); }

static const struct verbs_lib table = {
#define X(ret, field, symbol, params) .field = field,
	VERBS_CALLS(X)
#undef X
};

void fake_install(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.transport = IBV_TRANSPORT_IB;
	fake.max_inline = 256;
	fake.max_qp_wr = 1024;
	fake.max_cqe = 8192;
	fake.cq_limit = 8192;
	verbs = &table;
}
