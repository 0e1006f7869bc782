/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * warm.c - may this process meet, and is a conn worth a meeting by now?
 *
 * conn_warm() is called by every path that moves bytes.  It takes no lock: what it
 * sees are hints, on which it orders jobs of the background thread, which looks
 * again.
 */
#define _GNU_SOURCE
#include "sock/warm.h"

#include <errno.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/section.h"
#include "progress/bg.h"
#include "sock/bind.h"
#include "sock/heir.h"
#include "sock/hello.h"
#include "sock/io.h"
#include "sock/process.h"
#include "sock/show.h"

#define EAGER_CALLS	1u
#define HEIR_TIMES	16u		/* a link for one connection, not one of many, must pay */
#define GRANT_EVERY_US	200

bool bind_enabled(void)
{
	return config.enabled && config.attach != ATTACH_NEVER && !config.fault.mute_meeting &&
	       config.rnic.choice != RNIC_NONE && !hello_forbidden();
}

enum reason bind_no_engine(int err)
{
	return hello_want(err) ? REASON_NO_MEMORY : REASON_NO_RNIC;
}

int bind_begin(void)
{
	if (bg_running())
		return 0;
	if (section_in_handler())	/* pthread_create() allocates, and wants some stack */
		return -EINTR;
	if (!sandbox_allows()) {
		hello_forbid(REASON_SANDBOX);
		return -EPERM;
	}
	return bg_start();
}

enum reason bind_not_begun(void)
{
	return hello_forbidden() ? hello_forbidden() : REASON_NO_MEMORY;
}

void conn_warm(struct conn *c)
{
	if (ld_rlx(&c->meet) == MEET_BOUND) {
		uint64_t now = clock_ticks();

		/* a hint: grant() looks again, under rxl */
		if (!ld_rlx(&c->rx_granted) && ld_rlx(&c->rx_read) &&
		    ld_rlx(&c->rx_inside) == 0 && now >= ld_rlx(&c->grant_ticks)) {
			st_rlx(&c->grant_ticks, now + GRANT_EVERY_US * clock_ticks_per_us);
			conn_todo(c, JOB_GRANT);
		}
		return;
	}
	bool heir = ld_rlx(&c->inherited);

	if (heir ? !heir_alone(c) : ld_rlx(&c->meet) != MEET_IDLE || !ld_rlx(&c->active) || c->link)
		return;
	if (!ld_rlx(&c->established))
		return;
	if (!bind_enabled()) {
		st_rlx(&c->meet, MEET_OVER);
		st_rlx(&c->why, hello_forbidden() ? hello_forbidden() : REASON_CONFIG);
		show_why(c);
		return;
	}
	uint32_t calls = ld_rlx(&c->tx_calls), least = ld_rlx(&c->meet_calls);
	uint64_t bytes = ld_rlx(&c->tx.kc) + ld_rlx(&c->rx.pos), least_bytes = ld_rlx(&c->meet_bytes);
	uint32_t times = heir ? HEIR_TIMES : 1;
	bool warm;
	if (unlikely(config.fault.hurry))
		warm = true;
	else if (ld_rlx(&c->asked))	/* by the program, maybe before its first byte */
		warm = calls >= least || bytes >= least_bytes;
	else if (config.attach == ATTACH_EAGER)
		warm = calls >= MAX(least, EAGER_CALLS) || bytes >= MAX(least_bytes, (uint64_t)1);
	else if (config.attach == ATTACH_AUTO)
		warm = calls >= MAX(least, times * WARM_CALLS) ||
		       bytes >= MAX(least_bytes, (uint64_t)times * WARM_BYTES);
	else
		warm = bytes >= MAX(least_bytes, (uint64_t)config.attach);
	if (!warm)
		return;
	int err = bind_begin();
	if (!err)
		conn_todo(c, heir ? JOB_HEIR : JOB_MEET);
	else if (err != -EINTR)
		bind_give_up(c, bind_not_begun());
}
