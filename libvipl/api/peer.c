/*
 * Connecting equals: VipConnectPeerRequest, Done and Wait. And a VI that accepts, from when its requester
 * has to ask again.
 *
 * Both ends ask for each other, and their addresses decide who does what: the end with the lesser
 * one looks for the other again and again, as a client does; the other one listens, and takes the
 * request that comes from the end that it asks for. So they never meet half-way. The agent does all
 * of it.
 */
#include "core/peer.h"

#include <string.h>

#include "api.h"
#include "core/connect.h"
#include "base/deadline.h"
#include "core/nic.h"

/* Both ends get the same answer, but for the sign. */
static int compare_ends(const struct vi_target *target)
{
	int order = discriminator_compare(&target->own.discriminator, &target->wanted);

	return order ? order
		     : memcmp(&target->own.host, &target->host, sizeof(target->host));
}

static void enlist(struct vi *vi)
{
	TAILQ_INSERT_TAIL(&vi->nic->pairings, vi, pairing.in_nic);
	vi->pairing.is_listed = true;
}

/* The NIC's lock is held. */
static VIP_RETURN begin(struct vi *vi, struct vi_target *target, int64_t deadline)
{
	const struct device_ops *ops = vi->nic->device->ops;
	struct device *device = vi->nic->device;
	bool listens;
	VIP_RETURN rc;

	if (object_retired(&vi->object))
		return VIP_INVALID_PARAMETER;
	if (atomic_load(&vi->state) != VIP_STATE_IDLE)
		return VIP_INVALID_STATE;
	describe_self(&target->own, vi);
	target->own.mutual = true;
	if (!compare_ends(target))
		return VIP_INVALID_PARAMETER;
	listens = compare_ends(target) > 0;
	if (listens && ops->listen(device, &target->own.discriminator))
		return VIP_ERROR_RESOURCE;
	rc = vi_prepare(vi);
	if (rc != VIP_SUCCESS) {
		if (listens)
			ops->unlisten(device, &target->own.discriminator);
		return rc;
	}
	vi->pairing =
		(struct vi_pairing){.target = *target, .deadline = deadline, .listens = listens};
	if (!listens)
		vi_begin_looking(vi);
	enlist(vi);
	atomic_store(&vi->is_pairing, true);
	return VIP_SUCCESS;
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
				 VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
	int64_t deadline = deadline_after(Timeout);
	struct vi *vi = vi_get(ViHandle);
	struct vi_target target;
	VIP_RETURN rc;

	if (!vi)
		return VIP_INVALID_PARAMETER;
	rc = target_read(&target, vi->nic, LocalAddr, RemoteAddr);
	if (rc == VIP_SUCCESS) {
		pthread_mutex_lock(&vi->nic->lock);
		rc = begin(vi, &target, deadline);
		pthread_mutex_unlock(&vi->nic->lock);
		agent_wake(vi->nic);
	}
	vi_put(vi);
	return rc;
}

void pairing_end(struct vi *vi)
{
	struct nic *nic = vi->nic;

	if (!vi->pairing.is_listed)
		return;
	vi->pairing.is_listed = false;
	TAILQ_REMOVE(&nic->pairings, vi, pairing.in_nic);
	if (vi->pairing.listens)
		nic->device->ops->unlisten(nic->device, &vi->pairing.target.own.discriminator);
}

void pairing_goes_on(struct vi *vi)
{
	struct nic *nic = vi->nic;

	vi->pairing.taken = false;
	if (vi->pairing.is_listed) {
		if (!vi->pairing.listens)
			endpoint_undecided(vi, VIP_TIMEOUT); /* after a pause */
		return;
	}
	if (nic->device->ops->listen(nic->device, &vi->pairing.target.own.discriminator)) {
		endpoint_refused(vi, VIP_ERROR_RESOURCE);
		return;
	}
	vi->pairing.listens = true;
	enlist(vi);
}

/* Does what is due; false when it is decided. */
static bool serve(struct vi *vi)
{
	if (atomic_load(&vi->outcome) != VIP_NOT_DONE)
		return false;
	if (!deadline_left(vi->pairing.deadline)) {
		/* Also when the host says that nobody is there: the other end cannot know that. */
		vi_give_up(vi);
		vi_decide(vi, VIP_TIMEOUT);
	} else if (!deadline_left(vi->resume_at)) {
		vi_look(vi, &vi->pairing.target);
	}
	return atomic_load(&vi->outcome) == VIP_NOT_DONE;
}

int64_t pairings_serve(struct nic *nic)
{
	struct vi *vi = TAILQ_FIRST(&nic->pairings), *following;
	int64_t next = DEADLINE_NEVER;

	for (; vi; vi = following) {
		following = TAILQ_NEXT(vi, pairing.in_nic);
		if (!serve(vi)) {
			pairing_end(vi);
			continue;
		}
		if (vi->pairing.deadline < next)
			next = vi->pairing.deadline;
		if (vi->resume_at < next)
			next = vi->resume_at;
	}
	return next;
}

static bool is_asked_for(const struct vi *vi, const struct connect_info *peer,
			 const struct discriminator *wanted)
{
	const struct vi_target *target = &vi->pairing.target;

	return vi->pairing.listens && !vi->pairing.taken && target->own.mutual == peer->mutual &&
	       (peer->mutual || vi->pairing.number == peer->number) &&
	       atomic_load(&vi->outcome) == VIP_NOT_DONE &&
	       discriminator_equal(&target->own.discriminator, wanted) &&
	       discriminator_equal(&target->wanted, &peer->discriminator) &&
	       host_equal(&target->host, &peer->host);
}

bool pairing_arrived(struct nic *nic, struct device_request *request,
		     const struct connect_info *peer, const struct discriminator *wanted)
{
	const struct device_ops *ops = nic->device->ops;
	struct vi *vi;

	TAILQ_FOREACH(vi, &nic->pairings, pairing.in_nic)
		if (is_asked_for(vi, peer, wanted))
			break;
	if (!vi)
		return false;
	if (check_attributes_fit(vi, peer) == VIP_SUCCESS) {
		vi->pairing.taken = true;
		ops->accept(request, vi->endpoint, &vi->pairing.target.own);
	} else {
		ops->reject(request, VIP_REJECT);
		endpoint_refused(vi, VIP_REJECT); /* neither can ever get what it asks for */
	}
	return true;
}

/* The NIC's lock is held. */
static VIP_RETURN tell_outcome(struct vi *vi, VIP_VI_ATTRIBUTES *attributes)
{
	VIP_RETURN outcome = atomic_load(&vi->outcome);

	if (outcome == VIP_SUCCESS)
		describe_peer(attributes, &vi->peer);
	return outcome;
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!vi)
		return rc;
	if (RemoteViAttribs) {
		/* Programs ask in a loop: that must not keep the lock from the agent. */
		rc = VIP_NOT_DONE;
		if (!atomic_load(&vi->is_pairing) || atomic_load(&vi->outcome) != VIP_NOT_DONE) {
			pthread_mutex_lock(&vi->nic->lock);
			rc = atomic_load(&vi->is_pairing) ? tell_outcome(vi, RemoteViAttribs)
							  : VIP_INVALID_STATE;
			pthread_mutex_unlock(&vi->nic->lock);
		}
	}
	vi_put(vi);
	return rc;
}

/* The NIC's lock is held. Needs no deadline: the agent knows when the time is over. */
static VIP_RETURN await(struct vi *vi, VIP_VI_ATTRIBUTES *attributes)
{
	unsigned attempt = vi->attempt;

	if (!atomic_load(&vi->is_pairing))
		return VIP_INVALID_STATE;
	while (atomic_load(&vi->outcome) == VIP_NOT_DONE && vi->attempt == attempt)
		pthread_cond_wait(&vi->changed, &vi->nic->lock);
	/* Perhaps it was disconnected, and used anew by another thread. */
	return vi->attempt == attempt ? tell_outcome(vi, attributes) : VIP_INVALID_STATE;
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!vi)
		return rc;
	if (RemoteViAttribs) {
		pthread_mutex_lock(&vi->nic->lock);
		rc = await(vi, RemoteViAttribs);
		pthread_mutex_unlock(&vi->nic->lock);
	}
	vi_put(vi);
	return rc;
}
