/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rwf.h - flags of preadv2(2) and pwritev2(2)
 *
 * Which of them a socket takes is the kernel's affair and has changed: RWF_NOWAIT
 * is EOPNOTSUPP before Linux 6.4, others came later or are for files only.  All
 * of those that it takes mean nothing to a stream but RWF_NOWAIT.
 */
#ifndef SOCK_RWF_H
#define SOCK_RWF_H

#include <stdbool.h>

#include "base/real.h"

/*
 * Does this kernel refuse flags of a socket?  The call is the kernel's to answer then,
 * which looks at them before it takes or gives a byte.
 * call: CALL_preadv2 or CALL_pwritev2.  Asked once each, of a socket of ours.
 * Context: no lock held.
 */
bool rwf_refused(enum call_id call, int flags);

#endif
