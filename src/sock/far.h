/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * far.h - a conn whose link shares no memory (doc/verbs.md)
 *
 * The words of its slot are our own, in our slab, for both directions: the
 * peer's device writes `credit` (of our sending), conn_far_arrived() writes `p`
 * (of our receiving).  `n`, `state` and `end` are not used: how the peer ends
 * is known from its messages and from the death of the link.
 *
 * Sending: the transmit ring is of our own memory; tx_posted of its P bytes are
 * on their way, the rest goes when the link has room for them.  What was never
 * posted in an epoch goes back over the kernel with what was not consumed.
 * Receiving: P grows by the immediates; C goes back as a word.
 *
 * Few small writes of a conn are under way at a time: what is written meanwhile is
 * appended, and goes as one when one of them is done, or when it is no longer
 * small.  A message of a dialogue finds none under way.
 *
 * Rings.  A conn begins with a small one.  When that was full as a window, its
 * sender finds memory to send from a larger one and asks (WANT_RING); the
 * receiver finds as much to receive in, and says where (RING).  The sender then
 * copies what it keeps into the larger one and goes on there; the receiver, who
 * is told (WINDOW) before the first byte that is placed there, copies what it has
 * not read.  All of this is done, or refused, while bytes go on.
 *
 * Invariants
 *  1. tx_posted <= P; FIN is sent when they are equal (tx_fin_due).
 *  2. The peer is told of a larger window before the first byte that is placed
 *     by it; nothing that it has not read moves (window.h), but by WINDOW into a
 *     larger ring.
 *  3. The last ring to send from is another conn's only when nothing is under way
 *     from it that is still read: the peer has consumed tx_last_P, or is out of
 *     that epoch.
 */
#ifndef SOCK_FAR_H
#define SOCK_FAR_H

#include "sock/conn.h"

#define FAR_NO_SWITCH	UINT64_MAX

/* Both locks held: the rings and words of c on link l. */
void conn_far_bound(struct conn *c);

/* ---- sending, txl held ---- */

/* What is in the ring goes on its way, or as much as the link takes now. */
void conn_far_post(struct conn *c);
/* A new epoch is about to begin. */
void conn_far_begin(struct conn *c);
/* Tell the window. */
void conn_far_window(struct conn *c);
/* May FIN go now?  If not, it follows the last byte. */
bool conn_far_fin(struct conn *c);
/* link_user.room: background thread, no lock held. */
void conn_far_room(struct link *l);
/* link_user.sent; poll_lock held. */
void conn_far_sent(struct link *l, void *owner);
/* The ring is too small: a larger one is asked for, unless that was in vain of late. */
void conn_far_want(struct conn *c);
/* poll_lock held: RING came. */
void conn_far_given(struct conn *c, const struct wire_msg *m);

/* A RST, where TCP says FIN, while the peer cannot know what is missing. */
void conn_far_linger_arm(struct conn *c);
void conn_far_linger_restore(struct conn *c);
/* The program has set its own; no lock held. */
void conn_far_linger_again(struct conn *c);
/* What the program has set. */
struct linger conn_far_linger_shown(const struct conn *c);

/*
 * The kernel's FIN has come while the peer has not read all of the ring: does it read
 * on, or was it killed, of which TCP would tell a reset?  That is known when it has
 * answered, or its link is dead, END_ASK_MS later at the latest.  No lock, a reference
 * held.  Return: true, it is not as before.
 */
bool conn_far_end_ask(struct conn *c);
/* Is it worth it?  txl is taken. */
bool conn_far_end_doubt(struct conn *c);

/* ---- receiving ---- */

/* link_user.arrived; poll_lock held. */
void conn_far_arrived(struct link *l, void *owner, uint32_t len, uint16_t what);
/* rxl and poll_lock held: SWITCH, WINDOW, WANT_RING came. */
void conn_far_switch(struct conn *c, const struct wire_msg *m);
void conn_far_windowed(struct conn *c, const struct wire_msg *m);
void conn_far_asked(struct conn *c, const struct wire_msg *m);
/* rxl held: C is news for the peer, if it is worth a write. */
void conn_far_credit(struct conn *c);
/* ... a tick later: unless more was read since the last one. */
void conn_far_credit_tick(struct conn *c);
/* ... and now it is to know. */
void conn_far_credit_all(struct conn *c);
/*
 * Of a switch that was not met, all of the ring comes by the kernel, behind N:
 * rx.pos when it has been read, as far as is known here; 0: there is none.
 * Without rxl: a hint, inside a guard.
 */
uint64_t conn_far_unmet(const struct conn *c);
/* ... which is not waited for any more. */
void conn_far_forget(struct conn *c);

/* Find memory for the larger rings that are asked for.  Background thread, no lock held. */
void conn_far_rings(struct conn *c);

#endif
