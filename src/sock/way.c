/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * way.c - in a child: the ways to those who own its inherited connections
 *
 * A way is the child's end of the pair of its fork; a process has one for each
 * owner above it, and gives them to its own children.  The list of them is changed
 * in the child of a fork only, where nobody else runs.  An owner that exits or
 * executes hands all shared conns back and says KIN_BYE before it goes; a way
 * that ends without one led to a process that was killed with rings attached:
 * what was in them is lost to the child, and its connection is reset.
 *
 * Whoever asks holds no lock.
 */
#define _GNU_SOURCE
#include "sock/way.h"

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "sock/back.h"
#include "sock/heir.h"
#include "sock/kin.h"
#include "sock/kinmsg.h"
#include "sock/rest.h"
#include "sock/slip.h"

#define WAYS		16	/* owners above one process */
#define ASK_MS		10000	/* the child's patience, longer than the owner's */
#define SET_MS		200	/* ... that it has heard of a set: a stopped one hears later */
#define PASS_MS		20000	/* ... before others get the socket */

static struct way {
	int fd;
	struct slips *slips;
	bool served;			/* a background thread was there at the fork */
} ways[WAYS];
static uint32_t nways;
static uint8_t way_here;		/* of conns that were this process's parent's; 0: none */

bool way_room(void)
{
	return nways < WAYS;
}

void way_add(int way, struct slips *slips, bool answers)
{
	way_here = 0;
	if (way >= 0 && nways < WAYS) {
		ways[nways++] = (struct way){ way, slips, answers };
		way_here = (uint8_t)nways;
	}
}

bool kin_is_way(int fd)
{
	for (uint32_t i = 0; i < nways; i++)
		if (ways[i].fd == fd)
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

static void drop(struct kin_fds *f)
{
	privfd_close(f->once);
	privfd_close(f->rest);
	*f = (struct kin_fds){ -1, -1 };
}

/* Return: 0 the owner says so, -ETIMEDOUT, -EPIPE no answer will come. */
static int await(int fd, struct kin_reply *r, struct kin_fds *f, uint64_t end)
{
	for (;;) {
		uint64_t now = clock_ns(), left = end > now ? end - now : 0;
		struct pollfd p = { fd, POLLIN, 0 };
		struct timespec ts = { (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) };

		if (!left)
			return -ETIMEDOUT;
		if (sys_ppoll(&p, 1, &ts, NULL) <= 0)
			continue;
		drop(f);
		int n = kin_reply_recv(fd, r, f);
		if (n == 1)
			return 0;
		if (n != -EAGAIN)
			return -EPIPE;
	}
}

static int ask_by_pair(int way, const struct kin_msg *m, struct kin_reply *r, struct kin_fds *f,
		       uint64_t end)
{
	int sv[2];
	int err = kin_pair(sv);

	if (err)
		return err;
	err = kin_send(way, m, sv[1]);
	privfd_close(sv[1]);
	if (!err)
		err = await(sv[0], r, f, end);
	privfd_close(sv[0]);
	return err;
}

/* Out of descriptors, here or there. */
static int ask_by_slip(const struct way *w, struct kin_msg m, struct kin_reply *r, uint64_t end)
{
	if (!slip_take(w->slips, &m))
		return -EAGAIN;
	int err = kin_send(w->fd, &m, -1);

	while (!err && !slip_await(w->slips, &m, r))
		err = way_over(w->fd) ? -EPIPE : clock_ns() >= end ? -ETIMEDOUT : 0;
	return slip_give_back(w->slips, &m, r) ? 0 : err;
}

/* Return: 0, -ENOBUFS, -ECONNRESET it is lost, -ETIMEDOUT the owner has not done it. */
static int ask(const struct way *w, const struct kin_msg *m, struct kin_reply *r, struct kin_fds *f,
	       uint64_t end)
{
	for (;;) {
		int err = ask_by_pair(w->fd, m, r, f, end);

		if (err && err != -ETIMEDOUT)
			err = ask_by_slip(w, *m, r, end);
		if (!err && r->answer != KIN_NO)
			return r->answer == KIN_FULL ? -ENOBUFS : 0;
		if (way_over(w->fd))
			return farewell(w->fd);
		if (!err || err == -ETIMEDOUT || clock_ns() >= end)
			return -ETIMEDOUT;
		sys_nap(NS_PER_MS);		/* a full queue, or no slip */
	}
}

/*
 * The owner has taken the socket's error, or what came before its end, and leaves it to
 * us: it is told as of a ring.  What becomes c's goes from f.
 */
static void told(struct conn *c, uint32_t gen, const struct kin_reply *r, struct kin_fds *f)
{
	conn_take_both(c);
	if (ld_rlx(&c->gen) == gen) {
		if (f->once >= 0 && !c->owed_once) {
			st_rel(&c->owed_once, f->once + 1);	/* pairs with conn_owed_take() */
			f->once = -1;
		}
		if (r->error)
			owed_add(&c->owed, r->error);
		if (f->rest >= 0 && !c->rest) {
			rest_take_over(c, f->rest, r->end == KIN_END_RESET);
			f->rest = -1;
		}
		st_rlx(&c->ever_bound, true);
		conn_watcher->bound(c);
	}
	conn_unlock_both(c);
}

int kin_use(struct conn *c, uint32_t bits)
{
	struct kin_reply r = { .answer = KIN_NO };
	uint32_t gen = ld_rlx(&c->gen);
	struct kin_fds f = { -1, -1 };
	int err = -ECONNRESET;

	bits &= ld_rlx(&c->kin);
	if (!bits)
		return 0;
	if (c->kin_way)
		err = ask(&ways[c->kin_way - 1],
			  &(struct kin_msg){ .type = KIN_ASK, .id = c->id, .gen = gen,
					     .bits = bits }, &r, &f, clock_ns() + ASK_MS * NS_PER_MS);
	log_debug("fd %d asked for, ways %u: %d, error %u", c->fd, bits, err, r.error);
	if (r.error || r.end)
		told(c, gen, &r, &f);
	drop(&f);
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

/* What needs no answer. */
static void tell(const struct conn *c, enum kin_type type)
{
	const struct kin_msg m = { .type = type, .id = c->id, .gen = ld_rlx(&c->gen) };

	if (c->kin_way)
		kin_send(ways[c->kin_way - 1].fd, &m, -1);
}

int kin_pass(struct conn *c)
{
	uint64_t end = clock_ns() + PASS_MS * NS_PER_MS;
	int err;

	conn_take_both(c);
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
	if (!err)
		tell(c, KIN_KEEP);
	return err;
}

void kin_shutdown(struct conn *c)
{
	tell(c, KIN_SHUT);
}

void kin_use_set(const void *set)
{
	const struct kin_msg m = { .type = KIN_SET, .set = (uintptr_t)set };
	uint64_t end = clock_ns() + SET_MS * NS_PER_MS;
	struct kin_reply r;
	struct kin_fds none = { -1, -1 };

	for (uint32_t i = 0; i < nways; i++)
		if (ways[i].served)
			ask(&ways[i], &m, &r, &none, end);
		else
			kin_send(ways[i].fd, &m, -1);	/* it has nothing of it but cold conns */
	drop(&none);
}

bool kin_others(void)
{
	bool any = false;

	for (uint32_t i = 0; i < nways; i++)
		any |= !way_over(ways[i].fd);
	return any;
}
