/* SPDX-License-Identifier: BSD-2-Clause */
/* A virtual interface: the pair of queues, the state, and the connection. */
#ifndef VIPL_VI_H
#define VIPL_VI_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "device.h"
#include "object.h"
#include "workqueue.h"

struct connection; /* and the attempt to make one: connect/connect.h */
struct tag;

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
	atomic_bool broken;	    /* a descriptor or the device has failed since the VI was prepared */
	atomic_bool stalled;	    /* the device waits for vi_revive() */
	atomic_bool reviving;	    /* that goes on, with the NIC's lock */
	_Atomic uint32_t failure;   /* the Status of the descriptor that broke it; 0: none did */

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

#endif
