/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * wait.c - poll, select, epoll
 *
 * A wait goes to the readiness room only while the process has a connection
 * that could be on a ring; the room then reaches the very libc function that
 * the program called (enum call_id) if the set holds none.  Registrations are
 * told from birth, or a connection that attaches later could not know its sets.
 */
#include "base/privfd.h"
#include "preload/door.h"

static bool asks_room(void)
{
	return door_on() && ready_active();
}

/* NULL for "for ever", which is any negative number of milliseconds */
static struct timespec *ms_timespec(int ms, struct timespec *ts)
{
	if (ms < 0)
		return NULL;
	ts->tv_sec = ms / 1000;
	ts->tv_nsec = ms % 1000 * 1000000L;
	return ts;
}

int door_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec ts;

	if (!door_up())
		return (int)DOOR_RAW(SYS_ppoll, (fds, n, ms_timespec(timeout_ms, &ts), 0, 8));
	if (asks_room())
		return DOOR_RET(ready_poll(CALL_poll, fds, n, ms_timespec(timeout_ms, &ts), NULL));
	return real.poll(fds, n, timeout_ms);
}
DOOR_ALIAS(__poll, poll)

int door___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t len)
{
	if (unlikely(len / sizeof(*fds) < n) && door_up())
		return real.__poll_chk(fds, n, timeout_ms, len);
	return door_poll(fds, n, timeout_ms);
}

int door_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (!door_up()) {
		struct timespec left = timeout ? *timeout : (struct timespec){ 0 };

		return (int)DOOR_RAW(SYS_ppoll, (fds, n, timeout ? &left : NULL, mask, 8));
	}
	if (asks_room())
		return DOOR_RET(ready_poll(CALL_ppoll, fds, n, timeout, mask));
	return real.ppoll(fds, n, timeout, mask);
}

int door___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		     const sigset_t *mask, size_t len)
{
	if (unlikely(len / sizeof(*fds) < n) && door_up())
		return real.__ppoll_chk(fds, n, timeout, mask, len);
	return door_ppoll(fds, n, timeout, mask);
}

/*
 * Linux's select() leaves the time that is left in *timeout, also when it was
 * interrupted; programs (and select(2)) know it.
 */
static int select_room(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *tv)
{
	struct timespec ts;

	if (!tv)
		return ready_select(CALL_select, n, r, w, e, NULL, NULL);
	if (tv->tv_sec < 0 || tv->tv_usec < 0)
		return -EINVAL;
	ts.tv_sec = tv->tv_sec + tv->tv_usec / 1000000;
	ts.tv_nsec = tv->tv_usec % 1000000 * 1000;
	int ret = ready_select(CALL_select, n, r, w, e, &ts, NULL);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return ret;
}

int door_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	if (asks_room())
		return DOOR_RET(select_room(n, r, w, e, timeout));
	return real.select(n, r, w, e, timeout);
}
DOOR_ALIAS(__select, select)

int door_pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		 const sigset_t *mask)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	if (asks_room()) {
		struct timespec left = timeout ? *timeout : (struct timespec){ 0 };

		return DOOR_RET(ready_select(CALL_pselect, n, r, w, e, timeout ? &left : NULL, mask));
	}
	return real.pselect(n, r, w, e, timeout, mask);
}

static int epoll_fresh(int ep)
{
	ep = door_fresh(ep);
	if (ep >= 0 && door_on())
		DOOR_ASIDE(ready_epoll_created(ep));
	return ep;
}

int door_epoll_create(int size)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_epoll_create1, (0));
	return epoll_fresh(DOOR_NUMBER(real.epoll_create(size)));
}

int door_epoll_create1(int flags)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_epoll_create1, (flags));
	return epoll_fresh(DOOR_NUMBER(real.epoll_create1(flags)));
}

int door_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	if (!door_up())
		return (int)DOOR_RAW(SYS_epoll_ctl, (ep, op, fd, ev));
	if (!door_on())
		return real.epoll_ctl(ep, op, fd, ev);
	if (privfd_is(fd) || privfd_is(ep)) {
		errno = EBADF;
		return -1;
	}
	privfd_quiet();
	return DOOR_RET(ready_epoll_ctl(ep, op, fd, ev));
}

int door_epoll_wait(int ep, struct epoll_event *ev, int max, int timeout_ms)
{
	struct timespec ts;

	if (!door_up())
		return (int)DOOR_RAW(SYS_epoll_pwait, (ep, ev, max, timeout_ms, 0, 8));
	if (asks_room())
		return DOOR_RET(ready_epoll_wait(CALL_epoll_wait, ep, ev, max,
						 ms_timespec(timeout_ms, &ts), NULL));
	return real.epoll_wait(ep, ev, max, timeout_ms);
}

int door_epoll_pwait(int ep, struct epoll_event *ev, int max, int timeout_ms, const sigset_t *mask)
{
	struct timespec ts;

	if (!door_up())
		return (int)DOOR_RAW(SYS_epoll_pwait, (ep, ev, max, timeout_ms, mask, 8));
	if (asks_room())
		return DOOR_RET(ready_epoll_wait(CALL_epoll_pwait, ep, ev, max,
						 ms_timespec(timeout_ms, &ts), mask));
	return real.epoll_pwait(ep, ev, max, timeout_ms, mask);
}

int door_epoll_pwait2(int ep, struct epoll_event *ev, int max, const struct timespec *timeout,
		      const sigset_t *mask)
{
	if (!door_up())
		return (int)door_raw(-ENOSYS);
	if (asks_room())
		return DOOR_RET(ready_epoll_wait(CALL_epoll_pwait2, ep, ev, max, timeout, mask));
	return real.epoll_pwait2(ep, ev, max, timeout, mask);
}
