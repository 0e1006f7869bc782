/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* act.h - carry out what the protocol orders (enum paction) */
#ifndef SOCK_ACT_H
#define SOCK_ACT_H

#include "sock/conn.h"

/* txl held. */
void tx_act(struct conn *c, uint32_t acts);
/* rxl held; takes txl where an order is for the other direction. */
void rx_act(struct conn *c, uint32_t acts);

/* err was taken off the kernel socket, and no call of the program's returns it.  A lock held. */
void conn_error_took(struct conn *c, int err);

/* Take the sending direction back to the kernel.  txl held. */
void tx_retreat(struct conn *c, enum reason why);
/* Are there ring bytes of ours that the peer has not read?  txl held. */
bool tx_left_unread(struct conn *c);
/* The peer's program is no more; reset: TCP would have reset the connection.  txl held. */
void tx_dead(struct conn *c, bool reset);
/*
 * Before a record, or what follows one: to nobody it would earn a RST that TCP would not
 * have given.  txl held; what the peer sent before its end may lie unread in the kernel.
 */
void tx_reader_look(struct conn *c);
/* The kernel's FIN has come: is it that of a program that reads on?  A lock held. */
bool rx_half_closed(const struct conn *c);
/* How our kernel socket will end, for the peer, where it sees our words.  A lock held. */
void conn_end_say(struct conn *c, enum slot_end end);
/* A system call of ours has met err (positive), which is the program's to know. */
void conn_error_took(struct conn *c, int err);
/* tcpi_state; 0 where it cannot be told. */
int conn_kernel_state(const struct conn *c);
static inline bool conn_kernel_dead(const struct conn *c)
{
	return conn_kernel_state(c) == 7;	/* TCP_CLOSE */
}
/* Is this the state of one whose peer's FIN is there, and who has not closed before it? */
static inline bool conn_fin_came(int state)
{
	return state == 8 || state == 9 || state == 11;	/* TCP_CLOSE_WAIT, LAST_ACK, CLOSING */
}
/* A record or kept bytes wait for kernel room: go on.  txl held. */
void tx_unstick(struct conn *c);

/*
 * Take records, dropped bytes and the first byte after SWITCHED off the kernel
 * socket, without ever touching application bytes; judge the kernel's end.
 * rxl held, no thread inside a kernel read.  Return: true if anything moved.
 */
bool rx_pull(struct conn *c);
/*
 * For a caller that will not wait: see to it that what the peer wrote before
 * now is seen, also where it has just switched.  No lock held, a reference is.
 * Bounded.  Return: true if the receiving direction has changed its state.
 */
bool rx_settle(struct conn *c);
/* What the kernel holds back for more (MSG_MORE) goes now.  txl held */
void conn_push(struct conn *c);
/* SHUT_RD is the kernel's when the rest has come.  rxl held */
bool rx_shut_waits(struct conn *c);

/*
 * rxl held, ON: the peer has written up to P.  Where both ways were shut over less
 * than that: the reset that TCP gives, behind what there was then.  Return: true, it was.
 */
bool rx_shut_cut(struct conn *c, uint64_t P);
/* RAW, but the peer is in a ring that was not met here, or is leaving it.  rxl held */
bool rx_unmet_to_come(const struct conn *c);
/* Bytes that the peer has put into the ring behind those of the kernel.  rxl held */
uint64_t rx_behind(const struct conn *c);
/* NOTED, but the peer has taken its switch back, and is writing to the kernel.  rxl held */
bool rx_taken_back(const struct conn *c);
/* RAW, but the peer has written, or is writing, more than the kernel has.  rxl held */
bool rx_more_to_come(const struct conn *c);
/* After the program's close: take everything off the kernel socket and throw it away.  rxl held. */
void rx_swallow(struct conn *c);
/*
 * The kernel says that its socket may have come to an end.  Where the ring has
 * a part in it, judge what it was.  rxl held.  Return: true if anything moved.
 */
bool conn_end_look(struct conn *c);
/* The same, and of a far peer it is asked first (conn_far_end_ask()).  rxl held; dropped. */
bool conn_end_judge(struct conn *c);
/* The kernel socket has ended: err 0 for FIN, else the error read.  rxl held. */
void rx_kernel_end(struct conn *c, int err);
/* far: the end that has been put off, if any, is judged.  rxl held. */
void rx_end_now(struct conn *c);

/* Send {type, epoch, a} about conn c to its peer.  A lock of c held. */
void conn_send(struct conn *c, enum wire_type type, uint16_t epoch, uint64_t a, uint8_t flags);

/*
 * The kernel socket is watched by the background thread as the state wants, or
 * looked at every few milliseconds while the kernel has no room for the watch.
 */
void conn_watch_update(struct conn *c);
uint32_t conn_watch_wanted(const struct conn *c);

#endif
