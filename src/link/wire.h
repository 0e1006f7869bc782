/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * wire.h - the control messages of a link (doc/wire.md)
 *
 * One fixed size, little endian, version in HELLO.  A message that is
 * malformed, of unknown type, or illegal in its state breaks the link.
 * Records, which travel in-band on the TCP connection, are in proto.h.
 */
#ifndef LINK_WIRE_H
#define LINK_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION	2
#define WIRE_MSG_SIZE	128

/*
 * X(symbol, number, what a and b are)
 * slot is always the number at the end that gets the message; 0 is the link.
 */
#define WIRE_MSGS(X) \
	X(HELLO, 1, "a version, b capabilities") \
	X(BIND, 2, "a sender's tx count, b its rx count; struct wire_bind") \
	X(BOUND, 3, "as BIND: the answer") \
	X(NOT_MINE, 4, "BIND is for somebody else's connection; a echoes BIND's request") \
	X(LATER, 5, "not accepted yet: ask again; a echoes BIND's request") \
	X(GRANT, 6, "the receiver lets its peer switch: evidence holds; a 1 yes, 0 no more") \
	X(SWITCH, 7, "a N; flags b0") \
	X(SWITCHED, 8, "") \
	X(REFUSED, 9, "reason why") \
	X(CREDIT, 10, "a C") \
	X(WANT_CREDIT, 11, "the writer sleeps: send CREDIT as a message") \
	X(PLEASE, 12, "") \
	X(RELEASED, 13, "") \
	X(FIN, 14, "a P") \
	X(UNBIND, 15, "") \
	X(CLOSING, 16, "a C") \
	X(QUIET, 17, "a the sender's kernel count") \
	X(WINDOW, 18, "a new window in bytes; flags 1: all of the ring of RING") \
	X(PING, 19, "a echoed by PONG") \
	X(PONG, 20, "a of PING") \
	X(RESET, 21, "the connection is to be reset; reason why") \
	X(PART, 22, "far: a offset, b bytes of the slab are registered too; bind.rkey") \
	X(WANT_RING, 23, "far: the sender has a use for a ring of a bytes") \
	X(RING, 24, "far: the answer: a ring of a bytes at b; a 0: no memory")

enum wire_type {
#define X(sym, num, text) WIRE_##sym = num,
	WIRE_MSGS(X)
#undef X
	WIRE_TYPE_END
};

static inline const char *wire_name(unsigned int type)
{
	static const char *const names[] = {
#define X(sym, num, text) [num] = #sym,
		WIRE_MSGS(X)
#undef X
	};

	return type < WIRE_TYPE_END && names[type] ? names[type] : "?";
}

struct wire_bind {
	uint8_t addr_tx[16];	/* local address of the sender's socket; IPv4 in the first 4 */
	uint8_t addr_rx[16];	/* its peer's */
	uint16_t port_tx;	/* host value, little endian */
	uint16_t port_rx;
	uint8_t family;		/* 4 or 6 */
	uint8_t ring_log2;	/* receive ring offered, in bytes */
	uint16_t slot;		/* the sender's number for this conn */
	uint64_t ring_off;	/* of that ring in the slab (soft) or its address (verbs) */
	uint32_t rkey;
	uint16_t cold_tx;	/* bytes of each direction under the MAC, up to 4096 */
	uint16_t cold_rx;
	uint64_t nonce;		/* the sender will expect this in the peer's records */
	uint64_t challenge;	/* of this exchange */
	uint8_t mac[32];	/* HMAC-SHA256 */
};

struct wire_msg {
	uint8_t type;		/* enum wire_type */
	uint8_t flags;		/* SWITCH: b0 */
	uint16_t slot;
	uint16_t epoch;
	uint16_t reason;	/* enum reason */
	uint64_t a;
	uint64_t b;
	union {
		uint8_t payload[104];
		struct wire_bind bind;
	};
};

static_assert(sizeof(struct wire_bind) == 104, "fits the payload");
static_assert(offsetof(struct wire_bind, nonce) == 56, "wire layout");
static_assert(sizeof(struct wire_msg) == WIRE_MSG_SIZE, "one fixed size");
static_assert(offsetof(struct wire_msg, a) == 8, "wire layout");
static_assert(offsetof(struct wire_msg, payload) == 24, "wire layout");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structs are the bytes");

#endif
