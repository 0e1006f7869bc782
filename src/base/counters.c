/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * counters.c - counter blocks and the JSON line
 *
 * Blocks stand in chunks that are mapped and never given back.  A block is
 * taken by compare-and-swap of owner_tid from 0, or from the id of a thread
 * that no longer exists; that look round happens only when no block is free.
 *
 * The first thread that counts makes the page that others may read (page.h),
 * whose blocks then take the place of our own; where there is none, nobody but
 * us can see what is counted.  make_lock is held for that; nothing is counted
 * under it.
 */
#define _GNU_SOURCE
#include "base/counters.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/privfd.h"
#include "base/sys.h"

#define FIRST_BLOCKS 32
#define MORE_BLOCKS  128

struct chunk {
	struct counters *blocks;
	size_t n;
	struct chunk *next;
};

__thread struct counters *counters_mine;

static struct counters first[FIRST_BLOCKS];
static struct chunk first_chunk = { first, FIRST_BLOCKS, NULL };
static struct chunk *chunks = &first_chunk;
static struct chunk page_chunks[1 + (PAGE_BLOCKS - FIRST_BLOCKS) / MORE_BLOCKS];
static struct lock make_lock;
static uint32_t made;			/* the page was tried, and is there or not */
static uint64_t start_ns;

__attribute__((constructor(101))) static void counters_start(void)
{
	start_ns = clock_ns();
}

static const char *const names[] = {
#define X(name, text) [CNT_##name] = #name,
	COUNTERS(X)
#undef X
};

const char *counter_name(enum counter c)
{
	return (unsigned)c < CNT_COUNT ? names[c] : "?";
}

static struct counters *take(uint32_t tid, int look_for_dead)
{
	int pid = look_for_dead ? sys_getpid() : 0;

	/* pairs with grow(): a chunk's fields are visible before its address */
	for (struct chunk *k = ld_acq(&chunks); k; k = k->next) {
		for (size_t i = 0; i < k->n; i++) {
			struct counters *c = &k->blocks[i];
			uint32_t owner = ld_rlx(&c->owner_tid);

			/* the id of a dead predecessor: its block is ours */
			if (owner == tid)
				return c;
			if (owner != 0 && !(look_for_dead &&
					    sys3(SYS_tgkill, pid, owner, 0) == -ESRCH))
				continue;
			if (cas_acqrel(&c->owner_tid, owner, tid))
				return c;
		}
	}
	return NULL;
}

static void push(struct chunk *k)
{
	do
		k->next = ld_acq(&chunks);
	while (!cas_acqrel(&chunks, k->next, k));
}

/* n more of the page's blocks; make_lock held. */
static bool grow_page(struct page *p, uint32_t n)
{
	uint32_t used = p ? p->head.blocks : PAGE_BLOCKS;

	if (used + n > PAGE_BLOCKS || page_populate(&p->blocks[used], n * sizeof(p->blocks[0])))
		return false;
	struct chunk *k = &page_chunks[used ? 1 + (used - FIRST_BLOCKS) / MORE_BLOCKS : 0];

	k->blocks = &p->blocks[used];
	k->n = n;
	st_rlx(&p->head.blocks, used + n);
	push(k);
	return true;
}

static void make_page(void)
{
	lock_take(&make_lock);
	struct page *p = made ? NULL : page_make(start_ns, FIRST_BLOCKS);
	if (p) {
		st_rel(&chunks, NULL);	/* nobody has counted yet */
		grow_page(p, FIRST_BLOCKS);
		st_rel(&page_mine, p);	/* pairs with page_conn() */
		if (page_made)
			page_made(p);
	}
	st_rel(&made, 1);		/* pairs with counters_attach() */
	lock_drop(&make_lock);
}

/* More blocks; make_lock held. */
static int grow(void)
{
	if (grow_page(page_mine, MORE_BLOCKS))
		return 0;

	size_t bytes = sizeof(struct chunk) + CACHE_LINE + MORE_BLOCKS * sizeof(struct counters);
	struct chunk *k = sys_map(bytes, 0);
	if (!k)
		return -ENOMEM;

	uintptr_t blocks = ((uintptr_t)(k + 1) + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);

	k->blocks = (struct counters *)blocks;
	k->n = MORE_BLOCKS;
	push(k);
	if (page_mine)
		add_rlx(&page_mine->head.blocks_lost, MORE_BLOCKS);
	return 0;
}

/* Of many threads that find none free at once, one makes more. */
static struct counters *take_or_grow(uint32_t tid)
{
	lock_take(&make_lock);
	struct counters *c = take(tid, 0);
	if (!c && grow() == 0)
		c = take(tid, 0);
	lock_drop(&make_lock);
	return c;
}

struct counters *counters_attach(void)
{
	if (!ld_acq(&made))
		make_page();

	uint32_t tid = (uint32_t)sys_gettid();
	struct counters *c = take(tid, 0);

	if (!c)
		c = take(tid, 1);
	if (!c)
		c = take_or_grow(tid);
	if (!c)
		c = page_mine ? &page_mine->blocks[0] : &first[0];
	counters_mine = c;
	return c;
}

void counters_sum(struct counters *sum)
{
	memset(sum, 0, sizeof(*sum));
	/* pairs with grow() */
	for (struct chunk *k = ld_acq(&chunks); k; k = k->next) {
		for (size_t i = 0; i < k->n; i++) {
			for (int j = 0; j < CNT_COUNT; j++)
				sum->v[j] += ld_rlx(&k->blocks[i].v[j]);
			for (int j = 0; j < REASON_COUNT; j++)
				sum->reason[j] += ld_rlx(&k->blocks[i].reason[j]);
		}
	}
}

void counters_reset(void)
{
	lock_reset(&make_lock);
	page_forget();
	made = 0;
	chunks = &first_chunk;
	memset(first, 0, sizeof(first));
	counters_mine = NULL;
	start_ns = clock_ns();
}

struct out {
	char *buf;
	size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void put(struct out *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(o->buf + o->len, o->size - o->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->len = MIN(o->len + (size_t)n, o->size - 1);
}

static void put_string(struct out *o, const char *s)
{
	put(o, "\"");
	for (; *s; s++) {
		unsigned char ch = (unsigned char)*s;

		if (ch == '"' || ch == '\\')
			put(o, "\\%c", ch);
		else if (ch < 0x20 || ch >= 0x7f)
			put(o, "\\u%04x", ch);
		else
			put(o, "%c", ch);
	}
	put(o, "\"");
}

static void program_name(char *buf, size_t size)
{
	long fd = sys3(SYS_open, "/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? -1 : sys_read((int)fd, buf, size - 1);

	if (fd >= 0)
		sys_close((int)fd);
	if (n <= 0) {
		snprintf(buf, size, "?");
		return;
	}
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

size_t counters_json(char *buf, size_t size)
{
	struct out o = { buf, size, 0 };
	struct counters sum;
	char comm[64];
	const char *sep = "";

	counters_sum(&sum);
	program_name(comm, sizeof(comm));
	put(&o, "{\"program\":");
	put_string(&o, comm);
	uint64_t up_ms = (clock_ns() - start_ns) / NS_PER_MS;
	put(&o, ",\"pid\":%d,\"uptime_s\":%llu.%03llu", sys_getpid(),
	    (unsigned long long)(up_ms / 1000), (unsigned long long)(up_ms % 1000));
	for (int i = 0; i < CNT_COUNT; i++)
		put(&o, ",\"%s\":%llu", names[i], (unsigned long long)sum.v[i]);
	put(&o, ",\"reasons\":{");
	for (int i = 1; i < REASON_COUNT; i++) {
		if (!sum.reason[i])
			continue;
		put(&o, "%s\"%s\":%llu", sep, reason_name(i), (unsigned long long)sum.reason[i]);
		sep = ",";
	}
	put(&o, "}}\n");
	return o.len;
}

static int open_file(const char *path)
{
	char expanded[4096];
	struct out o = { expanded, sizeof(expanded), 0 };

	expanded[0] = '\0';
	for (const char *s = path; *s; s++) {
		if (s[0] == '%' && s[1] == 'p') {
			put(&o, "%d", sys_getpid());
			s++;
		} else {
			put(&o, "%c", *s);
		}
	}
	return (int)sys3(SYS_open, expanded, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int write_line(int fd)
{
	char line[8192];
	size_t n = counters_json(line, sizeof(line));
	ssize_t done = privfd_write(fd, line, n);

	return done == (ssize_t)n ? 0 : done < 0 ? (int)done : -EIO;
}

int counters_write_file(const char *path)
{
	int fd = open_file(path);

	if (fd < 0)
		return fd;
	int err = write_line(fd);
	sys_close(fd);
	return err;
}

static int kept = -1;

int counters_open(const char *path)
{
	int fd = privfd_adopt(open_file(path));

	if (fd < 0)
		return fd;
	privfd_close(kept);
	kept = fd;
	return 0;
}

int counters_fd(void)
{
	return kept;
}

void counters_open_child(const char *path)
{
	if (strstr(path, "%p"))
		counters_open(path);
}

int counters_write(const char *path)
{
	return privfd_is(kept) ? write_line(kept) : counters_write_file(path);
}
