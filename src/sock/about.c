/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* about.c - see about.h */
#define _GNU_SOURCE
#include "sock/about.h"

#include <errno.h>

#include "base/page.h"
#include "sidestep/sidestep.h"
#include "sock/bind.h"
#include "sock/io.h"
#include "sock/conn.h"
#include "sock/fdtab.h"

static int path_of(const struct conn *c)
{
	return (conn_tx_on_ring(c) ? SIDESTEP_TX_RING : 0) |
	       (ld_rlx(&c->rx.state) == PRX_ON ? SIDESTEP_RX_RING : 0);
}

int about_path(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	return c ? path_of(c) : -1;
}

const char *about_reason(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (!c)
		return NULL;
	enum reason why = ld_rlx(&c->why), last = ld_rlx(&c->past.last);
	if (path_of(c))
		why = REASON_NONE;
	else if (why == REASON_NOT_WARM && last != REASON_NONE)
		why = last;
	return reason_name(why);
}

static void fill(struct sidestep_stats *s, const struct conn *c)
{
	const struct conn_past *past = &c->past;
	bool tx = conn_tx_on_ring(c), rx = past->rx_path != PATH_TCP;

	*s = (struct sidestep_stats){
		.ring_tx_bytes = past->ring_tx + (tx ? c->tx.P : 0),
		.ring_rx_bytes = past->ring_rx + (rx ? c->rx_given - c->rx_base : 0),
		.kernel_tx_bytes = c->tx.kc,
		.kernel_rx_bytes = c->rx.pos,
		.ring_bytes = tx ? c->tx_ring_bytes : 0,
		.attaches = past->attaches,
		.retreats = past->retreats,
		.rnic = !c->tx.bound ? NULL : c->tx.shared ? "soft" : "verbs",
		.last_retreat = past->last == REASON_NONE ? NULL : reason_name(past->last),
	};
}

int about_stats(int fd, struct sidestep_stats *s)
{
	struct conn *c = conn_lock_both(fd);

	if (!c)
		return -EBADF;
	fill(s, c);
	conn_unlock_both(c);
	return 0;
}

/* Both locks held. */
static int attachable(const struct conn *c)
{
	if (!c->established)
		return -ENOTCONN;
	if (c->meet == MEET_OVER || c->kin || c->inherited)
		return -EOPNOTSUPP;
	return c->meet == MEET_IDLE && !c->active ? -EOPNOTSUPP : 0;
}

/* Both locks held: what it has waited for so far it need not wait for any more. */
static int make_warm(struct conn *c)
{
	st_rlx(&c->asked, true);
	st_rlx(&c->meet_calls, 0);
	st_rlx(&c->meet_bytes, 0);
	c->tx_retry_bytes = 0;
	conn_warm(c);
	return c->meet == MEET_OVER ? -EOPNOTSUPP : 0;
}

int about_attach(int fd)
{
	struct conn *c = conn_lock_both(fd);

	if (!c)
		return -EBADF;
	int err = attachable(c);
	if (!err)
		err = make_warm(c);
	conn_unlock_both(c);
	return err;
}

int about_retreat(int fd)
{
	struct conn *c = conn_lock_both(fd);

	if (!c)
		return -EBADF;
	int err = c->established ? 0 : -ENOTCONN;
	conn_get(c);
	conn_unlock_both(c);
	if (!err)
		sock_keep_on_kernel(c, REASON_ASKED);
	conn_put(c);
	return err;
}
