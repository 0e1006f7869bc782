/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* eset.c - see eset.h */
#define _GNU_SOURCE
#include "ready/eset.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "progress/wait.h"
#include "ready/ready.h"
#include "sock/calls.h"
#include "sock/bind.h"
#include "sock/fdtab.h"
#include "sock/kin.h"

#define SLAB 64
#define BUCKETS 1024
#define IN_BITS	 (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLRDHUP)
#define OUT_BITS (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)

struct lock ready_lock;
uint64_t eset_kick_mark;
int ready_in_use;

static struct list free_sets = LIST_INIT(free_sets);
static struct list free_ents = LIST_INIT(free_ents);
static struct list by_data[BUCKETS];
static int kick_fd = -1;

static void *take(struct list *free, size_t size, size_t node)
{
	if (list_empty(free)) {
		char *p = sys_map(SLAB * size, 0);

		if (!p)
			return NULL;
		for (int i = 0; i < SLAB; i++)
			list_push(free, (struct list *)(void *)(p + (size_t)i * size + node));
	}
	struct list *n = free->next;
	list_del(n);
	return (char *)n - node;
}

struct eset *eset_new(int fd)
{
	lock_take(&ready_lock);
	struct eset *s = take(&free_sets, sizeof(*s), offsetof(struct eset, entries));
	if (s) {
		uint32_t gen = s->gen + 1;

		memset(s, 0, sizeof(*s));
		st_rlx(&s->gen, gen);
		list_init(&s->entries);
		list_init(&s->ready);
		s->fd = fd;
		s->nfds = 1;
	}
	lock_drop(&ready_lock);
	if (s && fdtab_set(fd, s, FDTAB_EPOLL)) {
		lock_take(&ready_lock);
		list_push(&free_sets, &s->entries);
		lock_drop(&ready_lock);
		s = NULL;
	}
	return s;
}

struct eent *eset_find(struct eset *s, struct conn *c, int fd)
{
	list_for_each(n, &c->eents) {
		struct eent *e = list_entry(n, struct eent, in_conn);

		if (e->set == s && e->fd == fd)
			return e;
	}
	return NULL;
}

/* From now on waits on its set are ours.  Return: false, sleepers could not be told. */
static bool entry_bound(struct eent *e)
{
	struct eset *s = e->set;

	if (e->bound || !ld_rlx(&e->conn->ever_bound))
		return true;
	e->bound = true;
	st_rlx(&s->nbound, s->nbound + 1);
	fence_full();	/* pairs with ready_epoll_wait(): plain, then nbound */
	return !ld_rlx(&s->plain) || eset_kick(s);
}

struct eent *eset_add(struct eset *s, struct conn *c, int fd)
{
	struct eent *e = take(&free_ents, sizeof(*e), offsetof(struct eent, in_set));

	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	list_init(&e->in_ready);
	list_init(&e->in_data);
	e->set = s;
	e->conn = c;
	e->fd = fd;
	list_push(&s->entries, &e->in_set);
	list_push(&c->eents, &e->in_conn);
	if (!entry_bound(e)) {
		eset_remove(e);
		return NULL;
	}
	if (s->waited)
		st_rlx(&c->rx_waited, true);
	return e;
}

static struct list *bucket(const struct eset *s, uint64_t data)
{
	uint64_t h = (data ^ (uintptr_t)s >> 4) * 0x9e3779b97f4a7c15ull;

	return &by_data[h >> 32 & (BUCKETS - 1)];
}

void eset_data(struct eent *e, uint64_t data)
{
	list_del(&e->in_data);
	e->data = data;
	list_push(bucket(e->set, data), &e->in_data);
	if (e->events & (EPOLLET | EPOLLONESHOT))
		st_rlx(&e->set->edgy, true);
}

struct eent *eset_by_data(struct eset *s, uint64_t data)
{
	list_for_each(n, bucket(s, data)) {
		struct eent *e = list_entry(n, struct eent, in_data);

		if (e->set == s && e->data == data)
			return e;
	}
	return NULL;
}

void eset_pop(struct eent *e)
{
	if (list_empty(&e->in_ready))
		return;
	list_del(&e->in_ready);
	st_rlx(&e->set->nready, e->set->nready - 1);
}

void eset_push(struct eent *e, uint32_t news)
{
	e->news |= news;
	if (!list_empty(&e->in_ready) || e->disabled)
		return;
	list_push(&e->set->ready, &e->in_ready);
	st_rlx(&e->set->nready, e->set->nready + 1);
}

static void missed_set(struct eent *e, bool missed)
{
	if (e->missed == missed)
		return;
	e->missed = missed;
	st_rlx(&e->set->missed, e->set->missed + (missed ? 1 : -1));
	if (missed)
		wait_wake_ready();	/* who sleeps on the set must look by himself */
}

void eset_remove(struct eent *e)
{
	eset_pop(e);
	missed_set(e, false);
	list_del(&e->in_conn);
	list_del(&e->in_set);
	list_del(&e->in_data);
	if (e->bound)
		st_rlx(&e->set->nbound, e->set->nbound - 1);
	list_push(&free_ents, &e->in_set);
}

/* Who asks the set itself is told of an end by the kernel, which has it as well, or soon. */
static bool end_shown(const struct eent *e)
{
	const struct conn *c = e->conn;

	return (e->shown || ld_rlx(&e->set->foreign)) && !conn_rx_on_ring(c) && !ld_rlx(&c->rx.drop) &&
	       (ld_rlx(&c->rx.eof) || ld_rlx(&c->rx.state) == PRX_ENDED || ld_rlx(&c->rx_shut_out));
}

static uint32_t kernel_mask(const struct eent *e)
{
	uint32_t m = e->events;

	if (conn_rx_hidden(e->conn) && !end_shown(e))
		m &= ~(uint32_t)IN_BITS;
	if (conn_tx_on_ring(e->conn))
		m &= ~(uint32_t)OUT_BITS;
	if (conn_hup_by_kernel(e->conn)) {
		st_rlx(&e->set->edgy, true);	/* have it taken out again if it was not asked for */
		m |= EPOLLRDHUP;
	}
	return m;
}

/*
 * A single shot that has fired is not the kernel's to tell of.  Where another process
 * may arm it again it is there to be armed: of an end, which no entry can be without,
 * it tells by our own mark.  Return: false if the kernel has it as it is to be.
 */
static bool spent_form(const struct eent *e, struct epoll_event *ev)
{
	*ev = (struct epoll_event){ .events = EPOLLONESHOT, .data.ptr = &eset_kick_mark };
	return !e->in_kernel || e->kevents != ev->events;
}

int eset_sync(struct eent *e, bool force)
{
	const struct conn *c = e->conn;
	bool over = ld_rlx(&c->rx.state) == PRX_ENDED && (ld_rlx(&c->rx.end_reset) || ld_rlx(&c->reset));
	bool ring = conn_rx_on_ring(c) && conn_tx_on_ring(c);
	/* of these we say all, but to one who asks the set itself, and but for the kernel's error */
	bool want = !e->disabled && !ring &&
		    (!over || ld_rlx(&c->err_left) || e->shown || ld_rlx(&e->set->foreign));
	struct epoll_event ev = { .events = kernel_mask(e), .data.u64 = e->data };

	if (e->disabled && ld_rlx(&e->set->theirs)) {
		if (e->spent || !spent_form(e, &ev))
			return 0;
		want = true;
	}
	int op = want ? e->in_kernel ? EPOLL_CTL_MOD : EPOLL_CTL_ADD : EPOLL_CTL_DEL;

	if (e->orphan)
		return 0;
	if (want ? e->in_kernel && !force && ev.events == e->kevents : !e->in_kernel)
		return 0;
	int err = force ? sys_epoll_ctl_asked(e->set->fd, op, e->fd, &ev)
			: sys_epoll_ctl(e->set->fd, op, e->fd, &ev);
	if (!err) {
		e->in_kernel = want;
		e->kevents = ev.events;
		e->spent = false;
		e->rearmed = !force;
	}
	missed_set(e, err && want && (!force || e->missed));
	return e->missed ? 0 : err;
}

void eset_untold(struct eent *e)
{
	e->hup_at = e->told = 0;
	e->out_told = false;
}

int eset_add_again(struct eent *e, const struct epoll_event *ev)
{
	const struct eent old = *e;
	bool others = ld_rlx(&e->set->theirs) || !ld_rlx(&e->conn->ever_bound);

	if (!others || !e->in_kernel || e->orphan)
		return -EEXIST;
	e->events = ev->events;
	struct epoll_event k = { .events = kernel_mask(e), .data = ev->data };
	int err = sys_epoll_ctl_asked(e->set->fd, EPOLL_CTL_ADD, e->fd, &k);
	if (err) {
		e->events = old.events;
		return err;
	}
	e->kevents = k.events;
	e->disabled = e->spent = false;
	eset_untold(e);
	eset_data(e, ev->data.u64);
	return 0;
}

static uint32_t ask_missed(struct eent *e)
{
	struct pollfd p = { e->fd, (short)(kernel_mask(e) & (IN_BITS | OUT_BITS | EPOLLPRI)), 0 };
	struct timespec zero = { 0, 0 };

	if (!e->missed || e->disabled)
		return 0;
	eset_sync(e, false);
	if (!e->missed || sys_ppoll(&p, 1, &zero, NULL) <= 0)
		return 0;
	return (uint16_t)p.revents & (e->events | EPOLLERR | EPOLLHUP);
}

int eset_missed(struct eset *s, struct epoll_event *ev, int max)
{
	int n = 0;

	lock_take(&ready_lock);
	list_for_each(i, &s->entries) {
		struct eent *e = list_entry(i, struct eent, in_set);
		uint32_t m = n < max ? ask_missed(e) : 0;

		if (!m)
			continue;
		ev[n++] = (struct epoll_event){ .events = m, .data.u64 = e->data };
		e->disabled = e->events & EPOLLONESHOT;
	}
	lock_drop(&ready_lock);
	return n;
}

uint64_t conn_arrivals(struct conn *c)
{
	uint32_t end = conn_ring_events(c) & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	const struct slot_shm *words = ld_rlx(&c->rx_words);
	uint8_t rx = ld_rlx(&c->rx.state);
	uint64_t n;

	if (rx == PRX_ON && words)
		n = ld_rlx(&c->rx_base) + slot_p_count(ld_acq(&words->p));
	else if (rx == PRX_ENDED)
		n = ld_rlx(&c->rx_given) + ld_rlx(&c->rx.Pb) - ld_rlx(&c->rx.C) + ld_rlx(&c->rest_bytes);
	else
		n = ld_rlx(&c->rx_given) + conn_rx_on_the_way(c);
	return n << 3 | (end & EPOLLRDHUP ? 4 : 0) | (end & EPOLLHUP ? 2 : 0) |
	       (end & EPOLLERR || ld_rlx(&c->err_left) ? 1 : 0);
}

bool eset_hup(struct eent *e)
{
	uint64_t at = (conn_arrivals(e->conn) >> 3) + 1;
	bool looking = conn_rx_looking(e->conn);
	uint32_t starved = ld_rlx(&e->conn->rx_starved);
	bool news = looking || e->hup_at != at || e->hup_starved != starved;

	e->hup_at = at;
	e->hup_starved = starved;
	return news;
}

/* An error that was told may have been taken since, which is no news. */
static bool arrivals_new(const struct eent *e, uint64_t now)
{
	return now >> 3 != e->told >> 3 || now & ~e->told & 7;
}

void eset_told_end(struct eent *e, uint32_t m)
{
	e->told = conn_arrivals(e->conn) | 6 | (m & EPOLLERR ? 1 : 0);
	e->dries = ld_rlx(&e->conn->rx_dries);
}

void eset_told(struct eent *e)
{
	e->news = 0;
	e->told = conn_arrivals(e->conn);
	if (e->told & 2)
		eset_hup(e);
	e->dries = ld_rlx(&e->conn->rx_dries);
}

bool eset_out_old(const struct eent *e)
{
	/* first: who is in the kernel has perhaps written, or found no room, and not counted it */
	if (ld_acq(&e->conn->tx_asking))
		return false;
	return e->out_told && e->out_given == ld_rlx(&e->conn->tx_given) &&
	       e->out_dries == ld_rlx(&e->conn->tx_dries);
}

void eset_out_told(struct eent *e)
{
	e->out_told = true;
	e->out_given = ld_rlx(&e->conn->tx_given);
	e->out_dries = ld_rlx(&e->conn->tx_dries);
}

uint32_t eset_report(struct eent *e, uint32_t m)
{
	uint32_t news = e->news;
	uint64_t now;

	e->news = 0;
	if (e->disabled || !m || !(e->events & EPOLLET))
		return e->disabled ? 0 : m;
	now = conn_arrivals(e->conn);
	bool out = news & m & OUT_BITS && (!eset_out_old(e) || m & (EPOLLERR | EPOLLHUP));
	bool in = news & EPOLLIN && m & ~(uint32_t)OUT_BITS &&
		  (arrivals_new(e, now) || e->dries != ld_rlx(&e->conn->rx_dries));
	if (news != NEWS_ALL && !out && !in)
		return 0;
	eset_told(e);
	if (m & OUT_BITS)
		eset_out_told(e);
	return m;
}

/* Is the end of what comes in known, though perhaps not all before it read? */
static bool rx_end_known(const struct conn *c)
{
	const struct slot_shm *words = ld_rlx(&c->rx_words);
	uint64_t P = ld_rlx(&c->rx.finP);

	if (ld_rlx(&c->rx_shut) || ld_rlx(&c->rx.eof) || ld_rlx(&c->rx.state) == PRX_ENDED)
		return true;
	if (ld_rlx(&c->rx.state) != PRX_ON)
		return ld_rlx(&c->rx.fin_seen);
	return words && P != PROTO_NO_FIN && P == slot_p_count(ld_acq(&words->p));
}

/* As tcp_poll() says it; of a direction that is not ours the kernel says it itself. */
uint32_t conn_ring_events(struct conn *c)
{
	bool err = conn_owed(c) != 0;	/* both ways are over then, seen by us or not yet */
	bool reset = err || ld_rlx(&c->reset) || (ld_rlx(&c->rx_end_ns) && ld_rlx(&c->rx.krst)) ||
		     (ld_rlx(&c->rx.state) == PRX_ENDED && ld_rlx(&c->rx.end_reset));
	bool shut = ld_rlx(&c->tx_shut);
	uint32_t m = 0;

	if (conn_ring_readable(c) || (conn_rx_on_the_way(c) && !ld_rlx(&c->lowat)))
		m |= EPOLLIN | EPOLLRDNORM;
	if (reset || rx_end_known(c))
		m |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | (reset || shut ? EPOLLHUP : 0);
	if (reset || shut || (conn_tx_on_ring(c) && conn_ring_writable(c)))
		m |= EPOLLOUT | EPOLLWRNORM;
	return m | (err ? EPOLLERR : 0);
}

/* ------------------------------------------------------ numbers of a set -- */

/* A child may have the set as well: it finds all in the kernel when it has asked for the conns. */
static void set_left(struct eset *s)
{
	list_for_each(n, &s->entries) {
		struct eent *e = list_entry(n, struct eent, in_set);
		struct epoll_event ev = { .events = e->events, .data.u64 = e->data };

		if (e->disabled || e->orphan || (e->in_kernel && e->kevents == e->events))
			continue;
		sys_epoll_ctl(s->fd, e->in_kernel ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, e->fd, &ev);
	}
}

static void set_over(struct eset *s)
{
	if (unlikely(kin_any()))
		set_left(s);
	while (!list_empty(&s->entries))
		eset_remove(list_entry(s->entries.next, struct eent, in_set));
	list_push(&free_sets, &s->entries);
}

bool eset_number_gone(int fd)
{
	lock_take(&ready_lock);
	struct eset *s = fdtab_eset(fd);
	if (s) {
		fdtab_leave(fd);
		int mine = --s->nfds == 0 && s->asleep ? privfd_dup_surely(fd) : -1;

		if (mine >= 0) {
			st_rlx(&s->fd, mine);
			s->ghost = true;
		} else if (s->nfds == 0) {
			set_over(s);
		} else if (s->fd == fd) {
			int i = fdtab_next(0, FDTAB_MAX - 1);

			while (i >= 0 && fdtab_eset(i) != s)
				i = fdtab_next(i + 1, FDTAB_MAX - 1);
			st_rlx(&s->fd, i);
		}
	}
	lock_drop(&ready_lock);
	return s != NULL;
}

bool eset_stays(struct eset *s, int ep)
{
	lock_take(&ready_lock);
	bool same = fdtab_eset(ep) == s;
	s->asleep += same;
	lock_drop(&ready_lock);
	return same;
}

void eset_left(struct eset *s)
{
	int mine = -1;

	lock_take(&ready_lock);
	if (--s->asleep == 0 && s->ghost) {
		mine = s->fd;
		s->ghost = false;
		set_over(s);
	}
	lock_drop(&ready_lock);
	if (mine >= 0)
		privfd_close(mine);
}

void eset_duped(int oldfd, int newfd)
{
	lock_take(&ready_lock);
	struct eset *s = fdtab_eset(oldfd);
	if (s && fdtab_set(newfd, s, FDTAB_EPOLL) == 0)
		s->nfds++;
	lock_drop(&ready_lock);
}

/* ------------------------------------------------- what sock tells us -- */

static void on_passed(int fd)
{
	struct eset *s = fdtab_eset(fd);

	if (s)
		eset_foreign(s, true);
}

static void on_event(struct conn *c, uint32_t what)
{
	if (list_empty_rlx(&c->eents))
		return;
	lock_take(&ready_lock);
	list_for_each(n, &c->eents) {
		struct eent *e = list_entry(n, struct eent, in_conn);

		if (what & EPOLLIN || e->events & OUT_BITS)
			eset_push(e, what);
		if (what == NEWS_ALL)
			e->hup_at = 0;
	}
	lock_drop(&ready_lock);
}

static void on_moved(struct conn *c)
{
	if (list_empty_rlx(&c->eents))
		return;
	lock_take(&ready_lock);
	list_for_each(n, &c->eents) {
		struct eent *e = list_entry(n, struct eent, in_conn);

		eset_sync(e, false);
		eset_push(e, EPOLLIN | (conn_tx_on_ring(c) ? EPOLLOUT : 0));
	}
	lock_drop(&ready_lock);
}

/* A readable entry of ours gets plain sleepers out; our wait filters it by its data. */
bool eset_kick(struct eset *s)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &eset_kick_mark };

	if (s->kicked)
		return true;
	if (kick_fd < 0)
		kick_fd = PRIVFD_NEW(sys2(SYS_eventfd2, 1, EFD_NONBLOCK | EFD_CLOEXEC));
	if (kick_fd >= 0)
		s->kicked = sys_epoll_ctl(s->fd, EPOLL_CTL_ADD, kick_fd, &ev) == 0;
	return s->kicked;
}

void eset_plain_left(struct eset *s, uint32_t gen)
{
	struct epoll_event ev = { 0 };

	lock_take(&ready_lock);
	/* who comes counts itself without the lock: pairs with ready_epoll_wait() */
	if (s->gen == gen && sub_acqrel(&s->plain, 1) == 0 && s->kicked) {
		sys_epoll_ctl(s->fd, EPOLL_CTL_DEL, kick_fd, &ev);
		s->kicked = false;
	}
	lock_drop(&ready_lock);
}

/* ever_bound has just become true, or was before. */
static void on_bound(struct conn *c)
{
	lock_take(&ready_lock);
	bool told = true;
	list_for_each(n, &c->eents)
		told &= entry_bound(list_entry(n, struct eent, in_conn));
	lock_drop(&ready_lock);
	if (!told)	/* they sleep on the kernel's socket, and that is where bytes will come */
		bind_give_up(c, REASON_NO_MEMORY);
}

static void on_unbound(struct conn *c)
{
	lock_take(&ready_lock);
	list_for_each(n, &c->eents) {
		struct eent *e = list_entry(n, struct eent, in_conn);

		eset_pop(e);
		if (e->bound)
			st_rlx(&e->set->nbound, e->set->nbound - 1);
		e->bound = false;
	}
	lock_drop(&ready_lock);
}

void eset_waited(struct eset *s)
{
	lock_take(&ready_lock);
	st_rlx(&s->waited, true);
	list_for_each(n, &s->entries)
		st_rlx(&list_entry(n, struct eent, in_set)->conn->rx_waited, true);
	lock_drop(&ready_lock);
}

/* The next entry of s whose conn is to be asked back, its conn held; NULL: none. */
static struct conn *foreign_next(struct eset *s)
{
	struct conn *c = NULL;

	lock_take(&ready_lock);
	st_rlx(&s->foreign, true);
	list_for_each(n, &s->entries) {
		struct eent *e = list_entry(n, struct eent, in_set);

		if (e->kept)
			continue;
		e->kept = true;
		eset_sync(e, false);
		c = e->conn;
		conn_get(c);
		break;
	}
	lock_drop(&ready_lock);
	return c;
}

/* The next conn of s that is to be asked for, held; NULL: none. */
static struct conn *kin_next(struct eset *s)
{
	struct conn *c = NULL;

	lock_take(&ready_lock);
	list_for_each(n, &s->entries) {
		struct eent *e = list_entry(n, struct eent, in_set);

		if (!(ld_rlx(&e->conn->kin) & CONN_RX))
			continue;
		c = e->conn;
		conn_get(c);
		break;
	}
	lock_drop(&ready_lock);
	return c;
}

void eset_kin(struct eset *s)
{
	struct conn *c;
	int err = 0;

	st_rlx(&s->theirs, true);
	kin_use_set(s);
	while (!err && (c = kin_next(s)) != NULL) {
		err = kin_use(c, CONN_RX);
		conn_put(c);
	}
	st_rlx(&s->kin, err != 0);
}

/* From now on the kernel has all entries, those too that have fired. */
static void eset_theirs(struct eset *s)
{
	lock_take(&ready_lock);
	st_rlx(&s->theirs, true);
	list_for_each(n, &s->entries)
		eset_sync(list_entry(n, struct eent, in_set), false);
	lock_drop(&ready_lock);
}

/* A child uses the set at this address, says somebody: if it is one. */
static void set_shared(uint64_t set)
{
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1)) {
		struct eset *s = fdtab_eset(fd);

		if (s && (uintptr_t)s == set) {
			eset_theirs(s);
			eset_foreign(s, false);
			return;
		}
	}
}

void eset_foreign(struct eset *s, bool wait)
{
	uint64_t until = clock_ns() + ESET_BACK_MS * NS_PER_MS;
	struct conn *c;

	if (unlikely(ld_rlx(&s->kin)))
		eset_kin(s);
	while ((c = foreign_next(s)) != NULL) {
		sock_keep_on_kernel(c, REASON_OPTION);
		if (wait)
			sock_back_until(c, until);
		conn_put(c);
	}
}

extern uint32_t poll_plain_many;

static bool none_plain(struct conn *c)
{
	bool none = ld_rlx(&poll_plain_many) == 0;

	lock_take(&ready_lock);
	list_for_each(n, &c->eents) {
		struct eset *s = list_entry(n, struct eent, in_conn)->set;

		if (ld_rlx(&s->plain))
			none = false;
	}
	lock_drop(&ready_lock);
	return none;
}

static void on_closed(struct conn *c)
{
	lock_take(&ready_lock);
	while (!list_empty(&c->eents)) {
		struct eent *e = list_entry(c->eents.next, struct eent, in_conn);
		struct epoll_event ev = { 0 };

		/* the kernel socket may live on in a private dup */
		if (c->ever_bound && e->in_kernel && !e->orphan)
			sys_epoll_ctl(e->set->fd, EPOLL_CTL_DEL, e->fd, &ev);
		eset_remove(e);
	}
	lock_drop(&ready_lock);
}

/* fd is about to be closed while another number of c lives. */
static bool in_set(struct conn *c, int fd, bool orphan)
{
	bool found = false;

	lock_take(&ready_lock);
	list_for_each(n, &c->eents) {
		struct eent *e = list_entry(n, struct eent, in_conn);

		if (e->fd != fd)
			continue;
		found = true;
		if (orphan) {
			if (kin_shared(c))
				st_rlx(&e->set->theirs, true);
			e->shown = true;
			eset_sync(e, false);
		}
		e->orphan |= orphan;
		e->fd = orphan ? -1 : fd;
	}
	lock_drop(&ready_lock);
	return found;
}

static int set_holds(int ep, struct conn *c)
{
	struct eset *s = fdtab_eset(ep);
	int found = 0;

	if (!s)
		return -1;
	lock_take(&ready_lock);
	list_for_each(n, &c->eents)
		found |= list_entry(n, struct eent, in_conn)->set == s;
	lock_drop(&ready_lock);
	return found;
}

static void on_tracked(void)
{
	if (!ld_rlx(&ready_in_use))
		st_rlx(&ready_in_use, 1);
}

static int on_shut(void)
{
	lock_take(&ready_lock);
	int n = kick_fd >= 0;
	privfd_close(kick_fd);
	kick_fd = -1;
	lock_drop(&ready_lock);
	return n;
}

static const struct conn_watcher watcher = {
	.event = on_event,
	.moved = on_moved,
	.bound = on_bound,
	.unbound = on_unbound,
	.none_plain = none_plain,
	.closed = on_closed,
	.in_set = in_set,
	.set_holds = set_holds,
	.tracked = on_tracked,
	.shut = on_shut,
	.set_gone = eset_number_gone,
	.set_duped = eset_duped,
	.set_passed = on_passed,
};

/* ------------------------------------------------------------ processes -- */

static void hook_start(void)
{
}

static void fork_prepare(void)
{
	lock_take(&ready_lock);
}

static void fork_parent(void)
{
	lock_drop(&ready_lock);
}

/* The sets are shared with the parent in the kernel; conns in them stay there. */
static void fork_child(void)
{
	lock_reset(&ready_lock);
	kick_fd = -1;
	st_rlx(&poll_plain_many, 0);	/* of the parent's threads */
	for (int fd = fdtab_next(0, FDTAB_MAX - 1); fd >= 0; fd = fdtab_next(fd + 1, FDTAB_MAX - 1)) {
		struct eset *s = fdtab_eset(fd);

		if (!s)
			continue;
		s->plain = s->nbound = 0;
		s->kin = true;
		while (!list_empty(&s->ready))
			eset_pop(list_entry(s->ready.next, struct eent, in_ready));
		list_for_each(n, &s->entries) {
			struct eent *e = list_entry(n, struct eent, in_set);

			/* it will be, when it has been asked for */
			e->spent |= e->disabled;
			e->in_kernel = true;
			e->bound = false;
		}
	}
}

static const struct process_hooks hooks = {
	.start = hook_start,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
	.set_shared = set_shared,
};

void ready_init(void)
{
	for (int i = 0; i < BUCKETS; i++)
		list_init(&by_data[i]);
	conn_watcher = &watcher;
	process_hooks = &hooks;
}
