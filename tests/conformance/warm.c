/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Warming up: small requests and replies, then bulk, until both directions of
 * a connection have had every reason to be on a ring.
 *
 * The client decides when it is enough and says so in its message; each
 * message carries its sender's view of its own two directions.  Without
 * sidestep the program makes the same exchange, only never longer than
 * ROUNDS.  The library's own word is asked for by sidestep_fd_path(), looked
 * up at run time: bit 0 tx on ring, bit 1 rx on ring.
 */
#include "conform.h"

#include <dlfcn.h>
#include <sys/select.h>

enum { ROUNDS = 64, ROUNDS_MAX = 300, SMALL = 200, BULK = 96 * 1024, ON_RING = 3 };

struct small {
	unsigned char last, path;
	char rest[SMALL - 2];
};

int path_of(int fd)
{
	int (*fd_path)(int);

	if (getenv("CONFORM_UNPAIRED"))		/* the other side has no library */
		return ON_RING;
	*(void **)&fd_path = dlsym(RTLD_DEFAULT, "sidestep_fd_path");
	return fd_path ? fd_path(fd) : ON_RING;
}

/*
 * Where faults make a connection come and go, "now, at both ends" may never
 * be seen; there it is enough that each end has been on the ring.
 */
static bool on_ring(struct role *r, int fd)
{
	bool *seen = &r->seen_on_ring[fd == r->c], now = path_of(fd) == ON_RING;

	*seen = *seen || now;
	return now || (*seen && getenv("SIDESTEP_FAULT"));
}

/* Wait in the style of the case, so that the library sees this style used. */
static void style_wait(struct role *r, int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	struct epoll_event ev = { .events = (unsigned short)events };
	fd_set in, out;
	int ep;

	if (r->waiting & WAIT_EPOLL) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		MUST(r, epoll_wait(ep, &ev, 1, 5000));
		MUST(r, close(ep));
	} else if (r->waiting & WAIT_SELECT) {
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_SET(fd, events & POLLIN ? &in : &out);
		MUST(r, select(fd + 1, &in, &out, NULL, &(struct timeval){ .tv_sec = 5 }));
	} else {
		MUST(r, poll(&p, 1, 5000));
	}
}

static void move(struct role *r, int fd, void *buf, size_t len, bool out)
{
	size_t done = 0;
	ssize_t n;

	/* an event loop waits before it reads, also when there is no need to */
	if (r->waiting && !out)
		style_wait(r, fd, POLLIN);
	while (done < len) {
		n = out ? write(fd, (char *)buf + done, len - done)
			: read(fd, (char *)buf + done, len - done);
		if (n == 0)
			give_up(r, "end of stream while warming up");
		if (n > 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			style_wait(r, fd, out ? POLLOUT : POLLIN);
		else
			MUST(r, n);
	}
}

static void small_send(struct role *r, int fd, bool last)
{
	struct small m = { .last = last };

	m.path = on_ring(r, fd);
	memset(m.rest, 'w', sizeof(m.rest));
	move(r, fd, &m, sizeof(m), true);
}

static struct small small_recv(struct role *r, int fd)
{
	struct small m;

	move(r, fd, &m, sizeof(m), false);
	return m;
}

/* Return: whether the server, asked in this round, was on the ring. */
static bool round_play(struct role *r, bool *last)
{
	bool there = false;

	CLIENT(r)
		small_send(r, r->c, *last);
	SERVER(r) {
		*last = small_recv(r, r->s).last;
		small_send(r, r->s, *last);
	}
	CLIENT(r)
		there = small_recv(r, r->c).path;
	return there;
}

static void bulk_play(struct role *r)
{
	char *buf = calloc(1, BULK);

	if (!buf)
		give_up(r, "calloc");
	CLIENT(r)
		move(r, r->c, buf, BULK, true);
	SERVER(r) {
		move(r, r->s, buf, BULK, false);
		move(r, r->s, buf, BULK, true);
	}
	CLIENT(r)
		move(r, r->c, buf, BULK, false);
	free(buf);
}

static void rounds_play(struct role *r)
{
	bool last = false, there;
	int n = 0;

	do {
		n++;
		CLIENT(r)
			last = n == ROUNDS_MAX;
		there = round_play(r, &last);
		if (last)
			return;
		CLIENT(r) {
			if (n >= ROUNDS && there && on_ring(r, r->c))
				break;
			if (n >= ROUNDS)	/* the attach happens in the background */
				poll(NULL, 0, 5);
		}
	} while (1);
	last = true;
	round_play(r, &last);
}

void conn_warm(struct role *r)
{
	int fd[2] = { r->s, r->c }, i;
	long fl[2] = { 0, 0 };

	memset(r->seen_on_ring, 0, sizeof(r->seen_on_ring));
	for (i = 0; i < 2; i++) {
		if (fd[i] < 0)
			continue;
		fl[i] = MUST(r, fcntl(fd[i], F_GETFL));
		if (r->waiting)
			nonblock_set(r, fd[i]);
	}
	rounds_play(r);
	bulk_play(r);
	for (i = 0; i < 2; i++)
		if (fd[i] >= 0)
			MUST(r, fcntl(fd[i], F_SETFL, fl[i]));
}
