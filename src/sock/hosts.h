/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hosts.h - a link to the process that owns the other end, on another host (background thread) */
#ifndef SOCK_HOSTS_H
#define SOCK_HOSTS_H

#include "meet/msg.h"
#include "sock/conn.h"

/*
 * Find the owner of c's other end by rdma_cm and bring up a link to it, as
 * hello_ask(): done() comes once, with the link, or NULL and why (REASON_NONE:
 * try again soon).
 */
void hosts_ask(struct conn *c, void (*done)(struct conn *c, struct link *l, enum reason why));

/*
 * Be found at a port.  own(): whose is the connection t, as seen here?  The
 * answer is a verdict, and for MEET_REFUSED why.  Return: 0; -ENOSPC: at too many
 * others, see hosts_thin(); -errno.
 */
int hosts_listen(int family, uint16_t port,
		 enum meet_verdict (*own)(const struct meet_tuple *t, enum reason *why));
/* As cm_thin(). */
unsigned hosts_thin(bool (*wanted)(const void *arg, uint16_t port), const void *arg);

/* End all meetings. */
void hosts_shut(void);
/* In a child: they are the parent's. */
void hosts_forget(void);

#endif
