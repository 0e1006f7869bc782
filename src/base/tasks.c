/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * tasks.c - see tasks.h
 *
 * /proc/self/task/TID/syscall is one line: "running", or the number of the
 * call and six arguments in hexadecimal, or -1 (Linux 6.18):
 *
 *	# cat /proc/PID/task/TID/syscall
 *	281 0x4 0x7ffc0b6e2a50 0x40 0xffffffff 0x0 0x8 0x7ffc0b6e2a10 0x7f4fe99e7c16
 */
#define _GNU_SOURCE
#include "base/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "base/real.h"
#include "base/sys.h"

#define URING_MAP "anon_inode:[io_uring]"

struct dent {
	uint64_t ino, off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static int open_read(int dir, const char *path)
{
	return PRIVFD_NEW(sys4(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC, 0));
}

/* A number in the given base; *p moves behind it and the blank. */
static unsigned long number(const char **p, unsigned base)
{
	unsigned long v = 0;

	if (base == 16 && (*p)[0] == '0' && (*p)[1] == 'x')
		*p += 2;
	for (;; ++*p) {
		unsigned c = (unsigned char)**p, d = c - '0';

		if (d > 9)
			d = c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
		if (d >= base)
			break;
		v = v * base + d;
	}
	while (**p == ' ')
		++*p;
	return v;
}

/* Return: false for a thread that runs. */
static bool parse(const char *s, struct task_call *call)
{
	if (*s == 'r' || !*s)
		return false;
	*call = (struct task_call){ .nr = -1 };
	if (*s == '-')
		return true;
	call->nr = (long)number(&s, 10);
	for (int i = 0; i < 6; i++)
		call->a[i] = number(&s, 16);
	return true;
}

/* Return: 1 asleep, 0 not or gone, -errno. */
static int task_read(int dir, const char *tid, struct task_call *call)
{
	char path[32], line[256];
	size_t len = strlen(tid);

	if (len > 16)
		return 0;
	memcpy(path, tid, len);
	memcpy(path + len, "/syscall", 9);
	int fd = open_read(dir, path);
	if (fd < 0)
		return fd == -ENOENT && len ? 0 : fd;
	ssize_t n = sys_read(fd, line, sizeof(line) - 1);
	privfd_close(fd);
	if (n < 0)
		return n == -ESRCH ? 0 : (int)n;
	line[n] = 0;
	return parse(line, call);
}

static int each_in(int dir, char *buf, ssize_t n, void (*fn)(void *, const struct task_call *),
		   void *arg)
{
	const int me = sys_gettid();
	int seen = 0;

	for (ssize_t at = 0; at < n;) {
		const struct dent *d = (const void *)(buf + at);
		const char *p = d->name;
		struct task_call call;

		at += d->len;
		if (*p < '0' || *p > '9' || number(&p, 10) == (unsigned long)me)
			continue;
		int ret = task_read(dir, d->name, &call);
		if (ret < 0)
			return ret;
		if (ret)
			fn(arg, &call);
		seen++;
	}
	return seen;
}

int tasks_each(void (*fn)(void *arg, const struct task_call *call), void *arg)
{
	char buf[4096] __attribute__((aligned(8)));
	int dir = open_read(AT_FDCWD, "/proc/self/task"), seen = 0, ret = dir;
	ssize_t n = 0;

	while (ret >= 0 && (n = sys3(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		ret = each_in(dir, buf, n, fn, arg);
		seen += ret;
	}
	privfd_close(dir);
	if (ret >= 0 && n < 0)
		ret = (int)n;
	return ret < 0 ? ret : seen ? 0 : -ENOENT;
}

static int count_in(const char *buf, ssize_t n)
{
	int seen = 0;

	for (ssize_t at = 0; at < n;) {
		const struct dent *d = (const void *)(buf + at);

		at += d->len;
		seen += d->name[0] >= '0' && d->name[0] <= '9';
	}
	return seen;
}

int tasks_total(void)
{
	char buf[1024] __attribute__((aligned(8)));
	int dir = open_read(AT_FDCWD, "/proc/self/task"), seen = 0;
	ssize_t n = dir;

	while (n >= 0 && (n = sys3(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		seen += count_in(buf, n);
	privfd_close(dir);
	return n < 0 ? (int)n : seen;
}

static bool hidden_one;		/* under the lock of bg_start() and bg_stop() */

/* The caller is counted itself, so this never makes the count zero. */
void tasks_hide(void)
{
	int *n = ld_rlx(&real_nthreads);

	hidden_one = n && ld_rlx(n) > 1;
	if (hidden_one)
		sub_acqrel(n, 1);
}

void tasks_unhide(void)
{
	int *n = ld_rlx(&real_nthreads);

	if (hidden_one)
		add_acqrel(n, 1);
	if (n && ld_rlx(n) < 2)		/* in an exit() that libc's last thread is in already */
		add_acqrel(n, 1);
	hidden_one = false;
}

void tasks_forget(void)
{
	hidden_one = false;
}

int tasks_counted(void)
{
	const int *n = ld_rlx(&real_nthreads);

	return n ? ld_acq(n) : -ENOSYS;	/* pairs with libc's own: what they did is done */
}

ssize_t tasks_peek(unsigned long from, void *to, size_t n)
{
	struct iovec l = { to, n }, r = { (void *)from, n };

	return sysn6(SYS_process_vm_readv, sys_gettid(), &l, 1, &r, 1, 0);
}

static bool uring_mapped(int fd)
{
	const size_t keep = sizeof(URING_MAP) - 2;	/* it may lie across two reads */
	char buf[4096];
	size_t have = 0;
	ssize_t n;

	while ((n = sys_read(fd, buf + have, sizeof(buf) - have)) > 0) {
		have += (size_t)n;
		if (memmem(buf, have, URING_MAP, sizeof(URING_MAP) - 1))
			return true;
		size_t tail = MIN(have, keep);
		memmove(buf, buf + have - tail, tail);
		have = tail;
	}
	return false;
}

bool tasks_uring(uint64_t now_ns)
{
	static uint64_t looked_ns;	/* the background thread's alone */
	static bool there;

	if (there || (looked_ns && now_ns - looked_ns < NS_PER_S))
		return there;
	looked_ns = now_ns;
	int fd = open_read(AT_FDCWD, "/proc/thread-self/maps");
	if (fd >= 0)
		there = uring_mapped(fd);
	privfd_close(fd);
	return there;
}

static uint64_t cpu_ns(int clock)
{
	struct timespec ts = { 0, 0 };

	sys2(SYS_clock_gettime, clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t tasks_cpu_ns(void)
{
	return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}
