/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the traced programs share. */
#ifndef TRACE_PROGRAM_H
#define TRACE_PROGRAM_H

#include "vipl.h"

#define MSEC 20000u

extern VIP_NIC_HANDLE nic;

/* Ends the program, with a message, unless the condition holds. */
void must(int condition, const char *what);
/* Prints the name of a value in the trace for check.py. */
void name(const char *name, const void *value);

void open_nic(void);
VIP_VI_HANDLE make_vi(VIP_CQ_HANDLE recv_cq);
/*
 * Makes a descriptor without segments. On an idle VI a send is done at once, flushed, and a receive
 * stays posted.
 */
VIP_DESCRIPTOR *make_descriptor(void);
/* Posts and takes that many sends on an idle VI. This makes twice as many lines. */
void post_and_take(VIP_VI_HANDLE vi, int times);

void call_everything(void);

#endif
