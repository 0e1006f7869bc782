/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * inbox.h - BIND and what answers it, on the way to the background thread
 *
 * Messages come in whatever thread polls; what they ask for may block.
 */
#ifndef SOCK_INBOX_H
#define SOCK_INBOX_H

#include "link/link.h"

/* Background thread, no lock held; l is held meanwhile. */
typedef void inbox_fn(struct link *l, const struct wire_msg *m);

/* Empty.  At start, and in a child. */
void inbox_start(inbox_fn *fn);
/* Any thread; inbox.lock is a leaf.  Return: false where there is no room. */
bool inbox_put(struct link *l, const struct wire_msg *m);

#endif
