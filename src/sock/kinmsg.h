/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kinmsg.h - what a child and the owner of its connections say to each other
 *
 * Over the pair of sockets of their fork.  Nothing here blocks or locks.
 */
#ifndef SOCK_KINMSG_H
#define SOCK_KINMSG_H

#include <stdint.h>

enum kin_type { KIN_ASK = 1, KIN_KEEP, KIN_SHUT, KIN_SET, KIN_BYE };
enum kin_answer { KIN_NO, KIN_YES, KIN_FULL };
enum kin_end { KIN_NO_END, KIN_END, KIN_END_RESET };

struct kin_msg {
	uint32_t type;
	uint32_t id, gen;		/* of a conn */
	uint32_t bits;
	uint32_t slip, asked;		/* where the answer is to be written; 0: a socket came along */
	uint64_t set;			/* address of an epoll set, as a name */
};

/* What the owner says to an ask. */
struct kin_reply {
	uint8_t answer;			/* enum kin_answer */
	uint8_t error;			/* the socket's, which the owner has taken and not told; 0: none */
	uint8_t end;			/* enum kin_end: it is over, and what is left comes along */
	uint8_t fds;			/* KIN_FD_*: which of struct kin_fds are there */
};

/* What goes with it; -1: it does not. */
struct kin_fds {
	int once;			/* who may tell the error (request_once()) */
	int rest;			/* bytes that were in the ring (rest.h) */
};

/* fd: goes along, if not -1.  Return: 0 or -errno. */
int kin_send(int to, const struct kin_msg *m, int fd);
/* Return: 1; 0: nobody is there any more; -EAGAIN; -EPROTO.  *fd: what came along, or -1. */
int kin_recv(int from, struct kin_msg *m, int *fd);
/* The same of an answer.  f: NULL, nothing goes along. */
int kin_reply_send(int to, const struct kin_reply *r, const struct kin_fds *f);
int kin_reply_recv(int from, struct kin_reply *r, struct kin_fds *f);
/* Two connected sockets, private and close-on-exec.  Return: 0 or -errno. */
int kin_pair(int sv[2]);

#endif
