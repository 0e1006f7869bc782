/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * load.h - libraries of devices are loaded, and devices opened, apart from a fork
 *
 * A child that is forked in the midst of it would have half a library, a lock of
 * libibverbs for good, or descriptors at numbers that are the program's.
 *
 * Not without a bound: a fork may come from a constructor of something that the
 * program loads, with the loader's lock, which our own loading waits for; and a
 * device may take long to be opened.  After that the fork goes on, and its child
 * may stay on TCP.
 */
#ifndef RNIC_LOAD_H
#define RNIC_LOAD_H

/* Around it, by the background thread.  Not nested; nothing else is waited for within. */
void load_begin(void);
void load_end(void);

/* Over a fork: behind kin_lock, and before any other lock. */
void load_fork_prepare(void);
void load_fork_parent(void);
void load_fork_child(void);

#endif
