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
 * Where netlink does not work /proc/net/tcp and tcp6 are read (scan.h).
 */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/config.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"
#include "meet/meet.h"
#include "meet/scan.h"

#define REPLIES_MAX	8		/* stale ones are skipped */

void diag_open(struct diag *d)
{
	d->proven = false;
	scan_open(&d->scan);
	d->fd = -1;
	if (config.fault.no_netlink)
		return;
	d->fd = PRIVFD_NEW(sys3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				NETLINK_SOCK_DIAG));
	if (d->fd < 0)
		d->fd = -1;
}

void diag_close(struct diag *d)
{
	privfd_close(d->fd);
	d->fd = -1;
	scan_drop(&d->scan);
}

void diag_drop(struct diag *d)
{
	scan_drop(&d->scan);
}

void diag_forget(struct diag *d)
{
	d->fd = -1;
	scan_drop(&d->scan);
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

int diag_lookup(struct diag *d, const struct meet_tuple *t, uint32_t first, uint64_t now_ns,
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
	return scan_find(&d->scan, &other, first, now_ns, r);
}

uint32_t diag_next(const struct diag *d)
{
	return scan_next(&d->scan);
}

bool diag_ready(const struct diag *d, uint32_t first, uint64_t now_ns)
{
	return scan_ready(&d->scan, first, now_ns);
}
