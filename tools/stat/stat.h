/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * stat.h - what the parts of sidestep-stat share
 *
 * A process is read as it stands: nothing in it is stopped, asked or written.
 * All that is read is a stranger's and is bounded here before it is used.
 */
#ifndef STAT_STAT_H
#define STAT_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/page.h"

/* Exit codes */
#define EXIT_FAILED	1
#define EXIT_USAGE	2

struct shown_conn {
	struct page_conn e;		/* a copy; why, last and paths are within their tables */
	bool verbs;			/* its link is over a device of libibverbs */
	bool live;			/* the next two and ring_* are up to date */
	uint64_t tcp_tx, tcp_rx;	/* bytes on the kernel's socket, records included */
	uint64_t ring_tx, ring_rx;
};

struct shown_link {
	struct page_link e;
	uint32_t conns;
};

struct shown {
	pid_t pid;
	uid_t uid;
	char program[32];
	double uptime_s;
	struct counters sum;
	uint32_t conns_lost, blocks_lost;
	char version[17];		/* of its library */
	bool off;			/* switched off by its settings */
	bool other_layout;		/* ... which counts other things: only pid, program, version */
	struct shown_link links[PAGE_LINKS];
	uint32_t nlinks;
	struct shown_conn *conns;
	uint32_t nconns;
};

struct filter {
	pid_t pid;			/* 0: all */
	int port;			/* 0: all; of either end */
	const char *path;		/* NULL: all; tcp, soft, verbs */
	bool rows;			/* show connections */
	bool conns;			/* read them: to show or to filter by */
};

/* ---- read.c: one process ---- */

/* Where a page is said to be: a file, or /proc/PID/mem from an address on. */
struct source {
	int fd;
	off_t base;
};

/*
 * From a page that pid is said to show.
 * Return: 0, -EPROTO: it is none.  s->conns is malloc'ed.
 */
int read_page(struct shown *s, const struct source *f, uint32_t inner_pid, bool conns);
void read_free(struct shown *s);

/* Byte counts of each conn from the process' own memory, where we may. */
void read_live(struct shown *s, const struct page_live *live);

/* ---- memory.c: a page that is no file ---- */

/*
 * In pid's own memory, where the library has left its mark.
 * Return: 0, f->fd is open; -ENOENT: no library there; -EACCES: we may not look; -errno.
 */
int memory_find(struct source *f, pid_t pid);

/* ---- find.c: which processes ---- */

/* Return: 0 with *s filled in; -ENOENT: it shows nothing; -EACCES; -errno. */
int find_one(struct shown *s, pid_t pid, bool conns);

/* All that show something and that we may see, by pid. n or -errno; free with find_free(). */
int find_all(struct shown **all, const struct filter *f);
void find_free(struct shown *all, int n);

/* The same with addresses, and said on stderr what went wrong. */
int find_filled(const struct filter *f, struct shown **all);
double now_s(void);			/* CLOCK_MONOTONIC */

void program_of(pid_t pid, char *buf, size_t size);

/* ---- addr.c: addresses of conns that their process has not learnt ---- */

void addr_fill(struct shown *all, int n);

/* ---- rows.c ---- */

const char *conn_path(const struct shown_conn *c);	/* soft, verbs, with -tx or -rx one way only; tcp */
const char *conn_reason(const struct shown_conn *c);	/* none when on a ring */
const char *conn_state(const struct shown_conn *c);
void conn_addr(const struct shown_conn *c, bool remote, char *buf, size_t size);
bool conn_wanted(const struct shown_conn *c, const struct filter *f);
bool proc_wanted(const struct shown *s, const struct filter *f);
const struct shown_link *conn_link(const struct shown *s, const struct shown_conn *c);

/* ---- output ---- */

void text_show(const struct shown *all, int n, const struct filter *f);
/* of those that conn_wanted() names, if it has not all */
void text_rates(FILE *out, const struct shown *now, int n, const struct shown *then, int nthen,
		double seconds, bool head, const struct filter *f);
const char *text_bytes(double v, char buf[16]);			/* "1.5M" */
const char *text_who(const struct shown *s, char buf[48]);	/* "redis-server/17", printable */
void json_show(const struct shown *all, int n, const struct filter *f);
void prometheus_show(const struct shown *all, int n, const struct filter *f);

/* ---- screen.c: the picture of now, again and again ---- */

bool screen_can(void);			/* standard output is a terminal that can */

/* Once in every_s seconds, times times (below 0: for ever).  Return: the exit status. */
int screen_run(const struct filter *f, double every_s, long times);

#endif
