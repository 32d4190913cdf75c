/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks by rdma_cm whether a host is there, where there is no control connection. */
#ifndef VIPL_RDMA_PING_H
#define VIPL_RDMA_PING_H

#include "rdma.h"

struct ping {
	enum verbs_role role;
	struct verbs_device *device;
	struct in6_addr host;
	struct rdma_cm_id *id; /* of the one under way, or NULL */
	int64_t due;	       /* the next one, or the end of waiting for this one's answer */
	unsigned unanswered;   /* since the last answer, with the one under way */
	bool is_back;	       /* the host has answered after questions without an answer; whoever uses this resets it */
};

void ping_init(struct ping *ping, struct verbs_device *device, const struct in6_addr *host);
/* [nic] Asks when it is time to. True when eight questions in a row have had no answer. */
bool ping_tick(struct ping *ping, int64_t now);
/* [nic] Gives up the one under way. */
void ping_drop(struct ping *ping);
/* The result of the ping. */
void ping_event(struct ping *ping, const struct rdma_cm_event *event);

#endif
