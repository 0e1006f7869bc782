/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * find.c - which processes show something
 *
 * Those that have a memfd of our name open; anybody may give a memfd that
 * name, so what is in it decides, and the next one is tried.  A page that a
 * process has from its parent bears another pid.  A process that may have no
 * memfd keeps its page in memory of its own.
 */
#define _GNU_SOURCE
#include "stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINK_TEXT "/memfd:" PAGE_NAME " (deleted)"

void program_of(pid_t pid, char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(buf, (int)size, f))
		snprintf(buf, size, "?");
	if (f)
		fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
}

/* The pid that the process itself sees, in the innermost namespace; 0: unknown. */
static uint32_t inner_pid(pid_t pid)
{
	char path[64], line[256];
	unsigned long inner = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		char *last = strrchr(line, '\t');
		inner = last ? strtoul(last, NULL, 10) : 0;
		break;
	}
	if (f)
		fclose(f);
	return (uint32_t)inner;
}

/* fd of /proc/PID/fd/NAME if that is a page by name, or -errno */
static int open_page(int dirfd, const char *name)
{
	char text[64];
	ssize_t n = readlinkat(dirfd, name, text, sizeof(text));

	if (n != (ssize_t)strlen(LINK_TEXT) || memcmp(text, LINK_TEXT, (size_t)n) != 0)
		return -ENOENT;
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static int take(struct shown *s, const struct source *f, uint32_t inner, bool conns)
{
	int err = read_page(s, f, inner, conns);

	if (err) {
		pid_t pid = s->pid;

		read_free(s);
		memset(s, 0, sizeof(*s));
		s->pid = pid;
	}
	close(f->fd);
	return err;
}

/* Entries of /proc/PID/fd that are pages by name, until one is one indeed. */
static int search(struct shown *s, DIR *d, bool conns)
{
	uint32_t inner = 0;
	int err = -ENOENT;

	for (struct dirent *e; err && (e = readdir(d)) != NULL;) {
		struct source f = { open_page(dirfd(d), e->d_name), 0 };

		if (f.fd == -ENOENT)
			continue;
		if (f.fd < 0) {
			err = f.fd;
			continue;
		}
		inner = inner ? inner : inner_pid(s->pid);
		if (take(s, &f, inner, conns) == 0)
			err = 0;
	}
	return err;
}

static int search_memory(struct shown *s, bool conns)
{
	struct source f;
	int err = memory_find(&f, s->pid);

	if (!err && take(s, &f, inner_pid(s->pid), conns))
		err = -ENOENT;
	return err;
}

int find_one(struct shown *s, pid_t pid, bool conns)
{
	char path[64];
	struct stat st;

	memset(s, 0, sizeof(*s));
	s->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	if (!d)
		return -errno;
	int err = search(s, d, conns);
	if (err)
		err = search_memory(s, conns);
	if (!err) {
		program_of(pid, s->program, sizeof(s->program));
		s->uid = fstat(dirfd(d), &st) ? 0 : st.st_uid;
	}
	closedir(d);
	return err;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct shown *)a)->pid, y = ((const struct shown *)b)->pid;

	return x < y ? -1 : x > y;
}

/* Room for one more, or NULL. */
static struct shown *more(struct shown **all, int n, int *room)
{
	if (n == *room) {
		int next = *room ? 2 * *room : 16;
		void *p = realloc(*all, (size_t)next * sizeof(**all));

		if (!p)
			return NULL;
		*all = p;
		*room = next;
	}
	return &(*all)[n];
}

static int find_each(struct shown **all, DIR *proc, const struct filter *f)
{
	int n = 0, room = 0;

	for (struct dirent *e; (e = readdir(proc)) != NULL;) {
		pid_t pid = (pid_t)atoi(e->d_name);
		struct shown *s;

		if (pid <= 0)
			continue;
		s = more(all, n, &room);
		if (!s)
			return -ENOMEM;
		if (find_one(s, pid, f->conns) == 0)
			n++;
	}
	return n;
}

int find_all(struct shown **all, const struct filter *f)
{
	*all = NULL;
	if (f->pid) {
		int room = 0;
		struct shown *s = more(all, 0, &room);
		int err = s ? find_one(s, f->pid, f->conns) : -ENOMEM;

		if (err) {
			free(*all);
			*all = NULL;
		}
		return err ? err : 1;
	}
	DIR *proc = opendir("/proc");
	if (!proc)
		return -errno;
	int n = find_each(all, proc, f);
	closedir(proc);
	if (n > 0)
		qsort(*all, (size_t)n, sizeof(**all), by_pid);
	return n;
}

void find_free(struct shown *all, int n)
{
	for (int i = 0; i < n; i++)
		read_free(&all[i]);
	free(all);
}

int find_filled(const struct filter *f, struct shown **all)
{
	int n = find_all(all, f);

	if (n < 0)
		fprintf(stderr, "sidestep-stat: pid %d: %s\n", (int)f->pid,
			n == -ENOENT ? "shows nothing; does it run under sidestep?" : strerror(-n));
	else if (f->conns)
		addr_fill(*all, n);
	return n;
}

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
