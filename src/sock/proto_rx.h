/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* proto_rx.h - between proto_rx.c and proto_eat.c */
#ifndef SOCK_PROTO_RX_H
#define SOCK_PROTO_RX_H

#include "sock/proto.h"

uint32_t rx_eof_check(struct prx *rx);

#endif
