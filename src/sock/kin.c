/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kin.c - see kin.h
 *
 * A pair of connected Unix sockets a fork: the owner keeps one end, the child
 * and what it forks in turn the other (the way, way.c).  Both are private and
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
 * How a child asks is in way.c, how it is answered in request.c.
 *
 * Whoever is not told of a fork (clone() in assembly) finds the word process_mark
 * wiped at its first call and asks by a pair that the owner keeps for that.
 *
 * kins and the pairs' descriptors are under kin_lock.
 */
#define _GNU_SOURCE
#include "sock/kin.h"

#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "sock/act.h"
#include "sock/back.h"
#include "sock/bind.h"
#include "sock/calls.h"
#include "sock/kinmsg.h"
#include "sock/process.h"
#include "sock/request.h"
#include "sock/slip.h"
#include "sock/way.h"

#define KINS		128	/* pairs at a time; later forks leave their conns shared for good */
#define ROUNDS		256	/* messages before others get their turn */

/* The owner's end; fd -1: free. */
struct kin {
	struct bg_src src;
	uint64_t serial;		/* of its fork */
	bool watched;
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
static bool next_served;			/* somebody will answer */

/* ----------------------------------------------------- what they say -- */

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

	if (c && fd < 0 && !m->slip) {	/* the socket for the answer was lost on the way */
		conn_ask_back(c, REASON_FORK);
		conn_put(c);
	} else if (c) {
		request_take(c, m, fd);
	} else {	/* closed: the kernel has all that there is */
		request_answer(m, fd, &(struct kin_reply){ .answer = stranger ? KIN_NO : KIN_YES }, NULL);
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
		request_answer(m, fd, &(struct kin_reply){ .answer = KIN_YES }, NULL);
		return;
	}
	privfd_close(fd);
}

/* ---------------------------------------------------------------- pairs -- */

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

	if (standing.src.fd >= 0 || kin_pair(sv))
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
	slips_open();
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

	conn_take_both(c);
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

/* ----------------------------------------------------------------- fork -- */

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
	next_served = bg_running();
	if (!bg_running())
		reap();
	if ((!bind_enabled() && !bg_running()) || !conn_any_to_share())
		return true;
	next_kin = way_room() ? kin_new() : NULL;
	if (next_kin && kin_pair(sv) == 0) {
		next_own = sv[0];
		next_way = sv[1];
		return true;
	}
	if (way_room() && standing_way >= 0) {
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

void kin_fork_child(void)
{
	int way = next_way >= 0 ? next_way : standing_way;

	st_rlx(process_mark, 1);
	lock_reset(&kin_lock);
	way_add(way, slips_here, next_way < 0 || next_served);
	slips_here = NULL;
	for (uint32_t i = 0; i < nkins; i++)
		kins[i] = (struct kin){ .src.fd = -1 };
	nkins = 0;
	for_good = kin_newest = 0;
	standing = (struct kin){ .src.fd = -1 };
	standing_way = next_own = next_way = -1;
	request_forget_all();
	adoption = (struct bg_work){ .fn = adopt_work };
}
