/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * memory.c - the page of a process that has no memfd of it (base/page.h)
 *
 * The library's data is a mapping of its file that may be written; in it is a
 * mark with the page's address.  What stands there is a stranger's word: an
 * address is all that is taken from it, and only ever read from.
 */
#define _GNU_SOURCE
#include "stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define LIBRARY	"libsidestep.so"
#define MOST	(1u << 20)		/* bytes of data that we would ever look through */

struct range {
	unsigned long from, to;
};

/* Of a line of /proc/PID/maps: the library's data? */
static bool is_data(const char *line, struct range *r)
{
	const char *name = strrchr(line, '/');
	char rights[5];

	return name && !strncmp(name + 1, LIBRARY, strlen(LIBRARY)) &&
	       sscanf(line, "%lx-%lx %4s", &r->from, &r->to, rights) == 3 &&
	       rights[1] == 'w' && r->to > r->from && r->to - r->from <= MOST;
}

/* The marked page, 0: none here. */
static off_t look_through(int fd, const struct range *r)
{
	struct page_mark m;
	uint64_t part[512];
	const size_t least = sizeof(m) / sizeof(part[0]);

	/* a mark may stand across two parts, so they overlap */
	for (unsigned long at = r->from; at < r->to; at += sizeof(part) - sizeof(m)) {
		ssize_t n = pread(fd, part, MIN(sizeof(part), (size_t)(r->to - at)), (off_t)at);

		for (size_t i = 0; n > 0 && i + least <= (size_t)n / sizeof(part[0]); i++) {
			memcpy(&m, &part[i], sizeof(m));
			if (m.magic[0] == PAGE_MARK_1 && m.magic[1] == PAGE_MARK_2)
				return (off_t)(uintptr_t)m.page;
		}
	}
	return 0;
}

static int open_mem(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int memory_find(struct source *f, pid_t pid)
{
	char path[64], line[512];
	struct range r;

	*f = (struct source){ -ENOENT, 0 };
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	while (maps && !f->base && fgets(line, sizeof(line), maps)) {
		if (!is_data(line, &r))
			continue;
		if (f->fd < 0)
			f->fd = open_mem(pid);
		if (f->fd < 0)
			break;
		f->base = look_through(f->fd, &r);
	}
	if (maps)
		fclose(maps);
	if (f->fd >= 0 && f->base <= 0) {
		close(f->fd);
		f->fd = -ENOENT;
	}
	return f->fd < 0 ? f->fd : 0;
}
