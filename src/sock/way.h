/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* way.h - ways to owners, as a fork makes them; what a child does with them is in kin.h */
#ifndef SOCK_WAY_H
#define SOCK_WAY_H

#include <stdbool.h>

/* Is there a place for one more?  kin_lock held. */
bool way_room(void);
/* First in the child: whom its inherited conns are to ask; -1: nobody.  answers: at once. */
struct slips;
void way_add(int way, struct slips *slips, bool answers);

#endif
