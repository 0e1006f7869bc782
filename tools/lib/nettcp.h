/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* nettcp.h - the TCP sockets of a process' network namespace, from /proc/PID/net */
#ifndef TOOLS_NETTCP_H
#define TOOLS_NETTCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nettcp {
	unsigned long inode;		/* 0: not accepted yet, or closed */
	unsigned state;			/* TCP_ESTABLISHED, ... */
	uid_t uid;
	uint8_t family;			/* mapped addresses are AF_INET */
	uint16_t lport, rport;
	uint8_t laddr[16], raddr[16];	/* network order */
};

/* fn for each, until it says false.  pid 0: our own. */
void nettcp_each(pid_t pid, bool (*fn)(void *arg, const struct nettcp *s), void *arg);

#endif
