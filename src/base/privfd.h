/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * privfd.h - the library's own file descriptors
 *
 * They live at high numbers (so that the lowest-fd rule holds for the
 * program), are close-on-exec, and are known here, so that close(), dup2(),
 * close_range() and close loops of the program can be made to miss them.
 */
#ifndef BASE_PRIVFD_H
#define BASE_PRIVFD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Move fd to a high number with close-on-exec and register it.
 * Return: the new number (fd itself is closed), or -errno (fd is closed too).
 * Context: any thread; no lock held that a signal handler could want.
 */
int privfd_adopt(int fd);

/* A private duplicate of a descriptor that stays open. */
int privfd_dup(int fd);

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

/* In the child of a fork: close all of ours but two (the rest are the parent's). */
void privfd_close_all(int but, int but_too);

#endif
