/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions for programs that do not poll, but watch the Status of their descriptors in memory. With VIPL_PROGRESS=on
 * the agent polls all CQs, and sleeps on their channels.
 */
#ifndef VIPL_PROGRESS_H
#define VIPL_PROGRESS_H

#include <stdbool.h>

struct channel;
struct cq;
struct nic;

/* A part of struct nic. */
struct progress {
	int channels_fd; /* readable when a channel is; -1: the program polls */
};

/* 0 or errno. */
int progress_start(struct nic *nic);
void progress_end(struct nic *nic);

/* [nic] Takes what has come; `rings`: a channel is readable. Returns msec until it has to be called again, or -1. */
int progress_serve(struct nic *nic, bool rings);

#endif
