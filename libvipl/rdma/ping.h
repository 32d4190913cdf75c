/* Is a host there? Asked by rdma_cm, where nothing else tells. */
#ifndef VIPL_RDMA_PING_H
#define VIPL_RDMA_PING_H

#include "rdma.h"

struct ping {
	enum rdma_role role;
	struct rdma_device *device;
	struct in6_addr host;
	struct rdma_cm_id *id; /* of the one under way, or NULL */
	int64_t due;	       /* the next one */
	int64_t asked;	       /* the first of those that have had no answer; 0: there is none */
};

/* [nic] The first one follows at the time `due`. */
void ping_init(struct ping *ping, struct rdma_device *device, const struct in6_addr *host,
	       int64_t due);
/* [nic] Asks when it is time to, and anew when it has no answer after so many nanoseconds. */
void ping_tick(struct ping *ping, int64_t now, int64_t patience);
/* [nic] Gives up the one under way. */
void ping_drop(struct ping *ping);
/* For how long the host has not answered, in nanoseconds. */
static inline int64_t ping_silence(const struct ping *ping, int64_t now)
{
	return ping->asked ? now - ping->asked : 0;
}
/* What has come of it. */
void ping_event(struct ping *ping, const struct rdma_cm_event *event);

#endif
