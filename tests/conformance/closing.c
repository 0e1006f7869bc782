/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The end of a connection with something on its way: full buffers, blocked calls, SO_LINGER, exit. */
#include "conform.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "tests/lib/pattern.h"

enum { MUCH = 64 << 20, PIECE = 64 * 1024 };

static __thread volatile sig_atomic_t pipes;

static void on_signal(int sig)
{
	pipes += sig == SIGPIPE;
}

static void handler_set(int sig)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(sig, &sa, NULL);
	pipes = 0;
}

static void linger_set(struct role *r, int fd, int seconds)
{
	struct linger lg = { .l_onoff = 1, .l_linger = seconds };

	TRY(r, 0, setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
}

/* Write from byte done on until it would block.  Return: bytes. */
static long fill_on(struct role *r, int fd, long done)
{
	static unsigned char buf[PIECE];
	ssize_t n;

	do {
		pattern_fill(buf, sizeof(buf), (uint64_t)done, SEED_SERVER);
		n = send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
		done += n > 0 ? n : 0;
	} while (n > 0);
	if (errno != EAGAIN)
		give_up(r, "fill");
	return done;
}

static long fill(struct role *r, int fd)
{
	nonblock_set(r, fd);
	return fill_on(r, fd, 0);
}

/*
 * A linger ends when the peer's kernel has it all, read or not, and that may
 * have room for all that fits into a ring.  So write until no room comes.
 */
static long fill_up(struct role *r, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	long done = fill(r, fd);

	while (poll(&p, 1, 300) > 0)
		done = fill_on(r, fd, done);
	return done;
}

/* Read to the end.  Return: bytes, all right; -1 where one was not. */
static long drain(int fd)
{
	static unsigned char buf[PIECE];
	long done = 0;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (pattern_check(buf, (size_t)n, (uint64_t)done, SEED_SERVER) >= 0)
			return -1;
		done += n;
	}
	return n < 0 ? -1 : done;
}

static void *write_much(void *arg)
{
	struct role *r = arg;
	static unsigned char *buf;
	long n;

	if (!buf)
		buf = malloc(MUCH);
	pattern_fill(buf, MUCH, 0, SEED_SERVER);
	handler_set(SIGPIPE);
	n = send(r->s, buf, MUCH, 0);
	return (void *)(n < 0 ? -errno : pipes ? -1000 : n);
}

static pthread_t writer_start(struct role *r)
{
	pthread_t th;

	if (pthread_create(&th, NULL, write_much, r))
		give_up(r, "pthread_create");
	return th;
}

static long writer_join(pthread_t th)
{
	void *n;

	pthread_join(th, &n);
	return (long)n;
}

/* A write that has moved bytes tells of them, and raises nothing. */
static void shut_under_writer(struct role *r)
{
	long n = 0;

	conn_open(r);
	SERVER(r) {
		pthread_t th = writer_start(r);

		meet(r);		/* the client has seen bytes of it */
		TRY(r, 0, shutdown(r->s, SHUT_WR));
		n = writer_join(th);
		CHECK(r, n > 0 && n < MUCH);
		handler_set(SIGPIPE);
		TRY(r, -EPIPE, send(r->s, "x", 1, 0));
		TRY(r, 1, pipes);
		tell(r, n);
	}
	CLIENT(r) {
		readable_await(r->c, 1);
		meet(r);
		n = hear(r);
		CHECK(r, drain(r->c) == n);
	}
	conn_close(r);
}

static void reset_under_writer(struct role *r)
{
	long n = 0;

	conn_open(r);
	SERVER(r) {
		pthread_t th = writer_start(r);

		meet(r);
		n = writer_join(th);
		CHECK(r, n > 0 && n < MUCH);
		TRY(r, -ECONNRESET, send(r->s, "x", 1, MSG_NOSIGNAL));
		TRY(r, -EPIPE, send(r->s, "x", 1, MSG_NOSIGNAL));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		readable_await(r->c, 1);
		meet(r);
		TRY(r, 0, close(r->c));
	}
}

static void fin_wakes_reader(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r) {
		TRY(r, 1, send(r->s, "x", 1, 0));
		TRY(r, 1, recv(r->s, buf, 1, 0));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		TRY(r, 1, recv(r->c, buf, 1, 0));
		TRY(r, 1, send(r->c, "x", 1, 0));
		TRY(r, 0, recv(r->c, buf, 1, 0));
		TRY(r, 0, close(r->c));
	}
}

/* Who has shut both ways is not interested: what comes is answered by a reset. */
static void shut_rdwr_then_bytes(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
	SERVER(r) {
		TRY(r, 0, recv(r->s, buf, 4, 0));
		TRY(r, 1, send(r->s, "x", 1, 0));
		poll_show(r, "server", POLLERR | POLLHUP,
			  (short)event_settled(r->s, 0, POLLERR | POLLHUP));
		TRY(r, -EPIPE, send(r->s, "x", 1, MSG_NOSIGNAL));
	}
	CLIENT(r) {
		poll_show(r, "client", POLLERR | POLLHUP,
			  (short)event_settled(r->c, 0, POLLERR | POLLHUP));
		SHOW(r, recv(r->c, buf, 4, 0));
	}
	conn_close(r);
}

/* Unread and undelivered at once: a reset, and what had come may be read. */
static void close_both_unread(struct role *r)
{
	static char buf[PIECE];
	long n = 0;

	conn_open(r);
	CLIENT(r)
		TRY(r, 6, send(r->c, "unread", 6, 0));
	SERVER(r) {
		TRY(r, 6, readable_await(r->s, 6));
		fill(r, r->s);
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		event_settled(r->c, 0, POLLERR | POLLHUP);
		while ((n = recv(r->c, buf, sizeof(buf), 0)) > 0)
			;
		CHECK(r, n < 0 && errno == ECONNRESET);
		TRY(r, 0, recv(r->c, buf, 4, 0));
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, 0, close(r->c));
	}
}

/* The client reads once the server's close() has had time to return. */
static void read_after(struct role *r, long long *began)
{
	meet(r);
	poll(NULL, 0, 150);
	*began = now_ms();
}

/* close() waits for the peer to read, whether the descriptor blocks or not. */
static void linger_waits(struct role *r, bool blocking, bool by_dup2)
{
	long long at = 0;

	conn_open(r);
	SERVER(r) {
		long n = fill_up(r, r->s);

		if (blocking)
			fcntl(r->s, F_SETFL, 0);
		linger_set(r, r->s, 60);
		meet(r);
		if (by_dup2) {
			CHECK(r, dup2(r->listener, r->s) == r->s);
			close(r->s);
		} else {
			TRY(r, 0, close(r->s));
		}
		at = now_ms();
		tell(r, n);
		CHECK(r, hear(r) <= at);
	}
	CLIENT(r) {
		read_after(r, &at);
		long got = drain(r->c);

		CHECK(r, hear(r) == got);
		tell(r, (long)at);
		TRY(r, 0, close(r->c));
	}
}

static void linger_nonblocking(struct role *r)
{
	linger_waits(r, false, false);
}

static void linger_blocking(struct role *r)
{
	linger_waits(r, true, false);
}

static void linger_dup2(struct role *r)
{
	linger_waits(r, true, true);
}

struct sleeper {
	int fd;
	ssize_t n;
	long long back;
};

static void *read_one(void *arg)
{
	struct sleeper *s = arg;
	char c;

	s->n = recv(s->fd, &c, 1, 0);
	s->back = now_ms();
	return NULL;
}

/* Who sleeps in a call when its number is closed has the last of it, and waits in close()'s place. */
static void linger_by_sleeper(struct role *r)
{
	long long at = 0;

	conn_open(r);
	SERVER(r) {
		struct sleeper s = { .fd = r->s };
		long n = fill_up(r, r->s);
		pthread_t th;

		fcntl(r->s, F_SETFL, 0);
		linger_set(r, r->s, 60);
		if (pthread_create(&th, NULL, read_one, &s))
			give_up(r, "pthread_create");
		poll(NULL, 0, 100);		/* asleep by then */
		TRY(r, 0, close(r->s));
		meet(r);
		pthread_join(th, NULL);
		TRY(r, 1, s.n);
		tell(r, n);
		CHECK(r, hear(r) <= s.back);
	}
	CLIENT(r) {
		meet(r);
		TRY(r, 1, send(r->c, "x", 1, 0));
		poll(NULL, 0, 150);
		at = now_ms();
		long got = drain(r->c);

		CHECK(r, hear(r) == got);
		tell(r, (long)at);
		TRY(r, 0, close(r->c));
	}
}

/* The time is over: close() returns, and the bytes arrive all the same. */
static void linger_expires(struct role *r)
{
	conn_open(r);
	SERVER(r) {
		long n = fill_up(r, r->s);
		long long start = now_ms();

		linger_set(r, r->s, 1);
		TRY(r, 0, close(r->s));
		CHECK(r, now_ms() - start >= 990);
		tell(r, n);
	}
	CLIENT(r) {
		long n = hear(r);

		CHECK(r, drain(r->c) == n);
		TRY(r, 0, close(r->c));
	}
}

/* A handler ends the wait; close() has succeeded long before. */
static void linger_interrupted(struct role *r)
{
	struct itimerval tv = { { 0, 50000 }, { 0, 50000 } }, off = { { 0, 0 }, { 0, 0 } };

	conn_open(r);
	SERVER(r) {
		long n = fill_up(r, r->s);

		linger_set(r, r->s, 60);
		handler_set(SIGALRM);
		setitimer(ITIMER_REAL, &tv, NULL);
		TRY(r, 0, close(r->s));
		setitimer(ITIMER_REAL, &off, NULL);
		tell(r, n);
	}
	CLIENT(r) {
		long n = hear(r);

		CHECK(r, drain(r->c) == n);
		TRY(r, 0, close(r->c));
	}
}

static void linger_unread(struct role *r)
{
	char buf[16];

	conn_open(r);
	unread_left(r);
	SERVER(r) {
		linger_set(r, r->s, 60);
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		event_await(r->c, 0);
		TRY(r, -ECONNRESET, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
}

/* An exit does not linger; the time here is longer than any case may take. */
static void linger_exit(struct role *r)
{
	conn_open(r);
	SERVER(r) {
		linger_set(r, r->s, 600);
		tell(r, fill(r, r->s));
		exit(0);
	}
	long n = hear(r);

	poll(NULL, 0, 200);
	CHECK(r, drain(r->c) == n);
	TRY(r, 0, close(r->c));
}

static void full_then_gone(struct role *r, void (*end)(int))
{
	conn_open(r);
	SERVER(r) {
		tell(r, fill(r, r->s));
		end(0);
	}
	long n = hear(r);

	poll(NULL, 0, 200);
	CHECK(r, drain(r->c) == n);
	TRY(r, 0, close(r->c));
}

static void full_exit(struct role *r)
{
	full_then_gone(r, exit);
}

static void full_quick_exit(struct role *r)
{
	full_then_gone(r, quick_exit);
}

static void full_quickest_exit(struct role *r)
{
	full_then_gone(r, _exit);
}

static void become_true(int status)
{
	execl("/bin/true", "true", (char *)NULL);
	_exit(status);
}

/* A close-on-exec descriptor ends with the old program. */
static void full_exec(struct role *r)
{
	full_then_gone(r, become_true);
}

static atomic_long written;

static void *write_for_ever(void *arg)
{
	static unsigned char buf[1000];
	struct role *r = arg;
	uint64_t off = 0;
	ssize_t n;

	do {
		pattern_fill(buf, sizeof(buf), off, SEED_SERVER);
		n = send(r->s, buf, sizeof(buf), 0);
		off += n > 0 ? (uint64_t)n : 0;
		written = (long)off;
	} while (n > 0);
	NOTE(r, "the writer saw an end");
	return NULL;
}

static void *read_for_ever(void *arg)
{
	struct role *r = arg;
	char c;

	recv(r->s, &c, 1, 0);
	NOTE(r, "the reader saw an end");
	return NULL;
}

/* Threads that are busy with it when the process ends see nothing of that. */
static void exit_busy(struct role *r)
{
	pthread_t th;

	conn_open(r);
	SERVER(r) {
		if (pthread_create(&th, NULL, read_for_ever, r) ||
		    pthread_create(&th, NULL, write_for_ever, r))
			give_up(r, "pthread_create");
		while (written < 3 << 20)
			poll(NULL, 0, 1);
		exit(0);
	}
	CHECK(r, drain(r->c) >= 3 << 20);
	TRY(r, 0, close(r->c));
}

/* What was counted and is not read makes a close a reset, wherever a switch falls: never an end first. */
static void unread_counted(struct role *r)
{
	static char buf[8000];
	int i;

	for (i = 0; i < 20; i++) {
		conn_open(r);
		SERVER(r) {
			poll(NULL, 0, 8);
			TRY(r, (long)sizeof(buf), send(r->s, buf, sizeof(buf), 0));
		}
		CLIENT(r) {
			long long end = now_ms() + 5000;
			int n = 0;

			while (n < (int)sizeof(buf) && now_ms() < end && ioctl(r->c, FIONREAD, &n) == 0)
				;
			usleep(4800 + (useconds_t)i * 30);	/* fault retreat is now, or about */
			TRY(r, 0, close(r->c));
		}
		SERVER(r) {
			event_settled(r->s, 0, POLLHUP);
			TRY(r, -ECONNRESET, recv(r->s, buf, 1, 0));
			TRY(r, 0, close(r->s));
		}
		meet(r);
	}
}

const struct conf_case closing_cases[] = {
	{ "closing-shut-under-writer", shut_under_writer, TOGETHER },
	{ "closing-reset-under-writer", reset_under_writer, TOGETHER },
	{ "closing-fin-wakes-reader", fin_wakes_reader, TOGETHER },
	{ "closing-shut-rdwr-then-bytes", shut_rdwr_then_bytes, 0 },
	{ "closing-both-unread", close_both_unread, 0 },
	{ "closing-linger-nonblocking", linger_nonblocking, TOGETHER },
	{ "closing-linger-blocking", linger_blocking, TOGETHER },
	{ "closing-linger-dup2", linger_dup2, TOGETHER },
	{ "closing-linger-by-sleeper", linger_by_sleeper, TOGETHER | PROCESS },
	{ "closing-linger-expires", linger_expires, TOGETHER },
	{ "closing-linger-interrupted", linger_interrupted, PROCESS },
	{ "closing-linger-unread", linger_unread, 0 },
	{ "closing-linger-exit", linger_exit, PROCESS },
	{ "closing-full-exit", full_exit, PROCESS },
	{ "closing-full-quick-exit", full_quick_exit, PROCESS | UNCOUNTED },
	{ "closing-full-_exit", full_quickest_exit, PROCESS | UNCOUNTED },
	{ "closing-full-exec", full_exec, PROCESS | UNCOUNTED },
	{ "closing-exit-busy", exit_busy, PROCESS },
	{ "closing-unread-counted", unread_counted, TOGETHER },
	{ NULL, NULL, 0 }
};
