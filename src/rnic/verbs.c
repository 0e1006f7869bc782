/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * verbs.c - a device of libibverbs: opening it, memory, CQs, its own troubles
 *
 * Control path only.  What the device can do is asked once, at open.  All of
 * its descriptors are moved to private numbers (base/privfd.h); they are moved
 * back before libibverbs closes them, with a close() that may be ours.
 *
 * In the child of a fork nothing here may be touched: the objects are the
 * parent's, and a child that destroys one destroys the parent's.  The
 * descriptors go with the other private ones.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "rnic/shmem.h"
#include "rnic/verbs.h"

/* ---------------------------------------------------- descriptors -- */

int verbs_fd_hide(int *fd, bool nonblock)
{
	int hi;

	if (*fd < 0)
		return 0;
	hi = privfd_dup(*fd);
	if (hi < 0)
		return hi;
	if (nonblock)
		sys_fcntl(hi, F_SETFL, sys_fcntl(hi, F_GETFL, 0) | O_NONBLOCK);
	sys_close(*fd);
	*fd = hi;
	return 0;
}

int verbs_context_hide(struct ibv_context *ctx)
{
	int err = privfd_is(ctx->cmd_fd) ? 0 : verbs_fd_hide(&ctx->cmd_fd, false);

	if (!err && !privfd_is(ctx->async_fd))
		err = verbs_fd_hide(&ctx->async_fd, true);
	return err;
}

/* For libibverbs to close: a number that its close() will not be refused. */
static void fd_show(int *fd)
{
	int plain;

	if (*fd < 0 || !privfd_is(*fd))
		return;
	plain = sys_fcntl(*fd, F_DUPFD_CLOEXEC, 0);
	privfd_close(*fd);
	*fd = plain;
}

/* -------------------------------------------------------- opening -- */

static int port_find(struct ibv_context *ctx, uint8_t ports, struct ibv_port_attr *attr)
{
	for (uint8_t p = 1; p <= ports; p++) {
		memset(attr, 0, sizeof(*attr));
		if (!verbs->query_port(ctx, p, (struct _compat_ibv_port_attr *)attr) &&
		    attr->state == IBV_PORT_ACTIVE)
			return p;
	}
	return -ENETDOWN;
}

/* What we would rather be reached by: bigger is better, 0 not at all. */
static int gid_worth(const struct ibv_gid_entry *e)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool local = e->gid.raw[0] == 0xfe && (e->gid.raw[1] & 0xc0) == 0x80;

	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 1;
	return memcmp(e->gid.raw, mapped, sizeof(mapped)) == 0 ? 4 : local ? 2 : 3;
}

static int gid_find(struct verbs_rnic *v, int entries)
{
	int best = 0;

	for (int i = 0; i < entries; i++) {
		struct ibv_gid_entry e;

		if (verbs->query_gid_ex(v->real, v->port, (uint32_t)i, &e, 0, sizeof(e)) ||
		    gid_worth(&e) <= best)
			continue;
		best = gid_worth(&e);
		v->gid = e.gid;
		v->gid_index = (uint32_t)i;
	}
	return best ? 0 : -EADDRNOTAVAIL;
}

/* The device does not say how much it takes inline: try. */
static int inline_probe(struct verbs_rnic *v, struct ibv_pd *pd, struct ibv_cq *cq)
{
	for (uint32_t bytes = VERBS_INLINE; bytes; bytes /= 2) {
		struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq,
			.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_recv_wr = 1,
				.max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = bytes } };
		struct ibv_qp *qp = verbs->create_qp(pd, &attr);

		if (!qp)
			continue;
		v->rnic.max_inline = bytes;
		verbs->destroy_qp(qp);
		return 0;
	}
	return verbs_errno();
}

static int inline_find(struct verbs_rnic *v)
{
	struct ibv_pd *pd = verbs->alloc_pd(v->real);
	struct ibv_cq *cq;
	int err;

	if (!pd)
		return verbs_errno();
	cq = verbs->create_cq(v->real, 2, NULL, NULL, 0);
	err = cq ? inline_probe(v, pd, cq) : verbs_errno();
	if (cq)
		verbs->destroy_cq(cq);
	verbs->dealloc_pd(pd);
	return err;
}

static int limits_find(struct verbs_rnic *v)
{
	struct ibv_device_attr dev = { .max_qp_wr = 0 };
	struct ibv_port_attr port;
	int err = verbs->query_device(v->real, &dev);

	if (err)
		return verbs_ret(err);
	err = port_find(v->real, dev.phys_port_cnt, &port);
	if (err < 0)
		return err;
	v->port = (uint8_t)err;
	v->mtu = (uint8_t)port.active_mtu;
	v->lid = port.lid;
	v->grh = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	v->max_mr = dev.max_mr_size;
	if (dev.max_qp_wr < 64 || dev.max_cqe < 256 || dev.max_sge < VERBS_MAX_SGE)
		return -EOPNOTSUPP;
	/* an immediate may cost two requests, and one is for our own mark */
	v->rnic.max_send_wr = MIN((uint32_t)dev.max_qp_wr, VERBS_MAX_WR) / (1 + v->imm_by_send) - 1;
	v->rnic.max_recv_wr = MIN((uint32_t)dev.max_qp_wr, VERBS_MAX_WR);
	v->rnic.max_cqe = (uint32_t)dev.max_cqe;
	v->rnic.max_send_bytes = v->imm_by_send ? 0 : MIN(port.max_msg_sz, (uint32_t)INT32_MAX);
	/* iWARP's are no addresses */
	err = v->iwarp ? 0 : gid_find(v, port.gid_tbl_len);
	return err ? err : inline_find(v);
}

static int device_use(struct verbs_rnic *v, struct ibv_device *dev)
{
	const char *name = verbs->get_device_name(dev);
	int err;

	v->real = verbs->open_device(dev);
	if (!v->real)
		return verbs_errno();
	strncpy(v->name, name ? name : "verbs", sizeof(v->name) - 1);
	v->iwarp = dev->transport_type == IBV_TRANSPORT_IWARP;
	v->imm_by_send = v->iwarp || config.fault.no_write_imm;
	err = verbs_context_hide(v->real);
	if (!err)
		err = limits_find(v);
	if (err) {
		fd_show(&v->real->cmd_fd);
		fd_show(&v->real->async_fd);
		verbs->close_device(v->real);
		v->real = NULL;
	}
	return err;
}

/* The one of that name, or the first that works. */
static int device_find(struct verbs_rnic *v, const char *name)
{
	int n = 0, err = -ENODEV;
	struct ibv_device **list = verbs->get_device_list(&n);

	if (!list)
		return verbs_errno();
	for (int i = 0; i < n && err; i++) {
		const char *is = verbs->get_device_name(list[i]);

		if (name && (!is || strcmp(is, name)))
			continue;
		err = device_use(v, list[i]);
		if (err)
			log_info("rnic: %s cannot be used: %d", is ? is : "a device", err);
	}
	verbs->free_device_list(list);
	return err;
}

static void shell_init(struct verbs_rnic *v)
{
	v->ctx.device = v->real->device;
	v->ctx.cmd_fd = -1;
	v->ctx.async_fd = v->real->async_fd;
	v->ctx.num_comp_vectors = 1;
	v->ctx.ops.poll_cq = verbs_poll_cq;
	v->ctx.ops.req_notify_cq = verbs_req_notify_cq;
	v->ctx.ops.post_send = verbs_post_send;
	v->ctx.ops.post_recv = verbs_post_recv;
	v->rnic.ops = &rnic_verbs_ops;
	v->rnic.ctx = &v->ctx;
	v->rnic.name = v->name;
	v->rnic.hardware = true;
	v->rnic.cm_only = v->iwarp;
}

static int verbs_open(struct rnic **out, const char *device)
{
	struct verbs_rnic *v;
	int err = verbs_load();

	if (err) {
		log_info("rnic: no verbs device: %d", err);
		return err;
	}
	v = pages_new(sizeof(*v));
	if (!v)
		return -ENOMEM;
	err = device_find(v, device);
	if (err) {
		pages_free(v, sizeof(*v));
		return err;
	}
	shell_init(v);
	log_info("rnic: %s port %u gid %u, inline %u, mtu %u", v->name, v->port, v->gid_index,
		 v->rnic.max_inline, 128u << v->mtu);
	*out = &v->rnic;
	return 0;
}

static void verbs_close(struct rnic *r)
{
	struct verbs_rnic *v;

	if (!r)
		return;
	v = container_of(r, struct verbs_rnic, rnic);
	fd_show(&v->real->cmd_fd);
	fd_show(&v->real->async_fd);
	verbs->close_device(v->real);
	pages_free(v, sizeof(*v));
}

/* ---------------------------------------------------------- memory -- */

static struct ibv_pd *verbs_pd_new(struct rnic *r)
{
	struct verbs_pd *pd = fault_device() ? NULL : pages_new(sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ib.context = r->ctx;
	pd->real = verbs->alloc_pd(to_vr(r->ctx)->real);
	if (!pd->real) {
		pages_free(pd, sizeof(*pd));
		return NULL;
	}
	return &pd->ib;
}

static void verbs_pd_free(struct ibv_pd *pd)
{
	if (!pd)
		return;
	verbs->dealloc_pd(to_vpd(pd)->real);
	pages_free(to_vpd(pd), sizeof(struct verbs_pd));
}

/* Not for a child: its copy would cost memory and be of no use. */
static void *slab_map(size_t bytes, int flags)
{
	void *p = sys_map(bytes, flags);

	if (p)
		sys3(SYS_madvise, p, bytes, MADV_DONTFORK);
	return p;
}

#define HUGE	(2u << 20)

/*
 * Huge pages, where the kernel makes any, for what is about to be pinned and written as
 * a whole: a fault each, and a device that takes them has fewer addresses to look up.
 * Not those that an administrator has set aside: they are somebody's.
 */
static void advise_huge(uint8_t *p, size_t bytes)
{
	uint8_t *from = (uint8_t *)(((uintptr_t)p + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	uint8_t *to = (uint8_t *)(((uintptr_t)p + bytes) & ~(uintptr_t)(HUGE - 1));

	if (from < to)
		sys3(SYS_madvise, from, (size_t)(to - from), MADV_HUGEPAGE);
}

/* NULL with *err set. */
static struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t bytes, int access, int *err)
{
	uint64_t t0 = clock_ns();
	struct ibv_mr *mr = verbs->reg_mr(to_vpd(pd)->real, addr, bytes, access);

	if (!mr) {
		*err = verbs_errno();
		return NULL;
	}
	count(CNT_mr_registrations, 1);
	count(CNT_mr_registered_bytes, bytes);
	count(CNT_mr_registration_us, (clock_ns() - t0) / NS_PER_US);
	return mr;
}

static int slab_register(struct ibv_pd *pd, size_t bytes, int access, struct rnic_slab *slab)
{
	void *addr = slab_map(bytes, 0);
	struct ibv_mr *mr;
	int err;

	if (!addr)
		return -ENOMEM;
	mr = mr_new(pd, addr, bytes, access, &err);
	if (!mr) {
		sys_unmap(addr, bytes);
		return err;
	}
	*slab = (struct rnic_slab){ .addr = addr, .len = bytes, .lkey = mr->lkey,
				    .rkey = mr->rkey, .mr = mr, .fd = -1 };
	return 0;
}

static int slab_make(struct ibv_pd *pd, size_t bytes, int access, struct rnic_slab *slab)
{
	int err;

	*slab = (struct rnic_slab){ .fd = -1 };
	if (!bytes || bytes > to_vr(pd->context)->max_mr)
		return -EINVAL;
	if (fault_device())
		return -ENOMEM;
	bytes = (bytes + SHMEM_PAGE - 1) & ~(size_t)(SHMEM_PAGE - 1);
	err = slab_register(pd, bytes, access, slab);
	if (err)
		log_info("rnic: no slab of %zu bytes: %d", bytes, err);
	return err;
}

/* remote writes need local ones; nobody reads or counts in it from afar */
#define ACCESS_SLAB (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int verbs_slab_new(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	return slab_make(pd, bytes, ACCESS_SLAB, slab);
}

static int verbs_source_new(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	return slab_make(pd, bytes, 0, slab);
}

static int verbs_slab_reserve(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	void *addr;

	*slab = (struct rnic_slab){ .fd = -1 };
	if (!bytes || bytes % SHMEM_PAGE)
		return -EINVAL;
	addr = fault_device() ? NULL : slab_map(bytes, MAP_NORESERVE);
	if (!addr)
		return -ENOMEM;
	slab->addr = addr;
	slab->len = bytes;
	return 0;
}

static int verbs_part_new(struct ibv_pd *pd, struct rnic_slab *slab, size_t off, size_t len,
			  bool remote, struct rnic_part *part)
{
	struct ibv_mr *mr;
	int err;

	if (!len || off > slab->len || len > slab->len - off || len > to_vr(pd->context)->max_mr)
		return -EINVAL;
	if (fault_device())
		return -ENOMEM;
	advise_huge((uint8_t *)slab->addr + off, len);
	mr = mr_new(pd, (uint8_t *)slab->addr + off, len, remote ? ACCESS_SLAB : 0, &err);
	if (!mr) {
		log_info("rnic: no part of %zu bytes: %d", len, err);
		return err;
	}
	*part = (struct rnic_part){ .off = off, .len = len, .lkey = mr->lkey, .rkey = mr->rkey,
				    .mr = mr };
	if (!off) {
		slab->lkey = mr->lkey;
		slab->rkey = mr->rkey;
	}
	return 0;
}

static void verbs_part_free(struct rnic_part *part)
{
	if (part->mr)
		verbs->dereg_mr(part->mr);
	*part = (struct rnic_part){ .len = 0 };
}

static int verbs_slab_populate(struct rnic_slab *slab, size_t off, size_t len)
{
	/* registered, so it is there */
	return len && (off > slab->len || len > slab->len - off) ? -EINVAL : 0;
}

static void verbs_slab_trim(struct rnic_slab *slab, size_t off, size_t len)
{
}

static void verbs_slab_free(struct rnic_slab *slab)
{
	if (!slab || !slab->addr)
		return;
	if (slab->mr)
		verbs->dereg_mr(slab->mr);
	sys_unmap(slab->addr, slab->len);
	*slab = (struct rnic_slab){ .fd = -1 };
}

/* ---------------------------------------------- channels and queues -- */

static struct ibv_comp_channel *verbs_channel_new(struct rnic *r)
{
	struct verbs_channel *ch = fault_device() ? NULL : pages_new(sizeof(*ch));

	if (!ch)
		return NULL;
	ch->real = verbs->create_comp_channel(to_vr(r->ctx)->real);
	if (!ch->real || verbs_fd_hide(&ch->real->fd, true)) {
		if (ch->real)
			verbs->destroy_comp_channel(ch->real);
		pages_free(ch, sizeof(*ch));
		return NULL;
	}
	ch->ib.context = r->ctx;
	ch->ib.fd = ch->real->fd;
	return &ch->ib;
}

static void verbs_channel_free(struct ibv_comp_channel *ib)
{
	struct verbs_channel *ch;

	if (!ib)
		return;
	ch = container_of(ib, struct verbs_channel, ib);
	fd_show(&ch->real->fd);
	verbs->destroy_comp_channel(ch->real);
	pages_free(ch, sizeof(*ch));
}

static void verbs_channel_drain(struct ibv_comp_channel *ib)
{
	struct verbs_channel *ch = container_of(ib, struct verbs_channel, ib);
	struct ibv_cq *cq;
	void *context;

	/* one for each arming; another is as good as a completion that was taken already */
	if (!verbs->get_cq_event(ch->real, &cq, &context))
		verbs->ack_cq_events(cq, 1);
}

/*
 * A CQ's memory is locked on most devices, 64 bytes an entry and a power of two of
 * them: one for all links there may be is all that an ordinary user may lock.  So it
 * begins small and grows with its links (verbs_qp.c), where the device can do that.
 */
static void cq_real_new(struct verbs_cq *cq, struct ibv_context *ctx, int cqe,
			struct ibv_comp_channel *ch)
{
	int first = MIN(cqe, VERBS_CQ_FIRST);

	cq->real = verbs->create_cq(ctx, first, cq, ch, 0);
	if (!cq->real || first == cqe || !verbs->resize_cq(cq->real, first))
		return;
	verbs->destroy_cq(cq->real);
	do
		cq->real = verbs->create_cq(ctx, cqe, cq, ch, 0);
	while (!cq->real && (cqe /= 2) >= first);
}

static struct ibv_cq *verbs_cq_new(struct rnic *r, int cqe, struct ibv_comp_channel *ch)
{
	struct verbs_cq *cq = cqe > 0 && !fault_device() ? pages_new(sizeof(*cq)) : NULL;

	if (!cq)
		return NULL;
	cq->ib.context = r->ctx;
	cq->ib.channel = ch;
	cq_real_new(cq, to_vr(r->ctx)->real, cqe,
		    ch ? container_of(ch, struct verbs_channel, ib)->real : NULL);
	if (!cq->real) {
		pages_free(cq, sizeof(*cq));
		return NULL;
	}
	cq->ib.cqe = cq->real->cqe;
	return &cq->ib;
}

static void verbs_cq_free(struct ibv_cq *cq)
{
	if (!cq)
		return;
	verbs->destroy_cq(to_vcq(cq)->real);
	pages_free(to_vcq(cq), sizeof(struct verbs_cq));
}

/* ------------------------------------------------ the device's news -- */

static void event_read(const struct ibv_async_event *raw, struct rnic_event *ev)
{
	switch (raw->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		ev->kind = RNIC_EVENT_QP;
		ev->qp = raw->element.qp->qp_context;
		break;
	case IBV_EVENT_CQ_ERR:
		/* a completion is lost, and nobody knows of which QP */
		ev->kind = RNIC_EVENT_CQ;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		ev->kind = RNIC_EVENT_GONE;
		break;
	case IBV_EVENT_PORT_ERR:
		ev->kind = RNIC_EVENT_PORT_DOWN;
		break;
	case IBV_EVENT_PORT_ACTIVE:
		ev->kind = RNIC_EVENT_PORT_UP;
		break;
	default:
		ev->kind = RNIC_EVENT_OTHER;
	}
}

static int verbs_event_take(struct rnic *r, struct rnic_event *ev)
{
	struct verbs_rnic *v = container_of(r, struct verbs_rnic, rnic);
	struct ibv_async_event raw;
	int err;

	*ev = (struct rnic_event){ .kind = RNIC_EVENT_OTHER };
	errno = 0;
	if (verbs->get_async_event(v->real, &raw)) {
		err = verbs_errno();
		if (err == -EAGAIN || err == -EINTR)
			return -EAGAIN;
		/* the driver has gone away under us */
		ev->kind = RNIC_EVENT_GONE;
		return err;
	}
	event_read(&raw, ev);
	if (ev->kind == RNIC_EVENT_QP)
		st_rlx(&to_vqp(ev->qp)->err, true);
	verbs->ack_async_event(&raw);
	count(CNT_cq_errors, ev->kind == RNIC_EVENT_CQ);
	log_info("rnic: %s: event %d", v->name, (int)raw.event_type);
	return 0;
}

const struct rnic_ops rnic_verbs_ops = {
	.name = "verbs",
	.open = verbs_open,
	.close = verbs_close,
	.event_take = verbs_event_take,
	.pd_new = verbs_pd_new,
	.pd_free = verbs_pd_free,
	.slab_new = verbs_slab_new,
	.source_new = verbs_source_new,
	.slab_reserve = verbs_slab_reserve,
	.part_new = verbs_part_new,
	.part_free = verbs_part_free,
	.slab_populate = verbs_slab_populate,
	.slab_trim = verbs_slab_trim,
	.slab_free = verbs_slab_free,
	.channel_new = verbs_channel_new,
	.channel_free = verbs_channel_free,
	.channel_drain = verbs_channel_drain,
	.cq_new = verbs_cq_new,
	.cq_free = verbs_cq_free,
	.qp_new = verbs_qp_new,
	.qp_export = verbs_qp_export,
	.cm_export = verbs_cm_export,
	.qp_connect = verbs_qp_connect,
	.qp_peer_slab = verbs_qp_peer_slab,
	.qp_peer_part = verbs_qp_peer_part,
	.qp_peer_populate = verbs_qp_peer_populate,
	.qp_error = verbs_qp_error,
	.qp_broken = verbs_qp_broken,
	.qp_free = verbs_qp_free,
	.wr_taken = verbs_wr_taken,
};
