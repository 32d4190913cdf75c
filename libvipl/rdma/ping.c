/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is a host there? A request for a port without a listener finds out: the host's kernel refuses it.
 * It takes no queue pair, and the host keeps nothing of it.
 *
 * Silence is a number of questions without an answer, and not a time: this process may have been stopped.
 */
#include "ping.h"

#include "base/config.h"
#include "base/deadline.h"

#define UNUSED_PORT 1u
/* Every device keeps this queue pair for management, so a ping that names it makes no connection stale. */
#define MANAGEMENT_QP	1u
#define QUESTIONS	8u
#define LEAST_PATIENCE	INT64_C(500000000)   /* for an answer */
#define PAUSE		INT64_C(10000000000) /* after one */
#define RESOLVE_MSEC	2000

void ping_init(struct ping *ping, struct verbs_device *device, const struct in6_addr *host)
{
	*ping = (struct ping){.role = VERBS_PING, .device = device, .host = *host};
}

void ping_drop(struct ping *ping)
{
	if (ping->id)
		rdma_destroy_id(ping->id);
	ping->id = NULL;
}

/* The host has answered, or the ping has failed on this side, which says nothing about the host. */
static void settle(struct ping *ping)
{
	ping_drop(ping);
	ping->unanswered = 0;
	ping->due = clock_nsec() + PAUSE;
}

static void ask(struct ping *ping)
{
	const struct in6_addr *own = verbs_own_host(ping->device, &ping->host);
	struct sockaddr_storage from, to;

	if (!own || rdma_create_id(ping->device->events, &ping->id, ping, RDMA_PS_TCP)) {
		ping->id = NULL;
		settle(ping);
		return;
	}
	verbs_socket(ping->device, own, 0, &from);
	verbs_socket(ping->device, &ping->host, UNUSED_PORT, &to);
	/* No route is no answer: our link may be down. */
	if (rdma_resolve_addr(ping->id, (struct sockaddr *)&from, (struct sockaddr *)&to,
			      RESOLVE_MSEC))
		ping_drop(ping);
}

bool ping_tick(struct ping *ping, int64_t now)
{
	int64_t patience = config()->keepalive_sec * NSEC_PER_SEC / QUESTIONS;

	if (now < ping->due)
		return false;
	ping_drop(ping);
	if (ping->unanswered == QUESTIONS)
		return true;
	ping->unanswered++;
	ping->due = now + (patience < LEAST_PATIENCE ? LEAST_PATIENCE : patience);
	ask(ping);
	return false;
}

void ping_event(struct ping *ping, const struct rdma_cm_event *event)
{
	struct rdma_conn_param parameters = {.qp_num = MANAGEMENT_QP};

	if (event->id != ping->id)
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(ping->id, RESOLVE_MSEC))
			ping_drop(ping);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (rdma_connect(ping->id, &parameters))
			settle(ping);
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		ping->is_back |= ping->unanswered > 1;
		settle(ping);
		break;
	default:
		ping_drop(ping);
		break;
	}
}
