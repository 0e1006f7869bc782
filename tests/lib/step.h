/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Step synchronisation between the two roles of a test, over one Unix
 * datagram-preserving socket pair: never TCP, never a sleep.
 *
 * Both roles call the same sequence of steps.  With fd -1 (one thread plays
 * both roles) everything returns at once.
 */
#ifndef TESTS_LIB_STEP_H
#define TESTS_LIB_STEP_H

/* Return: 0, or -1 if the other role has gone or is at another step. */
int step_meet(int fd);
int step_tell(int fd, long value);
int step_hear(int fd, long *value);

/* Make a pair; both ends close on exec.  Return: 0 or -1 with errno. */
int step_pair(int fd[2]);

#endif
