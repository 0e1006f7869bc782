/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ready.h - what the door expects of the readiness room (test double)
 *
 * call says which libc function the program called, so that a wait without
 * connections of ours reaches exactly that one.  timeout NULL: for ever; of
 * ready_select() it is in and out (the time left, as the kernel's select does).
 */
#ifndef READY_READY_H
#define READY_READY_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "base/real.h"

extern bool double_active;
static inline bool ready_active(void) { return double_active; }

int ready_poll(enum call_id call, struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	       const sigset_t *mask);
int ready_select(enum call_id call, int n, fd_set *r, fd_set *w, fd_set *e,
		 struct timespec *timeout, const sigset_t *mask);
void ready_epoll_created(int ep);
int ready_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int ready_epoll_wait(enum call_id call, int ep, struct epoll_event *ev, int max,
		     const struct timespec *timeout, const sigset_t *mask);

static inline void ready_init(void) { }

#endif
