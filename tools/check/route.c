/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* route.c - is there a way by an RDMA device, and by which one? */
#define _GNU_SOURCE
#include <config.h>

#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef HAVE_VERBS

#include <poll.h>

#include "rnic/verbs_lib.h"

#define STEP_MS	1000

static int lib_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* Return: 0 if the next event is that one, or -errno. */
static int event_wait(struct rdma_event_channel *ch, enum rdma_cm_event_type want)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, STEP_MS + STEP_MS / 2) != 1)
		return -ETIMEDOUT;
	if (cm->get_cm_event(ch, &ev))
		return lib_errno();
	int err = ev->event == want ? 0 : ev->status < 0 ? ev->status : -EHOSTUNREACH;
	cm->ack_cm_event(ev);
	return err;
}

static int resolve(struct rdma_event_channel *ch, struct rdma_cm_id *id, struct sockaddr_storage *from,
		   struct sockaddr_storage *to)
{
	errno = 0;
	if (cm->resolve_addr(id, (struct sockaddr *)from, (struct sockaddr *)to, STEP_MS))
		return lib_errno();
	int err = event_wait(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (err)
		return err;
	if (!id->verbs)
		return -ENODEV;
	errno = 0;
	if (cm->resolve_route(id, STEP_MS))
		return lib_errno();
	return event_wait(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int route_find(const struct sockaddr_storage *here, const struct sockaddr_storage *there,
	       char device[64], char *why, size_t size)
{
	struct sockaddr_storage from = *here, to = *there;
	struct rdma_event_channel *ch = NULL;
	struct rdma_cm_id *id = NULL;
	int err = verbs_load();

	if (!err)
		err = cm_load();
	((struct sockaddr_in *)&from)->sin_port = 0;	/* where IPv6 has it, too */
	errno = 0;
	if (!err && (!(ch = cm->create_event_channel()) || cm->create_id(ch, &id, NULL, RDMA_PS_TCP)))
		err = lib_errno();
	if (!err)
		err = resolve(ch, id, &from, &to);
	if (!err)
		snprintf(device, 64, "%s", id->verbs->device->name);
	snprintf(why, size, "%s", err == -ENODEV ? "the network interface that leads there has none" :
		 err == -ELIBACC ? "libibverbs or librdmacm cannot be loaded" : strerror(-err));
	if (id)
		cm->destroy_id(id);
	return err;			/* the channel is the library's until we end */
}

#else

int route_find(const struct sockaddr_storage *here, const struct sockaddr_storage *there,
	       char device[64], char *why, size_t size)
{
	snprintf(why, size, "built without RDMA devices");
	return -ENOSYS;
}

#endif
