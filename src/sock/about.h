/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* about.h - what a program that knows us may ask of a connection (sidestep/sidestep.h) */
#ifndef SOCK_ABOUT_H
#define SOCK_ABOUT_H

struct sidestep_stats;

/* as the functions of these names in sidestep/sidestep.h; the others: 0 or -errno */
int about_path(int fd);
const char *about_reason(int fd);
int about_stats(int fd, struct sidestep_stats *s);
int about_attach(int fd);
int about_retreat(int fd);

#endif
