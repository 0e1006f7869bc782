/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* load.c - see load.h */
#include "rnic/load.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"

#define FORK_MS		1000

static struct lock load_lock;
static bool forking;			/* a fork has it: who forks holds kin_lock */

void load_begin(void)
{
	lock_take(&load_lock);
}

void load_end(void)
{
	lock_drop(&load_lock);
}

void load_fork_prepare(void)
{
	uint64_t end = 0, now;

	while (!(forking = lock_try(&load_lock))) {
		now = clock_ns();
		end = end ? end : now + FORK_MS * NS_PER_MS;
		if (now >= end) {
			log_info("a fork while a device is being opened");
			return;
		}
		sys_nap(NS_PER_MS / 4);
	}
}

void load_fork_parent(void)
{
	if (forking)
		lock_drop(&load_lock);
}

void load_fork_child(void)
{
	lock_reset(&load_lock);
}
