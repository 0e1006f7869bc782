/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * unseen.c - bytes in a ring, or room in one, for which nobody comes
 *
 * A program may have read through us and wait past us: by a system call of its
 * own making, or by io_uring.  The kernel socket of a conn on the ring has
 * nothing to say, so it would sleep for ever.  Where bytes, or room after an
 * EAGAIN, lie untouched for LOOK_MS or more, the background thread asks the
 * kernel what the program's threads sleep in:
 *
 *   SURE	a wait or read that covers this very conn, and none of ours
 *   MAYBE	one of which that cannot be known, an io_uring, or no /proc
 *   WEAK	some other wait for descriptors
 *
 * A conn with a waiter of the first kind goes back to the kernel for good
 * (unseen-waiter), so that the data appear where it waits; for the others the
 * process must have been idle, for MAYBE_LOOKS or WEAK_LOOKS looks.  Threads
 * that run, sleep in our own waits, on a futex, for a time or a child, are
 * left alone: they come by themselves.  What is wrong here costs speed only.
 *
 * Who sleeps in a read of the kernel socket would take the record of a retreat
 * for data: such a connection is reset.
 *
 * Conns are listed when something comes for them and unlisted when nothing is
 * left and nothing has moved since the last look, so an idle process has no
 * list and no timer.  lurk_lock is a leaf; who is listed is bound, so what is
 * read here without its locks is there.
 */
#define _GNU_SOURCE
#include "sock/unseen.h"

#include <poll.h>
#include <string.h>
#include <sys/select.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "sock/act.h"
#include "sock/bind.h"
#include "sock/fdtab.h"

#define LOOK_MS		40
#define LOOK_MAX_MS	320
#define MAYBE_LOOKS	2
#define WEAK_LOOKS	6
#define AT_ONCE		64
#define POLL_MOST	65536u

enum level { NOBODY, WEAK, MAYBE, SURE, READER };

struct suspect {
	struct conn *c;
	enum level level;
	uint32_t looks;
};

struct look {
	struct suspect s[AT_ONCE];
	int n;
};

static struct lock lurk_lock;
static struct list lurking = LIST_INIT(lurking);
static uint64_t wait_ms;		/* the background thread's; read by others as a hint */
static uint64_t cpu_ns, cpu_at_ns;

static void start(struct bg_work *w);
static void walk(struct bg_timer *t);
static struct bg_work work = { .fn = start };
static struct bg_timer timer = { .fn = walk };

void unseen_list(struct conn *c)
{
	bool first = false;

	lock_take(&lurk_lock);
	if (c->link && !c->lurks) {
		first = list_empty(&lurking);
		list_push(&lurking, &c->lurk);
		st_rlx(&c->lurks, true);
		c->lurk_C = UINT64_MAX;
		c->lurk_looks = 0;
	}
	lock_drop(&lurk_lock);
	if (first || ld_rlx(&wait_ms) > LOOK_MS)
		bg_queue(&work);
}

/* lurk_lock held */
static void unlist(struct conn *c)
{
	list_del(&c->lurk);
	st_rlx(&c->lurks, false);
}

void unseen_forget(struct conn *c)
{
	lock_take(&lurk_lock);
	if (c->lurks)
		unlist(c);
	lock_drop(&lurk_lock);
}

void unseen_forget_all(void)
{
	lock_reset(&lurk_lock);
	list_init(&lurking);
	work.queued = 0;
	timer.node.next = NULL;
	wait_ms = 0;
}

static void start(struct bg_work *w)
{
	st_rlx(&wait_ms, LOOK_MS);
	bg_timer_set(&timer, clock_ns() + LOOK_MS * NS_PER_MS);
}

/* ----------------------------------------------------------- the threads -- */

static void raise_to(struct look *l, const struct conn *c, enum level level)
{
	for (int i = 0; i < l->n; i++)
		if (!c || l->s[i].c == c)
			l->s[i].level = MAX(l->s[i].level, level);
}

static void in_epoll(struct look *l, int ep)
{
	for (int i = 0; i < l->n; i++) {
		int holds = conn_watcher->set_holds(ep, l->s[i].c);

		raise_to(l, l->s[i].c, holds > 0 ? SURE : holds < 0 ? MAYBE : WEAK);
	}
}

static void in_set_or_conn(struct look *l, int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (c)
		raise_to(l, c, SURE);
	for (int i = 0; !c && fdtab_eset(fd) && i < l->n; i++)
		if (conn_watcher->set_holds(fd, l->s[i].c) > 0)
			raise_to(l, l->s[i].c, SURE);
}

static void in_poll(struct look *l, unsigned long at, unsigned long n)
{
	struct pollfd p[64];

	for (unsigned long i = 0; i < n && i < POLL_MOST; i += ARRAY_SIZE(p)) {
		size_t k = (size_t)MIN(n - i, ARRAY_SIZE(p)), bytes = k * sizeof(*p);

		if (tasks_peek(at + i * sizeof(*p), p, bytes) != (ssize_t)bytes) {
			raise_to(l, NULL, MAYBE);
			return;
		}
		if (i == 0 && privfd_is(p[0].fd))
			return;		/* a wait of ours */
		for (size_t j = 0; j < k; j++)
			if (p[j].fd >= 0)
				in_set_or_conn(l, p[j].fd);
	}
	if (n)
		raise_to(l, NULL, WEAK);
}

static void in_select(struct look *l, unsigned long n, const unsigned long sets[3])
{
	unsigned char bits[FD_SETSIZE / 8];
	size_t bytes = (size_t)MIN((n + 63) / 64 * 8, sizeof(bits));

	for (int i = 0; i < 3 && n; i++) {
		if (!sets[i])
			continue;
		raise_to(l, NULL, WEAK);
		if (n > FD_SETSIZE || tasks_peek(sets[i], bits, bytes) != (ssize_t)bytes) {
			raise_to(l, NULL, MAYBE);
			return;
		}
		for (unsigned fd = 0; fd < n; fd++)
			if (bits[fd / 8] >> (fd % 8) & 1)
				in_set_or_conn(l, (int)fd);
	}
}

static void in_read(struct look *l, int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (c)
		raise_to(l, c, READER);
}

/* One that does not wait sleeps for the socket's lock: one of ours, perhaps. */
static void in_recv(struct look *l, int fd, unsigned long flags)
{
	if (!(flags & MSG_DONTWAIT))
		in_read(l, fd);
}

static void on_task(void *arg, const struct task_call *t)
{
	struct look *l = arg;

	switch (t->nr) {
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait: case SYS_epoll_pwait2:
		in_epoll(l, (int)t->a[0]);
		break;
#ifdef SYS_poll
	case SYS_poll:
#endif
	case SYS_ppoll:
		in_poll(l, t->a[0], t->a[1]);
		break;
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_pselect6:
		in_select(l, t->a[0], &t->a[1]);
		break;
	case SYS_read: case SYS_readv: case SYS_preadv2: case SYS_splice:
		in_read(l, (int)t->a[0]);
		break;
	case SYS_recvmsg:
		in_recv(l, (int)t->a[0], t->a[2]);
		break;
	case SYS_recvfrom: case SYS_recvmmsg:
		in_recv(l, (int)t->a[0], t->a[3]);
		break;
	case SYS_sendfile:
		in_read(l, (int)t->a[1]);
		break;
	case SYS_io_uring_enter: case SYS_io_getevents: case SYS_io_pgetevents:
	case SYS_restart_syscall:
		raise_to(l, NULL, MAYBE);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------ the verdict -- */

/* As TCP would break it: the sleeper hears of it at once, and so does the peer. */
static void break_off(struct conn *c)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	lock_take(&c->rxl);
	if (c->fd >= 0 && !c->closing && conn_rx_on_ring(c)) {
		log_info("fd %d is read past the library, reset", c->fd);
		if (sys3(SYS_connect, c->fd, &none, sizeof(none)) < 0)
			sys_shutdown(c->fd, SHUT_RDWR);
		rx_kernel_end(c, ECONNRESET);
	}
	lock_drop(&c->rxl);
}

static void give_back(struct conn *c)
{
	if (!conn_tx_on_ring(c))	/* else its retreat is counted */
		count_reason(REASON_UNSEEN_WAITER);
	sock_keep_on_kernel(c, REASON_UNSEEN_WAITER);
}

/* Has the program slept since the last look? */
static bool was_idle(uint64_t now)
{
	uint64_t cpu = tasks_cpu_ns();
	bool idle = cpu - cpu_ns < (now - cpu_at_ns) / 32;

	cpu_ns = cpu;
	cpu_at_ns = now;
	return idle;
}

static void judge(struct look *l, uint64_t now, bool idle)
{
	int err = tasks_each(on_task, l);

	if (err || tasks_uring(now))
		raise_to(l, NULL, MAYBE);
	for (int i = 0; i < l->n; i++) {
		struct conn *c = l->s[i].c;
		enum level level = l->s[i].level;
		uint32_t looks = l->s[i].looks;

		if (level == READER && conn_rx_on_ring(c))
			break_off(c);
		else if (level >= SURE || (idle && level == MAYBE && looks >= MAYBE_LOOKS) ||
			 (idle && level == WEAK && looks >= WEAK_LOOKS))
			give_back(c);
		conn_put(c);
	}
}

/* One conn; lurk_lock held.  Return: true if something moved. */
static bool look_at(struct conn *c, struct look *l)
{
	uint8_t s = ld_rlx(&c->rx.state);
	uint64_t C = ld_rlx(&c->rx.C), P = ld_rlx(&c->tx.P);
	const struct slot_shm *w = ld_rlx(&c->rx_words);
	bool unread = w && (s == PRX_READY || s == PRX_ON) && slot_p_count(ld_acq(&w->p)) != C;
	bool moved = C != c->lurk_C || P != ld_rlx(&c->lurk_P);

	if (P != ld_rlx(&c->lurk_P) || !conn_tx_on_ring(c))
		st_rlx(&c->tx_offered, false);
	c->lurk_C = C;
	st_rlx(&c->lurk_P, P);
	bool lies = (unread || ld_rlx(&c->tx_offered)) && !ld_rlx(&c->closing);
	c->lurk_looks = moved || !lies ? 0 : c->lurk_looks + 1;
	if (c->lurk_looks && l->n < AT_ONCE) {
		conn_get(c);
		l->s[l->n++] = (struct suspect){ c, NOBODY, c->lurk_looks };
	}
	if (!moved && !lies)
		unlist(c);
	return moved;
}

static void walk(struct bg_timer *t)
{
	struct look l = { .n = 0 };
	uint64_t now = clock_ns(), ms = MIN(2 * wait_ms, (uint64_t)LOOK_MAX_MS);
	bool idle = was_idle(now);

	lock_take(&lurk_lock);
	for (struct list *n = lurking.next, *next; n != &lurking; n = next) {
		next = n->next;
		if (look_at(list_entry(n, struct conn, lurk), &l))
			ms = LOOK_MS;
	}
	bool any = !list_empty(&lurking);
	lock_drop(&lurk_lock);
	if (l.n)
		judge(&l, now, idle);
	st_rlx(&wait_ms, any ? ms : 0);
	if (any)
		bg_timer_set(&timer, now + ms * NS_PER_MS);
}
