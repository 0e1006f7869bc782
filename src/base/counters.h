/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * counters.h - what a process counts, and its JSON line
 *
 * Each thread adds to a block of its own with plain relaxed loads and stores;
 * readers sum the blocks.  A block outlives its thread and is handed to a new
 * one with its values, so sums never go back.  Signal handlers may count,
 * once their thread has.  The blocks stand where others can read them (page.h).
 */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/reasons.h"
#include "base/util.h"

/* X(name, text): the order is the order of the JSON object */
#define COUNTERS(X) \
	X(conns_total, "TCP connections seen") \
	X(conns_ring_soft, "connections ever attached over the software RNIC") \
	X(conns_ring_verbs, "connections ever attached over a verbs device") \
	X(conns_tcp, "ended connections never attached") \
	X(ring_tx_bytes, "application bytes written to rings") \
	X(ring_rx_bytes, "application bytes read from rings") \
	X(tcp_tx_bytes, "application bytes written to kernel sockets, resent ones included") \
	X(tcp_rx_bytes, "application bytes read from kernel sockets") \
	X(ring_tx_msgs, "writes to rings") \
	X(ring_rx_msgs, "reads from rings") \
	X(tcp_tx_msgs, "writes to kernel sockets") \
	X(tcp_rx_msgs, "reads from kernel sockets") \
	X(stalls, "writes that found a ring full") \
	X(attaches, "directions switched to a ring") \
	X(retreats, "directions taken back to the kernel") \
	X(resent_bytes, "bytes sent again over the kernel after a retreat") \
	X(links, "links opened") \
	X(bind_msgs, "control messages sent to bind connections, questions and answers") \
	X(wr_posted, "work requests posted") \
	X(doorbells, "ibv_post_send calls") \
	X(wc_polled, "work completions polled") \
	X(wr_signaled, "signalled work requests") \
	X(wc_errors, "completions that report an error, flushes not counted") \
	X(cq_errors, "completions that a device has lost") \
	X(credit_writes, "credit words written") \
	X(sleeps, "waits that went to sleep") \
	X(wakes, "wake-ups sent to a sleeping peer or thread") \
	X(records_tx, "in-band records written") \
	X(records_rx, "in-band records read") \
	X(mr_registrations, "pieces of memory registered") \
	X(mr_registered_bytes, "memory registered") \
	X(mr_registration_us, "time spent registering it")

enum counter {
#define X(name, text) CNT_##name,
	COUNTERS(X)
#undef X
	CNT_COUNT
};

struct counters {
	uint64_t v[CNT_COUNT];
	uint64_t reason[REASON_COUNT];
	uint32_t owner_tid;		/* 0: free */
} cacheline_aligned;

extern __thread struct counters *counters_mine;

/* Context: any, in a section where the door is up.  Never fails: with no memory for a
 * block of its own the thread shares one (and may then miss a count). */
struct counters *counters_attach(void);

static inline struct counters *counters_get(void)
{
	struct counters *c = counters_mine;

	return likely(c != NULL) ? c : counters_attach();
}

static inline void count(enum counter which, uint64_t n)
{
	struct counters *c = counters_get();

	st_rlx(&c->v[which], ld_rlx(&c->v[which]) + n);
}

static inline void count_reason(enum reason r)
{
	struct counters *c = counters_get();

	st_rlx(&c->reason[r], ld_rlx(&c->reason[r]) + 1);
}

const char *counter_name(enum counter c);

/* Sum over all threads, past and present. */
void counters_sum(struct counters *sum);

/* Zero everything: the child of a fork starts its own count. */
void counters_reset(void);

/*
 * One JSON object with a line feed: names and units as in
 * include/sidestep/sidestep.h.  Return: bytes written, never more than size - 1.
 */
size_t counters_json(char *buf, size_t size);

/* Append the JSON line to path with O_APPEND in a single write; "%p" in path
 * becomes the pid.  Return: 0 or -errno. */
int counters_write_file(const char *path);

/*
 * Keep the file open on a private descriptor from the start, for a program
 * that gives up its user or its root: at its end it could not open it any
 * more.  counters_open_child(): after a fork, for a path with "%p" the child's
 * own file, if it may open one.  counters_write(): the line, into what is open.
 */
int counters_open(const char *path);
void counters_open_child(const char *path);
int counters_write(const char *path);
int counters_fd(void);			/* -1: none */

#endif
