/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device reports of itself and of its endpoints, and what that means for the connections of the NIC. */
#include "base/config.h"
#include "base/deadline.h"
#include "base/log.h"
#include "connect.h"
#include "core/nic.h"
#include "vis.h"

void device_lost(struct nic *nic, const char *call, int error)
{
	sleeper_lose(&nic->agent.sleeper, call, error);
	agent_wake(nic);
}

void device_wake(struct nic *nic)
{
	agent_wake(nic);
}

void device_gone(struct nic *nic, int error)
{
	nic_lose(nic, error);
}

void device_failed(struct nic *nic)
{
	struct vi *vi;

	if (!atomic_exchange(&nic->failed, true)) /* each connection may tell of it */
		error_of_nic(nic, VIP_ERROR_CATASTROPHIC);
	LIST_FOREACH(vi, &nic->vis, in_nic) {
		if (atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING)
			connection_cancel(vi->connection, VIP_ERROR_RESOURCE);
		vi_failed(vi, VIP_ERROR_CONN_LOST);
	}
	listeners_close(nic);
	agent_wake(nic);
}

/* What was posted to a connection has been flushed by now. So no wait that still goes on would ever end. */
static void end_waits(struct nic *nic)
{
	struct cq *cq;

	if (!atomic_load(&nic->failed) || atomic_load(&nic->is_over) || !LIST_EMPTY(&nic->ending))
		return;
	atomic_store(&nic->is_over, true);
	LIST_FOREACH(cq, &nic->cqs, in_nic)
		cq_wake(cq, true);
}

void device_linked(struct nic *nic, bool is_up)
{
	const int64_t patience = config()->keepalive_sec * NSEC_PER_SEC;

	if (is_up || !patience)
		nic->link_ends = 0;
	else if (!nic->link_ends)
		nic->link_ends = clock_nsec() + patience;
	agent_wake(nic);
}

int device_serve(struct nic *nic)
{
	struct vi *vi;

	if (nic->link_ends && !deadline_left(nic->link_ends)) {
		log_error_ratelimited("NIC %p: its port has been down for %d s, so its connections end", object_handle(&nic->object),
				      (int)config()->keepalive_sec);
		nic->link_ends = 0;
		LIST_FOREACH(vi, &nic->vis, in_nic)
			vi_lose(vi, VIP_ERROR_CONN_LOST);
	}
	end_waits(nic);
	return nic->link_ends ? deadline_msec(nic->link_ends) : -1;
}

void device_changed(struct nic *nic)
{
	struct vi *vi;

	nic->changes++;
	LIST_FOREACH(vi, &nic->vis, in_nic)
		vi_follow(vi);
}

void cq_failed(struct cq *cq)
{
	struct vi *vi;

	LIST_FOREACH(vi, &cq->nic->vis, in_nic)
		if (vi->send.cq == cq || vi->receive.cq == cq)
			vi_failed(vi, VIP_ERROR_CONN_LOST);
}

void device_routed(struct nic *nic, const struct in6_addr *host)
{
	struct vi *vi;

	LIST_FOREACH(vi, &nic->vis, in_nic)
		if (!host || host_equal(&vi->connection->target.host, host))
			connection_routed(vi->connection);
}

void vi_closed(struct vi *vi)
{
	vi->closed_by_peer = true;
	vi->cause = VIP_ERROR_CONN_LOST;
}

void vi_ends_for(struct vi *vi, VIP_ERROR_CODE error)
{
	vi->cause = error;
}

void vi_answered(struct vi *vi)
{
	vi->is_answered = true;
}

void vi_stalled(struct vi *vi)
{
	atomic_store(&vi->stalled, true);
	vi_revive(vi);
}

void vi_failed(struct vi *vi, VIP_ERROR_CODE error)
{
	atomic_store(&vi->broken, true);
	vi_lose(vi, error);
}
