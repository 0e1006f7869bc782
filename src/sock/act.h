/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* act.h - carry out what the protocol orders (enum paction) */
#ifndef SOCK_ACT_H
#define SOCK_ACT_H

#include "sock/conn.h"

/* txl held. */
void tx_act(struct conn *c, uint32_t acts);
/* rxl held; takes txl where an order is for the other direction. */
void rx_act(struct conn *c, uint32_t acts);

/* Take the sending direction back to the kernel.  txl held. */
void tx_retreat(struct conn *c, enum reason why);
/* Are there ring bytes of ours that the peer has not read?  A lock held. */
bool tx_left_unread(struct conn *c);
/* The peer's program is no more; reset: TCP would have reset the connection.  txl held. */
void tx_dead(struct conn *c, bool reset);
/* tcpi_state; TCP_CLOSE where it cannot be told. */
int conn_kernel_state(const struct conn *c);
static inline bool conn_kernel_dead(const struct conn *c)
{
	return conn_kernel_state(c) == 7;	/* TCP_CLOSE */
}
/* A record or kept bytes wait for kernel room: go on.  txl held. */
void tx_unstick(struct conn *c);

/*
 * Take records, dropped bytes and the first byte after SWITCHED off the kernel
 * socket, without ever touching application bytes; judge the kernel's end.
 * rxl held, no thread inside a kernel read.  Return: true if anything moved.
 */
bool rx_pull(struct conn *c);
/* After the program's close: take everything off the kernel socket and throw it away.  rxl held. */
void rx_swallow(struct conn *c);
/* The kernel socket has ended: err 0 for FIN, else the error read.  rxl held. */
void rx_kernel_end(struct conn *c, int err);

/* Send {type, epoch, a} about conn c to its peer.  A lock of c held. */
void conn_send(struct conn *c, enum wire_type type, uint16_t epoch, uint64_t a, uint8_t flags);

/* The kernel socket is watched by the background thread as the state wants. */
void conn_watch_update(struct conn *c);
uint32_t conn_watch_wanted(const struct conn *c);

#endif
