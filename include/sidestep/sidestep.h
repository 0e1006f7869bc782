/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sidestep.h - what a program may ask the library that runs under it
 *
 * No program needs this header, and one that uses it needs no library to link
 * with: the functions are weak.  Where the program does not run under sidestep
 * their addresses are NULL, so ask sidestep_present() first.  (Compile with
 * -fPIE or -fPIC, as compilers do by themselves nowadays; without, the linker
 * settles at once that they are not there.)
 *
 * Context of all: any thread, any time, but not a signal handler.  None waits
 * for a peer.  fd is a descriptor; those that fail return -1 and set errno:
 *
 *	EBADF		fd is no TCP socket that the library knows
 *	ENOTCONN	it is not connected
 *	EOPNOTSUPP	it stays on the kernel for good; sidestep_fd_reason() says why
 *
 * libsidestep(3) has an example.
 *
 * SIDESTEP_STATS_FILE names a file to which each process appends, when it
 * exits, its counters as one JSON object on one line.  Members:
 *   program (string), pid (number), uptime_s (seconds, three decimals),
 *   one number for each counter of sidestep(7), and
 *   reasons: an object of reason name to number; one final reason for each
 *   connection that was never attached, one for each retreat.
 * Byte counters count application bytes; tcp_* include bytes that were sent
 * again after a retreat (resent_bytes), none include in-band records.
 */
#ifndef SIDESTEP_SIDESTEP_H
#define SIDESTEP_SIDESTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIDESTEP_CALL __attribute__((weak))

#define SIDESTEP_TX_RING 1	/* what is written now goes to a ring */
#define SIDESTEP_RX_RING 2	/* what is read now comes from a ring */

/* "0.1.0" */
SIDESTEP_CALL const char *sidestep_version(void);

/* Does this program run under sidestep? */
static inline int sidestep_present(void)
{
	return sidestep_version != NULL;
}

/*
 * Where the bytes of a connection go.  Return: SIDESTEP_TX_RING and
 * SIDESTEP_RX_RING or-ed, 0 on kernel TCP in both directions, -1 if fd is no
 * TCP socket that the library knows.
 */
SIDESTEP_CALL int sidestep_fd_path(int fd);

/*
 * Why a connection is not on a ring: a reason's name as in sidestep(7), "none"
 * when it is, NULL if fd is no TCP socket that the library knows.
 */
SIDESTEP_CALL const char *sidestep_fd_reason(int fd);

struct sidestep_stats {
	uint64_t ring_tx_bytes;		/* the program's, written to rings */
	uint64_t ring_rx_bytes;		/* ... and read from them */
	uint64_t kernel_tx_bytes;	/* written to the kernel's socket: records, */
	uint64_t kernel_rx_bytes;	/* ... and what was sent again, are among them */
	uint64_t ring_bytes;		/* size of the present ring that is written to; 0: none */
	uint32_t attaches;		/* of what is written */
	uint32_t retreats;
	const char *rnic;		/* "soft", "verbs"; NULL: not bound to a peer */
	const char *last_retreat;	/* its reason; NULL: there was none */
};

/*
 * size is sizeof(struct sidestep_stats) of the caller's header: members that
 * are newer than the library are 0.  Return: 0, or -1 with EBADF.
 */
SIDESTEP_CALL int sidestep_fd_stats(int fd, struct sidestep_stats *stats, size_t size);

/*
 * Ask for a ring now, whatever SIDESTEP_ATTACH says but "never".  The end that
 * has called connect() asks; the other is asked and need not.  Meeting takes
 * some hundred microseconds in the background, and each direction moves when
 * something is written in it next; sidestep_fd_path() tells when it has.
 * Return: 0 (also if it is on a ring), or -1 with EBADF, ENOTCONN, or
 * EOPNOTSUPP, also where this end was accepted and has not been asked yet.
 */
SIDESTEP_CALL int sidestep_fd_attach(int fd);

/*
 * Take a connection back to the kernel, both directions, and leave it there for
 * good (reason program-asked).  What the other end sends comes back when it
 * has heard of it; sidestep_fd_path() is 0 then.  Return: 0, or -1 with EBADF,
 * ENOTCONN.
 */
SIDESTEP_CALL int sidestep_fd_retreat(int fd);

#ifdef __cplusplus
}
#endif

#endif
