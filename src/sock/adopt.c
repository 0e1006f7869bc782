/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * adopt.c - listeners that others have made
 *
 * They come over exec, by SCM_RIGHTS, or out of calls that we have not seen.  What one
 * accepts is new, and nobody else has it.  A connection that comes so is left to the
 * kernel, for what others have read or still hold of it is not known.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/page.h"
#include "base/real.h"
#include "base/sys.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/fdtab.h"
#include "sock/show.h"
#include "sock/sock.h"

void sock_adopt(int fd)
{
	if (fdtab_conn(fd) || sys_sockopt_int(fd, SOL_SOCKET, SO_ACCEPTCONN) <= 0 ||
	    sys_sockopt_int(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP)
		return;
	struct conn *c = conn_track(fd, sys_fcntl(fd, F_GETFL, 0) & O_NONBLOCK);
	if (!c)
		return;
	if (option_learn(c, fd))
		bind_give_up(c, REASON_OPTION);
	conn_take_both(c);
	show_new(c);
	show_listening(c);
	conn_unlock_both(c);
}

/*
 * A filter that was there before us may kill who asks what its program would not: then
 * only those are asked about that systemd says are for this process.
 */
static bool may_ask(void)
{
	static int unfiltered;		/* 1 yes, -1 no, 0: not known */

	if (!ld_rlx(&unfiltered))
		st_rlx(&unfiltered, page_unfiltered() ? 1 : -1);
	return ld_rlx(&unfiltered) > 0;
}

void sock_came_in(int fd)
{
	sock_purge(fd);
	if (may_ask())
		sock_adopt(fd);
}

static void adopt_named(void)
{
	enum { FIRST = 3, MOST = 1024 };	/* sd_listen_fds(3) */
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

	if (!pid || !n || strtol(pid, NULL, 10) != sys_getpid())
		return;
	for (long i = MIN(strtol(n, NULL, 10), (long)MOST) - 1; i >= 0; i--)
		sock_adopt(FIRST + (int)i);
}

void sock_adopt_all(void)
{
	enum { GAP = 16, MOST = 65536 };	/* where so many are free, no more are looked for */
	struct stat st;

	/* the loader has asked this of its files, in the same way */
	for (int fd = 0, closed = 0; closed < GAP && fd < MOST; fd++) {
		bool open = !real.fstat(fd, &st);

		closed = open ? 0 : closed + 1;
		if (!open || !S_ISSOCK(st.st_mode))
			continue;
		if (!may_ask()) {
			adopt_named();
			return;
		}
		sock_adopt(fd);
	}
}
