/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * info.c - see info.h
 *
 * The kernel counts its own bytes: records and what was sent again after a
 * retreat are among them, what went over a ring is not.  So bytes are told by
 * what the program has given and had, and what is under way; an end counts as
 * one byte, as does the SYN of who has connected (Linux 6.18).  Segments, times
 * and rates stay those of the kernel's part.
 */
#define _GNU_SOURCE
#include "sock/info.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/sys.h"
#include "base/util.h"
#include "progress/engine.h"
#include "sock/conn.h"
#include "sock/fdtab.h"
#include "sock/sock.h"

/* As in net/tcp_states.h; libc's names stand in a header that knows another tcp_info. */
enum { ESTABLISHED = 1, FIN_WAIT1 = 4, FIN_WAIT2, TIME_WAIT, CLOSED, CLOSE_WAIT, LAST_ACK, CLOSING = 11 };

static bool end_has_come(const struct conn *c)
{
	return ld_rlx(&c->rx.eof) || ld_rlx(&c->rx.fin_seen);
}

/*
 * The state that TCP would be in: the ring tells of an end before the kernel
 * does, and what the peer's ring holds is as good as acked.
 */
static uint8_t state_now(const struct conn *c, uint8_t state)
{
	bool in = end_has_come(c), out = ld_rlx(&c->tx_shut);

	switch (state) {
	case ESTABLISHED:
		return in && out ? CLOSED : in ? CLOSE_WAIT : out ? FIN_WAIT2 : state;
	case FIN_WAIT1:
	case FIN_WAIT2:
		return in ? CLOSED : state;
	case CLOSE_WAIT:
		return out ? LAST_ACK : state;
	default:
		return state;
	}
}

static bool peer_has_ended(const struct conn *c, uint8_t state)
{
	return end_has_come(c) || ld_rlx(&c->rx.kfin) || state == CLOSE_WAIT || state == LAST_ACK ||
	       state == CLOSING || state == TIME_WAIT;
}

/*
 * SIOCOUTQ without what is ours: records between the kernel counts `from` and `to`,
 * of which some may not be acked.  What is behind them is not known here: a child
 * writes, too.  Return: as the ioctl, and *out.
 */
static int outq_less(int fd, uint64_t from, uint64_t to, uint64_t syn, int *out)
{
	struct tcp_info a = { 0 }, b = { 0 };
	socklen_t la = sizeof(a), lb = sizeof(b);

	for (int i = 0; i < 4; i++) {
		sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &a, &la);
		int err = sys_ioctl(fd, SIOCOUTQ, out);
		if (err || !*out)
			return err;
		sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &b, &lb);
		if (a.tcpi_bytes_acked == b.tcpi_bytes_acked)
			break;
	}
	/* the SYN of the active side is an acked byte (Linux 6.18) */
	uint64_t acked = b.tcpi_bytes_acked - MIN(syn, b.tcpi_bytes_acked);
	from = MAX(from, acked);
	to = MIN(to, acked + (uint64_t)MAX(*out, 0));
	if (to > from)
		*out -= (int)(to - from);
	return 0;
}

/* txl, after a look at what the device has done. */
static struct conn *lock_unflown(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (c && conn_tx_on_ring(c) && conn_tx_far(c) && ld_rlx(&c->tx_flight))
		engine_poll_all();
	return conn_lock_tx(fd);
}

/*
 * What is in the peer's memory is as good as acked.  far: small writes that the
 * device has not done may not be there; of them it is known that there are some.
 */
static int ring_unacked(const struct conn *c)
{
	if (!conn_tx_far(c))
		return 0;
	if (!c->tx_flight)
		return (int)(c->tx.P - c->tx_posted);
	return (int)MAX(c->tx.P - conn_consumed(c, c->tx_words), 1u);
}

int info_outq(int fd, int *out)
{
	struct conn *c = lock_unflown(fd);

	if (c && conn_tx_on_ring(c) && c->tx.state != PTX_PUMP) {
		*out = ring_unacked(c);
		lock_drop(&c->txl);
		return 0;
	}
	uint64_t from = c ? c->tx.rec_from : 0, to = c ? c->tx.rec_to : 0, syn = c && c->active;
	if (c)
		lock_drop(&c->txl);
	return from < to ? outq_less(fd, from, to, syn, out) : sys_ioctl(fd, SIOCOUTQ, out);
}

static uint64_t queued(int fd, unsigned long what)
{
	int n = 0;

	return sock_ioctl(fd, what, &n) < 0 || n < 0 ? 0 : (uint64_t)n;
}

static void true_counts(int fd, const struct conn *c, struct tcp_info *i)
{
	uint64_t out = queued(fd, SIOCOUTQ), in = queued(fd, FIONREAD), given = 0, had = 0;
	struct conn *l = conn_lock_both(fd);
	bool same = l == c;

	if (same) {
		given = c->tx_given;
		had = c->rx_given;
	}
	if (l)
		conn_unlock_both(l);
	if (!same)
		return;
	i->tcpi_bytes_acked = given + c->active + ld_rlx(&c->tx_shut);
	i->tcpi_bytes_acked -= MIN(out, i->tcpi_bytes_acked);
	i->tcpi_bytes_received = had + in + peer_has_ended(c, i->tcpi_state);
	out = MIN(out, given);
	i->tcpi_notsent_bytes = (uint32_t)MIN((uint64_t)i->tcpi_notsent_bytes, out);
	i->tcpi_bytes_sent = given - i->tcpi_notsent_bytes + i->tcpi_bytes_retrans;
	if (!out)
		i->tcpi_unacked = 0;
}

void info_true(int fd, const struct conn *c, void *info, size_t len)
{
	struct tcp_info i = { 0 };

	len = MIN(len, sizeof(i));
	memcpy(&i, info, len);
	i.tcpi_state = state_now(c, i.tcpi_state);
	if (ld_rlx(&c->ever_ring) && len > offsetof(struct tcp_info, tcpi_unacked))
		true_counts(fd, c, &i);
	memcpy(info, &i, len);
}
