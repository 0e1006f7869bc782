/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* machine.c - output for programs: JSON, and Prometheus' text format */
#include "stat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../lib/json.h"

static void json_counters(const struct shown *s)
{
	for (int i = 0; i < CNT_COUNT; i++)
		json_number(counter_name((enum counter)i), s->sum.v[i]);
	json_open("reasons", '{');
	for (int i = 1; i < REASON_COUNT; i++)
		if (s->sum.reason[i])
			json_number(reason_name((enum reason)i), s->sum.reason[i]);
	json_close('}');
}

static void json_links(const struct shown *s)
{
	json_open("link_list", '[');
	for (uint32_t i = 0; i < s->nlinks; i++) {
		json_open(NULL, '{');
		json_number("link", s->links[i].e.id);
		json_string("rnic", s->links[i].e.far ? "verbs" : "soft");
		json_number("peer_pid", s->links[i].e.peer_pid);
		json_number("peer_uid", s->links[i].e.peer_uid);
		json_number("ring_bytes", s->links[i].e.ring_bytes);
		json_number("connections", s->links[i].conns);
		json_close('}');
	}
	json_close(']');
}

static void json_conn(const struct shown *s, const struct shown_conn *c)
{
	const struct shown_link *l = conn_link(s, c);
	char addr[64];

	json_open(NULL, '{');
	json_signed("fd", c->e.fd);
	json_string("state", conn_state(c));
	json_string("path", conn_path(c));
	json_string("reason", conn_reason(c));
	conn_addr(c, false, addr, sizeof(addr));
	json_string("local", c->e.family ? addr : NULL);
	conn_addr(c, true, addr, sizeof(addr));
	json_string("remote", c->e.family ? addr : NULL);
	json_bool("connected", c->e.flags & SHOW_ACTIVE);
	json_bool("inherited", c->e.flags & SHOW_INHERITED);
	json_number("link", c->e.link);
	json_number("peer_pid", l ? l->e.peer_pid : 0);
	json_number("attaches", c->e.attaches);
	json_number("retreats", c->e.retreats);
	if (c->live) {
		json_number("ring_tx_bytes", c->ring_tx);
		json_number("ring_rx_bytes", c->ring_rx);
		json_number("tcp_tx_bytes", c->tcp_tx);
		json_number("tcp_rx_bytes", c->tcp_rx);
	}
	json_close('}');
}

static void json_process(const struct shown *s, const struct filter *f)
{
	json_open(NULL, '{');
	json_string("program", s->program);
	json_signed("pid", s->pid);
	json_number("uid", s->uid);
	json_string("version", s->version);
	json_real("uptime_s", s->uptime_s);
	if (!s->other_layout) {
		json_bool("off", s->off);
		json_counters(s);
		json_number("connections_not_shown", s->conns_lost);
		json_links(s);
	}
	if (f->rows && !s->other_layout) {
		json_open("connections", '[');
		for (uint32_t i = 0; i < s->nconns; i++)
			if (conn_wanted(&s->conns[i], f))
				json_conn(s, &s->conns[i]);
		json_close(']');
	}
	json_close('}');
}

void json_show(const struct shown *all, int n, const struct filter *f)
{
	json_open(NULL, '{');
	json_open("processes", '[');
	for (int i = 0; i < n; i++)
		if (proc_wanted(&all[i], f))
			json_process(&all[i], f);
	json_close(']');
	json_close('}');
}

/* ----------------------------------------------------------- Prometheus -- */

static const char *const texts[] = {
#define X(name, text) [CNT_##name] = text,
	COUNTERS(X)
#undef X
};

/* of a process: a label's value is quoted as a JSON string is, near enough */
static void labels(const struct shown *s)
{
	char plain[sizeof(s->program)];
	size_t n = 0;

	for (const char *p = s->program; *p && n < sizeof(plain) - 1; p++)
		plain[n++] = *p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\' ? *p : '_';
	plain[n] = '\0';
	printf("program=\"%s\",pid=\"%d\"", plain, (int)s->pid);
}

static void one(const char *metric, const struct shown *s, const char *label, const char *value,
		uint64_t v)
{
	printf("%s{", metric);
	labels(s);
	if (label)
		printf(",%s=\"%s\"", label, value);
	printf("} %" PRIu64 "\n", v);
}

static void metric_head(const char *name, const char *help, const char *type)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void conns_by_path(const struct shown *s, const struct filter *f)
{
	uint64_t soft = 0, verbs = 0, tcp = 0;

	for (uint32_t i = 0; i < s->nconns; i++) {
		const struct shown_conn *c = &s->conns[i];

		if (!(c->e.flags & SHOW_ESTABLISHED) || !conn_wanted(c, f))
			continue;
		if (!strcmp(conn_path(c), "tcp"))
			tcp++;
		else if (c->verbs)
			verbs++;
		else
			soft++;
	}
	one("sidestep_connections", s, "path", "soft", soft);
	one("sidestep_connections", s, "path", "verbs", verbs);
	one("sidestep_connections", s, "path", "tcp", tcp);
}

static bool shown_as_metrics(const struct shown *s, const struct filter *f)
{
	return !s->other_layout && proc_wanted(s, f);
}

void prometheus_show(const struct shown *all, int n, const struct filter *f)
{
	char name[64];

	for (int c = 0; c < CNT_COUNT; c++) {
		snprintf(name, sizeof(name), "sidestep_%s%s", counter_name((enum counter)c),
			 c == CNT_conns_total ? "" : "_total");
		metric_head(name, texts[c], "counter");
		for (int i = 0; i < n; i++)
			if (shown_as_metrics(&all[i], f))
				one(name, &all[i], NULL, NULL, all[i].sum.v[c]);
	}
	metric_head("sidestep_reasons_total", "why connections are not on a ring, or left it", "counter");
	for (int i = 0; i < n; i++)
		for (int r = 1; shown_as_metrics(&all[i], f) && r < REASON_COUNT; r++)
			if (all[i].sum.reason[r])
				one("sidestep_reasons_total", &all[i], "reason",
				    reason_name((enum reason)r), all[i].sum.reason[r]);
	if (!f->conns)
		return;
	metric_head("sidestep_connections", "connections now, by the way they take", "gauge");
	for (int i = 0; i < n; i++)
		if (shown_as_metrics(&all[i], f))
			conns_by_path(&all[i], f);
}
