/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sidestep.h - what a program may ask the library that runs under it
 *
 * No program needs this header.  One that wants to know looks the functions up
 * with dlsym(RTLD_DEFAULT, ...): they are there when the library is preloaded.
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

#ifdef __cplusplus
extern "C" {
#endif

#define SIDESTEP_TX_RING 1	/* what is written now goes to a ring */
#define SIDESTEP_RX_RING 2	/* what is read now comes from a ring */

/* "0.1.0" */
const char *sidestep_version(void);

/*
 * Where the bytes of a connection go.  Return: SIDESTEP_TX_RING and
 * SIDESTEP_RX_RING or-ed, 0 on kernel TCP in both directions, -1 if fd is no
 * TCP socket that the library knows.  Context: any thread, any time.
 */
int sidestep_fd_path(int fd);

/*
 * Why a connection is not on a ring: a reason's name as in sidestep(7), "none"
 * when it is, NULL if fd is no TCP socket that the library knows.
 */
const char *sidestep_fd_reason(int fd);

#ifdef __cplusplus
}
#endif

#endif
