/* Connecting client and server: VipConnectAccept, Reject, Request; VipDisconnect. Waiting: wait.c. */
#include <stdlib.h>

#include "api.h"
#include "core/connect.h"
#include "base/deadline.h"
#include "core/nic.h"
#include "core/peer.h"

#define ACCEPT_MSEC 10000 /* how long the last step of a requester may take */

void describe_peer(VIP_VI_ATTRIBUTES *attributes, const struct connect_info *peer)
{
	*attributes = (VIP_VI_ATTRIBUTES){
		.ReliabilityLevel = peer->reliability,
		.MaxTransferSize = peer->max_transfer,
		.EnableRdmaWrite = peer->rights.rdma_write ? VIP_TRUE : VIP_FALSE,
		.EnableRdmaRead = peer->rights.rdma_read ? VIP_TRUE : VIP_FALSE,
	};
}

void describe_self(struct connect_info *own, const struct vi *vi)
{
	own->reliability = vi->attributes.ReliabilityLevel;
	own->max_transfer = (uint32_t)vi->attributes.MaxTransferSize;
	own->rights = vi_rights(&vi->attributes);
}

VIP_RETURN target_read(struct vi_target *target, const struct nic *nic,
		       const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote)
{
	*target = (struct vi_target){0};
	/* The local host address is not looked at: programs leave it uninitialised. */
	if (!local || !remote || !address_discriminator(local, &target->own.discriminator) ||
	    !address_discriminator(remote, &target->wanted) ||
	    !host_length_is_known(remote->HostAddressLen))
		return VIP_INVALID_PARAMETER;
	if (!address_host(remote, &target->host) ||
	    !nic->device->ops->find_host(nic->device, &target->host, &target->own.host))
		return VIP_NOT_REACHABLE;
	return VIP_SUCCESS;
}

VIP_RETURN check_attributes_fit(const struct vi *vi, const struct connect_info *peer)
{
	if (peer->reliability != vi->attributes.ReliabilityLevel)
		return VIP_INVALID_RELIABILITY_LEVEL;
	if (peer->max_transfer != vi->attributes.MaxTransferSize)
		return VIP_INVALID_MTU;
	return VIP_SUCCESS;
}

/* The request stays pending when they do not match. */
static VIP_RETURN check_match(const struct vi *vi, const struct request *request)
{
	if (request->nic != vi->nic || object_retired(&request->object) ||
	    object_retired(&vi->object))
		return VIP_INVALID_PARAMETER;
	if (atomic_load(&vi->state) != VIP_STATE_IDLE)
		return VIP_INVALID_STATE;
	return check_attributes_fit(vi, &request->peer);
}

/*
 * The NIC's lock is held. Whoever retires the handle answers the request; false when another
 * thread was first.
 */
static bool take_request(struct request *request)
{
	if (!object_retire(&request->object))
		return false;
	TAILQ_REMOVE(&request->nic->requests, request, in_list);
	return true;
}

/* Without the lock: others that were late may still hold references, and want the lock. */
static void release_request(struct request *request, bool taken)
{
	if (!taken) {
		object_put(&request->object);
		return;
	}
	object_drain(&request->object, 1);
	free(request);
}

/* Should the requester have to ask again, its request is for this VI. */
static void expect_again(struct vi *vi, const struct request *request, int64_t deadline)
{
	vi->pairing = (struct vi_pairing){
		.target = {.own = {.discriminator = request->wanted},
			   .host = request->peer.host,
			   .wanted = request->peer.discriminator},
		.deadline = deadline,
		.taken = true,
		.number = request->peer.number,
	};
	describe_self(&vi->pairing.target.own, vi);
}

/* The NIC's lock is held. */
static VIP_RETURN accept_request(struct request *request, struct vi *vi, bool *taken)
{
	int64_t deadline = deadline_after(ACCEPT_MSEC);
	VIP_RETURN rc = check_match(vi, request);
	unsigned attempt;

	if (rc == VIP_SUCCESS)
		rc = vi_prepare(vi);
	if (rc != VIP_SUCCESS)
		return rc;
	attempt = vi->attempt;
	expect_again(vi, request, deadline);
	*taken = take_request(request);
	vi->nic->device->ops->accept(request->device_request, vi->endpoint, &vi->pairing.target.own);
	rc = vi_await_outcome(vi, deadline);
	if (vi->attempt == attempt) /* not another thread's by now */
		pairing_end(vi);
	return rc;
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle)
{
	struct request *request = object_get(ConnHandle, OBJECT_REQUEST);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct vi *vi = vi_get(ViHandle);
	bool taken = false;

	if (request && vi) {
		pthread_mutex_lock(&vi->nic->lock);
		rc = accept_request(request, vi, &taken);
		pthread_mutex_unlock(&vi->nic->lock);
	}
	if (request)
		release_request(request, taken);
	if (vi) /* last: as long as we have the VI the NIC stays, for all who have the request */
		vi_put(vi);
	return rc;
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle)
{
	struct request *request = object_get(ConnHandle, OBJECT_REQUEST);
	struct nic *nic;
	bool taken;

	if (!request)
		return VIP_INVALID_PARAMETER;
	nic = request->nic;
	if (!object_hold(&nic->object)) { /* being closed, which answers the request */
		object_put(&request->object);
		return VIP_INVALID_PARAMETER;
	}
	pthread_mutex_lock(&nic->lock);
	taken = take_request(request);
	if (taken)
		nic->device->ops->reject(request->device_request, VIP_REJECT);
	pthread_mutex_unlock(&nic->lock);
	release_request(request, taken);
	nic_put(nic);
	return taken ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

/* The NIC's lock is held. */
static VIP_RETURN connect_request(struct vi *vi, struct vi_target *target, int64_t deadline)
{
	VIP_RETURN rc;

	if (object_retired(&vi->object)) /* VipDestroyVi waits for us */
		return VIP_INVALID_PARAMETER;
	if (atomic_load(&vi->state) != VIP_STATE_IDLE)
		return VIP_INVALID_STATE;
	describe_self(&target->own, vi);
	rc = vi_prepare(vi);
	return rc == VIP_SUCCESS ? vi_connect(vi, target, deadline) : rc;
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
			     VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
			     VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	int64_t deadline = deadline_after(Timeout);
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct vi_target target;

	if (!vi)
		return rc;
	if (RemoteViAttribs && Timeout)
		rc = target_read(&target, vi->nic, LocalAddr, RemoteAddr);
	if (rc != VIP_SUCCESS)
		goto put_vi;
	pthread_mutex_lock(&vi->nic->lock);
	rc = connect_request(vi, &target, deadline);
	if (rc == VIP_SUCCESS)
		describe_peer(RemoteViAttribs, &vi->peer);
	pthread_mutex_unlock(&vi->nic->lock);
put_vi:
	vi_put(vi);
	return rc;
}

/* The NIC's lock is held. */
static void disconnect(struct vi *vi)
{
	switch (atomic_load(&vi->state)) {
	case VIP_STATE_IDLE:
		break;
	case VIP_STATE_CONNECT_PENDING: /* another thread is connecting it, or the agent */
		vi_give_up(vi);
		pairing_end(vi);
		workqueue_flush(&vi->receive);
		vi_decide(vi, VIP_INVALID_STATE);
		break;
	case VIP_STATE_CONNECTED:
	case VIP_STATE_ERROR:
		vi_disconnect(vi);
		break;
	}
	atomic_store(&vi->is_pairing, false); /* there is no outcome to ask for any more */
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle)
{
	struct vi *vi = vi_get(ViHandle);

	if (!vi)
		return VIP_INVALID_PARAMETER;
	pthread_mutex_lock(&vi->nic->lock);
	disconnect(vi);
	pthread_mutex_unlock(&vi->nic->lock);
	vi_put(vi);
	return VIP_SUCCESS;
}

void connections_close(struct nic *nic)
{
	struct request *request;
	struct vi *vi;

	LIST_FOREACH(vi, &nic->vis, in_nic)
		if (atomic_load(&vi->state) != VIP_STATE_IDLE)
			vi_abandon(vi);
	while ((vi = TAILQ_FIRST(&nic->pairings)))
		pairing_end(vi);
	listeners_close(nic);
	while ((request = TAILQ_FIRST(&nic->requests))) {
		take_request(request);
		nic->device->ops->reject(request->device_request, VIP_REJECT);
		pthread_mutex_unlock(&nic->lock);
		object_drain(&request->object, 0);
		free(request);
		pthread_mutex_lock(&nic->lock);
	}
}
