/* Virtual interfaces: the pair of queues, the state, and the ways between states. */
#ifndef VIPL_VI_H
#define VIPL_VI_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "device.h"
#include "object.h"
#include "workqueue.h"

struct tag;

/* Whom a VI shall be connected to, and what it says of itself. */
struct vi_target {
	struct connect_info own;
	struct in6_addr host;
	struct discriminator wanted;
};

/*
 * A connection between equals that the program has asked for and the agent sees through; or one that is
 * being accepted, should the requester have to ask again: peer.c.
 */
struct vi_pairing {
	TAILQ_ENTRY(vi) in_nic;
	bool is_listed; /* until it is decided */
	struct vi_target target;
	int64_t deadline;
	bool listens; /* the other one asks */
	bool taken;   /* and has: its request is being accepted */
	uint32_t number; /* of the requester, if it is no equal */
};

struct vi {
	struct object object;
	struct workqueue send, receive; /* see there for what lasts */

	struct nic *nic;
	LIST_ENTRY(vi) in_nic;
	struct device_endpoint *endpoint;
	VIP_VI_ATTRIBUTES attributes; /* Ptag as the program gave it */
	struct tag *tag;
	_Atomic(VIP_PVOID) user_data;

	_Atomic VIP_VI_STATE state; /* written under the NIC's lock */
	atomic_bool broken;	    /* the device reported an error since the VI was prepared */
	atomic_bool stalled;	    /* the device waits for vi_revive() */
	_Atomic uint32_t failure;   /* the Status that broke it, if it was a descriptor's; or 0 */
	/* Of the last attempt to connect; VIP_NOT_DONE while it goes on. Like the state. */
	_Atomic VIP_RETURN outcome;
	atomic_bool is_pairing; /* and it was one between equals */

	/* Guarded by the NIC's lock. */
	pthread_cond_t changed;	  /* outcome is there, or a pause begins */
	unsigned attempt;	  /* counts attempts to connect */
	VIP_ERROR_CODE cause;	  /* why the connection ends */
	bool closed_by_peer;	  /* and has told so */
	struct connect_info peer; /* valid when connected */
	struct vi_pairing pairing;

	/* An attempt looks again and again, for who is wanted may begin to wait a little later. */
	int64_t grace_ends;  /* then the looks end, if there was an answer, or get rare */
	int64_t pause;	     /* before the next look */
	int64_t resume_at;   /* the end of a pause; DEADLINE_NEVER while a look is under way */
	VIP_RETURN in_pause; /* the outcome if the caller's time is over in it */
};

static inline struct vi *vi_get(VIP_VI_HANDLE handle)
{
	return object_get(handle, OBJECT_VI);
}

static inline void vi_put(struct vi *vi)
{
	object_put(&vi->object);
}

/* What the peer of a VI with these attributes may do. */
struct region_rights vi_rights(const VIP_VI_ATTRIBUTES *attributes);

/* All of these: the NIC's lock is held. */

/* Makes the handle invalid; no call of the data path is in the VI then. False when it was before. */
bool vi_unname(struct vi *vi);

/* IDLE -> CONNECT_PENDING: posted receives go to the device. */
VIP_RETURN vi_prepare(struct vi *vi);
/*
 * CONNECT_PENDING -> CONNECTED or IDLE: looks for the target's waiter for the grace time, and waits
 * until connecting is decided; at the deadline it is given up.
 */
VIP_RETURN vi_connect(struct vi *vi, const struct vi_target *target, int64_t deadline);
/* The same for who accepts: only waits. */
VIP_RETURN vi_await_outcome(struct vi *vi, int64_t deadline);
/* For who looks without waiting: begins, with a look that is due at once; looks when it is due. */
void vi_begin_looking(struct vi *vi);
void vi_look(struct vi *vi, const struct vi_target *target);
/* CONNECT_PENDING -> IDLE: receives stay posted. Says what the one who connects should be told. */
VIP_RETURN vi_give_up(struct vi *vi);
/* The attempt to connect has ended: all who wait are told. */
void vi_decide(struct vi *vi, VIP_RETURN outcome);
/* CONNECTED or ERROR -> IDLE; everything posted is flushed, the peer told. */
void vi_disconnect(struct vi *vi);
/*
 * Any state -> IDLE, when the NIC is closed: the peer is told, and posted descriptors are not
 * touched any more, since programs free memory first and close the NIC then.
 */
void vi_abandon(struct vi *vi);
/*
 * A descriptor of the VI has failed, which breaks the connection. Enters ERROR: everything posted
 * is flushed, the peer told, the error handler called.
 */
void vi_break(struct vi *vi);
/* A device that has stalled takes work again; what it had not done it gets anew. */
void vi_revive(struct vi *vi);
/* The VI is retired, and nobody uses it but the caller. */
void vi_free(struct vi *vi);

#endif
