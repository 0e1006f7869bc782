/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cmdata.c - see cmdata.h */
#include "meet/cmdata.h"

#include <errno.h>
#include <string.h>

#include "base/reasons.h"

#define HELLO_MAGIC	0x43535353u	/* "SSSC" */
#define REFUSAL_MAGIC	0x52535353u	/* "SSSR" */
#define RING_LOG2_LEAST	12
#define RING_LOG2_MOST	24
#define PORTS_FIRST	20000u		/* below any ephemeral range in use */
#define PORTS		12000u

struct hello_bytes {
	uint32_t magic;
	uint8_t version;
	uint8_t ring_log2;
	uint16_t slots;
	uint16_t lport;
	uint16_t rport;
	uint64_t instance;
	uint8_t nonce[CM_NONCE_BYTES];
	uint8_t rnic[CM_RNIC_BYTES];
	uint16_t part_pages;
} __attribute__((packed));

struct refusal_bytes {
	uint32_t magic;
	uint8_t version;
	uint8_t verdict;
	uint8_t reason;
	uint8_t zero;
};

_Static_assert(sizeof(struct hello_bytes) == CM_HELLO_BYTES, "all that a request holds");
_Static_assert(offsetof(struct hello_bytes, instance) == 12, "wire layout");
_Static_assert(offsetof(struct hello_bytes, rnic) == 36, "wire layout");
_Static_assert(sizeof(struct refusal_bytes) == CM_REFUSAL_BYTES, "wire layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structs are the bytes");

uint16_t cm_port(uint16_t tcp_port, unsigned i)
{
	return i ? (uint16_t)(PORTS_FIRST + (tcp_port * CM_PORTS + i) % PORTS) : tcp_port;
}

void cm_hello_put(uint8_t to[CM_HELLO_BYTES], const struct cm_hello *h)
{
	struct hello_bytes b = {
		.magic = HELLO_MAGIC, .version = CM_VERSION,
		.ring_log2 = (uint8_t)__builtin_ctzll(h->ring_bytes), .slots = h->slots,
		.lport = h->lport, .rport = h->rport, .instance = h->instance,
		.part_pages = h->part_pages,
	};

	memcpy(b.nonce, h->nonce, sizeof(b.nonce));
	memcpy(b.rnic, h->rnic, sizeof(b.rnic));
	memcpy(to, &b, sizeof(b));
}

/* Both begin alike, and so will those of every version. */
static int head_check(const void *from, size_t len, size_t least, uint32_t magic)
{
	struct refusal_bytes b;

	if (len < sizeof(b))
		return -EPROTO;
	memcpy(&b, from, sizeof(b));
	if (b.magic != magic)
		return -EPROTO;
	if (b.version != CM_VERSION)
		return -EPROTONOSUPPORT;
	return len < least ? -EPROTO : 0;
}

int cm_hello_get(struct cm_hello *h, const void *from, size_t len)
{
	struct hello_bytes b;
	int err = head_check(from, len, sizeof(b), HELLO_MAGIC);

	if (err)
		return err;
	memcpy(&b, from, sizeof(b));
	if (!b.lport || !b.rport || !b.slots || !b.instance || !b.part_pages ||
	    b.ring_log2 < RING_LOG2_LEAST || b.ring_log2 > RING_LOG2_MOST)
		return -EPROTO;
	*h = (struct cm_hello){ .lport = b.lport, .rport = b.rport, .slots = b.slots,
				.ring_bytes = 1ull << b.ring_log2, .instance = b.instance,
				.part_pages = b.part_pages };
	memcpy(h->nonce, b.nonce, sizeof(h->nonce));
	memcpy(h->rnic, b.rnic, sizeof(h->rnic));
	return 0;
}

void cm_refusal_put(uint8_t to[CM_REFUSAL_BYTES], const struct cm_refusal *r)
{
	struct refusal_bytes b = { .magic = REFUSAL_MAGIC, .version = CM_VERSION,
				   .verdict = r->verdict, .reason = r->reason };

	memcpy(to, &b, sizeof(b));
}

int cm_refusal_get(struct cm_refusal *r, const void *from, size_t len)
{
	struct refusal_bytes b;
	int err = head_check(from, len, sizeof(b), REFUSAL_MAGIC);

	if (err)
		return err;
	memcpy(&b, from, sizeof(b));
	if (b.verdict < CM_LATER || b.verdict > CM_REFUSED || b.reason >= REASON_COUNT)
		return -EPROTO;
	*r = (struct cm_refusal){ .verdict = b.verdict, .reason = b.reason };
	return 0;
}
