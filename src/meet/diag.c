/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * diag.c - whose is the TCP socket at the other end
 *
 * One exact look-up over netlink (some 15 us); the answer is in the queue when
 * the send returns.  Observed on Linux 6.18:
 *  - without such a connection the look-up finds a listener on the port, so
 *    what comes back is compared with what was asked;
 *  - an IPv4 request finds the IPv4-mapped socket of an IPv6 server, and says
 *    AF_INET6 with mapped addresses;
 *  - a kernel without inet_diag says ENOENT as well, so that is believed only
 *    when our own end of the same connection can be found.
 * Where netlink does not work /proc/net/tcp and tcp6 are read, at most once in
 * SCAN_GAP_NS for the whole process: that costs 4 us a socket of the host.
 */
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"
#include "meet/meet.h"

#define SCAN_GAP_NS	(100 * NS_PER_MS)
#define SCAN_MAX_BYTES	(32u << 20)
#define REPLIES_MAX	8		/* stale ones are skipped */
#define LINE_FIELDS	10

void diag_open(struct diag *d)
{
	memset(d, 0, offsetof(struct diag, buf));
	d->fd = config.fault.no_netlink ? -EAFNOSUPPORT : PRIVFD_NEW(sys3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				NETLINK_SOCK_DIAG));
	if (d->fd < 0)
		d->fd = -1;
}

void diag_close(struct diag *d)
{
	privfd_close(d->fd);
	d->fd = -1;
}

/* ---- netlink ---- */

struct request {
	struct nlmsghdr nlh;
	struct inet_diag_req_v2 req;
};

static int ask_kernel(struct diag *d, const struct meet_tuple *t)
{
	struct request q = {
		.nlh = {
			.nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = ++d->seq,
		},
		.req = {
			.sdiag_family = (uint8_t)t->family, .sdiag_protocol = IPPROTO_TCP,
			.idiag_states = ~0u,
			.id = {
				.idiag_sport = htons(t->lport), .idiag_dport = htons(t->rport),
				.idiag_if = t->scope,
				.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
			},
		},
	};
	ssize_t n;

	memcpy(q.req.id.idiag_src, t->laddr, 16);
	memcpy(q.req.id.idiag_dst, t->raddr, 16);
	do {
		n = sys_sendto(d->fd, &q, sizeof(q), MSG_DONTWAIT);
	} while (n == -EINTR);
	return n < 0 ? (int)n : 0;
}

/* One datagram of the kernel's: its length, or -errno. */
static ssize_t take_reply(struct diag *d)
{
	struct sockaddr_nl from = { 0 };
	struct iovec iov = { d->buf, sizeof(d->buf) };
	struct msghdr mh = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	do {
		n = sys_recvmsg(d->fd, &mh, MSG_DONTWAIT);
	} while (n == -EINTR);
	if (n >= 0 && (from.nl_pid != 0 || (mh.msg_flags & MSG_TRUNC)))
		return 0;		/* not the kernel's: skip it */
	return n;
}

static void id_tuple(struct meet_tuple *t, const struct inet_diag_msg *m)
{
	struct sockaddr_storage l = { 0 }, r = { 0 };

	l.ss_family = r.ss_family = m->idiag_family;
	if (m->idiag_family == AF_INET6) {
		struct sockaddr_in6 *l6 = (void *)&l, *r6 = (void *)&r;

		l6->sin6_port = m->id.idiag_sport;
		r6->sin6_port = m->id.idiag_dport;
		memcpy(&l6->sin6_addr, m->id.idiag_src, 16);
		memcpy(&r6->sin6_addr, m->id.idiag_dst, 16);
	} else {
		struct sockaddr_in *l4 = (void *)&l, *r4 = (void *)&r;

		l4->sin_port = m->id.idiag_sport;
		r4->sin_port = m->id.idiag_dport;
		memcpy(&l4->sin_addr, m->id.idiag_src, 4);
		memcpy(&r4->sin_addr, m->id.idiag_dst, 4);
	}
	if (meet_tuple_set(t, &l, &r) < 0)
		memset(t, 0, sizeof(*t));
}

static int read_answer(const struct diag *d, size_t n, const struct meet_tuple *t,
		       struct diag_result *r)
{
	const struct nlmsghdr *h = (const void *)d->buf;
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	const struct nlmsgerr *e = NLMSG_DATA(h);
	struct meet_tuple found;

	if (n < sizeof(*h) || h->nlmsg_len > n || h->nlmsg_seq != d->seq)
		return -EAGAIN;
	if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)))
		return e->error < 0 ? e->error : -EPROTO;
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EPROTO;
	id_tuple(&found, m);
	if (m->idiag_state == TCP_LISTEN || !meet_tuple_equal(&found, t))
		return -ENOENT;
	r->uid = m->idiag_uid;
	r->inode = m->idiag_inode;
	r->state = m->idiag_state;
	return 0;
}

/* The socket whose own view is t. */
static int lookup_netlink(struct diag *d, const struct meet_tuple *t, struct diag_result *r)
{
	int ret;

	if (d->fd < 0)
		return -EPROTONOSUPPORT;
	ret = ask_kernel(d, t);
	if (ret < 0)
		return ret;
	for (int i = 0; i < REPLIES_MAX; i++) {
		ssize_t n = take_reply(d);

		if (n < 0)
			return n == -EAGAIN ? -EPROTO : (int)n;
		ret = read_answer(d, (size_t)n, t, r);
		if (ret != -EAGAIN)
			return ret;
	}
	return -EPROTO;
}

/* ---- /proc ---- */

struct field {
	const char *p;
	size_t n;
};

static unsigned split(const char *p, const char *end, struct field f[LINE_FIELDS])
{
	unsigned n = 0;

	while (n < LINE_FIELDS) {
		while (p < end && *p == ' ')
			p++;
		if (p == end)
			break;
		f[n].p = p;
		while (p < end && *p != ' ')
			p++;
		f[n].n = (size_t)(p - f[n].p);
		n++;
	}
	return n;
}

static bool field_number(const struct field *f, unsigned base, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < f->n; i++) {
		unsigned c = (unsigned char)f->p[i], digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'A' && c <= 'F')
			digit = c - 'A' + 10;
		else
			return false;
		if (digit >= base)
			return false;
		*v = *v * base + digit;
	}
	return f->n > 0 && f->n <= 20;
}

/* "0100007F:1F90": each eight digits are a word as it lies in memory. */
static bool field_addr(const struct field *f, struct sockaddr_storage *sa)
{
	size_t words = f->n > 8 && f->p[8] == ':' ? 1 : 4;
	struct sockaddr_in6 *in6 = (void *)sa;
	struct sockaddr_in *in = (void *)sa;
	uint32_t addr[4];
	uint64_t v;

	if (f->n != words * 8 + 5 || f->p[words * 8] != ':')
		return false;
	for (size_t i = 0; i < words; i++) {
		if (!field_number(&(struct field){ f->p + 8 * i, 8 }, 16, &v))
			return false;
		addr[i] = (uint32_t)v;
	}
	if (!field_number(&(struct field){ f->p + words * 8 + 1, 4 }, 16, &v))
		return false;
	memset(sa, 0, sizeof(*sa));
	if (words == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)v);
		memcpy(&in->sin_addr, addr, 4);
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)v);
		memcpy(&in6->sin6_addr, addr, 16);
	}
	return true;
}

/* sl local remote st tx:rx tr:when retransmits uid timeout inode */
static bool line_matches(const char *p, const char *end, const struct meet_tuple *t,
			 struct diag_result *r)
{
	struct sockaddr_storage l, rem;
	struct field f[LINE_FIELDS];
	struct meet_tuple found;
	uint64_t state, uid, inode;

	if (split(p, end, f) < LINE_FIELDS || !field_addr(&f[1], &l) || !field_addr(&f[2], &rem) ||
	    meet_tuple_set(&found, &l, &rem) < 0 || !meet_tuple_equal(&found, t) ||
	    !field_number(&f[3], 16, &state) || state == TCP_LISTEN ||
	    !field_number(&f[7], 10, &uid) || !field_number(&f[9], 10, &inode))
		return false;
	r->uid = (uid_t)uid;
	r->inode = inode;
	r->state = (uint8_t)state;
	return true;
}

/* Whole lines of buf[0..len): true when found; *used is what they took. */
static bool scan_lines(const char *buf, size_t len, const struct meet_tuple *t,
		       struct diag_result *r, size_t *used)
{
	const char *p = buf, *nl;

	while ((nl = memchr(p, '\n', len - (size_t)(p - buf)))) {
		if (line_matches(p, nl, t, r))
			return true;
		p = nl + 1;
	}
	*used = (size_t)(p - buf);
	return false;
}

static int scan_fd(struct diag *d, int fd, const struct meet_tuple *t, struct diag_result *r)
{
	size_t have = 0, total = 0, used;

	for (;;) {
		ssize_t n = sys_read(fd, d->buf + have, sizeof(d->buf) - have);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		if (n == 0)
			return -ENOENT;
		have += (size_t)n;
		total += (size_t)n;
		if (scan_lines(d->buf, have, t, r, &used))
			return 0;
		have -= used;
		if (have == sizeof(d->buf) || total > SCAN_MAX_BYTES)
			return -EFBIG;
		memmove(d->buf, d->buf + used, have);
	}
}

int diag_scan_file(struct diag *d, const char *path, const struct meet_tuple *t,
		   struct diag_result *r)
{
	int fd = PRIVFD_NEW(sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
	int ret;

	if (fd < 0)
		return fd;
	ret = scan_fd(d, fd, t, r);
	privfd_close(fd);
	return ret;
}

static int scan_proc(struct diag *d, const struct meet_tuple *t, uint64_t now_ns,
		     struct diag_result *r)
{
	int ret = -ENOENT, ret6;

	if (d->scanned && now_ns - d->scan_ns < SCAN_GAP_NS)
		return -EAGAIN;
	d->scanned = true;
	d->scan_ns = now_ns;
	if (t->family == AF_INET)
		ret = diag_scan_file(d, "/proc/thread-self/net/tcp", t, r);
	if (ret == 0)
		return 0;
	/* an IPv6 socket may hold an IPv4 connection */
	ret6 = diag_scan_file(d, "/proc/thread-self/net/tcp6", t, r);
	if (ret6 == 0)
		return 0;
	if (t->family == AF_INET)	/* without IPv6 there is no tcp6, and need not be */
		return ret;
	return ret6 == -EAGAIN ? -EIO : ret6;
}

int diag_lookup(struct diag *d, const struct meet_tuple *t, uint64_t now_ns,
		struct diag_result *r)
{
	struct meet_tuple other;
	struct diag_result own;
	int ret;

	meet_tuple_swap(&other, t);
	ret = lookup_netlink(d, &other, r);
	if (ret == -ENOENT && !d->proven && lookup_netlink(d, t, &own) == 0)
		d->proven = true;
	if (ret == 0)
		d->proven = true;
	if (ret == 0 || (ret == -ENOENT && d->proven))
		return ret;
	return scan_proc(d, &other, now_ns, r);
}
