/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* public.c - the functions of sidestep/sidestep.h */
#include "sidestep/sidestep.h"

#include "base/util.h"
#include "sock/conn.h"
#include "sock/fdtab.h"

exported const char *sidestep_version(void)
{
	return SIDESTEP_VERSION;
}

exported int sidestep_fd_path(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (!c)
		return -1;
	return (conn_tx_on_ring(c) ? SIDESTEP_TX_RING : 0) |
	       (ld_rlx(&c->rx.state) == PRX_ON ? SIDESTEP_RX_RING : 0);
}

exported const char *sidestep_fd_reason(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (!c)
		return NULL;
	return sidestep_fd_path(fd) ? reason_name(REASON_NONE) : reason_name(c->why);
}
