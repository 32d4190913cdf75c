/* What the ways to connect have in common: connect.c, wait.c. */
#ifndef VIPL_CONNECT_H
#define VIPL_CONNECT_H

#include "device.h"
#include "object.h"
#include "vi.h"

/* A connection request that nobody has answered: VipConnectWait has returned it, or is going to. */
struct request {
	struct object object; /* named when it is returned */
	struct nic *nic;
	TAILQ_ENTRY(request) in_list; /* of the NIC's, when it has a name; of those that are held */
	struct device_request *device_request;
	struct connect_info peer;
	struct discriminator wanted;
};

/*
 * Whom a program asks for, and by which discriminator it calls itself; the rest of `own` comes from
 * describe_self(). VIP_INVALID_PARAMETER, also for NULL, or VIP_NOT_REACHABLE.
 */
VIP_RETURN target_read(struct vi_target *target, const struct nic *nic,
		       const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote);
/* [nic] */
void describe_self(struct connect_info *own, const struct vi *vi);
void describe_peer(VIP_VI_ATTRIBUTES *attributes, const struct connect_info *peer);
/* [nic] In these both ends must agree. VIP_SUCCESS, or what VipConnectAccept says. */
VIP_RETURN check_attributes_fit(const struct vi *vi, const struct connect_info *peer);
/* [nic] Wakes those who wait, and tells those whose requests are held that nobody waits; for VipCloseNic. */
void listeners_close(struct nic *nic);

#endif
