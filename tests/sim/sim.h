/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim.h - a connection between two ends, as the simulator sees it
 *
 * World: one TCP connection (two kernel directions), up to LINKS links, a ring
 * for each link and direction, two ends with one application each.  Every byte
 * carries a tag, its place in the application's stream, or TAG_RECORD, so that
 * a byte in the wrong place is seen whatever its value.
 *
 * Everything random comes from the scenario's 64-bit seed.
 */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/util.h"
#include "sock/proto.h"
#include "sock/proto_mut.h"
#include "sock/proto_shm.h"
#include "link/wire.h"

#define LINKS		3
#define KBYTES		2048	/* all bytes one direction may ever carry */
#define QMSGS		512	/* all messages one link may ever carry one way */
#define WINDOW_MAX	16
#define TAG_RECORD	(-1)
#define TAG_POISON	(-2)

struct byte { uint8_t v; int tag; };

/*
 * Direction d of the kernel connection, end d sends.  Bytes [rd, mv) are in
 * the receiver's queue, [mv, wr) in the sender's.
 */
struct kdir {
	struct byte b[KBYTES];
	unsigned int wr, mv, rd;
	bool fin, fin_moved;
};

struct msg { uint8_t type; uint8_t dir; uint8_t b0; uint16_t e; uint64_t a; unsigned int n; struct byte d[WINDOW_MAX]; uint64_t off; };

struct queue { struct msg m[QMSGS]; unsigned int head, tail; };

struct ring {
	struct byte mem[WINDOW_MAX];	/* receiver's ring; soft: the only one */
	struct byte tx[WINDOW_MAX];	/* verbs: sender's copy */
	struct slot_shm shm;
	uint64_t credit_word;		/* as written by the receiver, read at any time */
	bool freed;			/* the receiver has given it to another conn */
	bool tx_freed;			/* so has the sender its side */
};

struct link {
	bool dead;
	bool known[2];
	struct queue q[2];		/* q[x]: from end x */
	struct ring ring[2];		/* by direction */
};

enum kind { EARLY, PATIENT, HOLD };

struct end {
	int x;
	enum kind kind;
	struct ptx tx;
	struct prx rx;
	unsigned int nbytes;		/* to be written by the application */
	unsigned int sent;		/* accepted so far */
	unsigned int base;		/* sent when the epoch began */
	unsigned int rcvd;
	bool eof, rst;			/* what its reader was told */
	bool wantfin, appclosed, early, epipe;
	bool crashed, dumb, wanting, execing, exec_failed, noattach;
	bool open;			/* the kernel socket */
	bool kerr;			/* it has got a RST */
	bool kerr_tcp;			/* ... one that plain TCP would have sent, too */
	bool frozen;			/* its application never reads again */
	bool inside;			/* the reader is in a kernel read */
	size_t inside_max;
	struct byte hand[64];		/* read, not yet parsed */
	size_t hand_n;
	struct byte kept[PREC_SIZE];	/* what rx.rec holds, with tags */
	int fin_link;			/* slot that FINISH reads from, -1: none */
};

struct scenario {
	uint64_t seed;
	bool soft, early_land, wake_strict, hasten;
	unsigned int window, maxe, links;
	unsigned int vol, kills, crashes, execs, wants, freezes;
	int kill_when;			/* 0 any time, 1 after an end's FIN, 2 after QUIET */
	int blind;			/* NOTICE: this end never learns of a death by itself */
	unsigned int room;
	uint8_t x, weights[32];
	uint64_t nonce[2];
};

struct world {
	struct scenario sc;
	uint64_t rng;
	struct kdir k[2];
	struct link link[LINKS];
	struct end end[2];
	unsigned int bound[2];		/* link bound for direction d */
	uint64_t steps;
	char why[160];			/* first property violated */
};

extern struct world w;
extern bool sim_trace;

static inline uint64_t min3(uint64_t a, uint64_t b, uint64_t c)
{
	a = MIN(a, b);
	return MIN(a, c);
}

uint64_t sim_rnd(uint64_t n);
void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint8_t sim_app_byte(int dir, unsigned int i);

static inline struct end *peer(const struct end *e)
{
	return &w.end[!e->x];
}

static inline bool alive(const struct end *e)
{
	return !e->crashed;
}

static inline bool lib(const struct end *e)	/* the library runs in this process */
{
	return alive(e) && !e->dumb && !e->exec_failed;
}

static inline struct ring *tx_ring(struct end *e)
{
	return &w.link[e->tx.link].ring[e->x];
}

/* sim_world.c: kernel, links */
bool kernel_send(struct end *e, const struct byte *b, size_t n);
size_t kernel_room(const struct end *e);
size_t kernel_queued(const struct end *e);
size_t kernel_take(struct end *e, struct byte *b, size_t n);
bool kernel_at_fin(const struct end *e);
bool kernel_at_rst(const struct end *e);
void kernel_shut_wr(struct end *e);
void kernel_close(struct end *e, bool linger);
bool kernel_move(int dir);
bool kernel_fin_acked(const struct end *e);
void link_post(unsigned int l, int from, struct msg m);
void link_kill(unsigned int l);

/* sim_end.c, sim_tx.c, sim_rx.c: what an end does */
void end_tx_actions(struct end *e, uint32_t act, unsigned int l);
void end_rx_actions(struct end *e, uint32_t act, unsigned int l);
bool end_write(struct end *e);
bool end_attach(struct end *e);
bool end_records(struct end *e);
bool end_pump(struct end *e);
bool end_read(struct end *e);
bool end_background(struct end *e);
bool end_finish(struct end *e);
bool end_last(struct end *e);
bool end_link(struct end *e);
bool end_notice(struct end *e);
bool end_credit_word(struct end *e);
bool end_retreat(struct end *e);
bool end_crash(struct end *e);
bool end_freeze(struct end *e);
bool end_want(struct end *e);
bool end_want_step(struct end *e);
bool end_exec(struct end *e);
bool end_exec_step(struct end *e);
bool end_rebind(struct end *e);
bool end_recycle(struct end *e);

#endif
