/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a conformance case is, and the words it is written in.
 *
 * A case is one function, and its text is run by two roles in lockstep: the
 * server (owner of the accepted fd r->s) and the client (owner of r->c).
 * The roles are two processes, two threads, or one thread that plays both:
 *
 *	conn_open(r);
 *	CLIENT(r) TRY(r, 5, send(r->c, "hello", 5, 0));
 *	meet(r);
 *	SERVER(r) TRY(r, 5, recv(r->s, buf, sizeof(buf), 0));
 *
 * Rules: a role touches only its own fd.  meet() is the only synchronisation
 * (no sleeps); only "nothing happens" may be established by a bounded wait.
 * A case that blocks on what the other role does at the same time is TOGETHER
 * (not for one thread).  Whatever is printed must be the same in every run.
 */
#ifndef TESTS_CONFORMANCE_CONFORM_H
#define TESTS_CONFORMANCE_CONFORM_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/lib/transcript.h"

enum {
	TOGETHER = 1 << 0,	/* needs both roles at once: not "same" */
	PROCESS = 1 << 1,	/* two processes only (forks, dies, signals) */
	COLD = 1 << 2,		/* no +ring variant: nothing to warm */
	UNCOUNTED = 1 << 3,	/* a role leaves without exit(): no stats */
	WAIT_POLL = 1 << 4,	/* warm up non-blocking, by poll */
	WAIT_SELECT = 1 << 5,	/* ... by select */
	WAIT_EPOLL = 1 << 6,	/* ... by epoll */
	WARMS = 1 << 7,		/* COLD, and calls conn_warm() itself: on a ring it is to be */
	ONE_WAY = 1 << 8,	/* ... in one direction */
};

struct role;

struct conf_case {
	const char *name;
	void (*run)(struct role *r);
	unsigned int flags;
};

struct role {
	bool server, client;	/* the ends this thread plays: one, or both */
	bool ring;		/* conn_open() warms up */
	bool alone;		/* the other role is in another process */
	unsigned int waiting;	/* WAIT_* */
	int step;		/* to the other role, -1 when playing both */
	struct transcript t;
	int listener;		/* server's, -1 before listener_open() */
	int s, c;		/* accepted and connected fd, -1 if not ours */
	long port;		/* the listener's, known to both roles */
	bool seen_on_ring[2];	/* warm.c: server's, client's end */
};

#define SERVER(r) if ((r)->server)
#define CLIENT(r) if ((r)->client)

/* Make the call, print it and its result; want is its value or -errno. */
#define TRY(r, want, call) ({					\
	long value_;						\
	errno = 0;						\
	value_ = (long)(call);					\
	transcript_result(&(r)->t, #call, (want), value_, errno); \
	value_; })

/* The same where only plain TCP says what is right: print, judge by diff. */
#define SHOW(r, call) ({					\
	long value_;						\
	errno = 0;						\
	value_ = (long)(call);					\
	transcript_result(&(r)->t, #call,			\
		value_ == -1 && errno ? -errno : value_, value_, errno); \
	value_; })

#define CHECK(r, cond) transcript_check(&(r)->t, #cond, (cond))
#define NOTE(r, ...) transcript_line(&(r)->t, __VA_ARGS__)

/* Preparations that cannot fail on a sane machine: end the role if they do. */
#define MUST(r, call) ({					\
	long must_ = (long)(call);				\
	if (must_ == -1)					\
		give_up(r, #call);				\
	must_; })

/* An address nobody can read, which the compiler does not know to be one. */
static inline void *bad_pointer(void)
{
	void *volatile p = (void *)8;

	return p;
}

_Noreturn void give_up(struct role *r, const char *what);

/* role.c: meeting */
void meet(struct role *r);
void tell(struct role *r, long value);
long hear(struct role *r);

/* role.c: connections */
void listener_open(struct role *r);
int conf_family(void);				/* of sockets that connect: AF_INET, AF_INET6 */
void loopback_addr(struct sockaddr_storage *sa, long port);	/* ... and their address */
long addr_port(const struct sockaddr_storage *sa);
bool addr_is_loopback(const struct sockaddr_storage *sa);
void conn_open(struct role *r);			/* r->s, r->c; warmed for +ring */
void conn_more(struct role *r, int *s, int *c);	/* a further one, cold */
void conn_close(struct role *r);		/* meet(), then close both, checked */

/* role.c: small helpers; the fd is the caller's own */
int own_fd(const struct role *r);		/* TOGETHER cases: r->s or r->c */
void nonblock_set(struct role *r, int fd);
int readable_await(int fd, int bytes);		/* FIONREAD >= bytes; bounded; its value */
int event_await(int fd, short events);		/* poll up to 5 s; revents */
int event_settled(int fd, short events, short want);	/* ... when all of want is there: a
							 * reset sets ERR first, then HUP */
void quiet_check(struct role *r, int fd, short events);	/* none in 50 ms */
void drained_await(int fd);			/* SIOCOUTQ is 0: the peer has it all */
void unread_left(struct role *r);		/* the server has 6 bytes, and leaves them */
long send_all(int fd, const void *buf, size_t n);
long recv_all(int fd, void *buf, size_t n);
void poll_show(struct role *r, const char *label, short want, short got);
void epoll_show(struct role *r, const char *label, unsigned int want, unsigned int got);
long long now_ms(void);

/* role.c: epoll sets */
int set_new(struct role *r);
int set_ctl(int ep, int op, int fd, unsigned int events, uint64_t tag);
void set_expect(struct role *r, int ep, unsigned int want, uint64_t tag);	/* one event, within 5 s */
void set_quiet(struct role *r, int ep);						/* none, in 30 ms */

/* bulk.c: pattern streams */
enum { SEED_CLIENT = 1, SEED_SERVER = 2 };	/* by writer */
void bulk_write(struct role *r, int fd, size_t total, uint64_t seed);
void bulk_read(struct role *r, int fd, size_t total, uint64_t seed);
void bulk_duplex(struct role *r, unsigned int waiting, size_t total);

/* warm.c: get both directions of (r->s, r->c) onto a ring, if there is one */
void conn_warm(struct role *r);
int path_of(int fd);	/* bit 0: tx, bit 1: rx on a ring; both, if there is no library to ask */

/* One table per topic, ended by an empty entry. */
extern const struct conf_case bulk_cases[], closing_cases[], connect_cases[], deaths_cases[], dup_cases[], ends_cases[],
	epoll_cases[], errors_cases[], flags_cases[], fork_cases[], heir_cases[], iov_cases[],
	kin_cases[], kinsets_cases[], leave_cases[], nonblock_cases[], options_cases[], raw_cases[],
	readiness_cases[], sandbox_cases[], seams_cases[], select_cases[], shared_cases[],
	sendfile_cases[], signals_cases[], stdio_cases[], stream_cases[], threads_cases[],
	urgent_cases[], uring_cases[], sets_cases[], stacks_cases[], settings_cases[];

/* play.c: the inner side of the harness */
enum { FD_STEP = 200, FD_TRANSCRIPT = 202 };	/* +1 for the second role */
int play(const struct conf_case *c, bool ring, const char *who);

#endif
