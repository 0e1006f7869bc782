/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * message.c - recvmsg, sendmsg, their plurals and pidfd_getfd
 *
 * Over a local socket these pass descriptors (SCM_RIGHTS).  One of ours on its
 * way out leaves the ring first: the receiver holds a kernel socket and
 * nothing else.  One that comes in has a new number, so an entry left behind
 * under that goes.  The kernel drops what it has no number for, so where all are
 * taken some of ours go before a message is received that may bring any.  Whether it
 * does is seen by a look, which takes an error that waits: the call returns that then.
 */
#include <string.h>
#include <sys/resource.h>

#include "base/privfd.h"

#include "preload/door.h"

/* call each(fd) for every descriptor in the control part of msg */
static void rights_each(const struct msghdr *msg, void (*each)(int fd))
{
	struct msghdr *m = (struct msghdr *)(uintptr_t)msg;	/* CMSG_NXTHDR only reads */

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len < CMSG_LEN(0))
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			each(fd);
		}
	}
}

void door_passed_on(int fd)
{
	if (door_known(fd))
		DOOR_ASIDE(sock_foreign(fd, REASON_FD_PASSED));
}

static void came_in(int fd)
{
	if (fd >= 0 && door_on())
		DOOR_ASIDE(sock_came_in(fd));
}

static bool has_control(const struct msghdr *msg)
{
	return msg && msg->msg_control && msg->msg_controllen >= sizeof(struct cmsghdr);
}

enum { AT_ONCE = 16, LOOK = 128, LOOK_BYTES = 512 };	/* descriptors that room is made for; numbers looked at */

/* How many of the n numbers from first on are free? */
static int free_from(int first, int n)
{
	struct timespec zero = { 0, 0 };
	struct pollfd p[LOOK];
	int none = 0;

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = first + i };
	if (sys_ppoll(p, (unsigned)n, &zero, NULL) < 0)
		return n;
	for (int i = 0; i < n; i++)
		none += p[i].revents == POLLNVAL;
	return none;
}

/* Are there so many free numbers? */
static bool numbers_free(int want)
{
	static int hint;		/* where there were some the last time */
	int start = ld_rlx(&hint), have = 0;
	struct rlimit rl;

	if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &rl) < 0 || !rl.rlim_cur)
		return true;
	int most = (int)MIN(rl.rlim_cur, (rlim_t)1 << 20), blocks = (most + LOOK - 1) / LOOK;
	for (int i = 0; i < blocks && have < want; i++) {
		int first = (start + i) % blocks * LOOK;

		have += free_from(first, MIN(LOOK, most - first));
		st_rlx(&hint, (start + i) % blocks);
	}
	return have >= want;
}

static bool is_local(int fd)
{
	return sys_sockopt_int(fd, SOL_SOCKET, SO_DOMAIN) == AF_UNIX;
}

/*
 * Does the next message bring descriptors?  They come behind all that may come with it
 * (credentials, times, labels), and only into more room than a header has.  So the
 * room is made larger until a header's is left over and something is cut off all the
 * same; none of them is ever received.  Return: 0, 1, or -errno.
 */
static int brings(int fd)
{
	char control[LOOK_BYTES] __attribute__((aligned(8)));

	for (size_t room = 0; room <= sizeof(control); room += sizeof(long)) {
		struct msghdr look = { .msg_control = room ? control : NULL, .msg_controllen = room };
		ssize_t n = sys_recvmsg(fd, &look, MSG_PEEK | MSG_DONTWAIT);

		if (n < 0 || !(look.msg_flags & MSG_CTRUNC))
			return (int)MIN(n, (ssize_t)0);
		if (room - look.msg_controllen >= CMSG_LEN(0))
			return 1;
	}
	return 1;
}

/* Return: 0, or the error that the call is to return. */
static int rights_room(int fd, size_t control, int flags)
{
	static bool spent;		/* there is nothing of ours left to give up */

	if (control <= CMSG_LEN(0) || flags & MSG_OOB || ld_rlx(&spent) || privfd_next(0) < 0 ||
	    ld_rlx(&door_filtered))
		return 0;
	int want = (int)MIN((control - CMSG_LEN(0)) / sizeof(int), (size_t)AT_ONCE);
	if (!is_local(fd) || numbers_free(want))
		return 0;
	int yes = brings(fd);
	if (yes == 0 || yes == -ECONNRESET)
		return yes;
	do
		st_rlx(&spent, !door_make_room());
	while (!ld_rlx(&spent) && !numbers_free(want));
	return 0;
}

/* The same for a call of the program's.  Return: false, it is over with errno. */
static bool has_room(int fd, const struct msghdr *msg, int flags)
{
	int err = has_control(msg) && door_on() ? rights_room(fd, msg->msg_controllen, flags) : 0;

	if (err)
		errno = -err;
	return !err;
}

/* The process may be this one. */
int door_pidfd_getfd(int pidfd, int target, unsigned flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_pidfd_getfd, (pidfd, target, flags));
	if (door_on())
		door_passed_on(target);
	return door_fresh(DOOR_NUMBER(real.pidfd_getfd(pidfd, target, flags)));
}

ssize_t door_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_recvmsg, (fd, msg, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_recvmsg(fd, msg, flags));
	if (!has_room(fd, msg, flags))
		return -1;
	ssize_t ret = real.recvmsg(fd, msg, flags);
	if (ret >= 0 && has_control(msg))
		rights_each(msg, came_in);
	return ret;
}

int door_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_recvmmsg, (fd, msgs, n, flags, timeout));
	if (door_tracked(fd))
		return DOOR_RET(sock_recvmmsg(fd, msgs, n, flags, timeout));
	if (n && !has_room(fd, &msgs[0].msg_hdr, flags))
		return -1;
	int ret = real.recvmmsg(fd, msgs, n, flags, timeout);
	for (int i = 0; i < ret; i++)
		if (has_control(&msgs[i].msg_hdr))
			rights_each(&msgs[i].msg_hdr, came_in);
	return ret;
}

ssize_t door_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!door_up())
		return DOOR_RAW(SYS_sendmsg, (fd, msg, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_sendmsg(fd, msg, flags));
	if (door_on() && has_control(msg))
		rights_each(msg, door_passed_on);
	return real.sendmsg(fd, msg, flags);
}

int door_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_sendmmsg, (fd, msgs, n, flags));
	if (door_tracked(fd))
		return DOOR_RET(sock_sendmmsg(fd, msgs, n, flags));
	for (unsigned i = 0; i < n && door_on(); i++)
		if (has_control(&msgs[i].msg_hdr))
			rights_each(&msgs[i].msg_hdr, door_passed_on);
	return real.sendmmsg(fd, msgs, n, flags);
}
