/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto_rec.c - the in-band records: bytes and back
 *
 *	0 mark  1 type  2 epoch  4 flags  5 version  6 other  8 nonce  16 K  24 P
 *
 * Little endian.  A SWITCHREC is wholly known to its receiver beforehand, so
 * it is compared byte by byte as it comes in (proto_eat.c), never decoded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include "base/atomic.h"
#include "sock/proto.h"
#include "sock/proto_mut.h"

#define REC_VERSION	1
#define MARK_REQUEST	0x51
#define MARK_RESUME	0x52

static void put_le(uint8_t *p, uint64_t v, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		p[i] = v >> (8 * i);
}

static uint64_t get_le(const uint8_t *p, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static uint8_t rec_mark(const struct prec *r)
{
	switch (r->type) {
	case PREC_REQUEST: return MARK_REQUEST;
	case PREC_RESUME: return MARK_RESUME;
	default: return MUT(B0) ? (uint8_t)r->nonce : r->mark;
	}
}

void prec_encode(uint8_t buf[PREC_SIZE], const struct prec *r)
{
	buf[0] = rec_mark(r);
	buf[1] = r->type;
	put_le(buf + 2, r->e, 2);
	buf[4] = r->flags;
	buf[5] = REC_VERSION;
	put_le(buf + 6, r->other, 2);
	put_le(buf + 8, r->nonce, 8);
	put_le(buf + 16, r->K, 8);
	put_le(buf + 24, r->P, 8);
}

static bool rec_valid(const struct prec *r, const uint8_t *buf)
{
	if (buf[5] != REC_VERSION || (r->flags & ~PREC_WANT_YOURS))
		return false;
	switch (r->type) {
	case PREC_SWITCH:
		return !r->flags && !r->other && !r->K && !r->P;
	case PREC_REQUEST:
		return r->mark == MARK_REQUEST && !r->flags && !r->K && !r->P;
	case PREC_RESUME:
		return r->mark == MARK_RESUME && r->K <= r->P &&
		       r->P <= PROTO_COUNT_MAX;
	default:
		return false;
	}
}

int prec_decode(struct prec *r, const uint8_t buf[PREC_SIZE])
{
	*r = (struct prec){
		.mark = buf[0],
		.type = buf[1],
		.e = get_le(buf + 2, 2),
		.flags = buf[4],
		.other = get_le(buf + 6, 2),
		.nonce = get_le(buf + 8, 8),
		.K = get_le(buf + 16, 8),
		.P = get_le(buf + 24, 8),
	};
	return rec_valid(r, buf) ? 0 : -EPROTO;
}
