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
 * All functions but connector_open() and connector_close(): the NIC's lock is held. Reports are made from within these functions,
 * and by the device's watch_serve().
 */
#ifndef VIPL_CONNECT_H
#define VIPL_CONNECT_H

#include "core/target.h"
#include "message.h"
#include "device.h"

struct connector;    /* all of it of a NIC */
struct acceptor;     /* what listens for a discriminator */
struct request;      /* of a process that has asked us */
struct connection;   /* a VI's */

/* NULL and errno. */
struct connector *connector_open(struct nic *nic, struct device *device);
/* There are no acceptors, requests and connections any more. */
void connector_close(struct connector *connector);
/*
 * Ends what has taken too long, and asks again after pauses. Returns when to call it again, not before other threads have had the
 * NIC's lock for as long as this has taken; but earlier if an attempt begins.
 */
int64_t connector_tick(struct connector *connector);

/* ---- accepting.c ---- */

/*
 * Requests for this discriminator are reported by request_arrived() from now on. NULL and errno; EADDRINUSE: others have
 * all places for it.
 */
struct acceptor *acceptor_open(struct connector *connector, const struct discriminator *wanted);
/* Hears the requests of those who have connected by now. */
void acceptor_serve(struct acceptor *acceptor);
/* Undoes one acceptor_open(). */
void acceptor_close(struct acceptor *acceptor);

/* ---- connection.c ---- */

/* Whether an end that says this of itself can be connected with this peer: VIP_SUCCESS, or what VipConnectAccept says. */
VIP_RETURN connection_check(const struct connect_info *own, const struct connect_info *peer);

/* `target` counts from the beginning of an attempt to the end of its connection. NULL: there is no memory. */
struct connection *connection_create(struct connector *connector, struct vi *vi, const struct target *target);
void connection_destroy(struct connection *connection);
/*
 * Each of these begins an attempt to connect, with an endpoint that is prepared. The result is reported, perhaps before this
 * returns, by one of endpoint_connected() and endpoint_refused().
 *
 * connection_ask() asks the host for a listener, again and again, with a pause after each time, until the grace time is over; a
 * host that has not answered, and a peer, until the deadline of the target. True: it asks again in less than a second.
 */
bool connection_ask(struct connection *connection);
/* Waits for exactly this peer, who asks for us. False: it cannot, and the attempt has failed. */
bool connection_await(struct connection *connection);
/* The conversation becomes the connection's. */
void connection_accept(struct connection *connection, struct request *request);
/* The device has found a route, or not: perhaps the one that this connection waits for. */
void connection_routed(struct connection *connection);
/* The request of a peer has come, and is taken. False: no connection awaits it. */
bool connection_meet(struct connector *connector, struct request *request);
/* Gives up an attempt, and reports this. */
void connection_cancel(struct connection *connection, VIP_RETURN reason);
/*
 * The same at the deadline: VIP_NO_MATCH if a client's last answers said that there is no listener, and what is under way is too
 * young for an answer; else VIP_TIMEOUT.
 */
void connection_expire(struct connection *connection);
/* After REFUSED_LATER: the attempt is over, or goes on. */
void connection_refused(struct connection *connection, VIP_RETURN reason, bool goes_on);
/* A connection is going to be closed: nothing is reported of it any more. */
void connection_unwatch(struct connection *connection);
/* Ends an attempt or a connection, and informs the peer, if there is one. `in_silence`: only if it has not ended in two seconds. */
void connection_close(struct connection *connection, bool in_silence);

/* ---- reports, which are implemented above ---- */

/*
 * The peer may send before endpoint_connected() or endpoint_refused() is reported, and the program may answer. From here on
 * sends are kept until that report, and not flushed.
 */
void endpoint_establishing(struct vi *vi);
/* The connection is there. Posts the sends that were kept since endpoint_establishing(). */
void endpoint_connected(struct vi *vi, const struct connect_info *peer);
/*
 * Connecting has failed with this result, and the attempt is over. But with `goes_on` the endpoint is prepared anew, if it can
 * be, and the attempt goes on. REFUSED_LATER: the device has something to do first, and connection_refused() tells.
 */
enum refused { REFUSED_OVER, REFUSED_GOES_ON, REFUSED_LATER };
enum refused endpoint_refused(struct vi *vi, VIP_RETURN reason, bool goes_on);
/* Whether requests of others wait for the server that has accepted this one. */
bool endpoint_has_rivals(const struct vi *vi);
/* The peer has vanished, or cannot be reached any more. */
void endpoint_lost(struct vi *vi);
/* A request has come. Returns how to refuse it, or 0: it is taken, perhaps answered already. */
enum message_code request_arrived(struct connector *connector, struct request *request);

#endif
