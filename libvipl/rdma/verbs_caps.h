/* SPDX-License-Identifier: BSD-2-Clause */
/* What an RDMA device offers beyond what ibv_query_device() tells, or less than that. vip_info asks by this file, too. */
#ifndef VIPL_VERBS_CAPS_H
#define VIPL_VERBS_CAPS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct verbs_caps {
	unsigned inline_bytes; /* that a queue pair can be asked for */
	unsigned send_segments, read_segments, receive_segments; /* of a request */
	unsigned vectors;    /* interrupts that completions can be announced by */
	bool has_uc, has_atomics, has_reads;
};

/*
 * The segments that queue pairs have room for. More would make each queue pair large, because it has a thousand receives. A
 * receive of 5 segments takes 128 bytes on soft-RoCE; adapters that need 16 bytes for each segment have room for 8 in that.
 * 1000 VIs with queues of their own take 0.6 GB on soft-RoCE; with 13 segments they would take 0.85.
 */
#define VERBS_SEND_SEGMENTS    16u
#define VERBS_RECEIVE_SEGMENTS 5u

/* Also what ibv_query_device() tells. 0 or errno. Only what the device lacks for good counts as lacking. */
int verbs_ask_caps(struct ibv_context *context, struct ibv_device_attr *limits, struct verbs_caps *caps);
/*
 * Of the largest CQ that can be had. max_cqe is more than that where the kernel compares a size that was rounded up. Only what was
 * tried is promised.
 */
unsigned verbs_most_entries(struct ibv_context *context, const struct ibv_device_attr *limits);

static inline unsigned verbs_lower(unsigned a, int b)
{
	return b > 0 && (unsigned)b < a ? (unsigned)b : a;
}

#endif
