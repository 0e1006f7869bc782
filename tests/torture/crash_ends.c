/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The two ends of a cell; see crash.h. */
#include "crash.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "tests/lib/pattern.h"

enum { SMALL_BUF = 16384, WARM_MAX = 3000, HOLD_MAX = 400, PREFIX = 4096, BULK = 2 << 20 };

static char text[4096];
static volatile sig_atomic_t pipes;
static uint64_t accepted, got;

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static _Noreturn void give_up(const char *what)
{
	printf("saw GAVE UP: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(3);
}

#define MUST(call) ({ long r_ = (long)(call); if (r_ < 0) give_up(#call); r_; })

__attribute__((format(printf, 1, 2)))
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

__attribute__((format(printf, 1, 2)))
static void note(const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
}

/* result of a call as text */
static const char *res(long r)
{
	static char buf[2][32];
	static int i;
	char *b = buf[i++ & 1];

	if (r < 0)
		return strerrorname_np(errno);
	snprintf(b, sizeof(buf[0]), "%ld", r);
	return b;
}

static char told(void)
{
	char c = 0;

	if (read(STDIN_FILENO, &c, 1) != 1)
		_exit(4);	/* the supervisor is no more */
	return c;
}

int path_of(int fd)
{
	int (*fd_path)(int);

	*(void **)&fd_path = dlsym(RTLD_DEFAULT, "sidestep_fd_path");
	return fd_path ? fd_path(fd) : 3;
}

/* ---------------------------------------------------------- connection -- */

static void small_buffers(int fd)
{
	int n = SMALL_BUF;

	MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)));
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof(n)));
}

static int listener_open(const struct cell *c)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	if (c->state == RESENDING)
		small_buffers(fd);
	MUST(bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	MUST(listen(fd, 8));
	MUST(getsockname(fd, (struct sockaddr *)&sa, &len));
	say("port %d", ntohs(sa.sin_port));
	return fd;
}

static int connection_open(const struct cell *c, int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), on = 1;

	if (c->state == RESENDING)
		small_buffers(fd);
	MUST(connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	return fd;
}

static int accepted_fd(int listener)
{
	int fd = (int)MUST(accept(listener, NULL, NULL)), on = 1;

	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	return fd;
}

static void message_out(int fd, bool last)
{
	char m[MESSAGE] = { (char)last, (char)path_of(fd) };

	if (MUST(send(fd, m, sizeof(m), MSG_NOSIGNAL)) != MESSAGE)
		give_up("short message");
}

static char message_in(int fd, bool *last)
{
	char m[MESSAGE];

	if (MUST(recv(fd, m, sizeof(m), MSG_WAITALL)) != MESSAGE)
		give_up("end while warming up");
	*last = m[0];
	return m[1];
}

/* One exchange that the victim leads.  Return: what the survivor says of its paths. */
static char exchange(int fd, bool lead, bool *last)
{
	bool ignored;
	char path = 0;

	if (lead) {
		message_out(fd, *last);
		path = message_in(fd, &ignored);
	} else {
		message_in(fd, last);
		message_out(fd, *last);
	}
	return path;
}

/* Exchanges until the leader has seen enough: both on the ring, or so many. */
static void exchanges(int fd, bool lead, bool ring, unsigned int n)
{
	bool last = false;

	for (unsigned int i = 0; !last; i++) {
		if (lead)
			last = ring ? i >= WARM_MAX : i + 1 >= n;
		char path = exchange(fd, lead, &last);

		if (!lead || last)
			continue;
		if (ring && path == 3 && path_of(fd) == 3) {
			last = true;
			exchange(fd, lead, &last);
		} else if (ring && i >= 30) {
			poll(NULL, 0, 1);	/* the meeting is the background's */
		}
	}
}

/* Only one writes, until its own direction is on the ring. */
static void one_way(int fd, bool writes)
{
	bool last = false;

	for (unsigned int i = 0; !last; i++) {
		if (!writes) {
			message_in(fd, &last);
			continue;
		}
		last = (path_of(fd) & 1) || i >= WARM_MAX;
		message_out(fd, last);
		if (i >= 30)
			poll(NULL, 0, 1);
	}
}

static void put(int fd, size_t n)
{
	char buf[65536];

	while (n) {
		size_t k = n < sizeof(buf) ? n : sizeof(buf);

		pattern_fill(buf, k, accepted, SEED_VICTIM);
		ssize_t w = send(fd, buf, k, MSG_NOSIGNAL);

		if (w < 0 && errno == EAGAIN)
			return;
		MUST(w);
		accepted += (uint64_t)w;
		n -= (size_t)w;
	}
}

/* What the kernel has.  Who asks the library, or peeks, asks for what is behind a switch, too. */
static int queued(int fd)
{
	int n = 0;

	sys_ioctl(fd, FIONREAD, &n);
	return n;
}

/*
 * The survivor reads on, but for the last message, until it is told to stop:
 * who binds wants to have seen the beginning, and a SWITCH is not answered
 * before all in front of it has been read.
 */
static void lag(int fd)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char m[MESSAGE];

	while (poll(&p, 1, 1) == 0) {
		while (queued(fd) >= 2 * MESSAGE) {
			MUST(recv(fd, m, MESSAGE, 0));
			if (pattern_check(m, MESSAGE, got, SEED_VICTIM) >= 0)
				give_up("wrong byte");
			got += MESSAGE;
		}
	}
	told();
}

/* ... and the victim writes, until a piece has gone to the ring (or no ring is there). */
static void write_into_switch(int fd)
{
	put(fd, PREFIX + MESSAGE);
	for (int i = 0; i < HOLD_MAX && !(path_of(fd) & 1); i++) {
		put(fd, MESSAGE);
		poll(NULL, 0, 1);
	}
}

/* Bulk that is read: the windows grow. */
static void bulk(int fd, bool writes)
{
	char buf[4096];

	if (writes)
		put(fd, BULK);
	while (!writes && got < BULK) {
		ssize_t n = MUST(recv(fd, buf, sizeof(buf), 0));

		if (!n || pattern_check(buf, (size_t)n, got, SEED_VICTIM) >= 0)
			give_up("bulk");
		got += (uint64_t)n;
	}
}

void reach(const struct cell *c, int fd, bool victim)
{
	switch (c->state) {
	case NEVER:
		exchanges(fd, victim, false, 2);
		break;
	case MEETING:
		exchanges(fd, victim, false, c->rounds);
		break;
	case SWITCHING:
		exchanges(fd, victim, false, 1);
		victim ? write_into_switch(fd) : lag(fd);
		break;
	case BOTH:
		exchanges(fd, victim, true, 0);
		break;
	case RESENDING:
		exchanges(fd, victim, true, 0);
		bulk(fd, victim);
		break;
	case TO_SURVIVOR:
	case TO_VICTIM:
		exchanges(fd, victim, false, 1);
		one_way(fd, victim == (c->state == TO_SURVIVOR));
		break;
	default:
		break;
	}
}

static void blocking_set(int fd, bool blocking)
{
	int fl = (int)MUST(fcntl(fd, F_GETFL));

	MUST(fcntl(fd, F_SETFL, blocking ? fl & ~O_NONBLOCK : fl | O_NONBLOCK));
}

/* ----------------------------------------------------------------- victim -- */

void die(enum death how)
{
	volatile int *volatile nowhere = NULL;

	switch (how) {
	case BY_SEGV:
		*nowhere = 1;
		break;
	case BY_ABORT:
		abort();
	case BY_TERM:
		kill(getpid(), SIGTERM);
		break;
	default:
		kill(getpid(), SIGKILL);
	}
	for (;;)
		pause();
}

static uint32_t unsent(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	return info.tcpi_notsent_bytes;
}

/* Nobody reads: the ring fills, the slow-reader retreat comes, the kernel fills. */
static void fill_until_stuck(int fd)
{
	uint64_t before = accepted;

	blocking_set(fd, false);
	for (int i = 0; i < 2000 && (accepted < before + SMALL_BUF || !unsent(fd)); i++) {
		put(fd, 64 << 10);
		poll(NULL, 0, 1);
	}
	blocking_set(fd, true);
}

static void flight(const struct cell *c, int fd)
{
	if (c->state == RESENDING)
		fill_until_stuck(fd);
	else
		put(fd, FLIGHT);
}

void victim(const struct cell *c, int port)
{
	int fd, listener = -1;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_DUMPABLE, 0);
	if (!c->victim_connects)
		listener = listener_open(c);
	if (c->kind == UNACCEPTED) {
		say("ready 3");
		told();
		die(c->death);
	}
	fd = c->victim_connects ? connection_open(c, port) : accepted_fd(listener);
	if (c->kind != NOT_ACCEPTED)
		reach(c, fd, true);
	bool late = c->flight && (c->kind == IN_RECV || c->kind == IN_SPIN) &&
		    c->state != SWITCHING && c->state != RESENDING;
	if (c->flight && !late && c->state != SWITCHING)
		flight(c, fd);
	say("accepted %llu", (unsigned long long)accepted + (late ? FLIGHT : 0));
	say("ready %d", path_of(fd));
	if (told() == TELL_WRITE_DIE && late)
		put(fd, FLIGHT);
	die(c->death);
}

/* --------------------------------------------------------------- survivor -- */

static const struct { unsigned int bit; const char *name; } bits[] = {
	{ POLLIN, "IN" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" }, { POLLHUP, "HUP" },
	{ POLLRDHUP, "RDHUP" }, { POLLPRI, "PRI" },
};

static void note_events(const char *what, unsigned int ev)
{
	note(" %s=", what);
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (ev & bits[i].bit)
			note("%s%s", text[strlen(text) - 1] == '=' ? "" : "|", bits[i].name);
}

static void events_now(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };

	poll(&p, 1, 0);
	note_events(what, (unsigned int)p.revents);
}

static bool learnt;
static void learn(void)
{
	if (!learnt)
		say("learnt %.6f", now_s());
	learnt = true;
}

static void on_pipe(int sig)
{
	pipes += sig == SIGPIPE;
}

/* Read to the end, whatever it is. */
static void drain(int fd)
{
	char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		long bad = pattern_check(buf, (size_t)n, got, SEED_VICTIM);

		if (bad >= 0) {
			note(" WRONG BYTE at %llu", (unsigned long long)got + (unsigned long long)bad);
			break;
		}
		got += (uint64_t)n;
	}
	learn();
	note(" end=%s", res(n));
}

static void so_error(int fd)
{
	int e = 0;
	socklen_t len = sizeof(e);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
	note(" so_error=%s", e ? strerrorname_np(e) : "0");
}

static void one_send(int fd)
{
	int before = pipes;
	long r = send(fd, "x", 1, 0);

	note(" send=%s%s", res(r), pipes != before ? "+SIGPIPE" : "");
}

static void one_peek(int fd)
{
	char b;

	note(" peek=%s", res(recv(fd, &b, 1, MSG_PEEK)));
}

/* What is left to be seen; who knows of the death already sees it in another order for each. */
static void tail(const struct cell *c, int fd)
{
	bool knows = c->kind != IN_RECV && c->kind != IN_SPIN && c->kind != UNACCEPTED;
	char b;

	if (knows && c->death == BY_SEGV)
		so_error(fd);
	if (knows && c->death == BY_TERM)
		one_send(fd);
	if (knows && c->death == BY_ABORT)
		one_peek(fd);
	drain(fd);
	note(" again=%s", res(recv(fd, &b, 1, 0)));
	if (c->death == BY_KILL)
		events_now("then", fd);
	so_error(fd);
	one_send(fd);
	one_send(fd);
	one_send(fd);
	so_error(fd);
	events_now("last", fd);
	note(" recv=%s", res(recv(fd, &b, 1, 0)));
}

static void go(void)
{
	say("going");
}

static void in_poll(const struct cell *c, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP | (c->flight ? 0 : POLLIN) };

	go();
	int n = poll(&p, 1, -1);
	learn();
	note(" poll=%s", res(n));
	note_events("ev", (unsigned int)p.revents);
	events_now("now", fd);
}

static void in_epoll(const struct cell *c, int fd)
{
	struct epoll_event ev = { .events = EPOLLRDHUP | (c->flight ? 0 : EPOLLIN) }, out = { 0 };
	int ep = (int)MUST(epoll_create1(0));

	if (c->kind == IN_EPOLL_ET)
		ev.events |= EPOLLET;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	go();
	int n = epoll_wait(ep, &out, 1, -1);
	learn();
	note(" epoll=%s", res(n));
	note_events("ev", out.events);
	n = epoll_wait(ep, &out, 1, 0);
	note(" again=%s", res(n));
	if (n > 0)
		note_events("ev", out.events);
	if (c->kind == IN_EPOLL_ET && n > 0)	/* the second may have been on its way */
		note(" third=%s", res(epoll_wait(ep, &out, 1, 0)));
	events_now("now", fd);
	ev.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
	MUST(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	n = epoll_wait(ep, &out, 1, 0);
	note_events("mod", n > 0 ? out.events : 0);
}

static void in_send(int fd)
{
	size_t n = 64u << 20;
	char *big = calloc(1, n);

	go();
	ssize_t w = send(fd, big, n, 0);
	learn();
	note(" blocked=%s", w > 0 && (size_t)w < n ? "part" : res(w));
	one_send(fd);
	free(big);
}

static void in_poll_out(int fd)
{
	static char piece[65536];
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	ssize_t w;

	blocking_set(fd, false);
	do {
		while ((w = send(fd, piece, sizeof(piece), 0)) > 0)
			;
	} while (errno == EAGAIN && poll(&p, 1, 150) > 0);
	if (errno != EAGAIN)
		give_up("filling");
	go();
	int n = poll(&p, 1, -1);
	learn();
	note(" poll=%s", res(n));
	note_events("ev", (unsigned int)p.revents);
	one_send(fd);
	blocking_set(fd, true);
}

static void look_on(const struct cell *c, int fd)
{
	switch (c->kind) {
	case IN_POLL:
		in_poll(c, fd);
		break;
	case IN_EPOLL:
	case IN_EPOLL_ET:
		in_epoll(c, fd);
		break;
	case IN_SEND:
		in_send(fd);
		break;
	case IN_POLL_OUT:
		in_poll_out(fd);
		break;
	case IDLE:
		go();
		if (told() != TELL_GO)
			give_up("go");
		/* how soon a FIN comes behind bytes that nobody takes is not the matter */
		if (c->state == RESENDING && c->unread)
			poll(&(struct pollfd){ .fd = fd, .events = POLLRDHUP }, 1, 50);
		if (c->state != RESENDING || c->unread)
			events_now("now", fd);
		break;
	case UNACCEPTED:
		go();
		break;
	default:
		go();
	}
}

static void leave_unread(const struct cell *c, int fd)
{
	char buf[UNREAD] = { 0 };

	if (MUST(send(fd, buf, sizeof(buf), 0)) != UNREAD)
		give_up("short write");
	/* the dead side does not read: here too an attach can be held half way */
	for (int i = 0; c->state == SWITCHING && i < HOLD_MAX && !(path_of(fd) & 1); i++) {
		MUST(send(fd, buf, 1, 0));
		poll(NULL, 0, 1);
	}
}

void survivor(const struct cell *c, int port)
{
	int fd = -1, listener = -1;

	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = on_pipe }, NULL);
	if (c->victim_connects)
		listener = listener_open(c);
	if (c->kind == NOT_ACCEPTED) {
		say("ready 3");
		if (told() != TELL_GO || told() != TELL_GO)
			give_up("go");
	}
	fd = c->victim_connects ? accepted_fd(listener) : connection_open(c, port);
	if (c->kind != NOT_ACCEPTED && c->kind != UNACCEPTED)
		reach(c, fd, false);
	if (c->unread && c->kind != IN_SEND && c->kind != IN_POLL_OUT)
		leave_unread(c, fd);
	if (c->kind != NOT_ACCEPTED) {
		say("ready %d", path_of(fd));
		if (told() != TELL_GO)
			give_up("go");
	}
	look_on(c, fd);
	tail(c, fd);
	say("got %llu", (unsigned long long)got);
	say("saw%s", text);
	close(fd);
	exit(0);
}
