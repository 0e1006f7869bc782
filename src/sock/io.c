/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* io.c - vectors, and the way back to libc */
#define _GNU_SOURCE
#include "sock/io.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "ring/ring.h"
#include "base/section.h"

int io_check(struct io *io)
{
	size_t total = 0;

	if (io->cnt < 0 || io->cnt > IOV_MAX)
		return io->msg ? -EMSGSIZE : -EINVAL;
	if (io->cnt && io_bad_address(io->iov))
		return -EFAULT;
	for (int i = 0; i < io->cnt; i++) {
		size_t n = io->iov[i].iov_len;

		if (n > (size_t)SSIZE_MAX - total)
			return -EINVAL;
		total += n;
		io->bad |= n && io_bad_address(io->iov[i].iov_base);
	}
	io->total = MIN(total, (size_t)0x7ffff000);	/* MAX_RW_COUNT */
	return 0;
}

static ssize_t call(int fd, struct io *io)
{
	bool one = io->cnt > 0 && !io_bad_address(io->iov);	/* or the kernel says so */
	void *p = one ? io->iov[0].iov_base : NULL;
	size_t n = one ? io->iov[0].iov_len : 0;

	switch (io->call) {
	case CALL_read:
		return real_result(real.read(fd, p, n));
	case CALL_readv:
		return real_result(real.readv(fd, io->iov, io->cnt));
	case CALL_preadv2:
		return real_result(real.preadv2(fd, io->iov, io->cnt, -1, io->rwflags));
	case CALL_recv:
		return real_result(real.recv(fd, p, n, io->flags));
	case CALL_recvfrom:
		return real_result(real.recvfrom(fd, p, n, io->flags, io->addr, io->addrlen));
	case CALL_recvmsg:
		return real_result(real.recvmsg(fd, io->msg, io->flags));
	case CALL_write:
		return real_result(real.write(fd, p, n));
	case CALL_writev:
		return real_result(real.writev(fd, io->iov, io->cnt));
	case CALL_pwritev2:
		return real_result(real.pwritev2(fd, io->iov, io->cnt, -1, io->rwflags));
	case CALL_send:
		return real_result(real.send(fd, p, n, io->flags));
	case CALL_sendto:
		return real_result(real.sendto(fd, p, n, io->flags, io->addr, io->salen));
	case CALL_sendmsg:
		return real_result(real.sendmsg(fd, io->msg, io->flags));
	default:
		return -ENOSYS;
	}
}

ssize_t io_kernel(int fd, struct io *io)
{
	return section_away(call(fd, io));
}

ssize_t io_kernel_in(int fd, enum call_id call, const struct iovec *v, int flags)
{
	return section_away(real_result(call == CALL_read
				   ? real.read(fd, v->iov_base, v->iov_len)
				   : real.recv(fd, v->iov_base, v->iov_len, flags)));
}

ssize_t io_kernel_out(int fd, enum call_id call, const struct iovec *v, int flags)
{
	return section_away(real_result(call == CALL_write
				   ? real.write(fd, v->iov_base, v->iov_len)
				   : real.send(fd, v->iov_base, v->iov_len, flags)));
}

int io_slice(const struct io *io, size_t skip, size_t max, struct iovec *out, int room)
{
	int k = 0;

	for (int i = 0; i < io->cnt && k < room && max; i++) {
		size_t n = io->iov[i].iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		out[k].iov_base = (char *)io->iov[i].iov_base + skip;
		out[k].iov_len = MIN(n - skip, max);
		max -= out[k++].iov_len;
		skip = 0;
	}
	return k;
}

uint8_t io_byte(const struct io *io, size_t skip)
{
	struct iovec v[IO_SLICE];

	return io_slice(io, skip, 1, v, IO_SLICE) ? *(uint8_t *)v[0].iov_base : 0;
}

void io_to_ring(const struct io *io, size_t skip, uint8_t *ring, uint64_t mask, uint64_t at,
		size_t n, bool past)
{
	for (int i = 0; i < io->cnt && n; i++) {
		const char *p = io->iov[i].iov_base;
		size_t len = io->iov[i].iov_len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		p += skip;
		len = MIN(len - skip, n);
		skip = 0;
		n -= len;
		if (unlikely(past))
			ring_put_past(ring, mask, at, p, len);
		else
			ring_put(ring, mask, at, p, len);
		at += len;
	}
}

void io_from_ring(const struct io *io, size_t skip, const uint8_t *ring, uint64_t mask,
		  uint64_t at, size_t n)
{
	for (int i = 0; i < io->cnt && n; i++) {
		char *p = io->iov[i].iov_base;
		size_t len = io->iov[i].iov_len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		p += skip;
		len = MIN(len - skip, n);
		skip = 0;
		n -= len;
		ring_get(ring, mask, at, p, len);
		at += len;
	}
}
