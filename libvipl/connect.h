/* What all ways to connect have in common: connect.c. */
#ifndef VIPL_CONNECT_H
#define VIPL_CONNECT_H

#include "vi.h"

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

#endif
