/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* page.c - see page.h */
#define _GNU_SOURCE
#include "base/page.h"

#include <config.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/privfd.h"
#include "base/sys.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct page *page_mine;
void (*page_made)(struct page *p);
static bool allowed;			/* to make one */
static bool silent;			/* no system call any more */
static int page_fd = -1;
static struct page *page_base;
static bool alone;			/* page_base is memory of our own, no file's */
/* found by who may read our memory; its magic is what he looks for */
__attribute__((used)) static struct page_mark mark = { { PAGE_MARK_1, PAGE_MARK_2 }, NULL };

static uint32_t mix(uint32_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return (h ^ 10) * 16777619u;
}

uint32_t page_layout(void)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < CNT_COUNT; i++)
		h = mix(h, counter_name((enum counter)i));
	for (int i = 0; i < REASON_COUNT; i++)
		h = mix(h, reason_name((enum reason)i));
	return (h ^ (uint32_t)sizeof(struct page)) * 16777619u;
}

void page_allow(void)
{
	st_rlx(&allowed, true);
	st_rlx(&silent, false);
}

void page_forbid(void)
{
	st_rlx(&allowed, false);
	st_rlx(&silent, true);
}

/*
 * Without a filter from the start?  One may kill for what the program itself
 * does not call; open, read and close the loader has made before us.
 */
bool page_unfiltered(void)
{
	static const char want[] = "\nSeccomp:\t0\n";
	char text[4096];
	long fd = sys4(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? -1 : sys_read((int)fd, text, sizeof(text));

	if (fd >= 0)
		sys_close((int)fd);
	return n > 0 && memmem(text, (size_t)n, want, sizeof(want) - 1);
}

/* A file that grows beyond RLIMIT_FSIZE is answered by a signal. */
static bool size_allowed(void)
{
	struct rlimit rl;

	return sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &rl) == 0 && rl.rlim_cur >= PAGE_BYTES;
}

static int make_fd(void)
{
	int fd = (int)sys2(SYS_memfd_create, PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return fd;
	if (sys2(SYS_ftruncate, fd, PAGE_BYTES)) {
		sys_close(fd);
		return -ENOMEM;
	}
	return privfd_adopt(fd);
}

int page_populate(void *at, size_t n)
{
	if (ld_rlx(&alone))
		return 0;
	int err = ld_rlx(&silent) ? -EPERM : sys_populate(at, n);

	if (err == -EINVAL && privfd_is(ld_rlx(&page_fd)))	/* a kernel before 5.14 */
		err = (int)sys4(SYS_fallocate, page_fd, 0, (char *)at - (char *)page_base, n);
	return err;
}

static int populate_first(struct page *p, uint32_t blocks)
{
	int err = page_populate(p, offsetof(struct page, blocks) + blocks * sizeof(p->blocks[0]));

	return err ? err : page_populate(p->links, sizeof(p->links));
}

static struct page *map(int fd)
{
	long p = sys_mmap(PAGE_BYTES, MAP_SHARED, fd);

	if (p < 0 && p > -4096)
		return NULL;
	/* our own mapping goes on writing; a kernel before 5.1 knows no such seal */
	if (sys_fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE))
		sys_fcntl(fd, F_ADD_SEALS, SEALS);
	sys3(SYS_madvise, p, PAGE_BYTES, MADV_DONTDUMP);
	return (struct page *)p;
}

static struct page *of_a_file(uint32_t blocks)
{
	int fd = page_unfiltered() && size_allowed() ? make_fd() : -EPERM;
	struct page *p = fd < 0 ? NULL : map(fd);

	page_fd = fd;
	page_base = p;
	if (p && !populate_first(p, blocks))
		return p;
	privfd_close(fd);
	page_fd = -1;
	if (p)
		sys_unmap(p, PAGE_BYTES);
	return NULL;
}

/* By a call that malloc() makes, too. */
static struct page *of_our_own(void)
{
	struct page *p = sys_map(PAGE_BYTES, MAP_NORESERVE);

	page_base = p;
	st_rlx(&alone, p != NULL);
	return p;
}

struct page *page_make(uint64_t start_ns, uint32_t blocks)
{
	if (!ld_rlx(&allowed))
		return NULL;
	st_rlx(&allowed, false);	/* one try a process */
	struct page *p = of_a_file(blocks);
	if (!p)
		p = of_our_own();
	if (!p)
		return NULL;
	p->head.layout = page_layout();
	p->head.pid = (uint32_t)sys_getpid();
	p->head.start_ns = start_ns;
	strncpy(p->head.version, PACKAGE_VERSION, sizeof(p->head.version) - 1);
	st_rel(&p->head.magic, PAGE_MAGIC);
	st_rlx(&mark.page, p);
	return p;
}

bool page_close(void)
{
	int fd = xchg_acqrel(&page_fd, -1);	/* pairs with itself: one closes it */

	if (fd < 0 || !privfd_is(fd))
		return false;
	privfd_close(fd);
	return true;
}

void page_forget(void)
{
	struct page *p = page_mine;

	st_rlx(&page_mine, NULL);
	st_rlx(&mark.page, NULL);
	st_rlx(&alone, false);
	page_fd = -1;
	if (!p)
		return;
	sys_unmap(p, PAGE_BYTES);
	page_allow();
}
