/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting. A connection is a stream socket, which stays open as long as the connection, and a data path that its two ends have
 * told each other about over it. The end of the socket is the end of the connection, however it came.
 *
 *   requester                                      server
 *   connect() to a place of the discriminator
 *                                          <-      HERE: this is a NIC's agent
 *   REQUEST: what VIA needs, data path     ->
 *                                                  VipConnectWait, VipConnectAccept: the data path is raised
 *                                          <-      ACCEPT, or NO_MATCH, BUSY, REJECT, BAD_VERSION
 *   the data path is raised; CONFIRM       ->      connected
 *   ...
 *   DISCONNECT, or the end of the socket           DISCONNECT, or the end of the socket
 *
 * The NIC's lock is held, if a function's comment does not say otherwise.
 */
#ifndef VIPL_CONNECT_H
#define VIPL_CONNECT_H

#include <pthread.h>
#include <stdatomic.h>

#include "conversation.h"
#include "device.h"

struct acceptor; /* what listens for a discriminator */

/* The end that a VI shall be connected to, and what the VI says of itself. */
struct target {
	struct connect_info own;
	struct in6_addr host;
	struct discriminator wanted;
	int64_t deadline; /* of the attempt */
};

/* After UNCONNECTED four of an end that asks, then two of one that is asked, the first with a peer only. */
enum stage { UNCONNECTED, ROUTING, REACHING, ASKING, PAUSING, LISTENING, CONFIRMING, CONNECTED };

/* A VI's last attempt to connect, and the connection that came of it. */
struct connection {
	struct conversation conversation;
	struct vi *vi;
	struct device_endpoint *endpoint;
	struct target target;
	enum stage stage;
	enum message_code last_word; /* of a try that has failed, or 0 */

	/* The attempt: connecting.c. */
	unsigned number;	     /* counts the VI's attempts */
	_Atomic VIP_RETURN result;   /* VIP_NOT_DONE while it goes on; written under the NIC's lock */
	atomic_bool is_peer_to_peer; /* VipConnectPeerDone asks for its result */
	unsigned changes;	     /* of the device that were before it */

	/* Listening for a peer who asks us. */
	struct acceptor *acceptor; /* or NULL */
	TAILQ_ENTRY(connection) in_listening;

	/* Asking. */
	unsigned place;
	bool is_unsure;	  /* this time one has not answered, or has no time */
	VIP_RETURN last;  /* what the last time has told: VIP_NO_MATCH, or anything else */
	bool is_heard;	  /* it has said that it has the request */
	int64_t began;	  /* with this place, or with this client */
	int64_t patience; /* for MESSAGE_HERE */
	int64_t pause;	  /* before it asks again */
	int64_t grace_ends;
	struct watched_socket look; /* to find somebody who listens at another place */
	unsigned next_look;	    /* the place */
};

static inline struct connector *connector_of(const struct connection *connection)
{
	return connection->conversation.watched.connector;
}

/* ---- accepting.c ---- */

/* Requests for this discriminator may come from now on. NULL and errno; EADDRINUSE: others have all places for it. */
struct acceptor *acceptor_open(struct connector *connector, const struct discriminator *wanted);
/* Hears the requests of those who have connected by now. */
void acceptor_serve(struct acceptor *acceptor);
/* Undoes one acceptor_open(). */
void acceptor_close(struct acceptor *acceptor);

/* ---- connection.c ---- */

/* The attempt expires then, or when it has to end. */
void connection_set_deadline(struct connection *connection, int64_t deadline);
/* From now on the peer that asks us may come. */
void connection_listens(struct connection *connection);
/* The conversation has ended, and another one begins after a pause. */
void connection_pauses(struct connection *connection, VIP_RETURN reason);
/* The grace time begins anew. */
void connection_has_grace(struct connection *connection);
/* The attempt is over, because it has succeeded, or has failed. */
void connection_decided(struct connection *connection);
/* One try has failed for this reason, and the VI has withdrawn it. The attempt is over, or goes on. */
void connection_withdrawn(struct connection *connection, VIP_RETURN reason, bool goes_on);
/* Makes the data path to the peer, which has described its end. 0 or errno, of which raising_result() makes the result. */
int connection_raise(struct connection *connection, bool accepts);
VIP_RETURN raising_result(int error);
/* Says this, with what the VI and its data path are. 0 or errno, as of conversation_say(). */
int connection_tell(struct connection *connection, enum message_code code);
/* Ends the conversation, and the look at another place. */
void connection_leave(struct connection *connection, int last_word);
/* Ends an attempt or a connection, and informs the peer, if there is one. `in_silence`: only if it has not ended in two seconds. */
void connection_close(struct connection *connection, bool in_silence);
void connection_destroy(struct connection *connection);

/* ---- asking.c: each attempt ends by vi_connected() or vi_withdraw(), perhaps before the call that begins it returns ---- */

/*
 * Asks until the grace time is over; a host that has not answered, and a peer, until the target's deadline. True: it asks again in
 * less than a second.
 */
bool connection_ask(struct connection *connection);
/* The device has found a route, or not: perhaps the one that this connection waits for. */
void connection_routed(struct connection *connection);
/* The ends are connected. */
void connection_succeeded(struct connection *connection);
/*
 * The attempt has failed with this result; but while there is time a peer that vanished amid connecting may come back, and so may a
 * server that did not hear the answer. The other end hears the last word, if it is not 0.
 */
void connection_failed(struct connection *connection, VIP_RETURN reason, enum message_code last_word);
/* Gives up an attempt. */
void connection_cancel(struct connection *connection, VIP_RETURN reason);
/* The same at the deadline: VIP_NO_MATCH if that was the last answer and what is under way is too young for one, or VIP_TIMEOUT. */
void connection_expire(struct connection *connection);
/* Somebody listens at another place, or not. */
void asking_looked(struct watch *look);
/* TCP has reached the place, or not; something has come from there; the time for it is over. */
void asking_reached(struct connection *connection);
void asking_answered(struct connection *connection);
void asking_expired(struct connection *connection);

/* ---- listening.c ---- */

/* A discriminator that threads wait for, or have lately. */
struct listener {
	TAILQ_ENTRY(listener) in_nic;
	struct nic *nic;
	struct discriminator wanted;
	struct acceptor *acceptor;
	unsigned waiters;
	unsigned accepting;	    /* threads that accept one of its requests */
	pthread_cond_t changed;	    /* a request has come, or the waits end */
	TAILQ_HEAD(, request) held; /* the oldest first; the threads that wait take them */
	unsigned held_count;
	int64_t hold_ends, ends; /* when no thread waits: held until then, and listened until then */
	int64_t missed_at;	 /* when the last request came for which no thread waited */
};

/* VipConnectWait. Takes the NIC's lock, and the caller's reference to the NIC if the thread is cancelled. */
VIP_RETURN listening_wait(struct nic *nic, const struct discriminator *wanted, int64_t deadline,
			  struct connect_info *peer, VIP_CONN_HANDLE *handle);
/* A client's request has come. Returns how to refuse it, or 0: it is held. */
enum message_code listeners_take(struct nic *nic, struct request *request);
/* Whether requests of others wait for this server. */
bool listeners_have_more(struct nic *nic, const struct discriminator *wanted);
/* A thread accepts a request for this. Until it has done so requests are held, and after it they have a grace time. Or NULL. */
struct listener *listener_accepts(struct nic *nic, const struct discriminator *wanted);
void listener_has_accepted(struct listener *listener);
/* For the agent: refuses requests and ends listeners whose time is over. Returns when to call it again. */
int64_t listeners_serve(struct nic *nic);
/* Wakes the threads that wait. Requests that are held are refused with VIP_NO_MATCH. */
void listeners_close(struct nic *nic);

/* ---- hearing.c ---- */

/* These two without the lock. NULL and errno. */
struct connector *connector_open(struct nic *nic, struct device *device);
/* There are no acceptors, requests and connections any more. */
void connector_close(struct connector *connector);
/* NULL: there is no memory. */
struct connection *connection_create(struct connector *connector, struct vi *vi);
/* Whether such an end can be connected with this peer: VIP_SUCCESS, or what VipConnectAccept says. */
VIP_RETURN connection_check(VIP_RELIABILITY_LEVEL reliability, uint32_t max_transfer, const struct connect_info *peer);
/* Listens for exactly this peer, who asks for us. False: it cannot, and the attempt has failed. */
bool connection_listen(struct connection *connection);
/* The request's conversation becomes the connection's. */
void connection_accept(struct connection *connection, struct conversation *client);

/* ---- connecting.c ---- */

/* These two take the caller's reference to the request, and the NIC's lock. */

/* VipConnectAccept, which waits. A request whose attributes do not fit the VI's stays. */
VIP_RETURN request_accept(struct request *request, struct vi *vi);
/* VipConnectReject. False when another thread was first. */
bool request_reject(struct request *request);
/*
 * VipConnectRequest, which waits; VipConnectPeerRequest, which only begins. The target's `own` needs its host, discriminator and
 * peer_to_peer alone. If a thread that waits is cancelled, it puts the caller's reference to the VI, and unlocks.
 */
VIP_RETURN attempt_request(struct vi *vi, const struct target *target);
/* The result of VipConnectPeerRequest is still to come. The lock need not be held. */
bool attempt_peer_goes_on(const struct vi *vi);
/* VipConnectPeerDone; VipConnectPeerWait, which waits, as VipConnectRequest does. */
VIP_RETURN attempt_peer_result(struct vi *vi, bool waits);
/* VipDisconnect: ends the attempt or the connection, if the VI has one. */
void disconnect(struct vi *vi);
/* Ends all connections, and whatever threads wait for in connecting; for VipCloseNic. */
void connections_close(struct nic *nic);

#endif
