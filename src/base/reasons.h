/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * reasons.h - why a connection is not on a ring, or left it
 *
 * One final reason a conn that was never attached, one a retreat.  The names
 * are part of the interface (SIDESTEP_STATS_FILE, sidestep-stat, manual).
 */
#ifndef BASE_REASONS_H
#define BASE_REASONS_H

/* X(symbol, name, text for people) */
#define REASONS(X) \
	X(NONE, "none", "no reason") \
	X(NOT_WARM, "not-warm", "too little traffic to be worth a ring") \
	X(PEER_UNPROVEN, "peer-unproven", "the other end does not run sidestep, or did not prove that it owns the connection") \
	X(OWNER_UNKNOWN, "owner-unknown", "the kernel did not tell whose the other end is") \
	X(OTHER_NETNS_OR_NAT, "other-netns-or-nat", "the ends are in different network namespaces or behind address translation") \
	X(NO_RNIC, "no-rnic", "no RNIC reaches the other end") \
	X(FOREIGN_IO, "foreign-io", "the program reads, writes or waits past the library") \
	X(OPTION, "option", "a socket option or mode that only the kernel does") \
	X(NO_MEMORY, "no-memory", "no memory, file descriptors or locked memory left for a ring") \
	X(CONFIG, "config", "switched off by configuration") \
	X(SANDBOX, "sandbox", "the process has shut itself in") \
	X(CLOSED_FIRST, "closed-first", "closed before an attach was tried or done") \
	X(FORK, "fork", "shared with a child process") \
	X(EXEC, "exec", "handed to another program image") \
	X(FD_PASSED, "fd-passed", "handed to another process") \
	X(LINK_LOST, "link-lost", "the link broke") \
	X(SLOW_READER, "slow-reader", "the other end does not read; the kernel buffers more") \
	X(UNSEEN_WAITER, "unseen-waiter", "the program waits where the library cannot see it") \
	X(PEER_ASKED, "peer-asked", "the other end wants its direction back in the kernel") \
	X(ASKED, "program-asked", "the program itself asked for the kernel") \
	X(REFUSED, "refused", "the other end refused the switch") \
	X(CLOSE, "close", "orderly end") \
	X(PEER_CLOSED, "peer-closed", "the other end has closed") \
	X(CRASH, "crash", "the other end died") \
	X(OWNER_GONE, "owner-gone", "the parent process that had its ring was killed, or did not give it back") \
	X(FAULT, "fault", "fault injection") \
	X(COUNTS, "counts", "byte counts of kernel and library differ") \
	X(INTERNAL, "internal", "a check of the library itself failed")

enum reason {
#define X(sym, name, text) REASON_##sym,
	REASONS(X)
#undef X
	REASON_COUNT
};

const char *reason_name(enum reason r);
const char *reason_text(enum reason r);

#endif
