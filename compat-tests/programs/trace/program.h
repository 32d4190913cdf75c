/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs whose traces are checked have in common. */
#ifndef TRACE_PROGRAM_H
#define TRACE_PROGRAM_H

#include "vipl.h"

#define MSEC 20000u

extern VIP_NIC_HANDLE nic;

/* Ends the program, with a message, unless the condition holds. */
void must(int condition, const char *what);
/* Tells check.py the name of a value in the trace. */
void name(const char *name, const void *value);

void open_nic(void);
VIP_VI_HANDLE make_vi(VIP_CQ_HANDLE recv_cq);
/* Without segments: on an idle VI it is done at once, flushed, or stays posted. */
VIP_DESCRIPTOR *make_descriptor(void);
/* So many sends on an idle VI, each posted and taken: twice as many lines. */
void post_and_take(VIP_VI_HANDLE vi, int times);

void call_everything(void);

#endif
