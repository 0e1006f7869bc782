/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * data.c - the regular wrappers of the whole table, and the calls that move
 * bytes but take a second look at their arguments first
 *
 * The fortified variants check as libc does, by letting libc fail, and then go
 * the way of the plain ones.
 */
#include "preload/door.h"

#define WRAP_data(ret, name, nr, params, args) \
	ret door_##name params \
	{ \
		if (!door_up()) \
			return (ret)DOOR_RAW(nr, args); \
		if (door_tracked(fd)) \
			return DOOR_RET(sock_##name args); \
		privfd_quiet(); \
		return real.name args; \
	}
#define WRAP_shut WRAP_data
#define WRAP_fresh(ret, name, nr, params, args) \
	ret door_##name params \
	{ \
		if (!door_up()) \
			return (ret)DOOR_RAW(nr, args); \
		return door_fresh(DOOR_NUMBER(real.name args)); \
	}
#define WRAP_pass(ret, name, nr, params, args) \
	ret door_##name params \
	{ \
		if (!door_up()) \
			return (ret)DOOR_RAW(nr, args); \
		return real.name args; \
	}
#define WRAP_own(ret, name, nr, params, args)

#define X(kind, ret, name, nr, params, args) WRAP_##kind(ret, name, nr, params, args)
CALLS(X)
#undef X

DOOR_ALIAS(__read, read)
DOOR_ALIAS(__write, write)
DOOR_ALIAS(__connect, connect)

ssize_t door_recv(int fd, void *buf, size_t n, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_recvfrom, (fd, buf, n, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_recv(fd, buf, n, flags));
	privfd_quiet();
	return real.recv(fd, buf, n, flags);
}

ssize_t door_send(int fd, const void *buf, size_t n, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_sendto, (fd, buf, n, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_send(fd, buf, n, flags));
	privfd_quiet();
	return real.send(fd, buf, n, flags);
}
DOOR_ALIAS(__send, send)

ssize_t door___read_chk(int fd, void *buf, size_t n, size_t buflen)
{
	if (unlikely(n > buflen) && door_up())
		return real.__read_chk(fd, buf, n, buflen);
	return door_read(fd, buf, n);
}

ssize_t door___recv_chk(int fd, void *buf, size_t n, size_t buflen, int flags)
{
	if (unlikely(n > buflen) && door_up())
		return real.__recv_chk(fd, buf, n, buflen, flags);
	return door_recv(fd, buf, n, flags);
}

ssize_t door___recvfrom_chk(int fd, void *buf, size_t n, size_t buflen, int flags,
			    struct sockaddr *addr, socklen_t *len)
{
	if (unlikely(n > buflen) && door_up())
		return real.__recvfrom_chk(fd, buf, n, buflen, flags, addr, len);
	return door_recvfrom(fd, buf, n, flags, addr, len);
}

/*
 * On a stream only the offset -1 ("as readv") means anything; every other is
 * ESPIPE, which the kernel says best.  The raw calls want the offset in two
 * halves, of which the second is not looked at on 64 bits.
 */
ssize_t door_preadv2(int fd, const struct iovec *iov, int cnt, off_t off, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_preadv2, (fd, iov, cnt, off, 0, flags));
	if (off == -1 && door_tracked(fd))
		return DOOR_RET(sock_preadv2(fd, iov, cnt, off, flags));
	return real.preadv2(fd, iov, cnt, off, flags);
}
exported extern __typeof__(door_preadv2) door_preadv64v2 __attribute__((alias("preadv2")));

ssize_t door_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_pwritev2, (fd, iov, cnt, off, 0, flags));
	if (off == -1 && door_tracked(fd))
		return DOOR_RET(sock_pwritev2(fd, iov, cnt, off, flags));
	return real.pwritev2(fd, iov, cnt, off, flags);
}
exported extern __typeof__(door_pwritev2) door_pwritev64v2 __attribute__((alias("pwritev2")));

ssize_t door_sendfile64(int fd, int in, off64_t *off, size_t n)
{
	return door_sendfile(fd, in, (off_t *)off, n);
}

_Static_assert(sizeof(off_t) == sizeof(off64_t), "one offset type, or the 64s need their own way");

ssize_t door_splice(int in, off64_t *inoff, int out, off64_t *outoff, size_t n, unsigned flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_splice, (in, inoff, out, outoff, n, flags));
	if (door_tracked(in) || door_tracked(out))
		return DOOR_RET(sock_splice(in, inoff, out, outoff, n, flags));
	return real.splice(in, inoff, out, outoff, n, flags);
}

ssize_t door_tee(int in, int out, size_t n, unsigned flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_tee, (in, out, n, flags));
	if (door_tracked(in) || door_tracked(out))
		return DOOR_RET(sock_tee(in, out, n, flags));
	return real.tee(in, out, n, flags);
}
