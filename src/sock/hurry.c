/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * hurry.c - SIDESTEP_FAULT=hurry:MS
 *
 * Meeting, binding and granting take the background threads some milliseconds,
 * in which most connections of a test suite are over.  With this fault a
 * connection is warm from the first moment; connect(), accept() and reads wait
 * at their end until it is bound, and writes before they begin until the peer
 * lets them use the ring: MS for all of a connection's calls together, so that
 * a program which plays both ends in one thread, and a peer that will never
 * have a ring, lose no more than that.
 */
#define _GNU_SOURCE
#include "sock/hurry.h"

#include "base/clock.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "sock/bind.h"
#include "sock/conn.h"
#include "sock/io.h"

#define STEP_US	200u

/* rxl held. */
static bool may_come(const struct conn *c, bool to_write)
{
	if (!ld_rlx(&c->established) || ld_rlx(&c->closing) || ld_rlx(&c->kin) ||
	    ld_rlx(&c->inherited) || c->hurried_us >= (uint64_t)config.fault.hurry * 1000)
		return false;
	switch (ld_rlx(&c->meet)) {
	case MEET_BOUND:
		return to_write && !ld_rlx(&c->tx_granted) && ld_rlx(&c->tx.state) == PTX_RAW;
	case MEET_OVER:
		return false;
	default:	/* memory may be found some day, but not by waiting */
		return ld_rlx(&c->why) != REASON_NO_MEMORY;
	}
}

static bool waits(int fd, bool to_write)
{
	struct conn *c = conn_lock_rx(fd);

	if (!c)
		return false;
	bool yes = may_come(c, to_write);
	if (yes) {
		c->hurried_us += STEP_US;
		conn_warm(c);
	}
	lock_drop(&c->rxl);
	return yes;
}

void hurry_wait(int fd, bool to_write)
{
	while (bind_enabled() && waits(fd, to_write)) {
		sys_nap(STEP_US * NS_PER_US);
		engine_poll();
	}
}
