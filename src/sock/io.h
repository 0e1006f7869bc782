/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * io.h - one form for all calls that move bytes
 *
 * calls.c brings read, recvmsg, ... to a struct io; tx_run() and rx_run()
 * carry it out, cold (the same libc call, unchanged) or on the ring.
 */
#ifndef SOCK_IO_H
#define SOCK_IO_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/real.h"
#include "sock/conn.h"

struct io {
	enum call_id call;		/* the libc function */
	const struct iovec *iov;
	int cnt;
	int flags;			/* of send and recv; 0 for read and write */
	size_t total;			/* bytes in iov */
	size_t done;
	size_t asked;			/* of the kernel, by the last write to it */
	struct msghdr *msg;		/* recvmsg, sendmsg */
	struct sockaddr *addr;		/* recvfrom, sendto */
	socklen_t *addrlen;
	socklen_t salen;
	int rwflags;			/* preadv2, pwritev2 */
	bool bad;			/* an entry with bytes is no address of a program's */
	bool coming;			/* when the kernel was read, more was on its way there */
	bool whose_end;			/* far: asked first, see conn_far_end_ask() */
	int left;			/* TCP_INQ, as the kernel has told it with its part; 0: it has not */
};

/* Return: bytes, or -errno.  Raises SIGPIPE as the kernel would. */
ssize_t tx_run(int fd, struct io *io);
ssize_t rx_run(int fd, struct io *io);
/*
 * What a call that has had some taken goes on with, as a sleeper on *held, whatever
 * has become of fd; io->total is set.  *held is NULL when a handler has run: the
 * call is over then.
 */
ssize_t tx_run_on(struct conn **held, int fd, struct io *io, bool part);

/* read(), recv(), write(), send(): the same, and quicker where there is no ring. */
ssize_t tx_one(int fd, enum call_id call, const void *buf, size_t n, int flags);
ssize_t rx_one(int fd, enum call_id call, void *buf, size_t n, int flags);

/*
 * An address that the kernel would answer with EFAULT and where we would crash:
 * near NULL, or beyond any program's memory.  What is unmapped in between is
 * not looked for; that costs a system call a time.  The manual says so.
 */
static inline bool io_bad_address(const void *p)
{
	return (uintptr_t)p - 4096 >= (1ull << 56) - 4096;
}

/* Bytes that the kernel takes or gives without a word about their address or number. */
static inline bool io_is_easy(const void *p, size_t n)
{
	return n && n <= 0x7ffff000 && !io_bad_address(p);
}

/* read() or recv(), write() or send() of the program's own: bytes, or -errno. */
ssize_t io_kernel_in(int fd, enum call_id call, const struct iovec *v, int flags);
ssize_t io_kernel_out(int fd, enum call_id call, const struct iovec *v, int flags);

/* -EINVAL, -EMSGSIZE, -EFAULT as the kernel says of a bad vector; sets total, bad */
int io_check(struct io *io);

/* The libc call with the program's own arguments; -errno. */
ssize_t io_kernel(int fd, struct io *io);

/* Rest of the vector after skip bytes, at most max bytes, into out[room]. Return: entries. */
#define IO_SLICE 16
int io_slice(const struct io *io, size_t skip, size_t max, struct iovec *out, int room);

/*
 * Bytes between a vector (from skip on) and a ring of mask + 1 bytes (from at on).
 * past: by copy_past_caches().
 */
void io_to_ring(const struct io *io, size_t skip, uint8_t *ring, uint64_t mask, uint64_t at,
		size_t n, bool past);
void io_from_ring(const struct io *io, size_t skip, const uint8_t *ring, uint64_t mask,
		  uint64_t at, size_t n);
/* One byte of the vector. */
uint8_t io_byte(const struct io *io, size_t skip);

/*
 * Around a kernel call that moves bytes of ours without tx_run(): begin with
 * txl held (given away), end without.  head: the first bytes that went, n in
 * all, alone what begin() said; NULL when they are not known.
 */
bool tx_kernel_begin(struct conn *c);
void tx_kernel_end(struct conn *c, uint32_t gen, bool alone, const void *head, size_t nhead,
		   size_t n);

/* Would the next write go to the ring, or try to?  txl held. */
bool tx_for_ring(struct conn *c);

/* rx.c: n bytes of the kernel's went elsewhere than through a read. No lock held. */
void rx_spliced(int fd, size_t n);

/* rx.c: look at how far the peer has filled our ring; rxl held.  false: it told nonsense. */
bool rx_look(struct conn *c);

/* warm.c: is a meeting worth a try, or GRANT?  Cheap.  Any thread, a lock of c held
 * (or none, in the background). */
void conn_warm(struct conn *c);

#endif
