/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's part of "vip_perf waking". */
#ifndef VIP_PERF_WAKING_H
#define VIP_PERF_WAKING_H

#include "transport.h"

void serve_waking(const Side &side);

#endif
