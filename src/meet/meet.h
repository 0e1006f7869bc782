/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * meet.h - how the two ends of a TCP connection on one host find each other
 *
 * Small independent pieces, all driven by one thread (the background thread),
 * so none of them locks.  No call blocks, allocates, or touches a conn; what
 * they find out goes back to the caller as parameters.  Every descriptor made
 * here is a private one (base/privfd.h): close it with privfd_close().
 *
 *   names.c   abstract Unix names of a port      cred.c   who is at the other end
 *   msg.h     the messages                       diag.c   whose is a TCP socket
 *   ask.h     the connecting side                answer.h the accepting side
 *   proof.h   who has seen the stream        scan.h   the same without netlink
 */
#ifndef MEET_MEET_H
#define MEET_MEET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/*
 * A TCP connection as one of its ends sees it.  IPv4 addresses mapped into
 * IPv6 are always AF_INET here, so a dual-stack end and an IPv4 end agree.
 */
struct meet_tuple {
	uint16_t family;		/* AF_INET or AF_INET6 */
	uint16_t lport, rport;		/* host byte order */
	uint16_t zero;
	uint32_t scope;			/* interface of a link-local address, else 0; not compared */
	uint8_t laddr[16], raddr[16];	/* network order; IPv4 in the first four, rest 0 */
};

/* From getsockname() and getpeername(). Return: 0, or -EAFNOSUPPORT. */
int meet_tuple_set(struct meet_tuple *t, const struct sockaddr_storage *local,
		   const struct sockaddr_storage *remote);
/* The same connection as its other end sees it. out may be t. */
void meet_tuple_swap(struct meet_tuple *out, const struct meet_tuple *t);
bool meet_tuple_equal(const struct meet_tuple *a, const struct meet_tuple *b);
/* Family known, ports not 0, no mapped address, unused bytes 0: for what a stranger sent. */
bool meet_tuple_sane(const struct meet_tuple *t);
/* Is the other end on this host, by its address alone? */
bool meet_tuple_loopback(const struct meet_tuple *t);

/* n bytes that nobody can guess. */
void meet_random(void *p, size_t n);

/* ---- names.c ---- */

#define MEET_NAMES 256			/* indices 0..255 of a (family, port) */

/* Return: length for bind() and connect(). */
int meet_name(struct sockaddr_un *sa, int family, uint16_t port, unsigned i);

/*
 * Bind the lowest free index and listen.  *index, unless NULL, is which.
 * Return: fd (nonblocking), -EADDRINUSE when all are taken, or -errno.
 */
int meet_listen(int family, uint16_t port, unsigned *index);

/*
 * Return: connected fd (nonblocking); -ECONNREFUSED: nobody has this index;
 * -EAGAIN: somebody has, but his queue is full; or -errno.
 */
int meet_connect(int family, uint16_t port, unsigned i);

/* The same on a socket of the caller's, which a refusal leaves usable. 0 or -errno. */
int meet_connect_fd(int fd, int family, uint16_t port, unsigned i);
int meet_socket(void);

/* Does this error mean that a sandbox forbids meeting, now and for ever? */
bool meet_forbidden(int err);

/*
 * May the other end of this Unix socket send us descriptors?  Off for a
 * stranger: closing a descriptor of his may block for as long as he likes
 * (SO_LINGER).  Kernels before 6.16 cannot tell and say -ENOPROTOOPT.
 */
int meet_rights(int fd, bool on);

/* ---- cred.c ---- */

struct meet_cred {
	uid_t uid;
	pid_t pid;
};

/*
 * Who made the other end: for a connecting socket whoever called listen(), for
 * an accepted one whoever called connect().
 * Return: 0; -ENODATA: uid and pid are set, but the uid proves nothing (the
 * overflow uid, or any uid inside a user namespace that maps only some); -errno.
 */
int meet_peer_uid(int fd, uid_t *uid, pid_t *pid);

/* The rule of meet_peer_uid() alone. */
bool meet_uid_proves(uid_t uid);

/* ---- diag.c ---- */

#define DIAG_SCAN_BYTES 16384

struct diag_result {
	uid_t uid;
	uint64_t inode;			/* 0: not accepted yet, or closed */
	uint8_t state;			/* TCP_ESTABLISHED, ... */
};

/* What was read of /proc/net/tcp (scan.h). */
struct scan {
	uint32_t begun;			/* the number of the last; 0: none yet */
	uint64_t until_ns;		/* before that no other begins */
	struct scan_line *lines;	/* room for so many, and as many chains */
	uint32_t most, room, n, chains;
	bool all;			/* there were no more than that */
	int err, err6;			/* of the files */
	uint64_t secret[2];
	struct meet_tuple asked;	/* for whom it was made */
	bool asked_found;
	struct diag_result asked_is;
	char buf[DIAG_SCAN_BYTES];
};

struct diag {
	int fd;				/* netlink socket, -1: none */
	uint32_t seq;
	bool proven;			/* it has found something: its ENOENT is to be believed */
	struct scan scan;
	char buf[DIAG_SCAN_BYTES];
};

/*
 * d is zeroes, or was open before: then scans are numbered on.  Never fails for want of
 * netlink: then every lookup reads /proc.
 */
void diag_open(struct diag *d);
void diag_close(struct diag *d);
/* What was read of /proc is of no use any more. */
void diag_drop(struct diag *d);
/* In a child: the descriptor is closed already. */
void diag_forget(struct diag *d);

/*
 * Find the TCP socket at the *other* end of the connection t (t as this end
 * sees it).  now_ns: the caller's monotonic clock.  first: diag_next() at a time when
 * this end of the connection was there.
 * Return: 0; -ENOENT: no such socket in this network namespace (the peer is
 * elsewhere, or behind address translation); -EAGAIN: needs /proc, which was
 * read less than 100 ms ago and before first, try again; other -errno: the kernel does
 * not tell (reason owner-unknown).
 * Context: the background thread; some 15 us, or tens of ms for /proc.
 */
int diag_lookup(struct diag *d, const struct meet_tuple *t, uint32_t first, uint64_t now_ns,
		struct diag_result *r);
/* The first reading of /proc that can answer for a connection that is there now; not 0. */
uint32_t diag_next(const struct diag *d);
/* Would one be answered now that is there since diag_next() was first? */
bool diag_ready(const struct diag *d, uint32_t first, uint64_t now_ns);

/* ---- what drives ask.c and answer.c ---- */

struct meet_loop {
	void *arg;
	/* Level-triggered EPOLLIN/EPOLLOUT; fn may unwatch and close fd. 0 or -errno. */
	int (*watch)(void *arg, int fd, uint32_t events,
		     void (*fn)(void *ctx, uint32_t events), void *ctx);
	/* After it returns fn is not called for fd any more, also not for an
	 * event that was already fetched. */
	void (*unwatch)(void *arg, int fd);
	uint64_t (*now_ns)(void);	/* clock_ns() */
};

#define MEET_NEVER UINT64_MAX		/* a deadline that is none */

/* thin.c: the older half of n, those with the lower serials, come first.  Return: how many. */
unsigned meet_older_half(uint64_t *serial[], unsigned n);

#endif
