/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* meeting.h - how a conn that has met, or could not, goes on (background thread, no lock held) */
#ifndef SOCK_MEETING_H
#define SOCK_MEETING_H

#include "sock/conn.h"

/* Never attach this conn again. */
void meeting_give_up(struct conn *c, enum reason why);
/* With twice the traffic that it has had. */
void meeting_later(struct conn *c, enum reason why);
/* As soon as the other side may know more; too many times: as meeting_later(). */
void meeting_soon(struct conn *c);
/* The link under it has died. */
void meeting_after_loss(struct conn *c);
/* BIND on a link to somebody met at this port before; else ask whose c is. */
void meeting_try_known(struct conn *c);

#endif
