/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtual interfaces: the pair of queues, the state, and the ways between states. */
#ifndef VIPL_VI_H
#define VIPL_VI_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "connect/connect.h"
#include "device.h"
#include "object.h"
#include "workqueue.h"

struct tag;

/* The last attempt to connect: connecting.c. The NIC's lock guards the members that are not atomic. */
struct attempt {
	unsigned number;	     /* counts the VI's attempts */
	_Atomic VIP_RETURN result;   /* VIP_NOT_DONE while it goes on; written under the NIC's lock */
	atomic_bool is_peer_to_peer; /* VipConnectPeerDone asks for its result */
	struct target target;
	unsigned changes; /* of the device that were before it */
};

/*
 * The end of a connection, or of a failed attempt, while it goes on. The peer may be in a copy, and the device may have work.
 * Nobody waits for that with the NIC's lock: the agent goes on with the end, and so do threads that wait for it.
 */
struct ending {
	/* In this order: ENDING_STOPS waits for copies, ENDING_FLUSHES for the device. ENDING_WITHDRAWS is of an attempt. */
	enum { ENDING_NOT, ENDING_WITHDRAWS, ENDING_STOPS, ENDING_FLUSHES } stage;
	VIP_VI_STATE state;  /* the VI's, afterwards */
	VIP_RETURN result;   /* why this try has failed; unless it goes on that is the attempt's result */
	bool goes_on;
	bool flushes;	     /* receives, after an attempt: else they stay posted */
	int64_t flushed_by;  /* the device flushes so long */
	unsigned number;     /* counts the VI's ends */
	LIST_ENTRY(vi) in_nic;
};

struct vi {
	struct object object;
	struct workqueue send, receive; /* see there for what lasts */

	struct nic *nic;
	LIST_ENTRY(vi) in_nic;
	struct device_endpoint *endpoint;
	struct connection *connection;
	VIP_VI_ATTRIBUTES attributes; /* Ptag as the program gave it */
	struct tag *tag;
	_Atomic(VIP_PVOID) user_data;

	_Atomic VIP_VI_STATE state; /* written under the NIC's lock */
	atomic_bool broken;	    /* the device reported an error since the VI was prepared */
	atomic_bool stalled;	    /* the device waits for vi_revive() */
	_Atomic uint32_t failure;   /* the Status of the descriptor that broke it; 0: none did */
	struct attempt attempt;

	/* Guarded by the NIC's lock. */
	pthread_cond_t changed;	  /* an attempt has its result */
	VIP_ERROR_CODE cause;	  /* why the connection ends */
	bool closed_by_peer;	  /* the peer has said that it ends the connection */
	bool is_answered;	  /* the device has answered a request of the peer's that was at fault */
	struct connect_info peer; /* valid when connected */
	struct ending ending;
};

static inline struct vi *vi_get(VIP_VI_HANDLE handle)
{
	return object_get(handle, OBJECT_VI);
}

static inline void vi_put(struct vi *vi)
{
	object_put(&vi->object);
}

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
