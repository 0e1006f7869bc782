/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * addr.c - addresses of connections whose process has not learnt them
 *
 * The library asks for the addresses of a connection when it meets its peer,
 * and not before.  Those of the others are found here: the descriptor is a
 * link to socket:[INODE], and /proc/PID/net/tcp says whose that is, in the
 * process' own network namespace.
 */
#define _GNU_SOURCE
#include "stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/nettcp.h"
#include "base/util.h"

static struct table {
	char netns[64];
	struct nettcp *socks;		/* inode 0: free */
	size_t size, used;		/* size: a power of two */
} tables[8];

static struct nettcp *slot(const struct table *t, unsigned long inode)
{
	size_t i = (inode * 0x9e3779b97f4a7c15ul >> 20) & (t->size - 1);

	while (t->socks[i].inode && t->socks[i].inode != inode)
		i = (i + 1) & (t->size - 1);
	return &t->socks[i];
}

static bool grow(struct table *t)
{
	struct table bigger = { .size = t->size ? 2 * t->size : 1024 };

	bigger.socks = calloc(bigger.size, sizeof(*bigger.socks));
	if (!bigger.socks)
		return false;
	for (size_t i = 0; i < t->size; i++)
		if (t->socks[i].inode)
			*slot(&bigger, t->socks[i].inode) = t->socks[i];
	free(t->socks);
	t->socks = bigger.socks;
	t->size = bigger.size;
	return true;
}

static bool load_one(void *arg, const struct nettcp *s)
{
	struct table *t = arg;

	if (!s->inode)
		return true;
	if (2 * t->used >= t->size && !grow(t))
		return false;
	t->used++;
	*slot(t, s->inode) = *s;
	return true;
}

/* The table of pid's network namespace; NULL: too many, or not to be seen. */
static struct table *table_of(pid_t pid)
{
	char path[64], ns[64];
	size_t i;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	ssize_t n = readlink(path, ns, sizeof(ns) - 1);
	if (n <= 0)
		return NULL;
	ns[n] = '\0';
	for (i = 0; i < ARRAY_SIZE(tables) && tables[i].netns[0]; i++)
		if (!strcmp(tables[i].netns, ns))
			return &tables[i];
	if (i == ARRAY_SIZE(tables) || !grow(&tables[i]))
		return NULL;
	strcpy(tables[i].netns, ns);
	nettcp_each(pid, load_one, &tables[i]);
	return &tables[i];
}

static unsigned long inode_of(pid_t pid, int fd)
{
	char path[64], text[64];
	unsigned long inode;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	ssize_t n = readlink(path, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "socket:[%lu]", &inode) == 1 ? inode : 0;
}

static void conn_fill(struct shown_conn *c, const struct table *t, pid_t pid)
{
	unsigned long inode = inode_of(pid, c->e.fd);
	const struct nettcp *s = inode ? slot(t, inode) : NULL;

	if (!s || !s->inode)
		return;
	c->e.family = s->family;
	c->e.lport = s->lport;
	c->e.rport = s->rport;
	memcpy(c->e.laddr, s->laddr, sizeof(s->laddr));
	memcpy(c->e.raddr, s->raddr, sizeof(s->raddr));
}

static void tables_drop(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		free(tables[i].socks);
	memset(tables, 0, sizeof(tables));
}

void addr_fill(struct shown *all, int n)
{
	for (int i = 0; i < n; i++) {
		struct table *t = NULL;
		bool tried = false;

		for (uint32_t j = 0; j < all[i].nconns; j++) {
			struct shown_conn *c = &all[i].conns[j];

			if (c->e.family || c->e.fd < 0)
				continue;
			if (!tried)
				t = table_of(all[i].pid);
			tried = true;
			if (!t)
				break;
			conn_fill(c, t, all[i].pid);
		}
	}
	tables_drop();
}
