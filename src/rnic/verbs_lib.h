/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * verbs_lib.h - libibverbs and librdmacm, which are there on some machines only
 *
 * Never linked: loaded once, by the background thread, when a device may
 * exist; librdmacm when a peer may be on another host.  The calls of the data
 * path need no entry here, they are inline and go through the context's own
 * table.
 */
#ifndef RNIC_VERBS_LIB_H
#define RNIC_VERBS_LIB_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* X(return type, field, symbol, parameters) */
#define VERBS_CALLS(X) \
	X(struct ibv_device **, get_device_list, "ibv_get_device_list", (int *n)) \
	X(void, free_device_list, "ibv_free_device_list", (struct ibv_device **list)) \
	X(const char *, get_device_name, "ibv_get_device_name", (struct ibv_device *dev)) \
	X(struct ibv_context *, open_device, "ibv_open_device", (struct ibv_device *dev)) \
	X(int, close_device, "ibv_close_device", (struct ibv_context *ctx)) \
	X(int, query_device, "ibv_query_device", \
	  (struct ibv_context *ctx, struct ibv_device_attr *attr)) \
	X(int, query_port, "ibv_query_port", \
	  (struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)) \
	X(int, query_gid_ex, "_ibv_query_gid_ex", \
	  (struct ibv_context *ctx, uint32_t port, uint32_t index, \
	   struct ibv_gid_entry *entry, uint32_t flags, size_t size)) \
	X(int, get_async_event, "ibv_get_async_event", \
	  (struct ibv_context *ctx, struct ibv_async_event *ev)) \
	X(void, ack_async_event, "ibv_ack_async_event", (struct ibv_async_event *ev)) \
	X(struct ibv_pd *, alloc_pd, "ibv_alloc_pd", (struct ibv_context *ctx)) \
	X(int, dealloc_pd, "ibv_dealloc_pd", (struct ibv_pd *pd)) \
	X(struct ibv_mr *, reg_mr, "ibv_reg_mr", \
	  (struct ibv_pd *pd, void *addr, size_t len, int access)) \
	X(int, dereg_mr, "ibv_dereg_mr", (struct ibv_mr *mr)) \
	X(struct ibv_comp_channel *, create_comp_channel, "ibv_create_comp_channel", \
	  (struct ibv_context *ctx)) \
	X(int, destroy_comp_channel, "ibv_destroy_comp_channel", (struct ibv_comp_channel *ch)) \
	X(struct ibv_cq *, create_cq, "ibv_create_cq", \
	  (struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *ch, \
	   int vector)) \
	X(int, resize_cq, "ibv_resize_cq", (struct ibv_cq *cq, int cqe)) \
	X(int, destroy_cq, "ibv_destroy_cq", (struct ibv_cq *cq)) \
	X(int, get_cq_event, "ibv_get_cq_event", \
	  (struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)) \
	X(void, ack_cq_events, "ibv_ack_cq_events", (struct ibv_cq *cq, unsigned int n)) \
	X(struct ibv_qp *, create_qp, "ibv_create_qp", \
	  (struct ibv_pd *pd, struct ibv_qp_init_attr *attr)) \
	X(int, modify_qp, "ibv_modify_qp", (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)) \
	X(int, destroy_qp, "ibv_destroy_qp", (struct ibv_qp *qp))

struct verbs_lib {
#define X(ret, field, symbol, params) ret (*field) params;
	VERBS_CALLS(X)
#undef X
};

#define CM_CALLS(X) \
	X(struct rdma_event_channel *, create_event_channel, "rdma_create_event_channel", (void)) \
	X(int, get_cm_event, "rdma_get_cm_event", \
	  (struct rdma_event_channel *ch, struct rdma_cm_event **ev)) \
	X(int, ack_cm_event, "rdma_ack_cm_event", (struct rdma_cm_event *ev)) \
	X(int, create_id, "rdma_create_id", \
	  (struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context, \
	   enum rdma_port_space ps)) \
	X(int, destroy_id, "rdma_destroy_id", (struct rdma_cm_id *id)) \
	X(int, set_option, "rdma_set_option", \
	  (struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)) \
	X(int, bind_addr, "rdma_bind_addr", (struct rdma_cm_id *id, struct sockaddr *addr)) \
	X(int, listen, "rdma_listen", (struct rdma_cm_id *id, int backlog)) \
	X(int, resolve_addr, "rdma_resolve_addr", \
	  (struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)) \
	X(int, resolve_route, "rdma_resolve_route", (struct rdma_cm_id *id, int timeout_ms)) \
	X(int, connect, "rdma_connect", (struct rdma_cm_id *id, struct rdma_conn_param *param)) \
	X(int, establish, "rdma_establish", (struct rdma_cm_id *id)) \
	X(int, accept, "rdma_accept", (struct rdma_cm_id *id, struct rdma_conn_param *param)) \
	X(int, reject, "rdma_reject", (struct rdma_cm_id *id, const void *data, uint8_t len)) \
	X(int, init_qp_attr, "rdma_init_qp_attr", \
	  (struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask))

struct cm_lib {
#define X(ret, field, symbol, params) ret (*field) params;
	CM_CALLS(X)
#undef X
};

/* The libraries once they are loaded, or what a test puts here instead; else NULL. */
extern const struct verbs_lib *verbs;
extern const struct cm_lib *cm;

/*
 * Load it, if a device may exist that this process may use.  Nothing is loaded
 * and nothing printed otherwise.  Idempotent.  Return: 0; -ENODEV no device,
 * -EACCES none that we may open, -ENOMEM next to no memory may be locked,
 * -ELIBACC no library, -ENOSYS one that is too old.
 */
int verbs_load(void);
/* The same for librdmacm, once libibverbs is there. */
int cm_load(void);

/* In the child of a fork whose parent has used it: cm_load() will load it anew. */
void cm_lib_forget(void);

/*
 * A library of the same file with variables of its own.  nth: how often this process
 * and those that it was forked from have done so.  NULL: it cannot be.
 */
void *lib_copy(void *lib, unsigned nth);

/* To a private number, nonblocking if so wanted.  -1 stays.  0 or -errno. */
int verbs_fd_hide(int *fd, bool nonblock);
/* Those of a context that librdmacm has opened for itself. */
int verbs_context_hide(struct ibv_context *ctx);

#endif
