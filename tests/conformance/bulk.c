/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Bulk in one and in both directions, by every way of waiting.
 *
 * A flow is one fd with so much to write and so much to read; the engine
 * drives all flows of a role (two when one thread plays both) until both
 * counts are done.
 */
#include "conform.h"

#include <pthread.h>
#include <sys/select.h>

#include "tests/lib/pattern.h"

enum { PIECE = 64 * 1024 };

struct flow {
	int fd;
	size_t total, sent, got;
	uint64_t out_seed, in_seed;
	size_t wrong;
	unsigned char buf[PIECE];
};

static size_t piece_of(size_t total, size_t done)
{
	return total - done < PIECE ? total - done : PIECE;
}

static int flow_write(struct flow *f)
{
	size_t n = piece_of(f->total, f->sent);
	ssize_t k;

	if (!n)
		return 0;
	pattern_fill(f->buf, n, f->sent, f->out_seed);
	k = write(f->fd, f->buf, n);
	if (k > 0)
		f->sent += (size_t)k;
	return k > 0;
}

static int flow_read(struct flow *f)
{
	size_t n = piece_of(f->total, f->got);
	ssize_t k;

	if (!n)
		return 0;
	k = read(f->fd, f->buf, n);
	if (k <= 0)
		return 0;
	f->wrong += pattern_check(f->buf, (size_t)k, f->got, f->in_seed) >= 0;
	f->got += (size_t)k;
	return 1;
}

static bool flow_done(const struct flow *f)
{
	return f->sent == f->total && f->got == f->total;
}

static short flow_wants(const struct flow *f)
{
	return (short)((f->got < f->total ? POLLIN : 0) | (f->sent < f->total ? POLLOUT : 0));
}

static void flow_step(struct flow *f, unsigned int events)
{
	if (events & (POLLIN | POLLHUP | POLLERR))
		flow_read(f);
	if (events & POLLOUT)
		flow_write(f);
}

static void wait_poll(struct role *r, struct flow **f, int count)
{
	struct pollfd p[2];
	int i;

	for (i = 0; i < count; i++)
		p[i] = (struct pollfd){ .fd = f[i]->fd, .events = flow_wants(f[i]) };
	MUST(r, poll(p, (nfds_t)count, 10000));
	for (i = 0; i < count; i++)
		flow_step(f[i], (unsigned short)p[i].revents);
}

static void wait_select(struct role *r, struct flow **f, int count)
{
	fd_set in, out;
	int i, max = 0;

	FD_ZERO(&in);
	FD_ZERO(&out);
	for (i = 0; i < count; i++) {
		if (flow_wants(f[i]) & POLLIN)
			FD_SET(f[i]->fd, &in);
		if (flow_wants(f[i]) & POLLOUT)
			FD_SET(f[i]->fd, &out);
		max = f[i]->fd > max ? f[i]->fd : max;
	}
	MUST(r, select(max + 1, &in, &out, NULL, &(struct timeval){ .tv_sec = 10 }));
	for (i = 0; i < count; i++)
		flow_step(f[i], (FD_ISSET(f[i]->fd, &in) ? POLLIN : 0u) |
				(FD_ISSET(f[i]->fd, &out) ? POLLOUT : 0u));
}

/* Edge-triggered: after an event, go on until both calls would block. */
static void wait_epoll(struct role *r, struct flow **f, int count, int ep)
{
	struct epoll_event ev[2];
	int i, n;

	n = (int)MUST(r, epoll_wait(ep, ev, count, 10000));
	if (n == 0)
		give_up(r, "no event for 10 s");
	for (i = 0; i < n; i++) {
		struct flow *one = f[ev[i].data.u32];

		while (flow_read(one) | flow_write(one))
			;
	}
}

static int epoll_make(struct role *r, struct flow **f, int count)
{
	int ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC)), i;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };

	for (i = 0; i < count; i++) {
		ev.data.u32 = (uint32_t)i;
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, f[i]->fd, &ev));
	}
	return ep;
}

static void flows_drive(struct role *r, struct flow **f, int count, unsigned int waiting)
{
	int ep = waiting & WAIT_EPOLL ? epoll_make(r, f, count) : -1;

	while (!flow_done(f[0]) || !flow_done(f[count - 1])) {
		if (waiting & WAIT_EPOLL)
			wait_epoll(r, f, count, ep);
		else if (waiting & WAIT_SELECT)
			wait_select(r, f, count);
		else
			wait_poll(r, f, count);
	}
	if (ep >= 0)
		MUST(r, close(ep));
}

static void *reader_main(void *arg)
{
	struct flow *f = arg;

	while (f->got < f->total)
		if (!flow_read(f))
			break;
	return NULL;
}

static struct flow *flow_new(struct role *r, int fd, size_t total, bool server)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f)
		give_up(r, "calloc");
	f->fd = fd;
	f->total = total;
	f->out_seed = server ? SEED_SERVER : SEED_CLIENT;
	f->in_seed = server ? SEED_CLIENT : SEED_SERVER;
	return f;
}

/* One thread writes, another reads the same fd; a flow each. */
static void duplex_threads(struct role *r, size_t total)
{
	struct flow *out = flow_new(r, own_fd(r), total, r->server);
	struct flow *in = flow_new(r, own_fd(r), total, r->server);
	pthread_t th;

	if (pthread_create(&th, NULL, reader_main, in) != 0)
		give_up(r, "pthread_create");
	while (out->sent < total && flow_write(out))
		;
	pthread_join(th, NULL);
	NOTE(r, "sent %zu, got %zu, wrong pieces %zu", out->sent, in->got, in->wrong);
	CHECK(r, out->sent == total && in->got == total && in->wrong == 0);
	free(out);
	free(in);
}

void bulk_duplex(struct role *r, unsigned int waiting, size_t total)
{
	struct flow *f[2];
	int count = 0, i;

	if (!waiting) {
		duplex_threads(r, total);
		return;
	}
	SERVER(r)
		f[count++] = flow_new(r, r->s, total, true);
	CLIENT(r)
		f[count++] = flow_new(r, r->c, total, false);
	for (i = 0; i < count; i++)
		nonblock_set(r, f[i]->fd);
	flows_drive(r, f, count, waiting);
	for (i = 0; i < count; i++) {
		NOTE(r, "sent %zu, got %zu, wrong pieces %zu", f[i]->sent, f[i]->got, f[i]->wrong);
		CHECK(r, f[i]->wrong == 0);
		free(f[i]);
	}
}

void bulk_write(struct role *r, int fd, size_t total, uint64_t seed)
{
	struct flow *f = flow_new(r, fd, total, false);

	f->out_seed = seed;
	while (f->sent < total && flow_write(f))
		;
	NOTE(r, "wrote %zu", f->sent);
	CHECK(r, f->sent == total);
	free(f);
}

void bulk_read(struct role *r, int fd, size_t total, uint64_t seed)
{
	struct flow *f = flow_new(r, fd, total, false);

	f->in_seed = seed;
	reader_main(f);
	NOTE(r, "read %zu, wrong pieces %zu", f->got, f->wrong);
	CHECK(r, f->got == total && f->wrong == 0);
	free(f);
}

static void to_server(struct role *r)
{
	conn_open(r);
	CLIENT(r)
		bulk_write(r, r->c, 16 << 20, SEED_CLIENT);
	SERVER(r)
		bulk_read(r, r->s, 16 << 20, SEED_CLIENT);
	conn_close(r);
}

static void to_client(struct role *r)
{
	conn_open(r);
	SERVER(r)
		bulk_write(r, r->s, 16 << 20, SEED_SERVER);
	CLIENT(r)
		bulk_read(r, r->c, 16 << 20, SEED_SERVER);
	conn_close(r);
}

static void one_write(struct role *r)
{
	size_t total = 8 << 20;
	unsigned char *buf = malloc(total);

	if (!buf)
		give_up(r, "malloc");
	conn_open(r);
	CLIENT(r) {
		pattern_fill(buf, total, 0, SEED_CLIENT);
		TRY(r, 8 << 20, write(r->c, buf, total));
	}
	SERVER(r)
		bulk_read(r, r->s, total, SEED_CLIENT);
	conn_close(r);
	free(buf);
}

static void one_read_waitall(struct role *r)
{
	size_t total = 4 << 20;
	unsigned char *buf = malloc(total);

	if (!buf)
		give_up(r, "malloc");
	conn_open(r);
	CLIENT(r)
		bulk_write(r, r->c, total, SEED_CLIENT);
	SERVER(r) {
		TRY(r, 4 << 20, recv(r->s, buf, total, MSG_WAITALL));
		TRY(r, -1, pattern_check(buf, total, 0, SEED_CLIENT));
	}
	conn_close(r);
	free(buf);
}

static void small_messages(struct role *r)
{
	unsigned char buf[4096];
	uint64_t state = 7, off = 0;
	long wrong = 0;
	int i;

	conn_open(r);
	for (i = 0; i < 8000; i++) {
		size_t n = pattern_rand(&state) % sizeof(buf) + 1;

		CLIENT(r) {
			pattern_fill(buf, n, off, SEED_CLIENT);
			wrong += send_all(r->c, buf, n) != (long)n;
		}
		SERVER(r) {
			wrong += recv_all(r->s, buf, n) != (long)n;
			wrong += pattern_check(buf, n, off, SEED_CLIENT) >= 0;
		}
		off += n;
	}
	NOTE(r, "moved %llu", (unsigned long long)off);
	CHECK(r, wrong == 0);
	conn_close(r);
}

static void duplex(struct role *r)
{
	conn_open(r);
	bulk_duplex(r, r->waiting, 16 << 20);
	conn_close(r);
}

const struct conf_case bulk_cases[] = {
	{ "bulk-to-server", to_server, TOGETHER },
	{ "bulk-to-client", to_client, TOGETHER },
	{ "bulk-one-write", one_write, TOGETHER },
	{ "bulk-one-waitall", one_read_waitall, TOGETHER },
	{ "bulk-small-messages", small_messages, 0 },
	{ "bulk-duplex-threads", duplex, TOGETHER },
	{ "bulk-duplex-poll", duplex, WAIT_POLL },
	{ "bulk-duplex-select", duplex, WAIT_SELECT },
	{ "bulk-duplex-epoll-et", duplex, WAIT_EPOLL },
	{ NULL, NULL, 0 }
};
