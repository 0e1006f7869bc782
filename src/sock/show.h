/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * show.h - what others may see of a conn: its entry in our page (base/page.h)
 *
 * Written where something changes that is rare, never where bytes move: those
 * are read from struct conn itself, by who may.  A conn has the same entry for
 * all of its memory's life.
 */
#ifndef SOCK_SHOW_H
#define SOCK_SHOW_H

#include "base/reasons.h"

struct conn;
struct page;

void show_start(void);

/* c is in use, or no more.  Nobody else can know of it. */
void show_new(struct conn *c);
void show_gone(struct conn *c);

/* The way of a direction may have changed; its lock held. */
void show_tx(struct conn *c);
void show_rx(struct conn *c);

/* Number, flags, binding or reason have changed; both locks held. */
void show_both(struct conn *c);

/* c->why has changed; a lock held. */
void show_why(struct conn *c);

/* A direction was taken back. */
void show_retreat(struct conn *c, enum reason why);

void show_listening(struct conn *c);

#endif
