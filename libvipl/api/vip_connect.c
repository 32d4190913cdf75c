/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management: VipConnectWait to VipDisconnect. */
#include "pvip.h"
#include "base/deadline.h"
#include "base/log.h"
#include "connect/connect.h"
#include "core/nic.h"
#include "service/agent.h"

/* The attributes of the peer, as a program gets them. */
static void describe_peer(VIP_VI_ATTRIBUTES *attributes, const struct connect_info *peer)
{
	*attributes = (VIP_VI_ATTRIBUTES){
		.ReliabilityLevel = peer->reliability,
		.MaxTransferSize = peer->max_transfer,
		.EnableRdmaWrite = peer->rights.rdma_write ? VIP_TRUE : VIP_FALSE,
		.EnableRdmaRead = peer->rights.rdma_read ? VIP_TRUE : VIP_FALSE,
	};
}

/* The address that a program requests, and its own discriminator. */
static VIP_RETURN target_read(struct target *target, const struct nic *nic,
		       const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote)
{
	*target = (struct target){0};
	/* The local host address is not looked at: programs leave it uninitialised. */
	if (!address_discriminator(local, &target->own.discriminator) ||
	    !address_discriminator(remote, &target->wanted) ||
	    !host_length_is_known(remote->HostAddressLen))
		return VIP_INVALID_PARAMETER;
	if (!address_host(remote, &target->host))
		return VIP_NOT_REACHABLE;
	return nic->device->ops->find_host(nic->device, &target->host, &target->own.host);
}

/* ---- client and server ---- */

#define UNTOLD_ROOM 16 /* the room that programs of VIA's time have for a discriminator, without saying so */

/*
 * The last requester's address that this thread was told. A program that waits in a loop passes the DiscriminatorLen of that
 * address again, which does not say how much room there is.
 */
static _Thread_local struct {
	const VIP_NET_ADDRESS *at;
	uint16_t length, room;
} told;

/*
 * The room that the program has for a discriminator, which any host may have chosen. DiscriminatorLen may be garbage, but a
 * program's addresses usually have one size. So it counts as the room if the program's own discriminator would fit. More than
 * 16 bytes count only as far as the program's own discriminator has them.
 */
static uint16_t room_for_discriminator(const VIP_NET_ADDRESS *remote, const struct discriminator *own)
{
	uint16_t most = own->length > UNTOLD_ROOM ? own->length : UNTOLD_ROOM, length = remote->DiscriminatorLen;

	if (remote == told.at && length == told.length)
		length = told.room;
	else if (!length || length < own->length || length > MAX_DISCRIMINATOR_LEN)
		length = UNTOLD_ROOM;
	return length < most ? length : most;
}

static void tell_requester(VIP_NET_ADDRESS *remote, uint16_t room, const struct connect_info *peer)
{
	struct discriminator discriminator = peer->discriminator;

	if (discriminator.length > room) {
		log_warning_ratelimited("VipConnectWait told %u of the %u bytes of a requester's "
					"discriminator: vipl.h, VipConnectWait, says how more are had",
					(unsigned)room, (unsigned)discriminator.length);
		discriminator.length = (uint8_t)room;
	}
	address_write(remote, &peer->host, &discriminator);
	told.at = remote;
	told.length = discriminator.length;
	told.room = room;
}

VIP_RETURN PVipConnectWait(struct nic *nic, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
			   VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs,
			   VIP_CONN_HANDLE *ConnHandle)
{
	int64_t deadline = deadline_after(Timeout);
	struct discriminator wanted;
	struct connect_info peer;
	uint16_t room;
	VIP_RETURN rc;

	if (!address_discriminator(LocalAddr, &wanted))
		return VIP_INVALID_PARAMETER;
	room = room_for_discriminator(RemoteAddr, &wanted);
	rc = listening_wait(nic, &wanted, deadline, &peer, ConnHandle);
	if (rc == VIP_SUCCESS) {
		tell_requester(RemoteAddr, room, &peer);
		describe_peer(RemoteViAttribs, &peer);
	}
	return rc;
}

/* The VI keeps the NIC, which keeps the request. */
VIP_RETURN PVipConnectAccept(VIP_CONN_HANDLE ConnHandle, struct vi *vi)
{
	struct request *request = object_get(ConnHandle, OBJECT_REQUEST);

	return request ? request_accept(request, vi) : VIP_INVALID_PARAMETER;
}

VIP_RETURN PVipConnectReject(VIP_CONN_HANDLE ConnHandle)
{
	struct request *request = object_get(ConnHandle, OBJECT_REQUEST);

	return request && request_reject(request) ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

/* Waits for the connection, and describes the peer; or without room for that only begins. */
static VIP_RETURN request(struct vi *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote, VIP_ULONG timeout,
			  VIP_VI_ATTRIBUTES *attributes)
{
	int64_t deadline = deadline_after(timeout);
	struct target target;
	VIP_RETURN rc = target_read(&target, vi->nic, local, remote);

	if (rc != VIP_SUCCESS)
		return rc;
	target.own.peer_to_peer = !attributes;
	target.deadline = deadline;
	pthread_mutex_lock(&vi->nic->lock);
	rc = attempt_request(vi, &target);
	if (rc == VIP_SUCCESS && attributes)
		describe_peer(attributes, &vi->peer);
	pthread_mutex_unlock(&vi->nic->lock);
	return rc;
}

VIP_RETURN PVipConnectRequest(struct vi *vi, VIP_NET_ADDRESS *LocalAddr, VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
			      VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	return request(vi, LocalAddr, RemoteAddr, Timeout, RemoteViAttribs);
}

/* ---- peer-to-peer ---- */

VIP_RETURN PVipConnectPeerRequest(struct vi *vi, VIP_NET_ADDRESS *LocalAddr, VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
	return request(vi, LocalAddr, RemoteAddr, Timeout, NULL);
}

static VIP_RETURN peer_result(struct vi *vi, VIP_VI_ATTRIBUTES *attributes, bool waits)
{
	VIP_RETURN rc;

	pthread_mutex_lock(&vi->nic->lock);
	rc = attempt_peer_result(vi, waits);
	if (rc == VIP_SUCCESS)
		describe_peer(attributes, &vi->peer);
	pthread_mutex_unlock(&vi->nic->lock);
	return rc;
}

VIP_RETURN PVipConnectPeerDone(struct vi *vi, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	agent_stand_in(vi->nic);
	/* Programs ask in a loop, which must not keep the lock from the agent. */
	if (attempt_peer_goes_on(vi))
		return VIP_NOT_DONE;
	return peer_result(vi, RemoteViAttribs, false); /* of another attempt, if one has begun since */
}

VIP_RETURN PVipConnectPeerWait(struct vi *vi, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	return peer_result(vi, RemoteViAttribs, true);
}

/* ---- the end ---- */

VIP_RETURN PVipDisconnect(struct vi *vi)
{
	pthread_mutex_lock(&vi->nic->lock);
	disconnect(vi);
	pthread_mutex_unlock(&vi->nic->lock);
	return VIP_SUCCESS;
}
