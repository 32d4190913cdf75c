/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting, above the devices. A connection is a stream socket, which stays open as long as the connection, and a data path
 * that its two ends have told each other about over it. The end of the socket is the end of the connection, however it came.
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
 * All functions but connector_open(), connector_close() and connector_fd(): the NIC's lock is held. Reports are made from within
 * these functions, too.
 */
#ifndef VIPL_CONNECTOR_H
#define VIPL_CONNECTOR_H

#include "device.h"

struct connector;  /* all of it of a NIC */
struct acceptor;   /* what listens for a discriminator */
struct client;	   /* a process that has asked us */
struct connection; /* a VI's */

/* NULL and errno. */
struct connector *connector_open(struct nic *nic, struct device *device);
/* There are no acceptors, requests and connections any more. */
void connector_close(struct connector *connector);
/* Readable when connector_serve() has something to do. */
int connector_fd(const struct connector *connector);
void connector_serve(struct connector *connector);
/* Ends what has taken too long. Returns when to call it again. */
int64_t connector_tick(struct connector *connector);

/* ---- accepting.c ---- */

/*
 * Requests for this discriminator are reported by request_arrived() from now on. NULL and errno; EADDRINUSE: others have
 * all places for it.
 */
struct acceptor *acceptor_open(struct connector *connector, const struct discriminator *wanted);
/* The program waits again, and may have become another user meanwhile. 0, or errno: no requests can come. */
int acceptor_renew(struct acceptor *acceptor, const struct discriminator *wanted);
/* Undoes one acceptor_open(). */
void acceptor_close(struct acceptor *acceptor);

/* Refuses the request and takes it: VIP_REJECT; VIP_NO_MATCH; VIP_NOT_DONE: the server is busy. */
void client_reject(struct client *client, VIP_RETURN refusal);
/* Whether the request may stay unanswered for some time. */
bool client_can_be_held(const struct client *client);
/* False if the requester is known to have given up, or to be gone. */
bool client_waits(const struct client *client);

/* ---- connection.c ---- */

/* NULL: there is no memory. */
struct connection *connection_create(struct connector *connector, struct vi *vi);
void connection_destroy(struct connection *connection);
/*
 * Asks the host once for a listener, and connects with it. The result is reported, perhaps before this returns, by one of
 * endpoint_connected(), endpoint_refused() and endpoint_no_answer(). After the last the caller may ask again, with the same
 * endpoint, which is prepared.
 */
void connection_ask(struct connection *connection, struct device_endpoint *endpoint, const struct connect_info *own,
		    const struct in6_addr *host, const struct discriminator *wanted);
/* The device has found the route, or not. */
void connection_routed(struct connection *connection, int error);
/*
 * Accepts, and takes the request. The result is reported, perhaps before this returns, by one of endpoint_connected() and
 * endpoint_refused().
 */
void connection_accept(struct connection *connection, struct device_endpoint *endpoint, struct client *client,
		       const struct connect_info *own);
/* Forgets what earlier attempts have heard. */
void connection_begin(struct connection *connection);
/*
 * Gives up, and returns the result for the program: VIP_NO_MATCH if all answers since connection_begin() said that there is no
 * listener, and what is under way is too young for an answer; else VIP_TIMEOUT. connection_close() follows, when the endpoint is
 * reset.
 */
VIP_RETURN connection_cancel(struct connection *connection);
/* Ends an attempt or a connection, and informs the peer, if there is one. */
void connection_close(struct connection *connection);

/* ---- reports, which are implemented above ---- */

/*
 * The peer may send before endpoint_connected() or endpoint_refused() is reported, and the program may answer. From here on
 * sends are kept until that report, and not flushed.
 */
void endpoint_establishing(struct vi *vi);
/* The connection is there. Posts the sends that were kept since endpoint_establishing(). */
void endpoint_connected(struct vi *vi, const struct connect_info *peer);
/* Connecting has failed with this result. The endpoint may be prepared for another attempt. */
void endpoint_refused(struct vi *vi, VIP_RETURN reason);
/*
 * VIP_NO_MATCH: the host has answered that there is no listener for the discriminator. Any other `reason`: it is not known
 * whether there is one. The endpoint stays prepared, and connection_ask() is called again after a pause. When the grace time is
 * over this does the same as endpoint_refused(reason); but with VIP_TIMEOUT, for a host that has not answered, it is asked until
 * the caller's time is over.
 */
void endpoint_no_answer(struct vi *vi, VIP_RETURN reason);
/* A server has waited there lately, and may wait again. The grace time begins anew. */
void endpoint_busy(struct vi *vi);
/* The peer has vanished, or cannot be reached any more. */
void endpoint_lost(struct vi *vi);
/*
 * A request for `wanted` has come. Returns VIP_SUCCESS if it is accepted, rejected or kept, perhaps answered already;
 * VIP_NO_MATCH or VIP_NOT_DONE if it is to be refused with this code. No acceptor is closed meanwhile.
 */
VIP_RETURN request_arrived(struct nic *nic, struct client *client, const struct connect_info *peer,
			   const struct discriminator *wanted);

#endif
