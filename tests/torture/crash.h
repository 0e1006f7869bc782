/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * crash.h - one end of a connection dies, the other looks on
 *
 * A cell of the matrix is five small numbers.  The supervisor (crash.c) starts
 * the two ends of a cell as processes of their own (crash_ends.c), speaks with
 * them by lines over pipes, kills the one and compares what the other says
 * with what it says on plain TCP.
 */
#ifndef TESTS_TORTURE_CRASH_H
#define TESTS_TORTURE_CRASH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* what the survivor is at when the other dies */
enum kind {
	IN_RECV,		/* asleep in recv() */
	IN_SPIN,		/* on its way into recv(), the library perhaps still spinning */
	IN_SEND,		/* blocked in send(), nobody reads */
	IN_POLL_OUT,		/* not blocked: EAGAIN, then poll() for room */
	IN_POLL,
	IN_EPOLL,
	IN_EPOLL_ET,
	IDLE,			/* outside; looks once the other is dead */
	NOT_ACCEPTED,		/* has the connection in its accept queue */
	UNACCEPTED,		/* in recv(), and the dead side had not accepted */
	KINDS
};

/* how far the library had come */
enum state {
	NEVER,			/* cold, no meeting */
	MEETING,		/* killed in one of the first rounds */
	SWITCHING,		/* the dead side waits for the answer to its SWITCH */
	BOTH,			/* on the ring both ways */
	TO_SURVIVOR,		/* the dead side's direction only */
	TO_VICTIM,		/* the survivor's direction only */
	RESENDING,		/* left the ring, kept bytes wait for kernel room */
	STATES
};

enum death { BY_KILL, BY_SEGV, BY_TERM, BY_ABORT, DEATHS };

struct cell {
	enum kind kind;
	bool unread;		/* the dead side leaves bytes unread */
	bool flight;		/* the survivor has bytes of it still to read */
	enum state state;
	enum death death;
	bool victim_connects;
	unsigned int rounds;	/* MEETING: so many exchanges, then death */
};

extern const char *const kind_names[], *const state_names[], *const death_names[];

enum { FLIGHT = 5000, UNREAD = 100, MESSAGE = 64 };
enum { SEED_VICTIM = 1, SEED_SURVIVOR = 2 };

/*
 * How supervisor and ends speak.  An end says, one a line:
 *	port N		it listens
 *	ready N		it is where the cell wants it; N: sidestep_fd_path()
 *	accepted N	victim: so many bytes has write() taken
 *	going		survivor: its next call is the one to be asleep in
 *	learnt S	survivor: the end was seen, at this monotonic second
 *	got N		bytes read, the content right
 *	saw TEXT	everything else
 * and is told by one byte: go, write, die.
 */
enum { TELL_GO = 'g', TELL_DIE = 'd', TELL_WRITE_DIE = 'w' };

/* crash_ends.c */
void victim(const struct cell *c, int port);
void survivor(const struct cell *c, int port);
/* Exchange with the other end until the cell's state is there. */
void reach(const struct cell *c, int fd, bool victim);
int path_of(int fd);
double now_s(void);
void die(enum death how);

/* crash_more.c: argv of the inner side is args[1..] */
int rounds_main(const char *launcher, int rounds);
int many_main(const char *launcher, int conns);
int leak_main(const char *launcher, int peers);
int latency_main(const char *launcher, int times);
int more_child(char **args);

/* crash.c */
struct end {
	pid_t pid;
	int to;			/* its standard input */
	FILE *from;		/* its standard output */
};

/* Seconds until the survivor knew; negative: it did not, or was not on the ring. */
double cell_latency(const struct cell *c, const char *launcher);

extern const char *self;
/* args[0] is ours; launcher may be NULL */
void end_start(struct end *e, const char *launcher, char *const *args);
/* The rest of the next line that begins with word, within seconds; NULL: none came. */
const char *end_hear(struct end *e, const char *word, double seconds);
void end_tell(const struct end *e, char what);
/* Its first thread sleeps in the kernel (bounded). */
bool end_asleep(const struct end *e);
void end_kill(struct end *e);		/* and reap */

#endif
