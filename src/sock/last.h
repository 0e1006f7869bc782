/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* last.h - a process that ends with its last thread: where libc does not see to it */
#ifndef SOCK_LAST_H
#define SOCK_LAST_H

void last_forget(void);

#endif
