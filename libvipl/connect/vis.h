/* SPDX-License-Identifier: BSD-2-Clause */
/* VIs: making them, their attributes, their states, and the ways between these. */
#ifndef VIPL_VIS_H
#define VIPL_VIS_H

#include "device.h"

/* These take the NIC's lock. */

/* VipCreateVi. A queue without a CQ of the program's gets one of its own. */
VIP_RETURN vi_create(struct nic *nic, const VIP_VI_ATTRIBUTES *attributes, struct cq *send_cq,
		     struct cq *receive_cq, VIP_VI_HANDLE *handle);
/* Makes the handle of an idle VI invalid, and wakes the threads that wait for it. */
VIP_RETURN vi_retire(struct vi *vi);
/* After vi_retire(): waits until the caller has the only reference, and frees the VI. */
void vi_destroy(struct vi *vi);
/* Breaks or revives the VI if it has to be, for a caller that may wait. Takes the lock only then. */
void vi_catch_up(struct vi *vi);

/* All of these: the NIC's lock is held. */

/* ---- vis.c ---- */

/* The RDMA rights that the peer of a VI with these attributes has. */
struct region_rights vi_rights(const VIP_VI_ATTRIBUTES *attributes);
/* Makes the handle invalid, if it is not; no call of the data path is in the VI then. */
void vi_retract_handle(struct vi *vi);
/* The VI is retired, and the caller has the only reference. */
void vi_free(struct vi *vi);
/* VipSetViAttributes. The VI may get another endpoint. */
VIP_RETURN vi_set_attributes(struct vi *vi, const VIP_VI_ATTRIBUTES *attributes);

/* ---- state.c ---- */

/* Whether it can be connected or changed: VIP_SUCCESS, or what the call says. */
VIP_RETURN vi_check_idle(const struct vi *vi);
/* -> CONNECT_PENDING: posted receives go to the device. False when the device cannot take the endpoint or its receives. */
bool vi_offer(struct vi *vi);
/* The peer may send, and the program answer, before vi_connected() or vi_withdraw(): until then sends are kept, not flushed. */
void vi_hold_sends(struct vi *vi);
/* -> CONNECTED. Posts the sends that were kept. */
void vi_connected(struct vi *vi, const struct connect_info *peer);
/*
 * CONNECT_PENDING -> IDLE with this result: the device gives back endpoint and receives, which stay posted. Sends do not. But with
 * `goes_on` the endpoint is offered anew, if it can be. Then connection_withdrawn(), or connection_leave() now and that later.
 */
void vi_withdraw(struct vi *vi, VIP_RETURN result, bool goes_on);
/* The attempt to connect has its result: all threads that wait for it are woken. */
void vi_decide(struct vi *vi, VIP_RETURN result);
/* CONNECTED or ERROR -> IDLE. Flushes everything posted, and informs the peer. It may go on: vi_await_end(). */
void vi_disconnect(struct vi *vi);
/*
 * Any state -> IDLE, for VipCloseNic; but the caller cancels an attempt. Informs the peer. Touches no posted descriptors: programs
 * free their memory first. It may go on: ends_await().
 */
void vi_abandon(struct vi *vi);
/* The connection, if any, is lost: ERROR, all is flushed, peer and error handler hear of it. It may go on: vi_await_end(). */
void vi_lose(struct vi *vi, VIP_ERROR_CODE error);
/* Makes a stalled endpoint work again, and posts the receives to it again that it had not completed. */
void vi_revive(struct vi *vi);
/* The device's addresses have changed. */
void vi_follow(struct vi *vi);
/* Waits for the end that goes on, if one does. Others have the NIC's lock meanwhile. The caller holds the VI. */
void vi_await_end(struct vi *vi);
/* Waits for all ends, while none begins. */
void ends_await(struct nic *nic);

/* For the agent: goes on with all ends. Returns the msec until it has to be called again, or -1. */
int ends_serve(struct nic *nic);
/* The same for what the device has reported of itself: device_reports.c. */
int device_serve(struct nic *nic);
/* For the agent: breaks and revives the VIs that nic_has_faults() was called for. */
void faults_serve(struct nic *nic);

#endif
