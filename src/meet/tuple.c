/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tuple.c - a TCP connection as one end sees it, in one canonical form */
#include <string.h>
#include <sys/auxv.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "base/sys.h"
#include "base/util.h"
#include "meet/meet.h"

_Static_assert(sizeof(struct meet_tuple) == 44, "it goes over the wire (msg.h)");

static uint64_t random_turn;

static bool is_mapped(const uint8_t a[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a, prefix, sizeof(prefix)) == 0;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	uint8_t any = 0;

	while (n--)
		any |= *p++;
	return any == 0;
}

static void addr_take4(uint8_t to[16], const void *four)
{
	memset(to, 0, 16);
	memcpy(to, four, 4);
}

static int set_inet(struct meet_tuple *t, const struct sockaddr_storage *local,
		    const struct sockaddr_storage *remote)
{
	const struct sockaddr_in *l = (const void *)local, *r = (const void *)remote;

	t->family = AF_INET;
	t->lport = ntohs(l->sin_port);
	t->rport = ntohs(r->sin_port);
	addr_take4(t->laddr, &l->sin_addr);
	addr_take4(t->raddr, &r->sin_addr);
	return 0;
}

static int set_inet6(struct meet_tuple *t, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *remote)
{
	const struct sockaddr_in6 *l = (const void *)local, *r = (const void *)remote;

	t->lport = ntohs(l->sin6_port);
	t->rport = ntohs(r->sin6_port);
	if (is_mapped(l->sin6_addr.s6_addr) && is_mapped(r->sin6_addr.s6_addr)) {
		t->family = AF_INET;
		addr_take4(t->laddr, l->sin6_addr.s6_addr + 12);
		addr_take4(t->raddr, r->sin6_addr.s6_addr + 12);
		return 0;
	}
	t->family = AF_INET6;
	t->scope = l->sin6_scope_id ? l->sin6_scope_id : r->sin6_scope_id;
	memcpy(t->laddr, &l->sin6_addr, 16);
	memcpy(t->raddr, &r->sin6_addr, 16);
	return 0;
}

int meet_tuple_set(struct meet_tuple *t, const struct sockaddr_storage *local,
		   const struct sockaddr_storage *remote)
{
	memset(t, 0, sizeof(*t));
	if (local->ss_family != remote->ss_family)
		return -EAFNOSUPPORT;
	if (local->ss_family == AF_INET)
		return set_inet(t, local, remote);
	if (local->ss_family == AF_INET6)
		return set_inet6(t, local, remote);
	return -EAFNOSUPPORT;
}

void meet_tuple_swap(struct meet_tuple *out, const struct meet_tuple *t)
{
	struct meet_tuple s = *t;

	s.lport = t->rport;
	s.rport = t->lport;
	memcpy(s.laddr, t->raddr, sizeof(s.laddr));
	memcpy(s.raddr, t->laddr, sizeof(s.raddr));
	*out = s;
}

bool meet_tuple_equal(const struct meet_tuple *a, const struct meet_tuple *b)
{
	return a->family == b->family && a->lport == b->lport && a->rport == b->rport &&
	       memcmp(a->laddr, b->laddr, sizeof(a->laddr)) == 0 &&
	       memcmp(a->raddr, b->raddr, sizeof(a->raddr)) == 0;
}

bool meet_tuple_loopback(const struct meet_tuple *t)
{
	return t->family == AF_INET ? t->raddr[0] == 127 :
	       all_zero(t->raddr, 15) && t->raddr[15] == 1;
}

bool meet_tuple_sane(const struct meet_tuple *t)
{
	if (!t->lport || !t->rport || t->zero)
		return false;
	if (t->family == AF_INET)
		return !t->scope && all_zero(t->laddr + 4, 12) && all_zero(t->raddr + 4, 12);
	return t->family == AF_INET6 && !is_mapped(t->laddr) && !is_mapped(t->raddr);
}

/*
 * Where a filter or an old kernel has no getrandom(): the 16 bytes that each
 * program image is given, which nobody outside has seen, and what makes this
 * call another than the last one, in this process or a child.
 */
static void random_from_start(uint8_t *at, size_t n)
{
	const void *seed = (const void *)getauxval(AT_RANDOM);
	struct {
		uint8_t seed[16];
		uint64_t ticks, ns, turn;
		int pid, tid;
	} in = { .ticks = clock_ticks(), .ns = clock_ns(), .turn = add_rlx(&random_turn, 1),
		 .pid = sys_getpid(), .tid = sys_gettid() };
	uint8_t out[SHA256_BYTES];

	if (seed)
		memcpy(in.seed, seed, sizeof(in.seed));
	for (; n; n -= MIN(n, sizeof(out)), at += sizeof(out)) {
		sha256(&in, sizeof(in), out);
		memcpy(at, out, MIN(n, sizeof(out)));
		in.turn = add_rlx(&random_turn, 1);
	}
}

void meet_random(void *p, size_t n)
{
	uint8_t *at = p;

	while (n) {
		long got = sys3(SYS_getrandom, at, n, 1 /* GRND_NONBLOCK */);

		if (got == -EINTR)
			continue;
		if (got <= 0) {
			random_from_start(at, n);
			return;
		}
		at += got;
		n -= (size_t)got;
	}
}
