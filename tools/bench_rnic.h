/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bench_rnic.h - sidestep-bench rnic: what the device does, without sockets */
#ifndef TOOLS_BENCH_RNIC_H
#define TOOLS_BENCH_RNIC_H

/*
 * argv[0] is the name for messages.  Options: --json, --quick, --device NAME.
 * Return: exit status (0, 1 failed, 2 usage).
 */
int bench_rnic_main(int argc, char **argv);

#endif
