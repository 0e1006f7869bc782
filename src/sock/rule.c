/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rule.c - see rule.h */
#define _GNU_SOURCE
#include "sock/rule.h"

#include <string.h>

#include "base/config.h"
#include "base/sys.h"
#include "progress/engine.h"
#include "sock/bind.h"
#include "sock/conn.h"

struct end {
	int family;
	uint16_t port;
	const uint8_t *addr;
};

/* An IPv4 address mapped into IPv6 is one of IPv4. */
static bool end_of(struct end *e, const void *sa, socklen_t len)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const struct sockaddr_in *in = sa;
	const struct sockaddr_in6 *in6 = sa;

	if (len >= sizeof(*in) && in->sin_family == AF_INET) {
		*e = (struct end){ AF_INET, ntohs(in->sin_port), (const uint8_t *)&in->sin_addr };
		return true;
	}
	if (len < sizeof(*in6) || in6->sin6_family != AF_INET6)
		return false;
	*e = (struct end){ AF_INET6, ntohs(in6->sin6_port), in6->sin6_addr.s6_addr };
	if (memcmp(e->addr, mapped, sizeof(mapped)) == 0) {
		e->family = AF_INET;
		e->addr += sizeof(mapped);
	}
	return true;
}

/* With both kinds of RNIC it shows only when the peer is found which one it would be. */
static void carry_out(struct conn *c, enum rule_action a)
{
	bool soft = config.rnic.choice == RNIC_SOFT;

	if (a == RULE_TCP)
		bind_give_up(c, REASON_CONFIG);
	else if (a != RULE_VERBS && a != RULE_SOFT)
		return;
	else if (config.rnic.choice == RNIC_AUTO)
		c->only = a == RULE_SOFT ? CONN_ONLY_SOFT : CONN_ONLY_VERBS;
	else if ((a == RULE_VERBS) == soft)
		bind_give_up(c, REASON_NO_RNIC);
}

bool rule_forbids(const struct conn *c, const struct engine_dev *d)
{
	return c->only && (c->only == CONN_ONLY_VERBS) != d->rnic->hardware;
}

void rule_connected(struct conn *c, const struct sockaddr *to, socklen_t len)
{
	struct end e;

	if (config_nrules && end_of(&e, to, len))
		carry_out(c, config_rule(e.port, 0, e.family, e.addr));
}

static uint16_t port_of(struct conn *l)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct end e;

	if (!ld_rlx(&l->listen_port) && sys_getsockname(l->fd, (struct sockaddr *)&sa, &len) == 0 &&
	    end_of(&e, &sa, len))
		st_rlx(&l->listen_port, e.port);
	return ld_rlx(&l->listen_port);
}

void rule_accepted(struct conn *l, struct conn *c, const struct sockaddr_storage *peer)
{
	struct end e;

	if (!config_nrules || !end_of(&e, peer, sizeof(*peer)))
		return;
	uint16_t port = port_of(l);
	carry_out(c, config_rule(port, port, e.family, e.addr));
}
