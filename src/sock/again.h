/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * again.h - connections that ask once more, some time after nobody answered
 *
 * Nobody is kept alive by that: of one that is over meanwhile there is only its
 * number here, and beyond AGAIN_MOST at a time there is no second question.
 * All in the background thread.
 */
#ifndef SOCK_AGAIN_H
#define SOCK_AGAIN_H

#include "sock/conn.h"

#define AGAIN_MS	50
#define AGAIN_MOST	256u

/* c meets again after AGAIN_MS, if it still can then. */
void again_put(struct conn *c);
void again_forget_all(void);	/* in a child */

#endif
