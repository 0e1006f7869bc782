/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * msg.h - the messages of a meeting on one host
 *
 * SOCK_SEQPACKET over an abstract Unix name, one datagram of MEET_MSG_BYTES a
 * message, host byte order (both ends are the same machine), addresses in
 * network order, unused bytes 0.
 *
 *   off  size  all messages
 *     0     4  magic 0x70747373 ("sstp" in memory of a little-endian machine)
 *     4     2  version of this layout, 1
 *     6     1  type: 1 ASK, 2 ANSWER, 3 HELLO
 *     7     1  0
 *     8     8  instance nonce of the sender's process image
 *
 *              ASK (connecting side to a name's holder): do you own this?
 *    16     2  family (2 IPv4, 10 IPv6; a mapped address is IPv4)
 *    18     2  local port of the asker
 *    20     2  remote port (the port of the name)
 *    22     2  0
 *    24     4  interface of a link-local address, else 0
 *    28    16  local address of the asker
 *    44    16  remote address
 *    60     4  pid of the asker, as he sees it (for logs only)
 *
 *              ANSWER
 *    16     1  1 MINE, 2 LATER (not accepted yet), 3 NOT_MINE, 4 REFUSED
 *    17     1  reason of REFUSED (enum reason), else 0
 *
 *              HELLO (after MINE: asker first, then owner; up to 4 descriptors)
 *    16     8  capability bits
 *    24     4  bytes used of rnic[]
 *    28     4  number of slots
 *    32     8  bytes of each ring
 *    40     8  offset of the control ring in the slab
 *    48     8  offset of the first ring
 *    56     8  0
 *    64   128  rnic parameters
 *   192   256  opaque: the link's own
 *   448    64  0
 *
 * Only HELLO carries descriptors (SCM_RIGHTS).  A message of another size,
 * magic, version or type, a truncated one, or one with descriptors where none
 * belong or more than 4 is -EPROTO, and its descriptors are closed: the
 * connection is to be dropped.
 */
#ifndef MEET_MSG_H
#define MEET_MSG_H

#include "meet/meet.h"

#define MEET_MAGIC	0x70747373u
#define MEET_VERSION	1
#define MEET_MSG_BYTES	512
#define MEET_MAX_FDS	4
#define MEET_RNIC_BYTES	128
#define MEET_OPAQUE_BYTES 256

enum meet_type { MEET_ASK = 1, MEET_ANSWER, MEET_HELLO };
enum meet_verdict { MEET_MINE = 1, MEET_LATER, MEET_NOT_MINE, MEET_REFUSED };

struct meet_body_ask {
	struct meet_tuple tuple;
	uint32_t pid;
};

struct meet_body_answer {
	uint8_t verdict;		/* enum meet_verdict */
	uint8_t reason;			/* enum reason */
};

struct meet_body_hello {
	uint64_t caps;
	uint32_t rnic_bytes;
	uint32_t slots;
	uint64_t ring_bytes;
	uint64_t control_off;
	uint64_t rings_off;
	uint64_t zero;
	uint8_t rnic[MEET_RNIC_BYTES];
	uint8_t opaque[MEET_OPAQUE_BYTES];
};

struct meet_msg {
	uint32_t magic;
	uint16_t version;
	uint8_t type;			/* enum meet_type */
	uint8_t zero;
	uint64_t instance;
	union {
		struct meet_body_ask ask;
		struct meet_body_answer answer;
		struct meet_body_hello hello;
		uint8_t bytes[MEET_MSG_BYTES - 16];
	};
};

/* All bytes zero but magic, version, type and instance. */
void meet_msg_init(struct meet_msg *m, enum meet_type type, uint64_t instance);

/*
 * Send one message; the descriptors stay the caller's.
 * Return: 0; -EAGAIN: the queue is full; -EPIPE: the peer has gone; -EINVAL:
 * descriptors with something that is not a HELLO, or too many; -errno.
 */
int meet_send(int fd, const struct meet_msg *m, const int *fds, unsigned nfds);

/*
 * Take one message.  fds has room for MEET_MAX_FDS; *nfds is set to how many
 * came (private descriptors, the caller's from now on).
 * Return: 1; 0: the peer has closed; -EAGAIN; -EPROTO (nothing is left open); -errno.
 */
int meet_recv(int fd, struct meet_msg *m, int *fds, unsigned *nfds);

#endif
