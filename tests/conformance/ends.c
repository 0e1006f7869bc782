/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a connection ends: shutdown, close, reset, SIGPIPE. */
#include "conform.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "tests/lib/pattern.h"

static __thread volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	pipes += sig == SIGPIPE;
}

static void pipes_count(void)
{
	struct sigaction sa = { .sa_handler = on_pipe };

	sigaction(SIGPIPE, &sa, NULL);
	pipes = 0;
}

static int so_error(int fd)
{
	int e = -1;
	socklen_t len = sizeof(e);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
	return e;
}

static void shutdown_wr(struct role *r)
{
	char buf[16];

	pipes_count();
	conn_open(r);
	CLIENT(r) {
		TRY(r, 3, send(r->c, "abc", 3, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		TRY(r, -EPIPE, send(r->c, "d", 1, MSG_NOSIGNAL));
		TRY(r, -EPIPE, send(r->c, "d", 1, 0));
		TRY(r, 1, pipes);
	}
	SERVER(r) {
		TRY(r, 3, recv(r->s, buf, 16, MSG_WAITALL));
		TRY(r, 0, recv(r->s, buf, 16, 0));
		TRY(r, 0, read(r->s, buf, 16));
		TRY(r, 5, send(r->s, "still", 5, 0));
	}
	CLIENT(r)
		TRY(r, 5, recv(r->c, buf, 5, MSG_WAITALL));
	conn_close(r);
}

static void shutdown_rd(struct role *r)
{
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, shutdown(r->c, SHUT_RD));
		TRY(r, 0, recv(r->c, buf, 16, 0));
	}
	meet(r);
	SERVER(r)	/* the peer is not told, and TCP takes it all the same */
		TRY(r, 4, send(r->s, "late", 4, 0));
	CLIENT(r) {
		TRY(r, 4, readable_await(r->c, 4));
		SHOW(r, recv(r->c, buf, 16, 0));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 3, send(r->c, "out", 3, 0));
	}
	SERVER(r)
		TRY(r, 3, recv(r->s, buf, 3, MSG_WAITALL));
	conn_close(r);
}

static void shutdown_rd_unread(struct role *r)
{
	char buf[16];

	conn_open(r);
	SERVER(r)
		TRY(r, 4, send(r->s, "here", 4, 0));
	CLIENT(r) {
		TRY(r, 4, readable_await(r->c, 4));
		TRY(r, 0, shutdown(r->c, SHUT_RD));
		SHOW(r, recv(r->c, buf, 16, 0));
		TRY(r, 0, recv(r->c, buf, 16, 0));
	}
	conn_close(r);
}

static void shutdown_rdwr(struct role *r)
{
	char buf[16];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 3, send(r->c, "abc", 3, 0));
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, -EPIPE, send(r->c, "d", 1, MSG_NOSIGNAL));
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
	}
	SERVER(r) {
		TRY(r, 3, recv(r->s, buf, 16, MSG_WAITALL));
		TRY(r, 0, recv(r->s, buf, 16, 0));
	}
	conn_close(r);
}

static void shutdown_repeated(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		TRY(r, -EINVAL, shutdown(r->c, 3));
		TRY(r, -EINVAL, shutdown(r->c, -1));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		TRY(r, 0, shutdown(r->c, SHUT_RD));
	}
	SERVER(r)
		TRY(r, 0, recv(r->s, buf, 4, 0));
	conn_close(r);
}

/* Both have said FIN: nothing is connected any more, shutdown says so. */
static void shutdown_both(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r)
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	SERVER(r) {
		TRY(r, 0, recv(r->s, buf, 4, 0));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	CLIENT(r)
		TRY(r, 0, recv(r->c, buf, 4, 0));
	meet(r);
	SERVER(r) {
		poll_show(r, "server", POLLIN | POLLOUT | POLLHUP | POLLRDHUP,
			  (short)event_await(r->s, POLLIN | POLLOUT | POLLRDHUP));
		TRY(r, 0, so_error(r->s));
	}
	CLIENT(r)
		TRY(r, 0, recv(r->c, buf, 4, 0));
	conn_close(r);
}

static void half_close(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		bulk_write(r, r->c, 8 << 20, SEED_CLIENT);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		bulk_read(r, r->c, 8 << 20, SEED_SERVER);
		TRY(r, 0, read(r->c, buf, 4));
	}
	SERVER(r) {
		bulk_read(r, r->s, 8 << 20, SEED_CLIENT);
		TRY(r, 0, read(r->s, buf, 4));
		bulk_write(r, r->s, 8 << 20, SEED_SERVER);
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	conn_close(r);
}

/* The server writes, closes at once and may be gone; the client reads late. */
static void close_after_write(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r) {
		bulk_write(r, r->s, 150000, SEED_SERVER);
		TRY(r, 0, close(r->s));
	}
	meet(r);
	CLIENT(r) {
		bulk_read(r, r->c, 150000, SEED_SERVER);
		TRY(r, 0, read(r->c, buf, 4));
		TRY(r, 0, close(r->c));
	}
}

static void exit_after_write(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r) {
		bulk_write(r, r->s, 1500000, SEED_SERVER);
		exit(0);
	}
	bulk_read(r, r->c, 1500000, SEED_SERVER);
	TRY(r, 0, read(r->c, buf, 4));
	TRY(r, 0, close(r->c));
}

static void quick_exit_after_write(struct role *r)
{
	char buf[4];

	conn_open(r);
	SERVER(r) {
		bulk_write(r, r->s, 150000, SEED_SERVER);
		_exit(0);
	}
	bulk_read(r, r->c, 150000, SEED_SERVER);
	TRY(r, 0, read(r->c, buf, 4));
	TRY(r, 0, close(r->c));
}

/* An end that has been told of stays so, by whatever way what precedes it comes. */
static void told_end_stays(struct role *r)
{
	static __thread char buf[60000];
	int lost = 0, at;

	conn_open(r);
	SERVER(r) {
		TRY(r, (long)sizeof(buf), send(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	CLIENT(r)
		TRY(r, POLLRDHUP, event_settled(r->c, POLLRDHUP, POLLRDHUP));
	meet(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	CLIENT(r) {
		struct pollfd p = { .fd = r->c, .events = POLLIN | POLLRDHUP };
		long long end = now_ms() + 250;

		for (at = 0; now_ms() < end;) {
			if (at < 1000)
				at += (int)MUST(r, recv(r->c, buf, 1, 0));
			lost += poll(&p, 1, 0) != 1 || p.revents != (POLLIN | POLLRDHUP);
		}
		TRY(r, 0, lost);
		while (at < (int)sizeof(buf))
			at += (int)MUST(r, recv(r->c, buf, 7000, 0));
		TRY(r, 0, recv(r->c, buf, 1, 0));
		TRY(r, 0, close(r->c));
	}
}

/* A request, the end of it, and a reply that goes on a ring only then: the other end is both. */
static void half_close_first(struct role *r)
{
	enum { PIECES = 150, PIECE = 1000 };
	static __thread char buf[8000];
	int i, lost = 0;

	conn_open(r);
	CLIENT(r) {
		TRY(r, 10, send(r->c, buf, 10, 0));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		TRY(r, 10, recv(r->s, buf, 10, MSG_WAITALL));
		TRY(r, 0, recv(r->s, buf, 10, 0));
	}
	for (i = 0; i < PIECES; i++) {
		SERVER(r) {
			MUST(r, send(r->s, buf, PIECE, 0));
			poll(NULL, 0, 2);	/* the attach happens in the background */
		}
		CLIENT(r)
			MUST(r, recv(r->c, buf, PIECE, MSG_WAITALL));
	}
	SERVER(r) {
		TRY(r, (long)sizeof(buf), send(r->s, buf, sizeof(buf), 0));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		TRY(r, POLLRDHUP | POLLHUP, event_settled(r->c, POLLRDHUP, POLLRDHUP));
		for (i = 0; i < 200; i++) {
			struct pollfd p = { .fd = r->c };

			lost += poll(&p, 1, 0) != 1 || p.revents != POLLHUP;
		}
		TRY(r, 0, lost);
		TRY(r, (long)sizeof(buf), recv(r->c, buf, sizeof(buf), MSG_WAITALL));
		TRY(r, 0, recv(r->c, buf, 1, 0));
		TRY(r, 0, close(r->c));
	}
}

static void close_unread(struct role *r)
{
	char buf[16];

	pipes_count();
	conn_open(r);
	unread_left(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	CLIENT(r) {
		poll_show(r, "client", POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP,
			  (short)event_settled(r->c, POLLIN | POLLOUT | POLLRDHUP,
					       POLLIN | POLLERR | POLLHUP | POLLRDHUP));
		TRY(r, -ECONNRESET, recv(r->c, buf, 16, 0));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, -EPIPE, send(r->c, "x", 1, 0));
		TRY(r, 1, pipes);
		TRY(r, 0, close(r->c));
	}
}

/* Bytes that came before the reset: TCP throws them away with the reset. */
static void reset_and_data(struct role *r)
{
	struct linger lg = { .l_onoff = 1, .l_linger = 0 };
	char buf[16];

	conn_open(r);
	SERVER(r) {
		TRY(r, 4, send(r->s, "last", 4, 0));
		drained_await(r->s);
		TRY(r, 0, setsockopt(r->s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		event_await(r->c, 0);
		SHOW(r, recv(r->c, buf, 16, 0));
		SHOW(r, recv(r->c, buf, 16, 0));
		SHOW(r, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
}

static void linger_zero(struct role *r)
{
	struct linger lg = { .l_onoff = 1, .l_linger = 0 };
	char buf[16];

	conn_open(r);
	SERVER(r) {
		TRY(r, 0, setsockopt(r->s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		event_await(r->c, 0);
		TRY(r, ECONNRESET, so_error(r->c));
		TRY(r, 0, so_error(r->c));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, 0, close(r->c));
	}
}

/* A reader that sleeps in recv when the reset comes. */
static void reset_wakes_reader(struct role *r)
{
	struct linger lg = { .l_onoff = 1, .l_linger = 0 };
	char buf[16];

	conn_open(r);
	SERVER(r) {
		TRY(r, 1, recv(r->s, buf, 1, 0));
		TRY(r, 0, setsockopt(r->s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		TRY(r, 0, close(r->s));
	}
	CLIENT(r) {
		TRY(r, 1, send(r->c, "x", 1, 0));
		TRY(r, -ECONNRESET, recv(r->c, buf, 16, 0));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
}

static void linger_five(struct role *r)
{
	struct linger lg = { .l_onoff = 1, .l_linger = 5 };
	char buf[16];

	conn_open(r);
	SERVER(r) {
		long long start = now_ms();

		TRY(r, 0, setsockopt(r->s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		TRY(r, 4, send(r->s, "data", 4, 0));
		TRY(r, 0, close(r->s));
		CHECK(r, now_ms() - start < 2000);
	}
	CLIENT(r) {
		TRY(r, 4, recv(r->c, buf, 16, MSG_WAITALL));
		TRY(r, 0, recv(r->c, buf, 16, 0));
		TRY(r, 0, close(r->c));
	}
}

/* After the peer's close the first send passes and earns a reset. */
static void write_to_closed(struct role *r)
{
	char buf[4];

	pipes_count();
	conn_open(r);
	SERVER(r)
		TRY(r, 0, close(r->s));
	CLIENT(r) {
		TRY(r, 0, recv(r->c, buf, 4, 0));
		TRY(r, 1, send(r->c, "x", 1, 0));
		poll_show(r, "after the reset", POLLERR | POLLHUP,
			  (short)event_settled(r->c, 0, POLLERR | POLLHUP));
		TRY(r, -EPIPE, send(r->c, "x", 1, 0));
		TRY(r, 1, pipes);
		TRY(r, 0, close(r->c));
	}
}

static void sigpipe_each(struct role *r)
{
	struct iovec v = { .iov_base = (void *)"x", .iov_len = 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = m };
	int file = (int)MUST(r, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));

	pipes_count();
	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		TRY(r, -EPIPE, write(r->c, "x", 1));
		TRY(r, 1, pipes);
		TRY(r, -EPIPE, writev(r->c, &v, 1));
		TRY(r, 2, pipes);
		TRY(r, -EPIPE, send(r->c, "x", 1, 0));
		TRY(r, 3, pipes);
		TRY(r, -EPIPE, sendmsg(r->c, &m, 0));
		TRY(r, 4, pipes);
		TRY(r, -EPIPE, sendmmsg(r->c, &mm, 1, 0));
		TRY(r, 5, pipes);
		TRY(r, -EPIPE, sendto(r->c, "x", 1, 0, NULL, 0));
		TRY(r, 6, pipes);
		TRY(r, -EPIPE, sendfile(r->c, file, NULL, 10));
		SHOW(r, pipes);
		pipes = 0;
		TRY(r, -EPIPE, send(r->c, "x", 1, MSG_NOSIGNAL));
		TRY(r, -EPIPE, sendmsg(r->c, &m, MSG_NOSIGNAL));
		TRY(r, -EPIPE, sendmmsg(r->c, &mm, 1, MSG_NOSIGNAL));
		TRY(r, 0, pipes);
		SHOW(r, write(r->c, "", 0));
		SHOW(r, send(r->c, "", 0, MSG_NOSIGNAL));
		SHOW(r, pipes);
	}
	conn_close(r);
	close(file);
}

/* With SIGPIPE ignored only the errno is left. */
static void sigpipe_ignored(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, close(r->c));
		return;
	}
	TRY(r, 0, recv(r->s, buf, 4, 0));
	signal(SIGPIPE, SIG_IGN);
	TRY(r, 1, write(r->s, "x", 1));
	event_await(r->s, 0);
	TRY(r, -EPIPE, write(r->s, "x", 1));
	NOTE(r, "ignored, so still here");
}

static void both_close(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		TRY(r, 1, send(r->c, "c", 1, 0));
	SERVER(r)
		TRY(r, 1, send(r->s, "s", 1, 0));
	conn_close(r);
}

static void fin_while_writing(struct role *r)
{
	char buf[4];

	conn_open(r);
	CLIENT(r) {
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		bulk_read(r, r->c, 4 << 20, SEED_SERVER);
		TRY(r, 0, recv(r->c, buf, 4, 0));
	}
	SERVER(r) {
		bulk_write(r, r->s, 2 << 20, SEED_SERVER);
		TRY(r, 0, recv(r->s, buf, 4, 0));
		static unsigned char rest[2 << 20];

		pattern_fill(rest, sizeof(rest), 2 << 20, SEED_SERVER);
		TRY(r, 2 << 20, send_all(r->s, rest, sizeof(rest)));
		TRY(r, 0, shutdown(r->s, SHUT_WR));
	}
	conn_close(r);
}

const struct conf_case ends_cases[] = {
	{ "ends-shutdown-wr", shutdown_wr, 0 },
	{ "ends-shutdown-rd", shutdown_rd, 0 },
	{ "ends-shutdown-rd-unread", shutdown_rd_unread, 0 },
	{ "ends-shutdown-rdwr", shutdown_rdwr, 0 },
	{ "ends-shutdown-repeated", shutdown_repeated, 0 },
	{ "ends-shutdown-both", shutdown_both, 0 },
	{ "ends-half-close", half_close, TOGETHER },
	{ "ends-close-after-write", close_after_write, 0 },
	{ "ends-exit-after-write", exit_after_write, PROCESS },
	{ "ends-quick-exit-after-write", quick_exit_after_write, PROCESS | UNCOUNTED },
	{ "ends-told-end-stays", told_end_stays, 0 },
	{ "ends-half-close-first", half_close_first, COLD | WARMS | ONE_WAY },
	{ "ends-close-unread", close_unread, 0 },
	{ "ends-reset-and-data", reset_and_data, 0 },
	{ "ends-linger-zero", linger_zero, 0 },
	{ "ends-reset-wakes-reader", reset_wakes_reader, TOGETHER },
	{ "ends-linger-five", linger_five, 0 },
	{ "ends-write-to-closed", write_to_closed, 0 },
	{ "ends-sigpipe-each", sigpipe_each, 0 },
	{ "ends-sigpipe-ignored", sigpipe_ignored, PROCESS },
	{ "ends-both-close", both_close, 0 },
	{ "ends-fin-while-writing", fin_while_writing, TOGETHER },
	{ NULL, NULL, 0 }
};
