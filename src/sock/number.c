/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * number.c - descriptors that are closed, renamed and duplicated
 *
 * A number is taken from its object (number_take()), then the kernel does what was
 * asked, then it is known again (fdtab_done()).  Whoever begins a call on it
 * meanwhile waits, or the call would be for the kernel's socket past the ring.  So
 * nothing in between may block: the last close of a socket that lingers is that of a
 * dup, made when all is known again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/privfd.h"
#include "base/real.h"
#include "base/section.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "sock/calls.h"
#include "sock/fdtab.h"
#include "sock/sock.h"

#define TAKES	8

/* The kernel has done its part. */
static void number_over(int fd, const struct number_end *e)
{
	if (e->going)
		fdtab_done(fd);
	if (e->deferred)
		conn_sleeper_back(e->deferred);
	privfd_close(e->kept);
	end_linger(&e->linger);
}

void sock_purge(int fd)
{
	struct number_end e = number_take(fd);

	number_over(fd, &e);
}

/* Who is cancelled in it would leave the mark. */
static int close_at_once(int fd)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	int r = real_result(real.close(fd));
	pthread_setcancelstate(state, &state);
	return r;
}

int sock_close(int fd)
{
	section_cancel_point();		/* before anything is done, as in libc */
	struct number_end e = number_take(fd);

	if (e.waits)
		fdtab_done(fd);
	int r = e.going && !e.waits ? close_at_once(fd) : section_away(real_result(real.close(fd)));
	e.going &= !e.waits;
	number_over(fd, &e);		/* as in the kernel: the number is free meanwhile */
	return r;
}

/* One more number of what fd is, which the kernel knows already. */
static void number_given(int fd, int to)
{
	struct conn *c = fdtab_conn(fd);

	if (!c) {
		conn_watcher->set_duped(fd, to);
		return;
	}
	conn_take_both(c);
	if (fdtab_has(fd, c)) {
		if (fdtab_set(to, c, FDTAB_CONN) == 0)
			c->nfds++;
		else
			bind_give_up(c, REASON_NO_MEMORY);
	}
	conn_unlock_both(c);
}

void sock_duped(int fd, int to)
{
	sock_purge(to);
	number_given(fd, to);
}

/* A call that is on its way to the kernel with a number is not to find a ring behind it. */
static void number_to_kernel(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	if (c && ld_rlx(&c->ever_bound))
		kernel_only(fd, true, true, REASON_FOREIGN_IO);
}

/* Is another thread in a call on it?  A hint: number_take() knows. */
static bool number_in_use(int fd)
{
	const struct conn *c = fdtab_conn(fd);

	return c && (ld_acq(&c->tx_asking) || ld_acq(&c->rx_asking) || ld_rlx(&c->rx_plain_polls));
}

int sock_dup(int fd, int to, int flags, int (*dup)(int fd, int to, int flags))
{
	if (fdtab_look(to)) {		/* which must not hear of its end if the call will fail */
		int err = sys_fcntl(fd, F_GETFD, 0);

		if (err < 0)
			return err;
	} else if (tasks_counted() != 1 && sys_fcntl(to, F_GETFD, 0) >= 0) {
		number_to_kernel(fd);	/* of such a number we do not know who is inside */
	}
	bool kernel = number_in_use(to);
	if (unlikely(kernel))		/* it waits, which is not for when the mark is set */
		number_to_kernel(fd);
	struct number_end e = number_take(to);
	/* another may have given it to another object just now */
	for (int i = 0; !e.going && i < TAKES && !(e.going = fdtab_take(to)); i++)
		e = number_take(to);
	if (unlikely(e.inside && !kernel))
		number_to_kernel(fd);
	int r = dup(fd, to, flags);
	if (r >= 0)
		number_given(fd, to);
	number_over(to, &e);
	return r;
}

int sock_close_range(unsigned first, unsigned last, int (*close)(unsigned first, unsigned last))
{
	int low = (int)MIN(first, (unsigned)FDTAB_MAX), high = (int)MIN(last, (unsigned)FDTAB_MAX - 1);
	bool any = false;

	for (int fd = fdtab_next(low, high); fd >= 0; fd = fdtab_next(fd + 1, high)) {
		struct number_end e = number_take(fd);
		bool later = e.waits || e.deferred || e.kept >= 0 || e.linger.ns;

		if (later) {		/* as in the kernel, one waits after the other */
			close_at_once(fd);
			number_over(fd, &e);
		}
		any |= e.going && !later;
	}
	int r = any ? close(first, last) : section_away(close(first, last));
	for (int fd = fdtab_next(low, high); any && fd >= 0; fd = fdtab_next(fd + 1, high))
		if (fdtab_going(fd))
			fdtab_done(fd);
	return r;
}
