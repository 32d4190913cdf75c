/* SPDX-License-Identifier: BSD-2-Clause */
/* Attempts to connect a VI: a client's, one that accepts, and a peer-to-peer connection's; and their end. */
#ifndef VIPL_CONNECTING_H
#define VIPL_CONNECTING_H

#include "connect.h"
#include "core/vi.h"

/* These take the caller's reference to the request, and the NIC's lock. */

/* VipConnectAccept, which waits. A request whose attributes do not fit the VI's stays. */
VIP_RETURN request_accept(struct request *request, struct vi *vi);
/* VipConnectReject. False when another thread was first. */
bool request_reject(struct request *request);

/* All of these: the NIC's lock is held. The target's `own` needs its host, discriminator and peer_to_peer alone. */

/*
 * VipConnectRequest, which waits; VipConnectPeerRequest, which only begins. The caller has a reference to the VI. If a thread that
 * waits is cancelled, it puts the reference, and unlocks.
 */
VIP_RETURN attempt_request(struct vi *vi, const struct target *target);
/* VipConnectPeerDone; VipConnectPeerWait, which waits, as VipConnectRequest does. */
VIP_RETURN attempt_peer_result(struct vi *vi, bool waits);
/* VipDisconnect: ends the attempt or the connection, if the VI has one. */
void disconnect(struct vi *vi);
/* Ends all connections, and whatever threads wait for in connecting; for VipCloseNic. */
void connections_close(struct nic *nic);

/* The result of VipConnectPeerRequest is still to come. The lock need not be held. */
static inline bool attempt_peer_goes_on(const struct vi *vi)
{
	return atomic_load(&vi->connection->is_peer_to_peer) &&
	       atomic_load(&vi->connection->result) == VIP_NOT_DONE;
}

#endif
