/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * read.c - one process' page
 *
 * The tables are read twice.  An entry is taken when its gen is odd and the
 * same both times and so are the fields that name the connection: then it was
 * one connection's all the time between the two.  The rest of the fields are
 * single words, each true at some moment between.  Entries in between two
 * connections are read a few times more, and then left out.
 */
#define _GNU_SOURCE
#include "stat.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

#define TRIES	3
#define LIVE_MAX 8192			/* bytes of a struct conn that we would ever read */
#define LIVE_VECS 512			/* at a time */

static bool read_at(const struct source *f, void *p, size_t n, size_t off)
{
	return pread(f->fd, p, n, f->base + (off_t)off) == (ssize_t)n;
}

static void sum_blocks(struct shown *s, const struct counters *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		for (int j = 0; j < CNT_COUNT; j++)
			s->sum.v[j] += b[i].v[j];
		for (int j = 0; j < REASON_COUNT; j++)
			s->sum.reason[j] += b[i].reason[j];
	}
}

static int read_counters(struct shown *s, const struct source *f, uint32_t blocks)
{
	struct counters b[32];

	for (uint32_t i = 0; i < blocks; i += ARRAY_SIZE(b)) {
		uint32_t n = MIN((uint32_t)ARRAY_SIZE(b), blocks - i);

		if (!read_at(f, b, n * sizeof(b[0]), offsetof(struct page, blocks) + i * sizeof(b[0])))
			return -EPROTO;
		sum_blocks(s, b, n);
	}
	return 0;
}

static int read_links(struct shown *s, const struct source *f)
{
	struct page_link l[PAGE_LINKS];

	if (!read_at(f, l, sizeof(l), offsetof(struct page, links)))
		return -EPROTO;
	for (uint32_t i = 0; i < PAGE_LINKS; i++)
		if (l[i].id)
			s->links[s->nlinks++].e = l[i];
	return 0;
}

static bool same_conn(const struct page_conn *a, const struct page_conn *b)
{
	return (a->gen & 1) && a->gen == b->gen && a->at == b->at && a->family == b->family &&
	       a->lport == b->lport && a->rport == b->rport &&
	       !memcmp(a->laddr, b->laddr, sizeof(a->laddr)) &&
	       !memcmp(a->raddr, b->raddr, sizeof(a->raddr));
}

static bool settle(const struct source *f, uint32_t i, struct page_conn *a, struct page_conn *b)
{
	size_t off = offsetof(struct page, conns) + i * sizeof(*a);

	for (int t = 0; t < TRIES && ((a->gen | b->gen) & 1); t++) {
		if (same_conn(a, b))
			return true;
		*a = *b;
		if (!read_at(f, b, sizeof(*b), off))
			return false;
	}
	return same_conn(a, b);
}

/* Into the ranges that tables have. */
static void tame(struct page_conn *e)
{
	if (e->why >= REASON_COUNT)
		e->why = REASON_INTERNAL;
	if (e->last >= REASON_COUNT)
		e->last = REASON_INTERNAL;
	if (e->tx_path >= PATH_COUNT)
		e->tx_path = PATH_TCP;
	if (e->rx_path >= PATH_COUNT)
		e->rx_path = PATH_TCP;
	if (e->family != AF_INET && e->family != AF_INET6)
		e->family = 0;
}

static void take_conn(struct shown *s, const struct page_conn *e)
{
	struct shown_conn *c = &s->conns[s->nconns++];

	*c = (struct shown_conn){ .e = *e, .ring_tx = e->ring_tx, .ring_rx = e->ring_rx };
	tame(&c->e);
	for (uint32_t i = 0; e->link && i < s->nlinks; i++)
		if (s->links[i].e.id == e->link) {
			s->links[i].conns++;
			c->verbs = s->links[i].e.far;
		}
}

static int read_conns(struct shown *s, const struct source *f, uint32_t n)
{
	size_t bytes = n * sizeof(struct page_conn), off = offsetof(struct page, conns);
	struct page_conn *a = aligned_alloc(CACHE_LINE, 2 * bytes + CACHE_LINE), *b = a + n;
	int err = 0;

	s->conns = calloc(n ? n : 1, sizeof(*s->conns));
	if (!a || !s->conns)
		err = -ENOMEM;
	else if (n && (!read_at(f, a, bytes, off) || !read_at(f, b, bytes, off)))
		err = -EPROTO;
	for (uint32_t i = 0; !err && i < n; i++)
		if (settle(f, i, &a[i], &b[i]))
			take_conn(s, &b[i]);
	free(a);
	return err;
}

static double since(uint64_t start_ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	double now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9, then = (double)start_ns * 1e-9;
	return now > then ? now - then : 0;
}

int read_page(struct shown *s, const struct source *f, uint32_t inner_pid, bool conns)
{
	struct page_head h;

	if (!read_at(f, &h, sizeof(h), 0) || h.magic != PAGE_MAGIC || h.pid != inner_pid)
		return -EPROTO;
	memcpy(s->version, h.version, sizeof(h.version));
	s->uptime_s = since(h.start_ns);
	if (h.layout != page_layout()) {
		s->other_layout = true;
		return 0;
	}
	s->off = h.off != 0;
	s->conns_lost = h.conns_lost;
	s->blocks_lost = h.blocks_lost;
	int err = read_counters(s, f, MIN(h.blocks, (uint32_t)PAGE_BLOCKS));
	if (!err)
		err = read_links(s, f);
	if (!err && conns)
		err = read_conns(s, f, MIN(h.conns, (uint32_t)PAGE_CONNS));
	if (!err && conns)
		read_live(s, &h.live);
	return err;
}

void read_free(struct shown *s)
{
	free(s->conns);
	s->conns = NULL;
	s->nconns = 0;
}

/* ----------------------------------------------------------------- live -- */

static uint64_t word(const uint8_t *conn, uint32_t off)
{
	uint64_t v;

	memcpy(&v, conn + off, sizeof(v));
	return v;
}

static void take_live(struct shown_conn *c, const uint8_t *m, const struct page_live *l)
{
	c->live = true;
	c->tcp_tx = word(m, l->tx_kernel);
	c->tcp_rx = word(m, l->rx_kernel);
	if (c->e.tx_path != PATH_TCP)
		c->ring_tx += word(m, l->tx_ring);
	uint64_t given = word(m, l->rx_given), base = word(m, l->rx_base);
	if (c->e.rx_path != PATH_TCP && given >= base)
		c->ring_rx += given - base;
}

static bool live_sane(const struct page_live *l)
{
	const uint32_t off[] = { l->tx_kernel, l->tx_ring, l->rx_kernel, l->rx_given, l->rx_base };

	for (size_t i = 0; i < ARRAY_SIZE(off); i++)
		if (off[i] > LIVE_MAX || off[i] + sizeof(uint64_t) > l->bytes)
			return false;
	return l->bytes <= LIVE_MAX;
}

/* Return: how many of the n from first on could be read. */
static uint32_t live_some(struct shown *s, uint32_t first, uint32_t n, uint8_t *buf,
			  const struct page_live *l)
{
	struct iovec here = { buf, (size_t)n * l->bytes }, there[LIVE_VECS];

	for (uint32_t i = 0; i < n; i++)
		there[i] = (struct iovec){ (void *)(uintptr_t)s->conns[first + i].e.at, l->bytes };
	ssize_t got = process_vm_readv(s->pid, &here, 1, there, n, 0);
	uint32_t whole = got > 0 ? (uint32_t)((size_t)got / l->bytes) : 0;
	for (uint32_t i = 0; i < whole; i++)
		take_live(&s->conns[first + i], buf + (size_t)i * l->bytes, l);
	return whole;
}

void read_live(struct shown *s, const struct page_live *l)
{
	uint8_t *buf = live_sane(l) ? malloc((size_t)LIVE_VECS * l->bytes) : NULL;

	for (uint32_t i = 0; buf && i < s->nconns;) {
		uint32_t n = live_some(s, i, MIN(s->nconns - i, (uint32_t)LIVE_VECS), buf, l);

		if (!n)
			break;		/* not allowed, or the process is gone */
		i += n;
	}
	free(buf);
}
