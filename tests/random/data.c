/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls that carry bytes.
 *
 * What is written is a pattern of the script's, so that what is read needs no
 * more than a digest; the digest covers the whole buffer, also what the call
 * must not have touched.
 */
#include "actor.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { VECTOR_MAX = 48, UNTOUCHED = 0xee };

void pattern_fill(unsigned char *p, size_t n, long pattern, size_t from)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char)((from + i) * 131 + ((from + i) >> 8) * 17 + (size_t)pattern * 29);
}

uint32_t digest(const unsigned char *p, size_t n)
{
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ *p++) * 16777619u;
	return h;
}

/* A vector over one buffer, from the lengths in the script. */
struct vector {
	struct iovec iov[VECTOR_MAX];
	int count;
	size_t total;
	unsigned char *buf;
};

static void vector_make(struct vector *v, const struct op *o, int from)
{
	size_t at = 0;
	int i;

	memset(v, 0, sizeof(*v));
	for (i = from; i < o->argc && v->count < VECTOR_MAX; i++)
		v->iov[v->count++].iov_len = (size_t)o->a[i];
	for (i = 0; i < v->count; i++)
		v->total += v->iov[i].iov_len;
	v->buf = malloc(v->total + 1);
	for (i = 0; i < v->count; i++) {
		v->iov[i].iov_base = v->iov[i].iov_len ? v->buf + at : NULL;
		at += v->iov[i].iov_len;
	}
}

/* The vector as two messages, for the mmsg calls: the first entry, and the rest. */
static void vector_split(const struct vector *v, struct mmsghdr m[2])
{
	memset(m, 0, 2 * sizeof(*m));
	m[0].msg_hdr.msg_iov = (struct iovec *)v->iov;
	m[0].msg_hdr.msg_iovlen = v->count > 0;
	m[1].msg_hdr.msg_iov = (struct iovec *)v->iov + 1;
	m[1].msg_hdr.msg_iovlen = v->count > 1 ? (size_t)v->count - 1 : 0;
}

/* write PLACE HOW FLAGS PATTERN LENGTH... */
static void write_run(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), flags = (int)o->a[2];
	struct mmsghdr m[2];
	struct vector v;
	char more[64] = "";
	long r = -1;

	vector_make(&v, o, 4);
	pattern_fill(v.buf, v.total, o->a[3], 0);
	vector_split(&v, m);
	mark();
	switch (o->a[1]) {
	case 0: r = send(fd, v.buf, v.total, flags); break;
	case 1: r = write(fd, v.buf, v.total); break;
	case 2: r = writev(fd, v.iov, v.count); break;
	case 3: r = sendmsg(fd, &(struct msghdr){ .msg_iov = v.iov, .msg_iovlen = (size_t)v.count }, flags); break;
	case 4: r = sendto(fd, v.buf, v.total, flags, NULL, 0); break;
	case 5: r = sendmmsg(fd, m, v.count > 1 ? 2 : 1, flags); break;
	case 6: r = pwritev2(fd, v.iov, v.count, -1, 0); break;
	default: break;
	}
	if (o->a[1] == 5 && r > 0)
		snprintf(more, sizeof(more), " %u %u", m[0].msg_len, r > 1 ? m[1].msg_len : 0);
	say_result(e, o, r, more);
	free(v.buf);
}

/* What a read has left behind, beside its value. */
static void read_say(struct end *e, const struct op *o, const struct vector *v, long r, const char *more)
{
	char text[128];

	snprintf(text, sizeof(text), " #%08x%s", digest(v->buf, v->total), more);
	say_result(e, o, r, text);
}

/*
 * How much ancillary data there is, but for the time stamp: bytes have one if
 * any socket of the machine wanted them when they came in.
 */
static size_t control_len(struct msghdr *h)
{
	size_t n = h->msg_controllen;
	struct cmsghdr *m;

	for (m = CMSG_FIRSTHDR(h); m; m = CMSG_NXTHDR(h, m))
		if (m->cmsg_level == SOL_SOCKET && m->cmsg_type == SO_TIMESTAMP)
			n -= CMSG_SPACE(sizeof(struct timeval));
	return n;
}

/* What is left, as TCP_INQ tells it; -1: it does not. */
static int inq_told(struct msghdr *h)
{
	struct cmsghdr *m;

	for (m = CMSG_FIRSTHDR(h); m; m = CMSG_NXTHDR(h, m))
		if (m->cmsg_level == IPPROTO_TCP && m->cmsg_type == TCP_CM_INQ)
			return *(int *)(void *)CMSG_DATA(m);
	return -1;
}

/* ... and whether it was asked for and found no room, for the same reason. */
static int flags_told(int fd, int flags)
{
	socklen_t len = sizeof(int);
	int on = 0;

	if (flags & MSG_CTRUNC && getsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, &len) == 0 && on)
		flags &= ~MSG_CTRUNC;
	return flags;
}

/* read PLACE HOW FLAGS LENGTH... */
static void read_run(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), flags = (int)o->a[2];
	char control[64], more[96] = "";
	struct sockaddr_storage from;
	socklen_t fromlen = sizeof(from);
	struct mmsghdr m[2];
	struct vector v;
	long r = -1;

	vector_make(&v, o, 3);
	memset(v.buf, UNTOUCHED, v.total);
	struct msghdr h = { .msg_iov = v.iov, .msg_iovlen = (size_t)v.count, .msg_name = &from, .msg_namelen = sizeof(from),
			    .msg_control = control, .msg_controllen = sizeof(control) };
	vector_split(&v, m);
	mark();
	switch (o->a[1]) {
	case 0: r = recv(fd, v.buf, v.total, flags); break;
	case 1: r = read(fd, v.buf, v.total); break;
	case 2: r = readv(fd, v.iov, v.count); break;
	case 3: r = recvmsg(fd, &h, flags); break;
	case 4: r = recvfrom(fd, v.buf, v.total, flags, (struct sockaddr *)&from, &fromlen); break;
	case 5: r = recvmmsg(fd, m, v.count > 1 ? 2 : 1, flags, NULL); break;
	case 6: r = preadv2(fd, v.iov, v.count, -1, 0); break;
	default: break;
	}
	if (o->a[1] == 3 && r > 0)	/* at the end, who knows it says so without the kernel */
		snprintf(more, sizeof(more), " flags %#x name %u control %zu inq %d", h.msg_flags, h.msg_namelen,
			 control_len(&h), inq_told(&h));
	if (o->a[1] == 4 && r >= 0)
		snprintf(more, sizeof(more), " name %u", fromlen);
	if (o->a[1] == 5 && r > 0)
		snprintf(more, sizeof(more), " %u %u %#x", m[0].msg_len, r > 1 ? m[1].msg_len : 0,
			 flags_told(fd, m[0].msg_hdr.msg_flags));
	read_say(e, o, &v, r, more);
	free(v.buf);
}

/* bulkwrite PLACE BYTES CHUNK PATTERN: all of it, however the calls return */
static void bulkwrite_run(struct end *e, const struct op *o)
{
	size_t n = (size_t)o->a[1], done = 0, chunk = (size_t)o->a[2];
	unsigned char *buf = malloc(n);
	ssize_t k = 0;

	pattern_fill(buf, n, o->a[3], 0);
	while (done < n) {
		k = send(fd_at(e, o->a[0]), buf + done, n - done < chunk ? n - done : chunk, MSG_NOSIGNAL);
		if (k > 0)
			done += (size_t)k;
		else if (k < 0 && errno == EAGAIN)
			event_await(fd_at(e, o->a[0]), POLLOUT);
		else
			break;
	}
	mark();
	say_result(e, o, (long)done, k <= 0 ? " failed" : "");
	free(buf);
}

/* Read n bytes or up to the end, waiting by poll where the socket does not block. */
static size_t read_whole(int fd, unsigned char *buf, size_t n, size_t chunk)
{
	size_t done = 0;
	ssize_t k;

	while (done < n) {
		k = recv(fd, buf + done, n - done < chunk ? n - done : chunk, 0);
		if (k > 0)
			done += (size_t)k;
		else if (k == 0 || errno != EAGAIN || !event_await(fd, POLLIN))
			break;
	}
	return done;
}

/* bulkread PLACE BYTES CHUNK */
static void bulkread_run(struct end *e, const struct op *o)
{
	size_t n = (size_t)o->a[1], done;
	unsigned char *buf = calloc(1, n + 1);
	char more[32];

	done = read_whole(fd_at(e, o->a[0]), buf, n, (size_t)o->a[2]);
	snprintf(more, sizeof(more), " #%08x", digest(buf, n));
	mark();
	say_result(e, o, (long)done, more);
	free(buf);
}

/* flood PLACE CHUNK PATTERN: until it would block; how much that is, TCP leaves open */
static void flood_run(struct end *e, const struct op *o)
{
	unsigned char *buf = malloc((size_t)o->a[1]);
	ssize_t k;

	e->flooded = 0;
	do {
		pattern_fill(buf, (size_t)o->a[1], o->a[2], (size_t)e->flooded);
		mark();
		k = send(fd_at(e, o->a[0]), buf, (size_t)o->a[1], MSG_DONTWAIT | MSG_NOSIGNAL);
		if (k > 0)
			e->flooded += k;
	} while (k > 0 && e->flooded < 64L << 20);
	say_result(e, o, k < 0 ? -1 : 0, "");
	free(buf);
}

/* drain PLACE CHUNK PATTERN: what the flood has written, byte by byte the same */
static void drain_run(struct end *e, const struct op *o)
{
	size_t n = (size_t)e->flooded, done;
	unsigned char *buf = calloc(1, n + 1), *want = malloc(n + 1);

	done = read_whole(fd_at(e, o->a[0]), buf, n, (size_t)o->a[1]);
	pattern_fill(want, n, o->a[2], 0);
	say(e, o, "%s, %s", done == n ? "all" : "not all", memcmp(buf, want, n) ? "wrong" : "right");
	free(buf);
	free(want);
}

/* sendfile PLACE BYTES SIZE OFFSET PATTERN: from a file of SIZE; OFFSET -1: the file's own */
static void sendfile_run(struct end *e, const struct op *o)
{
	int file = memfd_create("random", MFD_CLOEXEC);
	size_t size = (size_t)o->a[2];
	unsigned char *buf = malloc(size + 1);
	off_t off = o->a[3];
	char more[48];
	ssize_t r;

	pattern_fill(buf, size, o->a[4], 0);
	if (file < 0 || write(file, buf, size) != (ssize_t)size || lseek(file, 0, SEEK_SET) < 0)
		give_up(e->r, "memfd_create");
	mark();
	r = sendfile(fd_at(e, o->a[0]), file, off < 0 ? NULL : &off, (size_t)o->a[1]);
	snprintf(more, sizeof(more), " at %ld, %ld", (long)off, (long)lseek(file, 0, SEEK_CUR));
	say_result(e, o, r, more);
	close(file);
	free(buf);
}

/* splicein PLACE BYTES: from the socket by a pipe; a call moves what a pipe takes */
static void splicein_run(struct end *e, const struct op *o)
{
	size_t n = (size_t)o->a[1], done = 0;
	unsigned char *buf = calloc(1, n + 1);
	ssize_t k = 1;
	char more[32];
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		give_up(e->r, "pipe2");
	while (done < n) {
		mark();
		k = splice(fd_at(e, o->a[0]), NULL, p[1], NULL, n - done, 0);
		if (k <= 0 || read(p[0], buf + done, (size_t)k) != k)
			break;
		done += (size_t)k;
	}
	snprintf(more, sizeof(more), " #%08x", digest(buf, n));
	say_result(e, o, k < 0 ? -1 : (long)done, more);
	close(p[0]);
	close(p[1]);
	free(buf);
}

/* spliceout PLACE BYTES PATTERN FLAGS: into the socket, BYTES at most a pipe's */
static void spliceout_run(struct end *e, const struct op *o)
{
	size_t n = (size_t)o->a[1];
	unsigned char *buf = malloc(n + 1);
	ssize_t r;
	int p[2];

	pattern_fill(buf, n, o->a[2], 0);
	if (pipe2(p, O_CLOEXEC) < 0 || write(p[1], buf, n) != (ssize_t)n)
		give_up(e->r, "pipe2");
	mark();
	r = splice(p[0], NULL, fd_at(e, o->a[0]), NULL, n, (unsigned int)o->a[3]);
	say_result(e, o, r, "");
	close(p[0]);
	close(p[1]);
	free(buf);
}

/* zerocopy PLACE BYTES PATTERN: and the kernel's word that it has done with them */
static void zerocopy_run(struct end *e, const struct op *o)
{
	int fd = fd_at(e, o->a[0]), one = 1, told;
	size_t n = (size_t)o->a[1];
	unsigned char *buf = malloc(n + 1);
	struct sock_extended_err *err;
	char control[128], more[96] = "";
	struct msghdr h = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *m;
	long r, k;

	pattern_fill(buf, n, o->a[2], 0);
	setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
	mark();
	r = send(fd, buf, n, MSG_ZEROCOPY | MSG_NOSIGNAL);
	say_result(e, o, r, "");
	drained_await(fd);
	told = event_settled(fd, 0, POLLERR);
	mark();
	k = recvmsg(fd, &h, MSG_ERRQUEUE);
	m = k < 0 ? NULL : CMSG_FIRSTHDR(&h);
	err = m ? (void *)CMSG_DATA(m) : NULL;
	if (err)
		snprintf(more, sizeof(more), " flags %#x errno %u origin %u code %u: %u to %u", h.msg_flags, err->ee_errno,
			 err->ee_origin, err->ee_code, err->ee_info, err->ee_data);
	say_result(e, o, k, more);
	say(e, o, "events %#x", (unsigned int)(told & POLLERR));
	free(buf);
}

const struct call data_calls[] = {
	{ "write", write_run },
	{ "read", read_run },
	{ "bulkwrite", bulkwrite_run },
	{ "bulkread", bulkread_run },
	{ "flood", flood_run },
	{ "drain", drain_run },
	{ "sendfile", sendfile_run },
	{ "splicein", splicein_run },
	{ "spliceout", spliceout_run },
	{ "zerocopy", zerocopy_run },
	{ NULL, NULL }
};
