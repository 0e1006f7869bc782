/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls that wait, and the waits that make a sequence deterministic.
 *
 * Descriptors in a set are told by their place in the table.  Events that are
 * ready at the same time may come in any order: they are sorted.
 */
#include "actor.h"

#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/time.h>

enum { SET_MAX = 16 };

static int set_new_one(int fd, unsigned int events)
{
	struct epoll_event ev = { .events = events };
	int set = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev);
	return set;
}

/* A wait that found nothing has lasted as long as it was told to. */
static const char *lasted(long long start, long timeout_ms, long r)
{
	return r == 0 && now_ms() - start < timeout_ms - 1 ? " too early" : "";
}

static int poll_call(struct pollfd *p, nfds_t n, int timeout, bool precise)
{
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };

	return precise ? ppoll(p, n, timeout < 0 ? NULL : &ts, NULL) : poll(p, n, timeout);
}

/* poll TIMEOUT PPOLL (PLACE EVENTS)... */
static void poll_any(struct end *e, const struct op *o)
{
	struct pollfd p[SET_MAX];
	long long start = now_ms();
	int i, n = 0, r, used = 0;
	char more[256] = "";

	for (i = 2; i + 1 < o->argc && n < SET_MAX; i += 2)
		p[n++] = (struct pollfd){ .fd = fd_at(e, o->a[i]), .events = (short)o->a[i + 1], .revents = 0x55 };
	mark();
	r = poll_call(p, (nfds_t)n, (int)o->a[0], o->a[1] != 0);
	for (i = 0; i < n && used < 230; i++)
		used += snprintf(more + used, sizeof(more) - (size_t)used, " %#x", (unsigned int)p[i].revents);
	snprintf(more + used, sizeof(more) - (size_t)used, "%s", lasted(start, o->a[0], r));
	say_result(e, o, r, more);
}

static void select_text(char *more, size_t size, const struct end *e, const struct op *o, fd_set set[3])
{
	int i, k, fd, used = 0;

	more[0] = '\0';
	for (i = 2; i + 1 < o->argc && used < (int)size - 16; i += 2) {
		fd = fd_at(e, o->a[i]);
		used += snprintf(more + used, size - (size_t)used, " ");
		for (k = 0; k < 3; k++)
			used += snprintf(more + used, size - (size_t)used, "%d", fd >= 0 && FD_ISSET(fd, &set[k]) ? 1 : 0);
	}
}

/* select TIMEOUT PSELECT (PLACE WHICH)...: which, bits 1 read, 2 write, 4 except */
static void select_any(struct end *e, const struct op *o)
{
	struct timeval tv = { o->a[0] / 1000, o->a[0] % 1000 * 1000L };
	struct timespec ts = { o->a[0] / 1000, o->a[0] % 1000 * 1000000L };
	int i, k, fd, top = 0, r;
	long long start = now_ms();
	fd_set set[3];
	char more[128];

	for (k = 0; k < 3; k++)
		FD_ZERO(&set[k]);
	for (i = 2; i + 1 < o->argc; i += 2) {
		fd = fd_at(e, o->a[i]);
		if (fd < 0)
			continue;
		top = fd >= top ? fd + 1 : top;
		for (k = 0; k < 3; k++)
			if (o->a[i + 1] & 1 << k)
				FD_SET(fd, &set[k]);
	}
	mark();
	r = o->a[1] ? pselect(top, &set[0], &set[1], &set[2], &ts, NULL)
		    : select(top, &set[0], &set[1], &set[2], &tv);
	k = errno;
	select_text(more, sizeof(more) - 16, e, o, set);
	strcat(more, lasted(start, o->a[0], r));
	errno = k;
	say_result(e, o, r, more);
}

/* epcreate PLACE */
static void epcreate_any(struct end *e, const struct op *o)
{
	int fd;

	mark();
	fd = epoll_create1(EPOLL_CLOEXEC);
	say_result(e, o, fd < 0 ? -1 : 0, "");
	fd_put(e, o->a[0], fd);
}

/* epctl SET OP PLACE EVENTS */
static void epctl_any(struct end *e, const struct op *o)
{
	struct epoll_event ev = { .events = (uint32_t)o->a[3], .data.u64 = (uint64_t)o->a[2] };
	int r;

	mark();
	r = epoll_ctl(fd_at(e, o->a[0]), (int)o->a[1], fd_at(e, o->a[2]), o->a[1] == EPOLL_CTL_DEL ? NULL : &ev);
	say_result(e, o, r, "");
}

static int event_cmp(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	if (x->data.u64 == y->data.u64)		/* two numbers of one place, one after the other */
		return (x->events > y->events) - (x->events < y->events);
	return x->data.u64 > y->data.u64 ? 1 : -1;
}

/* epwait SET TIMEOUT HOW: how, 0 epoll_wait, 1 epoll_pwait, 2 epoll_pwait2 */
static void epwait_any(struct end *e, const struct op *o)
{
	struct timespec ts = { o->a[1] / 1000, o->a[1] % 1000 * 1000000L };
	int ep = fd_at(e, o->a[0]), i, n, used = 0, err;
	struct epoll_event ev[SET_MAX] = { 0 };
	long long start = now_ms();
	char more[256] = "";

	mark();
	n = o->a[2] == 0 ? epoll_wait(ep, ev, SET_MAX, (int)o->a[1]) :
	    o->a[2] == 1 ? epoll_pwait(ep, ev, SET_MAX, (int)o->a[1], NULL) :
			   epoll_pwait2(ep, ev, SET_MAX, o->a[1] < 0 ? NULL : &ts, NULL);
	err = errno;
	if (n > 0)
		qsort(ev, (size_t)n, sizeof(ev[0]), event_cmp);
	for (i = 0; i < n && used < 220; i++)
		used += snprintf(more + used, sizeof(more) - (size_t)used, " %llu:%#x",
				 (unsigned long long)ev[i].data.u64, ev[i].events);
	snprintf(more + used, sizeof(more) - (size_t)used, "%s", lasted(start, o->a[1], n));
	errno = err;
	say_result(e, o, n, more);
}

/* A new set, or one in a new set; what it tells of the descriptor. */
static int set_one(int fd, unsigned int events, bool nested, const sigset_t *mask, unsigned int *told)
{
	int in = set_new_one(fd, events), out = nested ? set_new_one(in, EPOLLIN) : -1, n, err;
	struct epoll_event ev = { 0 };

	mark();
	n = epoll_pwait(nested ? out : in, &ev, 1, -1, mask);
	err = errno;
	if (n == 1 && nested && epoll_wait(in, &ev, 1, 0) != 1)
		ev.events = 0;
	*told = n == 1 ? ev.events : 0;
	close(in);
	if (nested)
		close(out);
	errno = err;
	return n;
}

static int select_one(int fd, const sigset_t *mask, unsigned int *told)
{
	fd_set in;
	int n;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	n = mask ? pselect(fd + 1, &in, NULL, NULL, NULL, mask) : select(fd + 1, &in, NULL, NULL, NULL);
	*told = n == 1 && FD_ISSET(fd, &in) ? POLLIN : 0;
	return n;
}

/* Of a set that has the descriptor. */
static int poll_set(int fd, const sigset_t *mask, unsigned int *told)
{
	int set = set_new_one(fd, EPOLLIN), n, err;
	struct pollfd p = { .fd = set, .events = POLLIN };

	mark();
	n = ppoll(&p, 1, NULL, mask);
	err = errno;
	*told = (unsigned int)p.revents;
	close(set);
	errno = err;
	return n;
}

/* HOW: 0 poll, 1 select, 2 epoll, 3 with an edge, 4 once, 5 a set in a set, 6 poll of a set */
static int wait_one(int fd, long how, const sigset_t *mask, unsigned int *told)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
	int n;

	switch (how) {
	case 1: return select_one(fd, mask, told);
	case 2: return set_one(fd, EPOLLIN | EPOLLRDHUP, false, mask, told);
	case 3: return set_one(fd, EPOLLIN | EPOLLRDHUP | EPOLLET, false, mask, told);
	case 4: return set_one(fd, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, false, mask, told);
	case 5: return set_one(fd, EPOLLIN | EPOLLRDHUP, true, mask, told);
	case 6: return poll_set(fd, mask, told);
	default: break;
	}
	n = mask ? ppoll(&p, 1, NULL, mask) : poll(&p, 1, -1);
	*told = (unsigned int)p.revents;
	return n;
}

/* await PLACE HOW: for something to read, as long as it takes */
static void await_any(struct end *e, const struct op *o)
{
	unsigned int told = 0;
	char more[32];
	int r;

	mark();
	r = wait_one(fd_at(e, o->a[0]), o->a[1], NULL, &told);
	snprintf(more, sizeof(more), " %#x", told);
	say_result(e, o, r, more);
}

/*
 * eintr PLACE HOW BYTES: a call that finds less than it wants, or nothing, is interrupted
 * by a timer.  HOW: 0 recv, 1 read, 2 all of BYTES, 10 and more a wait, 20 and more one
 * that lets the signal in.
 */
static void eintr_any(struct end *e, const struct op *o)
{
	struct itimerval every = { { 0, 7000 }, { 0, 7000 } }, never = { 0 };
	int fd = fd_at(e, o->a[0]);
	size_t n = o->a[1] == 2 ? (size_t)o->a[2] : 1;
	unsigned char *buf = calloc(1, n);
	unsigned int told = 0;
	sigset_t alarm, none;
	char more[32];
	long r = -1;

	sigemptyset(&none);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	if (o->a[1] >= 20)
		pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	mark();
	switch (o->a[1]) {
	case 0: r = recv(fd, buf, n, 0); break;
	case 1: r = read(fd, buf, n); break;
	case 2: r = recv(fd, buf, n, MSG_WAITALL); break;
	default: r = wait_one(fd, o->a[1] % 10, o->a[1] >= 20 ? &none : NULL, &told); break;
	}
	int err = errno;
	setitimer(ITIMER_REAL, &never, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	snprintf(more, sizeof(more), " #%08x", digest(buf, n));
	errno = err;
	say_result(e, o, r, more);
	free(buf);
}

/* ---------------------------------------------- waits of the harness -- */

/* arrived PLACE BYTES: until so many wait to be read, no more and no less */
static void arrived_any(struct end *e, const struct op *o)
{
	int n = readable_await(fd_at(e, o->a[0]), (int)o->a[1]);

	if (n != o->a[1])
		say(e, o, "%d bytes have arrived", n);
}

/* drained PLACE: until the peer has all */
static void drained_any(struct end *e, const struct op *o)
{
	int n = -1;

	drained_await(fd_at(e, o->a[0]));
	if (ioctl(fd_at(e, o->a[0]), SIOCOUTQ, &n) == 0 && n)
		say(e, o, "%d bytes are on their way", n);
}

/* settled PLACE EVENTS: until poll says all of these */
static void settled_any(struct end *e, const struct op *o)
{
	int r = event_settled(fd_at(e, o->a[0]), (short)(o->a[1] & ~(POLLHUP | POLLERR)), (short)o->a[1]);

	if ((r & o->a[1]) != o->a[1])
		say(e, o, "only %#x", (unsigned int)r);
}

const struct call wait_calls[] = {
	{ "poll", poll_any },
	{ "select", select_any },
	{ "epcreate", epcreate_any },
	{ "epctl", epctl_any },
	{ "epwait", epwait_any },
	{ "await", await_any },
	{ "eintr", eintr_any },
	{ "arrived", arrived_any },
	{ "drained", drained_any },
	{ "settled", settled_any },
	{ NULL, NULL }
};
