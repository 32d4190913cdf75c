/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC's service thread: connection events, the device's asynchronous events, and its answers to vip_stat. */
#ifndef VIPL_AGENT_H
#define VIPL_AGENT_H

#include <stdbool.h>

struct nic;

/* 0 or errno. */
int agent_start(struct nic *nic);
/* From any thread but the agent. It may still be woken, to no effect, until it is freed. */
void agent_stop(struct nic *nic);
void agent_free(struct nic *nic);

/*
 * For calls in which a program polls, with no lock held: does the agent's work, if the agent has not lately, because a real-time
 * program polls on its only processor.
 */
void agent_stand_in(struct nic *nic);

/* ---- status.c ---- */

/* Returns a socket that is readable when a reader has come, or -1. A NIC does without it. */
int status_open(void);
/* [nic] Answers one reader, if it is this user or root, without waiting. False: one is there and cannot be accepted now. */
bool status_serve(struct nic *nic, int listener);

#endif
