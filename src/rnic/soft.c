/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * soft.c - the software RNIC: an ibv_context of our own, and its control path
 *
 * One mapping per object; an engine has a handful.  Nothing here is on the
 * data path.  Objects of one rnic are freed children first.
 */
#include <linux/falloc.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "rnic/shmem.h"
#include "rnic/soft.h"

struct soft_rnic {
	struct rnic rnic;
	struct ibv_context ctx;
};

static uint32_t last_key;

/*
 * Fault far: no memory is said to be shared, and inline data are as short as on
 * hardware.  Above, all is then as over a verbs device, but for what a dead
 * process had posted: that has always arrived.
 */
static bool far(void)
{
	return config.fault.far;
}

static int soft_open(struct rnic **out, const char *device)
{
	struct soft_rnic *s = pages_new(sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->ctx.cmd_fd = s->ctx.async_fd = -1;
	s->ctx.num_comp_vectors = 1;
	s->ctx.ops.poll_cq = soft_poll_cq;
	s->ctx.ops.req_notify_cq = soft_req_notify_cq;
	s->ctx.ops.post_send = soft_post_send;
	s->ctx.ops.post_recv = soft_post_recv;
	s->rnic = (struct rnic){ .ops = &rnic_soft_ops, .ctx = &s->ctx, .name = "soft",
				 .shared = !far(), .max_inline = far() ? SOFT_FAR_INLINE : SOFT_MAX_INLINE,
				 .max_send_bytes = LANE_CQE_DATA, .max_recv_wr = LANE_MAX,
				 .max_send_wr = LANE_MAX, .max_cqe = INT32_MAX };
	*out = &s->rnic;
	return 0;
}

static void soft_close(struct rnic *r)
{
	if (r)
		pages_free(container_of(r, struct soft_rnic, rnic), sizeof(struct soft_rnic));
}

static struct ibv_pd *soft_pd_new(struct rnic *r)
{
	struct ibv_pd *pd = fault_device() ? NULL : pages_new(sizeof(*pd));

	if (pd)
		pd->context = r->ctx;
	return pd;
}

static void soft_pd_free(struct ibv_pd *pd)
{
	pages_free(pd, sizeof(*pd));
}

/* A guess at a key reaches nothing: memory is reached by its memfd alone. */
static uint32_t key_next(void)
{
	return (uint32_t)(clock_ticks() << 12) ^ add_rlx(&last_key, 0x9e3779b1u);
}

static int slab_make(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	struct ibv_mr *mr = pages_new(sizeof(*mr));
	void *addr;
	int fd;

	if (!mr)
		return -ENOMEM;
	fd = shmem_new("sidestep-slab", bytes, &addr);
	if (fd < 0) {
		pages_free(mr, sizeof(*mr));
		return fd;
	}
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = bytes,
			       .lkey = key_next(), .rkey = key_next() };
	*slab = (struct rnic_slab){ .addr = addr, .len = bytes, .lkey = mr->lkey,
				    .rkey = mr->rkey, .mr = mr, .fd = fd };
	return 0;
}

static int soft_slab_new(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	uint64_t t0 = clock_ns();
	int err;

	*slab = (struct rnic_slab){ .fd = -1 };
	if (!bytes || bytes > SOFT_MAX_SLAB)
		return -EINVAL;
	if (fault_device())
		return -ENOMEM;
	bytes = (bytes + SHMEM_PAGE - 1) & ~(size_t)(SHMEM_PAGE - 1);
	err = slab_make(pd, bytes, slab);
	if (err) {
		log_info("rnic: no slab of %zu bytes: %d", bytes, err);
		return err;
	}
	count(CNT_mr_registrations, 1);
	count(CNT_mr_registered_bytes, bytes);
	count(CNT_mr_registration_us, (clock_ns() - t0) / NS_PER_US);
	return 0;
}

static int soft_slab_populate(struct rnic_slab *slab, size_t off, size_t len)
{
	int err;

	if (fault_device())
		return -ENOMEM;
	if (!len)
		return 0;
	if (off > slab->len || len > slab->len - off)
		return -EINVAL;
	do
		err = (int)sys4(SYS_fallocate, slab->fd, 0, off, len);
	while (err == -EINTR);
	return err;
}

static void soft_slab_trim(struct rnic_slab *slab, size_t off, size_t len)
{
	sys4(SYS_fallocate, slab->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len);
}

static void soft_slab_free(struct rnic_slab *slab)
{
	if (!slab || !slab->mr)
		return;
	shmem_unmap(slab->addr, slab->len);
	privfd_close(slab->fd);
	pages_free(slab->mr, sizeof(*slab->mr));
	*slab = (struct rnic_slab){ .fd = -1 };
}

/* As a registration: all of it is there, or nothing. */
static int soft_far_slab_new(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	int err = soft_slab_new(pd, bytes, slab);

	if (!err)
		err = soft_slab_populate(slab, 0, bytes);
	if (err)
		soft_slab_free(slab);
	return err == -ENOSPC ? -ENOMEM : err;
}

static int soft_slab_reserve(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	*slab = (struct rnic_slab){ .fd = -1 };
	if (!bytes || bytes > SOFT_MAX_SLAB || bytes % SHMEM_PAGE)
		return -EINVAL;
	return fault_device() ? -ENOMEM : slab_make(pd, bytes, slab);
}

/* Fault far:N: N KiB of a process are all that can be registered in parts. */
static uint64_t locked;

static bool lock_bytes(size_t len)
{
	uint64_t most = config.fault.far > 1 ? config.fault.far * 1024ull : UINT64_MAX;

	if (add_rlx(&locked, len) <= most)
		return true;
	sub_rlx(&locked, len);
	return false;
}

static int soft_part_new(struct ibv_pd *pd, struct rnic_slab *slab, size_t off, size_t len,
			 bool remote, struct rnic_part *part)
{
	uint64_t t0 = clock_ns();
	int err;

	if (!len || off % SHMEM_PAGE || len % SHMEM_PAGE)
		return -EINVAL;
	if (!lock_bytes(len))
		return -ENOMEM;
	err = soft_slab_populate(slab, off, len);
	if (err) {
		sub_rlx(&locked, len);
		return err == -ENOSPC ? -ENOMEM : err;
	}
	*part = (struct rnic_part){ .off = off, .len = len, .lkey = slab->lkey,
				    .rkey = slab->rkey, .mr = slab->mr };
	count(CNT_mr_registrations, 1);
	count(CNT_mr_registered_bytes, len);
	count(CNT_mr_registration_us, (clock_ns() - t0) / NS_PER_US);
	return 0;
}

static void soft_part_free(struct rnic_part *part)
{
	if (part->mr)
		sub_rlx(&locked, part->len);
	*part = (struct rnic_part){ .len = 0 };
}

static int soft_slab_new_any(struct ibv_pd *pd, size_t bytes, struct rnic_slab *slab)
{
	return far() ? soft_far_slab_new(pd, bytes, slab) : soft_slab_new(pd, bytes, slab);
}

static struct ibv_comp_channel *soft_channel_new(struct rnic *r)
{
	struct soft_channel *ch = fault_device() ? NULL : pages_new(sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ib.context = r->ctx;
	ch->ib.fd = PRIVFD_NEW(sys2(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (ch->ib.fd < 0) {
		pages_free(ch, sizeof(*ch));
		return NULL;
	}
	return &ch->ib;
}

static void soft_channel_free(struct ibv_comp_channel *ch)
{
	if (!ch)
		return;
	privfd_close(ch->fd);
	pages_free(container_of(ch, struct soft_channel, ib), sizeof(struct soft_channel));
}

static void soft_channel_drain(struct ibv_comp_channel *ch)
{
	uint64_t n;

	sys_read(ld_rlx(&ch->fd), &n, sizeof(n));
}

static struct ibv_cq *soft_cq_new(struct rnic *r, int cqe, struct ibv_comp_channel *ch)
{
	struct soft_cq *cq = cqe > 0 && !fault_device() ? pages_new(sizeof(*cq)) : NULL;

	if (!cq)
		return NULL;
	cq->ib.context = r->ctx;
	cq->ib.channel = ch;
	cq->ib.cqe = cqe;
	return &cq->ib;
}

static void soft_cq_free(struct ibv_cq *cq)
{
	if (cq)
		pages_free(to_cq(cq), sizeof(struct soft_cq));
}

const struct rnic_ops rnic_soft_ops = {
	.name = "soft",
	.open = soft_open,
	.close = soft_close,
	.pd_new = soft_pd_new,
	.pd_free = soft_pd_free,
	.slab_new = soft_slab_new_any,
	.source_new = soft_far_slab_new,	/* fault far */
	.slab_reserve = soft_slab_reserve,
	.part_new = soft_part_new,
	.part_free = soft_part_free,
	.slab_populate = soft_slab_populate,
	.slab_trim = soft_slab_trim,
	.slab_free = soft_slab_free,
	.channel_new = soft_channel_new,
	.channel_free = soft_channel_free,
	.channel_drain = soft_channel_drain,
	.cq_new = soft_cq_new,
	.cq_free = soft_cq_free,
	.qp_new = soft_qp_new,
	.qp_wake_by = soft_qp_wake_by,
	.qp_export = soft_qp_export,
	.qp_connect = soft_qp_connect,
	.qp_peer_slab = soft_qp_peer_slab,
	.qp_peer_part = soft_qp_peer_part,
	.qp_peer_populate = soft_qp_peer_populate,
	.qp_error = soft_qp_error,
	.qp_broken = soft_qp_broken,
	.qp_free = soft_qp_free,
	.wr_taken = soft_wr_taken,
};
