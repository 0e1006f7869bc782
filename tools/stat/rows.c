/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rows.c - what a connection's row says, the same in every output */
#include "stat.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

const char *conn_path(const struct shown_conn *c)
{
	static const char *const names[2][4] = {
		{ "tcp", "soft-tx", "soft-rx", "soft" },
		{ "tcp", "verbs-tx", "verbs-rx", "verbs" },
	};

	return names[c->verbs][(c->e.tx_path == PATH_RING) + 2 * (c->e.rx_path == PATH_RING)];
}

const char *conn_reason(const struct shown_conn *c)
{
	enum reason why = c->e.why;

	if (c->e.tx_path == PATH_RING && c->e.rx_path == PATH_RING)
		return reason_name(REASON_NONE);
	/* it is no connection (yet): there is nothing to give a reason for */
	if (!(c->e.flags & (SHOW_ESTABLISHED | SHOW_CLOSING)) && !c->e.retreats &&
	    (why == REASON_NOT_WARM || why == REASON_CLOSED_FIRST))
		return reason_name(REASON_NONE);
	/* what it would be, if it ended now; it has not */
	if (why == REASON_CLOSED_FIRST && !(c->e.flags & SHOW_CLOSING))
		why = REASON_NOT_WARM;
	if (c->e.retreats && (why == REASON_NOT_WARM || why == REASON_CLOSED_FIRST))
		why = c->e.last;
	return reason_name(why);
}

const char *conn_state(const struct shown_conn *c)
{
	if (c->e.flags & SHOW_CLOSING)
		return "closing";
	if (c->e.flags & SHOW_LISTENING)
		return "listening";
	if (!(c->e.flags & SHOW_ESTABLISHED))
		return "unconnected";
	if (c->e.tx_path == PATH_RING || c->e.rx_path == PATH_RING)
		return "ring";
	return c->e.link ? "bound" : "cold";
}

void conn_addr(const struct shown_conn *c, bool remote, char *buf, size_t size)
{
	char text[INET6_ADDRSTRLEN];
	uint16_t port = remote ? c->e.rport : c->e.lport;

	if (!c->e.family || !inet_ntop(c->e.family, remote ? c->e.raddr : c->e.laddr, text,
				       sizeof(text)))
		snprintf(buf, size, "-");
	else if (c->e.family == AF_INET6)
		snprintf(buf, size, "[%s]:%u", text, port);
	else
		snprintf(buf, size, "%s:%u", text, port);
}

bool conn_wanted(const struct shown_conn *c, const struct filter *f)
{
	if (f->port && (!c->e.family || (c->e.lport != f->port && c->e.rport != f->port)))
		return false;
	return !f->path || !strncmp(conn_path(c), f->path, strlen(f->path));
}

bool proc_wanted(const struct shown *s, const struct filter *f)
{
	if (!f->port && !f->path)
		return true;
	for (uint32_t i = 0; i < s->nconns; i++)
		if (conn_wanted(&s->conns[i], f))
			return true;
	return false;
}

const struct shown_link *conn_link(const struct shown *s, const struct shown_conn *c)
{
	for (uint32_t i = 0; c->e.link && i < s->nlinks; i++)
		if (s->links[i].e.id == c->e.link)
			return &s->links[i];
	return NULL;
}
