/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's part of "vip_perf connect". */
#ifndef VIP_PERF_CONNECT_H
#define VIP_PERF_CONNECT_H

#include "transport.h"

void serve_connections(const Side &side, const Json &request);

#endif
