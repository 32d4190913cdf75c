/* SPDX-License-Identifier: BSD-2-Clause */
/* The answer to vip_stat: what a NIC's connections are doing. */
#ifndef VIPL_STATUS_H
#define VIPL_STATUS_H

#include <stdbool.h>

struct nic;

/* Returns a socket that is readable when a reader has come, or -1. A NIC does without it. */
int status_open(void);
/* [nic] Answers one reader, if it is this user or root, without waiting. False: one is there and cannot be accepted now. */
bool status_serve(struct nic *nic, int listener);

#endif
