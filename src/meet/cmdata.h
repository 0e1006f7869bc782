/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * cmdata.h - what two hosts tell each other in rdma_cm's private data (doc/wire.md)
 *
 * A request has 56 bytes on InfiniBand and RoCE, which is all that there is, so
 * what the connection manager tells anyway is left to it: addresses, QP numbers,
 * sequence numbers, path and MTU.  The answer is the same from the other end; a
 * refusal is eight bytes.  Little endian; pure functions.
 */
#ifndef MEET_CMDATA_H
#define MEET_CMDATA_H

#include <stddef.h>
#include <stdint.h>

#define CM_VERSION	2
#define CM_HELLO_BYTES	56
#define CM_REFUSAL_BYTES 8
#define CM_NONCE_BYTES	16
#define CM_RNIC_BYTES	18
#define CM_PAGE		4096u

struct cm_hello {
	uint16_t lport, rport;		/* of the TCP connection, as the sender sees it */
	uint16_t slots;
	uint64_t ring_bytes;		/* a power of two, 4 KiB to 16 MiB */
	uint64_t instance;
	uint8_t nonce[CM_NONCE_BYTES];	/* of the link */
	uint8_t rnic[CM_RNIC_BYTES];	/* the device's own */
	uint16_t part_pages;		/* of the slab that are registered by now, 4 KiB each */
};

/*
 * The port in RDMA's space of the i-th process that accepts at a TCP port, i below
 * CM_PORTS: the first has the same number, the others hold the lowest that is free.
 * Outside of what is given to those who ask for any.
 */
#define CM_PORTS	16
uint16_t cm_port(uint16_t tcp_port, unsigned i);

enum cm_verdict { CM_LATER = 1, CM_NOT_MINE, CM_REFUSED };

struct cm_refusal {
	uint8_t verdict;		/* enum cm_verdict */
	uint8_t reason;			/* enum reason */
};

void cm_hello_put(uint8_t to[CM_HELLO_BYTES], const struct cm_hello *h);

/* What lies behind is the device's padding.
 * Return: 0; -EPROTONOSUPPORT: of another version; -EPROTO: none at all. */
int cm_hello_get(struct cm_hello *h, const void *from, size_t len);

void cm_refusal_put(uint8_t to[CM_REFUSAL_BYTES], const struct cm_refusal *r);
/* As cm_hello_get(). */
int cm_refusal_get(struct cm_refusal *r, const void *from, size_t len);

#endif
