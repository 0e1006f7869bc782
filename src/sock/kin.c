/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kin.c - see kin.h
 *
 * A pair of connected Unix sockets a fork: the owner keeps one end, the child
 * and what it forks in turn the other (the way).  Both are private and
 * close-on-exec, so the owner's end reads EOF when all of them have exited or
 * executed; until then a conn that existed at that fork is "shared".
 *
 *	conn			in the child		in the owner while shared
 *	cold			an ordinary socket	does not start to meet
 *	meeting, bound, ring	asks at its first use	goes on; an end waits for both
 *						directions to be the kernel's and
 *						leaves FIN to the last close
 *
 * Why a conn that the child takes for cold is cold in the owner: it leaves
 * MEET_IDLE only in the background thread, under kin_lock, and only if it is
 * not shared; kin_lock is held from before the fork until kin_newest says so
 * (kin_fork_number()).  A conn made by another thread meanwhile takes its
 * birth number and enters the list in one step under conns_lock, which is held
 * over the fork as well: it is either in the child's list and older than the
 * fork, or in neither.
 *
 * An ask names a conn by number and generation and brings a socket for the
 * answer (so descendants never mix up answers, and none is left behind).  The
 * background thread answers, so no thread of the program is needed; it holds
 * no lock while it waits, and it waits by timer.  A generation that is over
 * means that the conn was closed, which an owner does only when the kernel has
 * all of it.  An owner that exits or executes hands all shared conns back and
 * says KIN_BYE before it goes; a way that ends without one led to a process
 * that was killed with rings attached: what was in them is lost to the child,
 * and its connection is reset.
 *
 * Whoever is not told of a fork (clone() in assembly) finds the word process_mark
 * wiped at its first call and asks by a pair that the owner keeps for that.
 *
 * kins and the pairs' descriptors are under kin_lock; requests belong to the
 * background thread.
 */
#define _GNU_SOURCE
#include "sock/kin.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/heir.h"
#include "sock/process.h"

#define KINS		128	/* pairs at a time; later forks leave their conns shared for good */
#define WAYS		16	/* owners above one process */
#define ANSWER_MS	8000	/* the owner's patience, longer than the death of a link takes */
#define ASK_MS		10000	/* ... and the child's */
#define FULL_MS		100	/* how long room in the kernel's buffer is waited for */
#define PASS_MS		20000	/* ... before others get the socket */
#define LOOK_MS		1
#define REQUESTS		64
#define ROUNDS		256	/* messages before others get their turn */

enum kin_type { KIN_ASK = 1, KIN_KEEP, KIN_SHUT, KIN_SET, KIN_BYE };
enum kin_answer { KIN_NO, KIN_YES, KIN_FULL };

struct kin_msg {
	uint32_t type;
	uint32_t id, gen;		/* of a conn */
	uint32_t bits;
	uint64_t set;			/* address of an epoll set, as a name */
};

/* The owner's end; fd -1: free. */
struct kin {
	struct bg_src src;
	uint64_t serial;		/* of its fork */
	bool watched;
};

struct request {
	struct list node;
	struct conn *c;
	uint32_t gen, bits;
	int fd;
	uint64_t full_ns, deadline_ns;
};

struct lock kin_lock;
uint64_t kin_serial;
uint64_t kin_newest;

static uint32_t mark_here = 1;
uint32_t *process_mark = &mark_here;

static struct kin kins[KINS];
static uint32_t nkins;			/* entries ever used */
static uint64_t for_good;		/* forks up to this one have children that we do not hear of */
static struct kin standing = { .src.fd = -1 };	/* for strays */
static int standing_way = -1;
static struct kin *next_kin;			/* of the fork under way */
static int next_own = -1, next_way = -1;

static struct list requests = LIST_INIT(requests);
static struct list free_requests = LIST_INIT(free_requests);
static struct bg_timer look_timer;

static int ways[WAYS];
static uint32_t nways;
static uint8_t way_here;		/* of conns that were this process's parent's; 0: none */

/* ------------------------------------------------------------- messages -- */

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int kin_send(int to, const struct kin_msg *m, int fd)
{
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control ctl;
	ssize_t n;

	if (fd >= 0) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.align.cmsg_len = CMSG_LEN(sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&ctl.align), &fd, sizeof(fd));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int));
	}
	do
		n = sys_sendmsg(to, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n == -EINTR);
	return n < 0 ? (int)n : 0;
}

/* Return: 1; 0: nobody is there any more; -EAGAIN; -EPROTO.  *fd: what came along, or -1. */
static int kin_recv(int from, struct kin_msg *m, int *fd)
{
	struct iovec iov = { m, sizeof(*m) };
	union control ctl;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl,
			     .msg_controllen = sizeof(ctl) };
	ssize_t n;

	*fd = -1;
	privfd_begin();
	do
		n = sys_recvmsg(from, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n == -EINTR);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int))) {
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
		*fd = privfd_adopt(*fd);
	}
	privfd_end();
	if (n == -EAGAIN)
		return -EAGAIN;
	if (n <= 0)	/* a reset: we had said something that nobody has read */
		return 0;
	return n == sizeof(*m) ? 1 : -EPROTO;
}

static int pair(int sv[2])
{
	privfd_begin();
	int err = (int)sys4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv);

	if (!err) {
		sv[0] = privfd_adopt(sv[0]);
		sv[1] = privfd_adopt(sv[1]);
	}
	privfd_end();
	if (err)
		return err;
	if (sv[0] >= 0 && sv[1] >= 0)
		return 0;
	privfd_close(sv[0]);
	privfd_close(sv[1]);
	return -EMFILE;
}

/* ------------------------------------------------------------ back again -- */

void conn_ask_back(struct conn *c, enum reason why)
{
	lock_take(&c->rxl);
	bool go = c->fd >= 0 && !c->closing && c->established;
	if (go && c->link) {
		if (conn_rx_on_ring(c))
			log_debug("fd %d rx wanted back: %s", c->fd, reason_name(why));
		/* first: the request goes in-band too, which wakes the peer at once */
		rx_act(c, prx_want(&c->rx));
		if (c->rx_granted)
			conn_send(c, WIRE_GRANT, 0, 0, 0);	/* or it would try again and again */
		st_rlx(&c->rx_granted, false);
	}
	lock_take(&c->txl);
	heir_spoil(c);			/* others get it, or nobody is left to say that they did not */
	if (go) {
		if (c->meet != MEET_OVER)
			bind_give_up(c, why);
		tx_retreat(c, why);
	}
	conn_unlock_both(c);
}

/*
 * What could be read from the ring can be read from the kernel: RESUME is
 * there, but the bytes that follow it may not be yet.  Of many it is enough
 * that there are some, for the receive buffer may be too small for all.
 */
static bool arrived(const struct conn *c)
{
	uint64_t left = ld_rlx(&c->rx.left);
	socklen_t len = sizeof(int);
	int queued = 0, room = 0;

	if (c->rx.state != PRX_RAW || !left || sys_ioctl(c->fd, SIOCINQ, &queued) ||
	    (uint64_t)queued >= left)
		return true;
	if (!sys_getsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &room, &len) && queued >= room / 8)
		return true;
	int state = conn_kernel_state(c);
	return state != TCP_ESTABLISHED && state != TCP_FIN_WAIT1 && state != TCP_FIN_WAIT2;
}

bool conn_is_back(const struct conn *c, uint32_t bits)
{
	if ((bits & CONN_TX) && (conn_tx_on_ring(c) || c->tx_stuck))
		return false;
	if (!(bits & CONN_RX))
		return true;
	return !conn_rx_on_ring(c) && !c->rx.drop && !c->rx.have && arrived(c);
}

void conn_abort(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (fd >= 0)
		sys3(SYS_connect, fd, &none, sizeof(none));	/* sends RST where one is due */
}

/* ------------------------------------------------------- owner: answers -- */

static struct request *request_new(void)
{
	if (list_empty(&free_requests)) {
		struct request *a = sys_map(REQUESTS * sizeof(*a), 0);

		for (int i = 0; a && i < REQUESTS; i++)
			list_push(&free_requests, &a[i].node);
	}
	if (list_empty(&free_requests))
		return NULL;
	struct list *n = free_requests.next;
	list_del(n);
	return list_entry(n, struct request, node);
}

static void answer(int fd, enum kin_answer what)
{
	uint8_t byte = (uint8_t)what;

	if (fd < 0)
		return;
	sys_sendto(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	privfd_close(fd);
}

/*
 * Others read and write the kernel socket from now on, and our counts are no
 * longer the kernel's.  With both ways back the conn is as before its first
 * ring here too: every call is the kernel's own, which knows O_NONBLOCK as
 * the others set it.  Both locks held.
 */
static void settle(struct conn *c)
{
	if (conn_is_back(c, CONN_RX) && c->rx.state == PRX_RAW)
		st_rlx(&c->rx.left, 0);
	if (conn_is_back(c, CONN_BOTH) && c->tx.state == PTX_RAW && c->rx.state == PRX_RAW &&
	    !c->rx.eof && !owed_error(&c->owed) && !c->closing && c->meet == MEET_OVER)
		st_rlx(&c->ever_bound, false);
}

static enum kin_answer given(struct request *a)
{
	struct conn *c = a->c;
	enum kin_answer yes = KIN_YES;

	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (ld_rlx(&c->gen) == a->gen && c->fd >= 0) {
		bool may = !c->closing || c->end_kin;

		if (!may || !conn_is_back(c, a->bits & CONN_RX))
			yes = KIN_NO;
		else if (!conn_is_back(c, a->bits))
			yes = c->tx_stuck ? KIN_FULL : KIN_NO;
		if (yes != KIN_NO)
			settle(c);
	}
	conn_unlock_both(c);
	return yes;
}

/* Return: true if the ask is over. */
static bool request_look(struct request *a, uint64_t now)
{
	enum kin_answer yes = given(a);

	if ((yes == KIN_NO && now < a->deadline_ns) || (yes == KIN_FULL && now < a->full_ns))
		return false;
	if (yes == KIN_NO)
		log_error("a child's connection did not come back in time");
	answer(a->fd, yes);
	list_del(&a->node);
	list_push(&free_requests, &a->node);
	conn_put(a->c);
	return true;
}

static void look_later(void)
{
	if (!list_empty(&requests))
		bg_timer_set(&look_timer, clock_ns() + LOOK_MS * NS_PER_MS);
}

static void timer_fired(struct bg_timer *t)
{
	uint64_t now = clock_ns();

	list_for_each_safe(n, &requests)
		request_look(list_entry(n, struct request, node), now);
	look_later();
}

void kin_look(struct conn *c)
{
	if (list_empty(&requests))
		return;
	list_for_each_safe(n, &requests)
		if (list_entry(n, struct request, node)->c == c)
			request_look(list_entry(n, struct request, node), 0);
}

/* The conn that is meant; with a reference, or NULL.  *stranger: it is none of the sender's. */
static struct conn *meant(const struct kin *k, const struct kin_msg *m, bool *stranger)
{
	struct conn *c = conn_find(m->id, m->gen);

	/* whoever has been taken over there is to do no harm to what came later */
	*stranger = c && k != &standing && ld_rlx(&c->kin_born) >= k->serial;
	if (!*stranger)
		return c;
	conn_put(c);
	return NULL;
}

static void serve_ask(const struct kin *k, const struct kin_msg *m, int fd)
{
	bool stranger;
	struct conn *c = meant(k, m, &stranger);
	struct request *a = c ? request_new() : NULL;
	uint64_t now = clock_ns();

	if (!a) {
		answer(fd, c || stranger ? KIN_NO : KIN_YES);	/* closed: the kernel has all that there is */
		if (c)
			conn_put(c);
		return;
	}
	log_debug("fd %d is wanted by a child, ways %u", c->fd, m->bits);
	conn_ask_back(c, REASON_FORK);
	*a = (struct request){ .c = c, .gen = m->gen, .bits = m->bits, .fd = fd,
			   .full_ns = now + FULL_MS * NS_PER_MS,
			   .deadline_ns = now + ANSWER_MS * NS_PER_MS };
	list_push(&requests, &a->node);
	if (!request_look(a, 0)) {
		look_timer.fn = timer_fired;
		look_later();
	}
}

/* FIN follows what is on its way from the ring to the kernel. */
static void serve_shut(struct conn *c)
{
	lock_take(&c->txl);
	if (c->fd >= 0 && (!c->closing || c->end_kin))
		tx_act(c, ptx_shutdown(&c->tx) | PA_WAKE);
	st_rlx(&c->tx_shut, true);
	lock_drop(&c->txl);
}

static void serve(const struct kin *k, const struct kin_msg *m, int fd)
{
	bool stranger;

	if (m->type == KIN_ASK) {
		serve_ask(k, m, fd);
		return;
	}
	if (m->type == KIN_KEEP || m->type == KIN_SHUT) {
		struct conn *c = meant(k, m, &stranger);

		if (c)
			conn_ask_back(c, REASON_FORK);
		if (c && m->type == KIN_SHUT)
			serve_shut(c);
		if (c)
			conn_put(c);
	} else if (m->type == KIN_SET) {
		process_hooks->set_shared(m->set);
	}
	privfd_close(fd);
}

/* --------------------------------------------------------- owner: pairs -- */

/* kin_lock held */
static void newest_set(void)
{
	uint64_t newest = for_good;

	for (uint32_t i = 0; i < nkins; i++)
		if (kins[i].src.fd >= 0)
			newest = MAX(newest, kins[i].serial);
	st_rel(&kin_newest, newest);	/* pairs with kin_shared() */
}

static void kin_free(struct kin *k)
{
	if (k->watched)
		bg_unwatch(&k->src);
	k->watched = false;
	privfd_close(k->src.fd);
	k->src.fd = -1;
}

/* Return: false if nobody is at the other end. */
static bool kin_serve(struct kin *k)
{
	struct kin_msg m;
	int fd, r;

	for (int i = 0; i < ROUNDS && (r = kin_recv(k->src.fd, &m, &fd)) != -EAGAIN; i++) {
		if (r == 0)
			return false;
		if (r < 0)
			privfd_close(fd);
		else
			serve(k, &m, fd);
	}
	return true;
}

static void kin_event(struct bg_src *s, uint32_t events)
{
	struct kin *k = container_of(s, struct kin, src);

	if (kin_serve(k))
		return;
	lock_take(&kin_lock);
	log_debug("child of fork %llu is gone", (unsigned long long)k->serial);
	kin_free(k);
	newest_set();
	lock_drop(&kin_lock);
}

static void kin_watch(struct kin *k)
{
	k->src.fn = kin_event;
	k->watched = bg_watch(&k->src, EPOLLIN | EPOLLRDHUP) == 0;
}

static void standing_open(void)
{
	int sv[2];

	if (standing.src.fd >= 0 || pair(sv))
		return;
	standing.src.fd = sv[0];
	standing_way = sv[1];
	kin_watch(&standing);
}

static void mark_open(void)
{
	uint32_t *page;

	if (process_mark != &mark_here)
		return;
	page = sys_map(4096, 0);
	if (!page)
		return;
	st_rlx(page, 1);
	if (sys3(SYS_madvise, page, 4096, MADV_WIPEONFORK)) {
		sys_unmap(page, 4096);		/* before Linux 4.14 */
		return;
	}
	st_rel(&process_mark, page);	/* pairs with process_is_stray() */
}

/* Pairs are the background thread's from here on. */
static void adopt(void)
{
	bool more = true;

	for (uint32_t i = 0; more; i++) {
		lock_take(&kin_lock);
		more = i < nkins;
		bool fresh = more && kins[i].src.fd >= 0 && !kins[i].watched;
		if (fresh)
			kin_watch(&kins[i]);
		lock_drop(&kin_lock);
		if (fresh)
			kin_event(&kins[i].src, 0);	/* gone already, perhaps */
	}
}

static void adopt_work(struct bg_work *w)
{
	adopt();
}

static struct bg_work adoption = { .fn = adopt_work };

void kin_start(void)
{
	lock_take(&kin_lock);
	standing_open();
	mark_open();
	lock_drop(&kin_lock);
	adopt();
}

bool kin_any(void)
{
	return ld_rlx(&kin_newest) != 0;
}

static void not_back(struct conn *c, void *arg)
{
	bool *all = arg;

	lock_take(&c->rxl);
	lock_take(&c->txl);
	if (c->established && c->fd >= 0 && kin_shared(c) && !conn_is_back(c, CONN_BOTH))
		*all = false;
	conn_unlock_both(c);
}

void kin_bye(void)
{
	const struct kin_msg m = { .type = KIN_BYE };
	bool all = true;

	conn_for_each(not_back, &all);
	lock_take(&kin_lock);
	for (uint32_t i = 0; i < nkins && all; i++)
		if (kins[i].src.fd >= 0)
			kin_send(kins[i].src.fd, &m, -1);
	if (all && standing.src.fd >= 0)
		kin_send(standing.src.fd, &m, -1);
	lock_drop(&kin_lock);
}

void kin_stop(void)
{
	lock_take(&kin_lock);
	for (uint32_t i = 0; i < nkins; i++)
		if (kins[i].src.fd >= 0)
			kin_free(&kins[i]);
	if (standing.src.fd >= 0)
		kin_free(&standing);
	privfd_close(standing_way);
	standing_way = -1;
	for_good = kin_serial;
	newest_set();
	lock_drop(&kin_lock);
}

/* ---------------------------------------------------------- owner: fork -- */

/* Without a background thread nobody has heard of those that are gone.  kin_lock held. */
static void reap(void)
{
	for (uint32_t i = 0; i < nkins; i++) {
		struct kin *k = &kins[i];
		char byte;

		if (k->src.fd < 0 || k->watched)
			continue;
		if (sys_recvfrom(k->src.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
			kin_free(k);
	}
	newest_set();
}

static struct kin *kin_new(void)
{
	for (uint32_t i = 0; i < nkins; i++)
		if (kins[i].src.fd < 0)
			return &kins[i];
	if (nkins == KINS)
		return NULL;
	kins[nkins].src.fd = -1;
	return &kins[nkins++];
}

bool kin_fork_prepare(void)
{
	int sv[2];

	lock_take(&kin_lock);
	if (!bg_running())
		reap();
	if ((!bind_enabled() && !bg_running()) || !conn_any_to_share())
		return true;
	next_kin = nways < WAYS ? kin_new() : NULL;
	if (next_kin && pair(sv) == 0) {
		next_own = sv[0];
		next_way = sv[1];
		return true;
	}
	if (nways < WAYS && standing_way >= 0) {
		for_good = kin_serial + 1;
		return true;
	}
	lock_drop(&kin_lock);
	return false;
}

void kin_fork_blind(void)
{
	lock_take(&kin_lock);
	for_good = kin_serial + 1;
}

void kin_fork_number(void)
{
	kin_serial++;
	if (next_own >= 0 || for_good == kin_serial)
		st_rel(&kin_newest, kin_serial);	/* pairs with kin_shared() */
}

void kin_fork_parent(void)
{
	if (next_own >= 0) {
		struct kin *k = next_kin;

		*k = (struct kin){ .src.fd = next_own, .serial = kin_serial };
		privfd_close(next_way);		/* EOF at once if there is no child */
		if (bg_running())
			bg_queue(&adoption);
		next_own = next_way = -1;
	}
	lock_drop(&kin_lock);
}

/* --------------------------------------------------------------- child -- */

void kin_fork_child(void)
{
	int way = next_way >= 0 ? next_way : standing_way;

	st_rlx(process_mark, 1);
	lock_reset(&kin_lock);
	way_here = 0;
	if (way >= 0 && nways < WAYS) {
		ways[nways++] = way;
		way_here = (uint8_t)nways;
	}
	for (uint32_t i = 0; i < nkins; i++)
		kins[i] = (struct kin){ .src.fd = -1 };
	nkins = 0;
	for_good = kin_newest = 0;
	standing = (struct kin){ .src.fd = -1 };
	standing_way = next_own = next_way = -1;
	list_init(&requests);
	list_init(&free_requests);
	memset(&look_timer, 0, sizeof(look_timer));
	adoption = (struct bg_work){ .fn = adopt_work };
}

bool kin_is_way(int fd)
{
	for (uint32_t i = 0; i < nways; i++)
		if (ways[i] == fd)
			return true;
	return false;
}

void kin_inherit(struct conn *c)
{
	bool open = c->meet != MEET_IDLE && c->meet != MEET_OVER;

	if (c->kin_way || !c->established || !c->nfds)
		return;
	if (way_here && (open || c->ever_bound || c->meet == MEET_IDLE)) {
		c->kin_way = way_here;
		st_rlx(&c->kin, open || c->ever_bound ? CONN_BOTH : 0);
	} else if (open) {
		st_rlx(&c->kin, CONN_BOTH);	/* it attached while all went back: nobody to ask */
	}
}

/* Nobody answers at this end any more.  Return: 0 if all is the kernel's, -ECONNRESET. */
static int farewell(int way)
{
	struct kin_msg m;

	for (int i = 0; i < 4; i++) {
		/* looked at, not taken: others of us will want to know */
		ssize_t n = sys_recvfrom(way, &m, sizeof(m), MSG_DONTWAIT | MSG_PEEK);

		if (n == sizeof(m) && m.type == KIN_BYE)
			return 0;
		if (n == 0 || n == -EAGAIN)
			break;
	}
	return -ECONNRESET;
}

static bool way_over(int way)
{
	struct pollfd p = { way, 0, 0 };
	struct timespec zero = { 0, 0 };

	return sys_ppoll(&p, 1, &zero, NULL) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Return: 0, -ETIMEDOUT, -EIO or -ENOBUFS the owner says so, -EPIPE no answer will come. */
static int await(int fd, uint64_t end)
{
	for (;;) {
		uint64_t now = clock_ns(), left = end > now ? end - now : 0;
		struct pollfd p = { fd, POLLIN, 0 };
		struct timespec ts = { (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) };
		uint8_t yes = KIN_NO;

		if (!left)
			return -ETIMEDOUT;
		if (sys_ppoll(&p, 1, &ts, NULL) <= 0)
			continue;
		ssize_t n = sys_recvfrom(fd, &yes, 1, MSG_DONTWAIT);
		if (n == 1)
			return yes == KIN_YES ? 0 : yes == KIN_FULL ? -ENOBUFS : -EIO;
		if (n != -EAGAIN && n != -EINTR)
			return -EPIPE;
	}
}

static int ask_once(int way, const struct kin_msg *m, uint64_t end)
{
	int sv[2];
	int err = pair(sv);

	if (err)
		return err;
	err = kin_send(way, m, sv[1]);
	privfd_close(sv[1]);
	if (!err)
		err = await(sv[0], end);
	privfd_close(sv[0]);
	return err;
}

/* Return: 0, -ENOBUFS, -ECONNRESET it is lost, -ETIMEDOUT the owner has not done it. */
static int ask(int way, const struct kin_msg *m)
{
	uint64_t end = clock_ns() + ASK_MS * NS_PER_MS;

	for (;;) {
		int err = ask_once(way, m, end);

		if (!err || err == -ENOBUFS)
			return err;
		if (way_over(way))
			return farewell(way);
		if (err == -ETIMEDOUT || err == -EIO || clock_ns() >= end)
			return -ETIMEDOUT;
		sys_nap(NS_PER_MS);		/* out of descriptors, here or there, or a full queue */
	}
}

int kin_use(struct conn *c, uint32_t bits)
{
	uint32_t gen = ld_rlx(&c->gen);
	int err = -ECONNRESET;

	bits &= ld_rlx(&c->kin);
	if (!bits)
		return 0;
	if (c->kin_way)
		err = ask(ways[c->kin_way - 1],
			  &(struct kin_msg){ .type = KIN_ASK, .id = c->id, .gen = gen,
					     .bits = bits });
	log_debug("fd %d asked for, ways %u: %d", c->fd, bits, err);
	if (err == -ENOBUFS) {
		and_acqrel(&c->kin, (uint8_t)~CONN_RX);
		return -EAGAIN;
	}
	lock_take(&c->txl);
	if (ld_rlx(&c->gen) == gen && err != -ETIMEDOUT) {
		and_acqrel(&c->kin, err ? (uint8_t)0 : (uint8_t)~bits);
		if (err)
			conn_abort(c->fd);
	}
	lock_drop(&c->txl);
	if (err)
		count_reason(REASON_OWNER_GONE);
	return err ? -ECONNRESET : 0;
}

int kin_use_fd(int fd, uint32_t bits)
{
	struct conn *c = conn_lock_rx(fd);

	if (!c)
		return 0;
	conn_get(c);
	lock_drop(&c->rxl);
	int err = kin_use(c, bits);
	conn_put(c);
	return err;
}

int kin_pass(struct conn *c)
{
	uint64_t end = clock_ns() + PASS_MS * NS_PER_MS;
	int err;

	lock_take(&c->rxl);
	lock_take(&c->txl);
	heir_spoil(c);
	conn_unlock_both(c);
	do
		err = kin_use(c, CONN_BOTH);
	while (err == -EAGAIN && clock_ns() < end);
	if (err == -EAGAIN) {		/* or what others write would come in between */
		lock_take(&c->txl);
		conn_abort(c->fd);
		lock_drop(&c->txl);
	}
	if (!err && c->kin_way)
		kin_send(ways[c->kin_way - 1],
			 &(struct kin_msg){ .type = KIN_KEEP, .id = c->id,
					     .gen = ld_rlx(&c->gen) }, -1);
	return err;
}

void kin_shutdown(struct conn *c)
{
	if (c->kin_way)
		kin_send(ways[c->kin_way - 1],
			 &(struct kin_msg){ .type = KIN_SHUT, .id = c->id,
					     .gen = ld_rlx(&c->gen) }, -1);
}

void kin_use_set(const void *set)
{
	for (uint32_t i = 0; i < nways; i++)
		kin_send(ways[i], &(struct kin_msg){ .type = KIN_SET,
						     .set = (uintptr_t)set }, -1);
}
