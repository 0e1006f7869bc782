/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ringstats.h - what the processes of a run have counted: the JSON lines
 * that sidestep appends to SIDESTEP_STATS_FILE, summed
 */
#ifndef BENCH_RINGSTATS_H
#define BENCH_RINGSTATS_H

#include <stdint.h>

struct ringstats {
	uint64_t processes;
	uint64_t ring_bytes, tcp_bytes;
	uint64_t conns_soft, conns_verbs;
};

/* Add the lines of text; a line that is no object is left out. */
void ringstats_add(struct ringstats *s, const char *text);

/* Share of the application bytes that went over rings, 0 to 1; 0 for none. */
double ringstats_share(const struct ringstats *s);

/* "soft", "verbs", "soft+verbs" or "none". */
const char *ringstats_rnic(const struct ringstats *s);

#endif
