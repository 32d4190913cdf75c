/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread may ask about a VIPL CQ without its lock, where the device has an answer. */
#ifndef VIPL_CQ_LOOK_H
#define VIPL_CQ_LOOK_H

#include <stdatomic.h>
#include <stdbool.h>

/* It is in memory of the device's that outlives the CQ, for a thread may come late. Only the next CQ there uses it again. */
struct cq_look {
	/* True if a poll would find nothing: what has completed before this call is found, or another poll has found it. */
	bool (*is_empty)(const struct cq_look *look);
	atomic_bool is_polled; /* else the device wants to be polled, though there is nothing */
};

#endif
