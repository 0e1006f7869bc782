/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * msg.c - see msg.h
 *
 * The peer is hostile until proven otherwise: the control buffer holds just
 * MEET_MAX_FDS descriptors (the kernel drops the others and says MSG_CTRUNC),
 * and every way out that is not success closes what came.
 */
#include "meet/msg.h"

#include <string.h>

#include "base/privfd.h"
#include "base/sys.h"

_Static_assert(sizeof(struct meet_msg) == MEET_MSG_BYTES, "layout");
_Static_assert(offsetof(struct meet_msg, instance) == 8, "layout");
_Static_assert(offsetof(struct meet_msg, ask.pid) == 60, "layout");
_Static_assert(offsetof(struct meet_msg, answer.reason) == 17, "layout");
_Static_assert(offsetof(struct meet_msg, hello.ring_bytes) == 32, "layout");
_Static_assert(offsetof(struct meet_msg, hello.rnic) == 64, "layout");
_Static_assert(offsetof(struct meet_msg, hello.opaque) == 192, "layout");

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(MEET_MAX_FDS * sizeof(int))];
};

void meet_msg_init(struct meet_msg *m, enum meet_type type, uint64_t instance)
{
	memset(m, 0, sizeof(*m));
	m->magic = MEET_MAGIC;
	m->version = MEET_VERSION;
	m->type = (uint8_t)type;
	m->instance = instance;
}

int meet_send(int fd, const struct meet_msg *m, const int *fds, unsigned nfds)
{
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control ctl;
	ssize_t n;

	if (nfds > MEET_MAX_FDS || (nfds && m->type != MEET_HELLO))
		return -EINVAL;
	if (nfds) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&ctl.align), fds, nfds * sizeof(int));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	}
	do {
		n = sys_sendmsg(fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n == -EINTR);
	return n < 0 ? (int)n : 0;
}

static void close_all(int *fds, unsigned *nfds)
{
	while (*nfds)
		privfd_close(fds[--*nfds]);
}

/* Move the descriptors of one SCM_RIGHTS to where the program does not see them. */
static int adopt_rights(struct cmsghdr *c, int *fds, unsigned *nfds)
{
	unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	int err = 0;

	for (unsigned i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		if (*nfds == MEET_MAX_FDS) {
			sys_close(fd);
			err = -EPROTO;
			continue;
		}
		fd = privfd_adopt(fd);
		if (fd < 0)
			err = fd;
		else
			fds[(*nfds)++] = fd;
	}
	return err;
}

static int take_control(struct msghdr *mh, int *fds, unsigned *nfds)
{
	int err = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		int ret = -EPROTO;

		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			ret = adopt_rights(c, fds, nfds);
		if (ret < 0)
			err = ret;
	}
	return err;
}

static bool body_ok(const struct meet_msg *m)
{
	switch (m->type) {
	case MEET_ASK:
		return meet_tuple_sane(&m->ask.tuple);
	case MEET_ANSWER:
		return m->answer.verdict >= MEET_MINE && m->answer.verdict <= MEET_REFUSED;
	case MEET_HELLO:
		return m->hello.rnic_bytes <= MEET_RNIC_BYTES;
	default:
		return false;
	}
}

static bool msg_ok(const struct meet_msg *m, unsigned nfds)
{
	return m->magic == MEET_MAGIC && m->version == MEET_VERSION && m->zero == 0 &&
	       body_ok(m) && (!nfds || m->type == MEET_HELLO);
}

int meet_recv(int fd, struct meet_msg *m, int *fds, unsigned *nfds)
{
	struct iovec iov = { m, sizeof(*m) };
	union control ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &ctl, .msg_controllen = sizeof(ctl),
	};
	ssize_t n;
	int err;

	*nfds = 0;
	privfd_begin();
	do {
		n = sys_recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n == -EINTR);
	err = n < 0 ? 0 : take_control(&mh, fds, nfds);
	privfd_end();
	if (n < 0)	/* a reset: the peer closed with something of ours unread */
		return n == -ECONNRESET ? 0 : (int)n;
	/* An empty datagram reads as 0 too, but ends the meeting just as well. */
	if (n == 0 && !*nfds && !err && !(mh.msg_flags & MSG_CTRUNC))
		return 0;
	if (!err && (n != sizeof(*m) || mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !msg_ok(m, *nfds)))
		err = -EPROTO;
	if (err)
		close_all(fds, nfds);
	return err ? err : 1;
}
