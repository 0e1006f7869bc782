/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rwf.c - flags of preadv2(2) and pwritev2(2), as this kernel has them */
#define _GNU_SOURCE
#include "sock/rwf.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"

enum answer { NOT_ASKED, TAKEN, REFUSED };

/*
 * A datagram socket without a peer is the same to the flags' check and has
 * nothing to read (EAGAIN) or to write to (ENOTCONN).
 */
static enum answer ask(enum call_id call, int flags)
{
	char byte = 0;
	struct iovec v = { &byte, 1 };
	bool in = call == CALL_preadv2;
	int fd = PRIVFD_NEW(sys3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return NOT_ASKED;
	long n = sys6(in ? SYS_preadv2 : SYS_pwritev2, fd, sys_arg(&v), 1, -1, -1, flags);
	privfd_close(fd);
	return n == (in ? -EAGAIN : -ENOTCONN) ? TAKEN : REFUSED;
}

bool rwf_refused(enum call_id call, int flags)
{
	static uint8_t known[2][512];
	uint8_t *k = (unsigned)flags < ARRAY_SIZE(known[0]) ? &known[call == CALL_preadv2][flags] : NULL;
	enum answer a = k ? ld_rlx(k) : NOT_ASKED;

	if (a == NOT_ASKED) {
		a = ask(call, flags);
		if (k)
			st_rlx(k, (uint8_t)a);
	}
	/* not to be asked, no number is free: what all kernels since 6.4 say */
	return a == REFUSED || (a == NOT_ASKED && (flags & ~RWF_NOWAIT));
}
