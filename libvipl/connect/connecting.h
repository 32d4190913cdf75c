/* SPDX-License-Identifier: BSD-2-Clause */
/* Attempts to connect a VI: a client's, one that accepts, and a peer-to-peer connection's; and their end. */
#ifndef VIPL_CONNECTING_H
#define VIPL_CONNECTING_H

#include "conversation.h"
#include "vis.h"

/* All of these: the NIC's lock is held. The target's `own` needs its host, discriminator and peer_to_peer alone. */

/*
 * VipConnectRequest, which waits; VipConnectPeerRequest, which only begins. The caller has a reference to the VI. If a thread that
 * waits is cancelled, it puts the reference, and unlocks.
 */
VIP_RETURN attempt_request(struct vi *vi, const struct target *target);
/* VipConnectAccept: whether the VI can take the request of this peer. Then it is CONNECT_PENDING: attempt_accept() follows. */
VIP_RETURN attempt_prepare(struct vi *vi, const struct conversation *client);
/* Takes the request, and waits. */
VIP_RETURN attempt_accept(struct vi *vi, struct request *request);
/* VipConnectPeerDone; VipConnectPeerWait, which waits, as VipConnectRequest does. */
VIP_RETURN attempt_peer_result(struct vi *vi, bool waits);

/* VipDisconnect: ends the attempt or the connection, if the VI has one. */
void connection_end(struct vi *vi);

/* The result of VipConnectPeerRequest is still to come. The lock need not be held. */
static inline bool attempt_peer_goes_on(const struct vi *vi)
{
	return atomic_load(&vi->attempt.is_peer_to_peer) &&
	       atomic_load(&vi->attempt.result) == VIP_NOT_DONE;
}

#endif
