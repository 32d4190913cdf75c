/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC's service thread: connection events, the device's asynchronous events. */
#ifndef VIPL_AGENT_H
#define VIPL_AGENT_H

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

#endif
