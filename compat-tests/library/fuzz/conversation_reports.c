/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions by which the device reports. They check that each report is allowed. */
#include "conversation_fuzz.h"
#include "locks.h"

bool any_cq_is_locked(void)
{
	return world.cq.locked;
}

void workqueue_complete(struct workqueue *queue, uint32_t status, uint32_t length,
			uint32_t immediate)
{
	(void)status;
	(void)length;
	(void)immediate;
	check(*queue->count);
	--*queue->count;
}

bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length, bool carefully)
{
	(void)queue;
	(void)offset;
	(void)from;
	(void)length;
	(void)carefully;
	check(!"no receive has many segments");
	return false;
}

/* For the CQs of all worlds. */
static struct cq_look *shown;

struct cq_look *cq_former_look(struct cq *cq)
{
	check(cq == &world.cq);
	return shown;
}

void cq_show(struct cq *cq, struct cq_look *look)
{
	check(cq == &world.cq);
	shown = look;
}

void cq_announced(struct cq *cq)
{
	check(cq == &world.cq);
}

bool cq_poll_for_device(struct cq *cq)
{
	check(cq == &world.cq);
	world_poll();
	return true;
}

static void check_info(const struct connect_info *peer)
{
	check(peer->discriminator.length <= MAX_DISCRIMINATOR_LEN);
	check(host_is_ipv4(&peer->host) && host_is_loopback(&peer->host));
}

void endpoint_establishing(struct vi *vi)
{
	check(vi->state == VI_LOOKING || vi->state == VI_ACCEPTING);
}

void endpoint_connected(struct vi *vi, const struct connect_info *peer)
{
	check(vi->state == VI_LOOKING || vi->state == VI_ACCEPTING);
	check_info(peer);
	vi->state = VI_CONNECTED;
}

bool endpoint_refused(struct vi *vi, VIP_RETURN reason, bool goes_on)
{
	check(vi->state == VI_LOOKING || vi->state == VI_ACCEPTING);
	check(reason == VIP_REJECT || reason == VIP_TIMEOUT || reason == VIP_ERROR_RESOURCE || reason == VIP_NO_MATCH ||
	      reason == VIP_NOT_REACHABLE);
	check(!goes_on || (reason == VIP_TIMEOUT && vi->target.own.peer_to_peer));
	vi_unprepare(vi);
	if (!goes_on)
		return false;
	check(!world.device->ops->endpoint_prepare(vi->endpoint));
	vi->state = VI_LOOKING;
	return true;
}

void endpoint_pauses(struct vi *vi)
{
	check(vi->state == VI_LOOKING);
}

void endpoint_lost(struct vi *vi)
{
	check(vi->state == VI_CONNECTED);
	vi_tear_down(vi);
}

void endpoint_routed(struct vi *vi, int error)
{
	connection_routed(vi->connection, error);
}

void endpoint_failed(struct vi *vi, VIP_ERROR_CODE error)
{
	(void)error;
	/* The peer can break the rules of a connection whose memory it shares. */
	if (vi->state == VI_CONNECTED)
		vi_tear_down(vi);
}

VIP_RETURN request_arrived(struct nic *nic, struct client *client,
			   const struct connect_info *peer, const struct discriminator *wanted)
{
	check(nic == (struct nic *)&world);
	check_info(peer);
	check(wanted->length <= MAX_DISCRIMINATOR_LEN);
	if (peer->peer_to_peer)
		return connection_meet(world.connector, client) ? VIP_SUCCESS : VIP_NO_MATCH;
	if (!world.takes_requests || !world.listening)
		return VIP_NO_MATCH;
	if (world.request_count == REQUESTS)
		return VIP_NOT_DONE;
	world.requests[world.request_count++] = client;
	return VIP_SUCCESS;
}
