/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* params.h - what the other end of a queue pair needs, over a Unix socket */
#ifndef TOOLS_DEVICE_PARAMS_H
#define TOOLS_DEVICE_PARAMS_H

#include <stdbool.h>

#include "rnic/rnic.h"

/* Send, with the descriptors, which are closed here in any case. */
bool params_send(int sock, struct rnic_params *p);
/* Receive; the descriptors are the caller's. */
bool params_recv(int sock, struct rnic_params *p);

#endif
