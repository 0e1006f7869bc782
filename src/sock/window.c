/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* window.c - see window.h */
#define _GNU_SOURCE
#include "sock/window.h"

#include <errno.h>

#include "base/clock.h"
#include "link/link.h"
#include "sock/bind.h"
#include "sock/far.h"

#define BULK_BYTES	4096		/* a write this large is no message of a dialogue */
#define SLOW_LEAST	8192u		/* bytes of a put that is measured */
#define SLOW_BYTES_US	6000u		/* fewer bytes in a microsecond are slow */
#define SLOW_PUTS	64u
#define PAST_MS		100u
#define GROWN_MOST	(64u << 20)	/* of all windows, beyond what rings have anyway */

static uint64_t grown;

/* Memory for a window, of which half is there.  Return: 0, or -errno. */
static int window_fill(struct conn *c, uint64_t window)
{
	if (window <= LINK_RING_FIRST)
		return 0;
	if (add_rlx(&grown, window / 2) > GROWN_MOST) {
		sub_rlx(&grown, window / 2);
		return -ENOMEM;
	}
	int err = link_peer_ring_room(c->link, c->peer_slot, window / 2, window / 2);
	if (err)
		sub_rlx(&grown, window / 2);
	else
		c->tx_grown += window / 2;
	return err;
}

void window_forget(struct conn *c)
{
	sub_rlx(&grown, c->tx_grown);
	c->tx_grown = 0;
}

void window_forget_all(void)
{
	grown = 0;
}

/* A window for which there is no memory is not tried again. */
static void window_set(struct conn *c, uint64_t window)
{
	window = MIN(window, c->tx_ring_bytes);
	if (window > 1ull << c->tx_wlog && window_fill(c, window))
		window = c->tx_ring_bytes = window / 2;
	bool other = window != 1ull << c->tx_wlog;
	st_rlx(&c->tx_wlog, (uint8_t)__builtin_ctzll(window));
	ptx_window(&c->tx, window);
	if (other && conn_tx_far(c))
		conn_far_window(c);
}

/* Double the window, if it can be and that moves nothing.  Return: most to put until it may. */
static uint64_t grow(struct conn *c)
{
	uint64_t P = c->tx.P, window = 1ull << c->tx_wlog;
	bool larger = window < c->tx_ring_bytes;

	if (larger && !window_may_double(c->tx.K, P, window))
		return P & window ? UINT64_MAX : window - (P & (window - 1));
	c->tx_grow = false;
	if (larger)
		window_set(c, 2 * window);
	else if (unlikely(conn_tx_far(c)))
		conn_far_want(c);
	return UINT64_MAX;
}

uint64_t tx_room(struct conn *c)
{
	uint64_t most = UINT64_MAX;

	if (c->tx.P - c->tx.K > (1ull << c->tx_wlog) / 2 || c->tx_grow)
		tx_credit(c);
	if (unlikely(c->tx_grow))
		most = grow(c);
	uint64_t window = 1ull << c->tx_wlog, used = c->tx.P - c->tx.K;

	return used < window ? MIN(window - used, most) : 0;
}

/* A copy of n bytes into lines that the reader had has taken so long. */
static void judge(struct conn *c, size_t n, uint64_t now, uint64_t took)
{
	if (took * SLOW_BYTES_US <= n * clock_ticks_per_us) {
		c->tx_slow -= c->tx_slow > 0;
	} else if (++c->tx_slow == SLOW_PUTS) {
		c->tx_slow = 0;
		c->tx_past_ticks = now + PAST_MS * 1000 * clock_ticks_per_us;
	}
}

void window_put(struct conn *c, const struct io *io, size_t n)
{
	uint64_t mask = (1ull << c->tx_wlog) - 1;

	if (likely(n < SLOW_LEAST || mask < LINK_RING_FIRST)) {
		io_to_ring(io, io->done, c->tx_ring, mask, c->tx.P, n, false);
		return;
	}
	uint64_t start = clock_ticks();
	bool past = start < c->tx_past_ticks;
	io_to_ring(io, io->done, c->tx_ring, mask, c->tx.P, n, past);
	uint64_t now = clock_ticks();
	if (!past)
		judge(c, n, now, now - start);
}

void window_begin(struct conn *c, bool waits, size_t n)
{
	uint64_t window = 1ull << c->tx_wlog;

	if (c->tx_grow)
		window *= 2;
	if (!waits && (c->tx_grow || n >= BULK_BYTES))
		window = MAX(window, (uint64_t)CONN_AHEAD);
	c->tx_grow = false;
	if (window > c->tx_ring_bytes && conn_tx_far(c))
		conn_far_want(c);
	window_set(c, window);
}
