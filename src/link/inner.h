/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* inner.h - what the files of a link ask of each other (private to src/link) */
#ifndef LINK_INNER_H
#define LINK_INNER_H

#include "link/link.h"

static inline const struct rnic_ops *ops(const struct link *l)
{
	return l->dev->rnic->ops;
}

static inline bool far(const struct link *l)
{
	return !l->dev->rnic->shared;
}

/* link.c.  For others to see, or no longer.  Background thread. */
void link_show(const struct link *l, bool up);
/* Give the slot to others, if both ends are done with it.  poll_lock held. */
void link_slot_recycle(struct link *l, uint16_t slot);

/* death.c.  Before the link is up: it dies when unix_fd hangs up. */
void link_death_init(struct link *l, int unix_fd);

/* send.c.  Before the link is up. */
void link_send_init(struct link *l);
/* post_lock held: what there is room for by now. */
void link_backlog_flush(struct link *l);

/* recv.c.  Post n receives.  poll_lock held.  0 or -errno */
int link_post_recvs(struct link *l, uint32_t n);
void link_recv_forget(void);		/* in a child */
/* As in struct link_user. */
bool link_user_ended(struct link *l);
void link_user_dead(struct link *l);
void link_user_room(struct link *l);

#endif
