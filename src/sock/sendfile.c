/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sendfile.c - a file's bytes into a connection
 *
 * While the direction is the kernel's, the kernel's own sendfile, in pieces
 * where it may block (or a switch would never find a gap); what it sent of the
 * first bytes of the stream is read again, for the proof wants to have seen
 * them.  On the ring, and where a switch is due, through a buffer and
 * sock_send(); the file's position moves by what was taken.
 *
 * The kernel's own call has the connection and not its number.  One that may
 * block goes on with it after its first piece, too: as a sleeper, which a handler
 * or a cancellation ends.
 */
#define _GNU_SOURCE
#include <sys/sendfile.h>

#include "base/atomic.h"
#include "base/counters.h"
#include "base/section.h"
#include "base/sys.h"
#include "base/util.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/fdtab.h"
#include "sock/hurry.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/sock.h"

#define BUFFER		65536
#define SMALL_BUFFER	2048

/* One call of the program's. */
struct sending {
	int out, in;
	off_t *off;
	struct conn *held;	/* from its first piece on, if there are to be more */
	bool was_held;
	size_t done;
};

/* Where the file is read next. */
static off_t position(int in, const off_t *off)
{
	return off ? *off : sys3(SYS_lseek, in, 0, SEEK_CUR);
}

/* The first bytes of the n that have gone.  Return: how many of them are in buf; 0: unknown. */
static size_t read_again(int in, const off_t *off, size_t n, void *buf, size_t max)
{
	off_t at = position(in, off);
	size_t want = MIN(n, max);

	if (at < (off_t)n)
		return 0;
	ssize_t got = sys4(SYS_pread64, in, buf, want, at - (off_t)n);
	return got == (ssize_t)want ? want : 0;
}

/* txl held, and dropped here.  Return: bytes or -errno. */
static ssize_t by_kernel(struct conn *c, int out, int in, off_t *off, size_t n)
{
	uint8_t buf[PREFIX_BYTES];
	uint32_t gen = ld_rlx(&c->gen);
	bool first = c->tx_prefix.state == PREFIX_RAW && bind_enabled();
	size_t head = 0;

	bool alone = tx_kernel_begin(c);
	ssize_t r = real_result(section_away(real.sendfile(out, in, off, n)));
	if (r > 0 && first)
		head = read_again(in, off, (size_t)r, buf, sizeof(buf));
	tx_kernel_end(c, gen, alone, head ? buf : NULL, head, r > 0 ? (size_t)r : 0);
	if (r == -EPIPE && end_parked(c))
		return end_park(!ld_rlx(&c->nonblock));
	return r;
}

static void gone(void *arg)
{
	struct sending *s = arg;
	struct conn *c = s->held;

	s->held = NULL;
	if (c)
		conn_sleeper_out(c);
}

/* One of several pieces.  txl held, and dropped here.  Return: bytes or -errno. */
static ssize_t by_kernel_held(struct sending *s, struct conn *c, size_t n)
{
	int out = fdtab_has(s->out, c) ? s->out : c->fd;
	ssize_t r;

	section_away_push(gone, s);
	r = by_kernel(c, out, s->in, s->off, n);
	section_away_pop();
	return r;
}

/*
 * A thread's stack may be too small for a good buffer.  One that is not given
 * back, because its thread has left by a jump, stays taken until that ends; in a
 * child, for good.
 */
static struct {
	uint32_t taken;
	char bytes[BUFFER];
} buffers[8];

static void buffer_gone(void *taken, uint32_t gen)
{
	st_rel((uint32_t *)taken, 0);	/* pairs with the exchange in by_buffer() */
}

static ssize_t filled_send(struct sending *s, off_t at, char *buf, size_t n)
{
	ssize_t got = sys4(SYS_pread64, s->in, buf, n, at);

	if (got <= 0)
		return got;
	if (!s->held)
		return sock_send(s->out, buf, (size_t)got, 0);
	const struct iovec v = { buf, (size_t)got };
	return tx_run_on(&s->held, s->out, &(struct io){ .call = CALL_send, .iov = &v, .cnt = 1,
							 .total = v.iov_len }, s->done > 0);
}

static ssize_t filled_send_small(struct sending *s, off_t at, size_t n)
{
	char buf[SMALL_BUFFER];

	return filled_send(s, at, buf, MIN(n, sizeof(buf)));
}

/* Return: bytes or -errno; -ESPIPE: the file has no position. */
static ssize_t by_buffer(struct sending *s, size_t *want)
{
	off_t at = position(s->in, s->off);
	ssize_t put;
	size_t i = 0;

	if (at < 0)
		return s->off ? -EINVAL : at;
	while (i < ARRAY_SIZE(buffers) && (ld_rlx(&buffers[i].taken) || xchg_acqrel(&buffers[i].taken, 1)))
		i++;
	*want = MIN(*want, (size_t)(i < ARRAY_SIZE(buffers) ? BUFFER : SMALL_BUFFER));
	if (i < ARRAY_SIZE(buffers)) {
		section_go_in(buffer_gone, &buffers[i].taken, 0);
		put = filled_send(s, at, buffers[i].bytes, *want);
		if (section_come_out())
			st_rel(&buffers[i].taken, 0);	/* pairs with the exchange above */
	} else {
		put = filled_send_small(s, at, *want);
	}
	if (put <= 0)
		return put;
	if (s->off)
		*s->off = at + put;
	else
		sys3(SYS_lseek, s->in, at + put, SEEK_SET);
	return put;
}

/* The connection, with txl; or NULL. */
static struct conn *lock_again(const struct sending *s)
{
	if (!s->held)
		return conn_lock_tx(s->out);
	lock_take(&s->held->txl);
	return s->held;
}

/* More pieces than one, and each may block.  txl held. */
static void hold(struct sending *s, struct conn *c, size_t want, size_t most)
{
	if (s->held || want <= most || c->nonblock || c->closing)
		return;
	conn_sleeper_in(c);
	s->held = c;
	s->was_held = true;
}

/* One piece of *want bytes at most; says in *want what was tried.  Return: bytes or -errno. */
static ssize_t piece(struct sending *s, size_t *want)
{
	int lost = s->held ? 0 : kin_first(s->out, CONN_TX);
	if (lost && lost != -EAGAIN)
		return lost;
	struct conn *c = lock_again(s);

	if (c && (lost || owed_error(&c->owed))) {	/* sock_send() knows how to wait, and the error */
		lock_drop(&c->txl);
		return by_buffer(s, want);
	}
	if (!c || !c->established) {
		if (c)
			lock_drop(&c->txl);
		return real_result(section_away(real.sendfile(s->out, s->in, s->off, *want)));
	}
	bool ring = tx_for_ring(c);
	hold(s, c, *want, ring ? BUFFER : CONN_PIECE);
	if (!ring) {
		if (!c->nonblock)
			*want = MIN(*want, (size_t)CONN_PIECE);
		return s->held ? by_kernel_held(s, c, *want) : by_kernel(c, s->out, s->in, s->off, *want);
	}
	lock_drop(&c->txl);
	return by_buffer(s, want);
}

/* All of it, or what has gone.  Return: bytes or -errno. */
static ssize_t pieces(struct sending *s, size_t n)
{
	const struct conn *c = fdtab_conn(s->out);
	uint32_t gen = c ? ld_rlx(&c->gen) : 0;
	size_t want;
	ssize_t r;

	do {
		bool another = fdtab_conn(s->out) != c || (c && ld_rlx(&c->gen) != gen);
		if (s->done && !s->held && (s->was_held || another))
			break;		/* a handler has run, or its number is another's */
		want = n - s->done;
		r = piece(s, &want);
		if (r == -ESPIPE && c && fdtab_conn(s->out) == c) {
			gone(s);
			s->was_held = false;
			kernel_only(s->out, true, false, REASON_OPTION);
			r = piece(s, &want);
		}
		if (r < 0)
			return s->done ? (ssize_t)s->done : r;
		if (!s->done && !s->held)
			s->was_held = false;	/* a handler that came before anything had gone */
		s->done += (size_t)r;
	} while (r && (size_t)r == want && s->done < n);
	return (ssize_t)s->done;
}

ssize_t sock_sendfile(int out, int in, off_t *off, size_t n)
{
	struct sending s = { .out = out, .in = in, .off = off };

	hurry(out, true);
	ssize_t r = pieces(&s, n);
	if (s.held)
		conn_sleeper_back(s.held);
	return r;
}
