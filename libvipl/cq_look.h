/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread may ask about a VIPL CQ without its lock, where the device has an answer. */
#ifndef VIPL_CQ_LOOK_H
#define VIPL_CQ_LOOK_H

#include <stdatomic.h>
#include <stdbool.h>

/* The device's memory for it outlives the CQ, because a thread may come late. Only the next CQ in the CQ's place reuses it. */
struct cq_look {
	/* True if a poll would find nothing of what has completed before this call, unless another poll has found it. */
	bool (*is_empty)(const struct cq_look *look);
	atomic_bool is_polled; /* false: the device wants a poll even if there is nothing */
};

#endif
