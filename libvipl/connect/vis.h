/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtual interfaces: making them, and the ways between their states. */
#ifndef VIPL_VIS_H
#define VIPL_VIS_H

#include "connect.h"
#include "core/vi.h"

/* The RDMA rights that the peer of a VI with these attributes has. */
struct region_rights vi_rights(const VIP_VI_ATTRIBUTES *attributes);

/* VipCreateVi. A queue without a CQ of the program's gets one of its own. Takes the NIC's lock. */
VIP_RETURN vi_create(struct nic *nic, const VIP_VI_ATTRIBUTES *attributes, struct cq *send_cq,
		     struct cq *receive_cq, VIP_VI_HANDLE *handle);
/* Makes the handle of an idle VI invalid, and wakes the threads that wait for it. Takes the NIC's lock. */
VIP_RETURN vi_retire(struct vi *vi);
/* After vi_retire(): waits until the caller has the only reference, and frees the VI. Takes the NIC's lock. */
void vi_destroy(struct vi *vi);

/* Breaks or revives the VI if it has to be, for a caller that may wait. Takes the NIC's lock only then. */
void vi_catch_up(struct vi *vi);

/* All of these: the NIC's lock is held. The ways between states are in state.c. */

/* Makes the handle invalid; no call of the data path is in the VI then. False when it was before. */
bool vi_retract_handle(struct vi *vi);
/* The VI is retired, and the caller has the only reference. */
void vi_free(struct vi *vi);
/* VipSetViAttributes. The VI may get another endpoint. */
VIP_RETURN vi_set_attributes(struct vi *vi, const VIP_VI_ATTRIBUTES *attributes);

/*
 * -> CONNECT_PENDING: posted receives go to the device. False when the device cannot take the endpoint or its receives.
 */
bool vi_offer(struct vi *vi);
/* While CONNECT_PENDING: see endpoint_refused(). The device gives back endpoint and receives, which stay posted. Sends do not. */
enum refused vi_withdraw(struct vi *vi, VIP_RETURN result, bool goes_on);
/* The attempt to connect has its result: all threads that wait for it are woken. */
void vi_decide(struct vi *vi, VIP_RETURN result);
/* CONNECTED or ERROR -> IDLE. Flushes everything posted, and informs the peer. It may go on: vi_await_end(). */
void vi_disconnect(struct vi *vi);
/*
 * Any state -> IDLE, when the NIC is closed. Informs the peer. Does not touch posted descriptors, because programs free
 * their memory before they close the NIC. It may go on: ends_await().
 */
void vi_abandon(struct vi *vi);
/* Waits for the end that goes on, if one does. Others have the NIC's lock meanwhile. The caller holds the VI. */
void vi_await_end(struct vi *vi);
/* For the agent: goes on with all ends. Returns the msec until it has to be called again, or -1. */
int ends_serve(struct nic *nic);
/* Waits for all ends, while none begins. */
void ends_await(struct nic *nic);
/*
 * A descriptor of the VI has failed, which breaks the connection. Enters ERROR, flushes everything posted,
 * informs the peer, and has the error handler called. It may go on: vi_await_end().
 */
void vi_break(struct vi *vi);
/* Makes a stalled endpoint work again, and posts the receives to it again that it had not completed. */
void vi_revive(struct vi *vi);
/* The device's addresses have changed. */
void vi_follow(struct vi *vi);
/* For the agent: breaks and revives the VIs that nic_has_faults() was called for. */
void faults_serve(struct nic *nic);

#endif
