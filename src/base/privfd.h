/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * privfd.h - the library's own file descriptors
 *
 * They live at high numbers (so that the lowest-fd rule holds for the
 * program), are close-on-exec, and are known here, so that close(), dup2(),
 * close_range() and close loops of the program can be made to miss them.
 *
 * The kernel gives a new descriptor the lowest number, so between its making
 * and privfd_adopt() it stands where the program's next one should.  Such a
 * window is opened and closed by PRIVFD_NEW(); meanwhile the door holds back
 * who would close or rename that number, and gives a descriptor that the
 * program has made beside a window its right number afterwards.
 */
#ifndef BASE_PRIVFD_H
#define BASE_PRIVFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/util.h"

/*
 * Move fd to a high number with close-on-exec and register it.
 * Return: the new number (fd itself is closed), or -errno (fd is closed too).
 * Context: any thread; no lock held that a signal handler could want.
 */
int privfd_adopt(int fd);

/*
 * The same around the call that makes it: PRIVFD_NEW(sys1(SYS_epoll_create1, ...)).
 * Context: any thread; no window open; the call does not block.
 */
#define PRIVFD_NEW(call) ({ \
	privfd_begin(); \
	int _new = privfd_adopt((int)(call)); \
	privfd_end(); \
	_new; })

/* ... and around anything else that has a low number for a moment. */
void privfd_begin(void);
void privfd_end(void);

extern uint32_t privfd_windows;		/* opened and closed so far: odd, one is open */
extern __thread uint32_t privfd_seen __attribute__((tls_model("initial-exec")));

/* Wait until none is open, for a call that names a number of the program's. */
void privfd_wait(void);
static inline void privfd_quiet(void)
{
	if (unlikely(ld_acq(&privfd_windows) & 1))
		privfd_wait();
}

/*
 * Have there been windows since this thread looked last?  Then what it has just
 * made may have too high a number: privfd_settle() moves n of them, which the
 * program has not seen yet, to the lowest from min on.
 */
static inline bool privfd_moved(void)
{
	/* pairs with privfd_begin(): the kernel's own lock lies between */
	return ld_acq(&privfd_windows) != privfd_seen;
}
void privfd_settle(int *fds, int n, int min);

/* No window opens between these two.  Context: in a section, nothing between them blocks. */
void privfd_hold(void);
void privfd_release(void);

/* A private duplicate of a descriptor that stays open. */
int privfd_dup(int fd);

/*
 * The same for what must not fail when all numbers are taken: a few are kept
 * in reserve.  privfd_reserve(): see that they are there, copies of fd for now.
 */
int privfd_dup_surely(int fd);
void privfd_reserve(int fd);
/* Give the reserve up, for good.  Return: how many numbers are free by that. */
int privfd_unreserve(void);

/*
 * write(2) to a file of ours.  A program that has set RLIMIT_FSIZE (sshd's
 * sandbox: 0) would die of SIGXFSZ by it; it gets -EFBIG instead.
 */
ssize_t privfd_write(int fd, const void *p, size_t n);

/* Close and forget; -1 is accepted. */
void privfd_close(int fd);

/* Is this number one of ours?  Cheap; called by close() and friends. */
bool privfd_is(int fd);

/* The lowest of ours at or above fd, or -1: for close_range(). */
int privfd_next(int fd);

/*
 * Over a fork no number of ours comes or goes.  prepare: in a section, as the last
 * lock; child: first, before anything closes a number.
 */
void privfd_fork_prepare(void);
void privfd_fork_parent(void);
void privfd_fork_child(void);

/* In the child of a fork: close all of ours but those to be kept (the rest are the parent's). */
void privfd_close_all(bool (*keep)(int fd));

#endif
