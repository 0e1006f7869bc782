/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* figures.h - what a run has given: numbers in the client's output, and costs */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include "bench.h"
#include "proc.h"

/* The figures, the operations, and where the client tells them the round trips.
 * Return: 0 or an exit code. */
int figures_read(struct bench *b, const char *client_out, bool sidestep, struct run *out);

/* Costs of two processes that have ended, by the operations just read. */
void figures_cost(struct run *out, bool calls_counted, const struct proc *server,
		  const struct proc *client);

#endif
