/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a VI and the ways between them. */
#ifndef VIPL_STATE_H
#define VIPL_STATE_H

#include "device.h"

/* Breaks or revives the VI if it has to be, for a caller that may wait. Takes the NIC's lock only then. */
void vi_catch_up(struct vi *vi);

/* All of these: the NIC's lock is held. */

/*
 * -> CONNECT_PENDING: posted receives go to the device. False when the device cannot take the endpoint or its receives.
 */
bool vi_offer(struct vi *vi);
/*
 * The peer may send before vi_connected() or vi_withdraw(), and the program may answer. From here on sends are kept until then, and
 * not flushed.
 */
void vi_hold_sends(struct vi *vi);
/* -> CONNECTED. Posts the sends that were kept. */
void vi_connected(struct vi *vi, const struct connect_info *peer);
/*
 * CONNECT_PENDING -> IDLE with this result: the device gives back endpoint and receives, which stay posted. Sends do not. But with
 * `goes_on` the endpoint is offered anew, if it can be. Then calls connection_withdrawn(). False: that is later, because the device
 * has something to do first.
 */
bool vi_withdraw(struct vi *vi, VIP_RETURN result, bool goes_on);
/* The attempt to connect has its result: all threads that wait for it are woken. */
void vi_decide(struct vi *vi, VIP_RETURN result);
/* CONNECTED or ERROR -> IDLE. Flushes everything posted, and informs the peer. It may go on: vi_await_end(). */
void vi_disconnect(struct vi *vi);
/*
 * Any state -> IDLE, when the NIC is closed; but the caller cancels an attempt. Informs the peer. Does not touch posted
 * descriptors, because programs free their memory before they close the NIC. It may go on: ends_await().
 */
void vi_abandon(struct vi *vi);
/* Waits for the end that goes on, if one does. Others have the NIC's lock meanwhile. The caller holds the VI. */
void vi_await_end(struct vi *vi);
/* For the agent: goes on with all ends. Returns the msec until it has to be called again, or -1. */
int ends_serve(struct nic *nic);
/* The same for what the device has reported of itself: device_reports.c. */
int device_serve(struct nic *nic);
/* Waits for all ends, while none begins. */
void ends_await(struct nic *nic);
/*
 * The connection, if there is one, is lost for this reason. Enters ERROR, flushes everything posted, informs the peer, and has the
 * error handler called. It may go on: vi_await_end().
 */
void vi_lose(struct vi *vi, VIP_ERROR_CODE error);
/* Makes a stalled endpoint work again, and posts the receives to it again that it had not completed. */
void vi_revive(struct vi *vi);
/* The device's addresses have changed. */
void vi_follow(struct vi *vi);
/* For the agent: breaks and revives the VIs that nic_has_faults() was called for. */
void faults_serve(struct nic *nic);

#endif
