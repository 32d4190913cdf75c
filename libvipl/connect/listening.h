/* SPDX-License-Identifier: BSD-2-Clause */
/* Listening for requests, and answering them. */
#ifndef VIPL_LISTENING_H
#define VIPL_LISTENING_H

#include "conversation.h"
#include "vis.h"

/*
 * VipConnectWait: on success there is a request, of this peer, with this handle. The caller has a reference to the NIC, which is
 * put if the thread is cancelled.
 */
VIP_RETURN listening_wait(struct nic *nic, const struct discriminator *wanted, int64_t deadline,
			  struct connect_info *peer, VIP_CONN_HANDLE *handle);
/* Both take the caller's reference. A request whose attributes do not fit the VI's stays. */
VIP_RETURN request_accept(struct request *request, struct vi *vi);
/* False when another thread was first. */
bool request_reject(struct request *request);

/* [nic] For the agent: refuses requests and ends listeners whose time is over. Returns when to call it again. */
int64_t listeners_serve(struct nic *nic);
/* [nic] Wakes the threads that wait. Requests that are held are refused with VIP_NO_MATCH. */
void listeners_close(struct nic *nic);
/* [nic] Calls this for each discriminator that a thread waits for. */
void listeners_tell(const struct nic *nic, void (*tell)(void *context, const struct discriminator *wanted), void *context);
/* [nic] Ends all connections, and whatever threads wait for in connecting; for VipCloseNic. */
void connections_close(struct nic *nic);

#endif
