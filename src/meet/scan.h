/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * scan.h - whose are the TCP sockets of this network namespace, from /proc/net/tcp
 *
 * For diag.c, where netlink does not tell.  A scan costs the kernel 4 us a socket,
 * so it reads the files to their ends and keeps what it saw: all who have asked
 * by then have their answer from one.  That is believed for SCAN_GAP_NS, or as long
 * as the scan took if that is longer; then the next may be made.
 *
 * Scans are numbered.  A connection may be answered for by a scan that began when
 * its own end was there already: while that end is there nobody else's socket can
 * be at the other end, whatever had the same addresses before.  So who asks first
 * notes scan_next(), and waits for that scan or a later one; of its "no" the same
 * is true.
 *
 * What is kept: SCAN_MOST sockets, 7 MB if there are so many, and no listeners and
 * none in TIME_WAIT, which are nobody's.  Beyond that, or without memory, a scan
 * answers for the connection for which it was made, and for those that it kept.
 */
#ifndef MEET_SCAN_H
#define MEET_SCAN_H

#include "base/clock.h"
#include "meet/meet.h"

/* All zeroes, then scan_open(). Takes no memory yet. */
void scan_open(struct scan *s);
/* The memory is given back; what was read is forgotten, but not how many there were. */
void scan_drop(struct scan *s);

/* The first scan that can answer for a connection that is there now. */
static inline uint32_t scan_next(const struct scan *s)
{
	return s->begun + 1 ? s->begun + 1 : 1;
}

/* Would a question about a connection that waits for scan number first be answered now? */
bool scan_ready(const struct scan *s, uint32_t first, uint64_t now_ns);

/*
 * The socket whose own view is t.  Return: 0; -ENOENT: there is none; -EAGAIN: ask again
 * at s->until_ns; other -errno: the files cannot be read.
 */
int scan_find(struct scan *s, const struct meet_tuple *t, uint32_t first, uint64_t now_ns,
	      struct diag_result *r);

/* Its parts, for tests: it begins, reads a file (0 or -errno), and looks. */
void scan_begin(struct scan *s, const struct meet_tuple *asked);
int scan_file(struct scan *s, const char *path);
int scan_kept(const struct scan *s, const struct meet_tuple *t, struct diag_result *r);

#endif
