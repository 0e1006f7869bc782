/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* lock.c - the contended half of lock.h */
#define _GNU_SOURCE
#include "base/lock.h"

#include <linux/futex.h>

#include "base/sys.h"

#ifdef __SANITIZE_THREAD__
unsigned fence_word;
#endif

#define SPINS 100

void lock_take_slow(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (ld_rlx(&l->word) == 0 && lock_try(l))
			return;
		cpu_relax();
	}
	/* pairs with lock_drop(): taken as "with sleepers", since others may sleep */
	while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE) != 0)
		sys_futex(&l->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL);
}

void lock_drop_slow(struct lock *l)
{
	sys_futex(&l->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL);
}
