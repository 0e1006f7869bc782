/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* text.c - tables for people */
#include "stat.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "1.5M" */
static const char *scaled(double v, double step, char buf[16])
{
	static const char units[] = " KMGTPE";
	int u = 0;

	while (v >= 999.5 && u < 6) {
		v /= step;
		u++;
	}
	if (u)
		snprintf(buf, 16, "%.*f%c", v < 9.95 ? 1 : 0, v, units[u]);
	else
		snprintf(buf, 16, "%.0f", v);
	return buf;
}

static const char *bytes(double v, char buf[16])
{
	return scaled(v, 1024, buf);
}

static const char *times(double v, char buf[16])
{
	return scaled(v, 1000, buf);
}

static const char *age(double s, char buf[16])
{
	if (s < 100)
		snprintf(buf, 16, "%.1fs", s);
	else if (s < 6000)
		snprintf(buf, 16, "%.0fm", s / 60);
	else if (s < 360000)
		snprintf(buf, 16, "%.0fh", s / 3600);
	else
		snprintf(buf, 16, "%.0fd", s / 86400);
	return buf;
}

/* A program may call itself anything; a terminal is not to obey it. */
static const char *printable(const char *s, char buf[32])
{
	size_t n = 0;

	for (; *s && n < 31; s++)
		buf[n++] = isprint((unsigned char)*s) ? *s : '?';
	buf[n] = '\0';
	return buf;
}

const char *text_bytes(double v, char buf[16])
{
	return bytes(v, buf);
}

const char *text_who(const struct shown *s, char buf[48])
{
	char name[32];

	snprintf(buf, 48, "%s/%d", printable(s->program, name), (int)s->pid);
	return buf;
}

static void way(const struct shown *s, const char *name, enum counter tx, enum counter txm,
		enum counter rx, enum counter rxm)
{
	char a[16], b[16], c[16], d[16];

	printf("  %-5s tx %6sB in %s messages, rx %6sB in %s messages\n", name,
	       bytes((double)s->sum.v[tx], a), times((double)s->sum.v[txm], b),
	       bytes((double)s->sum.v[rx], c), times((double)s->sum.v[rxm], d));
}

static void reasons(const struct shown *s)
{
	const char *sep = "  reasons ";

	for (int i = 1; i < REASON_COUNT; i++) {
		if (!s->sum.reason[i])
			continue;
		printf("%s%s %" PRIu64, sep, reason_name((enum reason)i), s->sum.reason[i]);
		sep = ", ";
	}
	if (*sep == ',')
		putchar('\n');
}

static void process(const struct shown *s)
{
	const uint64_t *v = s->sum.v;
	char a[16], name[32];

	printf("%s pid %d uid %u up %s", printable(s->program, name), (int)s->pid,
	       (unsigned)s->uid, age(s->uptime_s, a));
	if (s->other_layout) {
		printf(": sidestep %s counts otherwise than this sidestep-stat\n",
		       printable(s->version, name));
		return;
	}
	printf("%s, connections: %" PRIu64 " seen, %" PRIu64 " ever on a ring\n",
	       s->off ? ", switched off" : "", v[CNT_conns_total], v[CNT_conns_ring_soft] + v[CNT_conns_ring_verbs]);
	way(s, "ring", CNT_ring_tx_bytes, CNT_ring_tx_msgs, CNT_ring_rx_bytes, CNT_ring_rx_msgs);
	way(s, "tcp", CNT_tcp_tx_bytes, CNT_tcp_tx_msgs, CNT_tcp_rx_bytes, CNT_tcp_rx_msgs);
	printf("  attaches %" PRIu64 ", retreats %" PRIu64 " (%" PRIu64 " bytes sent again), stalls %"
	       PRIu64 ", sleeps %" PRIu64 ", wakes %" PRIu64 "\n", v[CNT_attaches],
	       v[CNT_retreats], v[CNT_resent_bytes], v[CNT_stalls], v[CNT_sleeps], v[CNT_wakes]);
	reasons(s);
	for (uint32_t i = 0; i < s->nlinks; i++) {
		const struct page_link *e = &s->links[i].e;
		char peer[32], who[96] = "another host";

		program_of((pid_t)e->peer_pid, peer, sizeof(peer));
		if (e->peer_pid)
			snprintf(who, sizeof(who), "%s pid %u uid %u", printable(peer, name),
				 e->peer_pid, e->peer_uid);
		printf("  link %u to %s: %s, %u connections\n", e->id, who,
		       e->far ? "verbs" : "soft", s->links[i].conns);
	}
	if (s->conns_lost || s->blocks_lost)
		printf("  too many to be shown: %u connections, %u threads\n", s->conns_lost,
		       s->blocks_lost);
}

static const char *count_of(const struct shown_conn *c, uint64_t v, char buf[16])
{
	return c->live ? bytes((double)v, buf) : "-";
}

static void row(const struct shown *s, const struct shown_conn *c)
{
	char l[64], r[64], who[48], n[4][16];

	conn_addr(c, false, l, sizeof(l));
	conn_addr(c, true, r, sizeof(r));
	printf("%-11s %-8s %-16s %-22s %-22s %7s %7s %7s %7s %-22s %d\n", conn_state(c), conn_path(c),
	       conn_reason(c), l, r, count_of(c, c->ring_tx, n[0]), count_of(c, c->ring_rx, n[1]),
	       count_of(c, c->tcp_tx, n[2]), count_of(c, c->tcp_rx, n[3]), text_who(s, who), c->e.fd);
}

void text_show(const struct shown *all, int n, const struct filter *f)
{
	bool head = false;

	for (int i = 0; i < n; i++)
		if (proc_wanted(&all[i], f))
			process(&all[i]);
	for (int i = 0; f->rows && i < n; i++) {
		for (uint32_t j = 0; j < all[i].nconns; j++) {
			if (!conn_wanted(&all[i].conns[j], f))
				continue;
			if (!head)
				printf("\n%-11s %-8s %-16s %-22s %-22s %7s %7s %7s %7s %-22s %s\n",
				       "STATE", "PATH", "REASON", "LOCAL", "REMOTE", "RING-TX",
				       "RING-RX", "TCP-TX", "TCP-RX", "PROGRAM/PID", "FD");
			head = true;
			row(&all[i], &all[i].conns[j]);
		}
	}
}

/* ---------------------------------------------------------------- rates -- */

static const struct {
	const char *head;
	enum counter a, b;		/* their sum */
	const char *(*write)(double v, char buf[16]);
} columns[] = {
	{ "RINGmsg/s", CNT_ring_tx_msgs, CNT_ring_rx_msgs, times },
	{ "RINGB/s", CNT_ring_tx_bytes, CNT_ring_rx_bytes, bytes },
	{ "TCPmsg/s", CNT_tcp_tx_msgs, CNT_tcp_rx_msgs, times },
	{ "TCPB/s", CNT_tcp_tx_bytes, CNT_tcp_rx_bytes, bytes },
	{ "conn/s", CNT_conns_total, CNT_COUNT, times },
	{ "attach/s", CNT_attaches, CNT_COUNT, times },
	{ "retreat/s", CNT_retreats, CNT_COUNT, times },
	{ "stall/s", CNT_stalls, CNT_COUNT, times },
	{ "sleep/s", CNT_sleeps, CNT_COUNT, times },
	{ "wake/s", CNT_wakes, CNT_COUNT, times },
};

static uint64_t column(const struct shown *s, size_t i)
{
	return s->sum.v[columns[i].a] + (columns[i].b == CNT_COUNT ? 0 : s->sum.v[columns[i].b]);
}

static const struct shown *before(const struct shown *s, const struct shown *then, int n)
{
	for (int i = 0; i < n; i++)
		if (then[i].pid == s->pid && then[i].uptime_s <= s->uptime_s)
			return &then[i];
	return NULL;
}

static void rate_row(FILE *out, const struct shown *now, const struct shown *old, double seconds)
{
	char who[48], buf[16];

	fprintf(out, "%-22s", text_who(now, who));
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		uint64_t a = column(old, i), b = column(now, i);
		double rate = b > a ? (double)(b - a) / seconds : 0;

		fprintf(out, " %9s", columns[i].write(rate, buf));
	}
	fputc('\n', out);
}

void text_rates(FILE *out, const struct shown *now, int n, const struct shown *then, int nthen,
		double seconds, bool head, const struct filter *f)
{
	if (head) {
		fprintf(out, "%-22s", "PROGRAM/PID");
		for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
			fprintf(out, " %9s", columns[i].head);
		fputc('\n', out);
	}
	for (int k = 0; k < n; k++) {
		const struct shown *old = before(&now[k], then, nthen);

		if (old && !now[k].other_layout && proc_wanted(&now[k], f))
			rate_row(out, &now[k], old, seconds);
	}
	fflush(out);
}
