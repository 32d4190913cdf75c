/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's side of connecting. It tries the ports of the discriminator's bucket one after the
 * other, each with a new cm_id, until the owner of a port accepts or refuses, or no port has a listener. Until
 * an answer comes the queue pair stays in INIT, so posted receives outlive every failure.
 *
 * rdma_cm repeats a lost request after some four seconds, and waits for an answer even if the host is gone. So a request
 * without an answer is soon made once more, with another cm_id and the same queue pair. A host that has the first one
 * refuses the second as stale, and goes on with the first. This answer also shows that the host is still there.
 *
 * A host whose connection is established ends it when it gets to another request of the same queue pair. It may work on
 * them in another order than they were sent. So the last word of connecting, which establishes the connection there, is put
 * off if a request that the host may not have was given up shortly before. Meanwhile the requester is connected.
 */
#include <errno.h>
#include <string.h>

#include "base/deadline.h"
#include "base/log.h"
#include "base/user.h"
#include "rdma.h"

#define RESOLVE_MSEC  3000 /* as long as Linux asks for an address, three times */
#define FIRST_REPEAT  (400 * NSEC_PER_MSEC)
#define LAST_REPEAT   (3000 * NSEC_PER_MSEC) /* each is twice as late; this asks whether the host is still there */
/*
 * Without a sign for so long the host is not there, and all begins anew. A thread without a processor hears nothing, and
 * does not tick.
 */
#define SILENT_TICKS  (9000 * NSEC_PER_MSEC / VERBS_TICK)
#define HELD	      (1000 * NSEC_PER_MSEC) /* an answer that took longer was held back by a listener */
#define UNHEARD	      (200 * NSEC_PER_MSEC)  /* an answer was sent, and has not come; twice as long each time */
#define LATE	      (1000 * NSEC_PER_MSEC) /* a request that was given up so long ago counts as lost */

/* REJECTED's status, by the InfiniBand architecture. */
enum { REJECT_INVALID_SERVICE = 8, REJECT_STALE = 10, REJECT_CONSUMER = 28 };

/* 0 or errno. */
static int resolve(struct verbs_endpoint *endpoint, struct rdma_cm_id **id)
{
	struct verbs_device *device = endpoint->device;
	const struct verbs_probe *probe = &endpoint->probe;
	struct sockaddr_storage from, to;

	if (rdma_create_id(device->events, id, endpoint, RDMA_PS_TCP)) {
		*id = NULL;
		return errno;
	}
	verbs_socket(device, &probe->own.host, 0, &from);
	verbs_socket(device, &probe->host, verbs_bucket_port(&probe->wanted, probe->port_index), &to);
	return rdma_resolve_addr(*id, (struct sockaddr *)&from, (struct sockaddr *)&to,
				 RESOLVE_MSEC)
		       ? errno
		       : 0;
}

/* Destroys one of the two ids. */
static void drop(struct verbs_endpoint *endpoint, struct rdma_cm_id **id, bool *is_out)
{
	if (*is_out)
		endpoint->late_until = clock_nsec() + LATE;
	*is_out = false;
	if (*id)
		rdma_destroy_id(*id);
	*id = NULL;
}

static void drop_repeat(struct verbs_endpoint *endpoint)
{
	drop(endpoint, &endpoint->probe.repeat, &endpoint->probe.repeat_is_out);
}

void verbs_destroy_ids(struct verbs_endpoint *endpoint)
{
	drop(endpoint, &endpoint->id, &endpoint->probe.is_out);
	drop_repeat(endpoint);
}

/* Asks the owner of one port of the bucket. */
static void try_port(struct verbs_endpoint *endpoint)
{
	int error;

	verbs_drop_ids(endpoint);
	endpoint->began = clock_nsec();
	endpoint->phase = VERBS_RESOLVING;
	error = resolve(endpoint, &endpoint->id);
	if (error)
		verbs_fail(endpoint, endpoint->id ? verbs_reason(error) : VIP_ERROR_RESOURCE);
}

/* The port may have a listener. The next probe begins with this port. */
static void no_answer(struct verbs_endpoint *endpoint, VIP_RETURN reason)
{
	endpoint->probe.no_listener = false;
	verbs_drop_ids(endpoint);
	endpoint_no_answer(endpoint->vi, reason);
}

/* The port has no listener for the discriminator. */
static void try_next_port(struct verbs_endpoint *endpoint)
{
	int64_t took = clock_nsec() - endpoint->began;

	endpoint->probe.no_listener = true;
	if (took > endpoint->probe.slowest && took < HELD)
		endpoint->probe.slowest = took;
	if (++endpoint->probe.port_index < VERBS_BUCKET_PORTS) {
		try_port(endpoint);
		return;
	}
	endpoint->probe.port_index = 0;
	verbs_drop_ids(endpoint);
	endpoint_no_listener(endpoint->vi);
}

/* 0 or errno. */
static int send_request(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct rdma_conn_param parameters;
	struct wire_message message;

	wire_write(&message, endpoint->probe.own.peer_to_peer ? WIRE_PEER_REQUEST : WIRE_REQUEST,
		   &endpoint->probe.own, &endpoint->probe.wanted);
	verbs_fill_parameters(endpoint, &endpoint->probe.host, &parameters, &message);
	return rdma_connect(id, &parameters) ? errno : 0;
}

static void repeat_soon(struct verbs_endpoint *endpoint, int64_t now)
{
	endpoint->probe.repeat_pause = FIRST_REPEAT;
	endpoint->probe.repeat_due = now + FIRST_REPEAT;
}

static void send_first(struct verbs_endpoint *endpoint)
{
	int error;

	endpoint->phase = VERBS_REQUESTING;
	endpoint->probe.has_arrived = false;
	endpoint->asked = 0;
	endpoint->probe.silence = 0;
	repeat_soon(endpoint, clock_nsec());
	error = send_request(endpoint, endpoint->id);
	if (error) {
		verbs_fail(endpoint, verbs_reason(error));
		return;
	}
	endpoint->probe.is_out = true;
	verbs_timer_start(endpoint->device);
}

/* 0 or errno. */
static int establish(struct verbs_endpoint *endpoint)
{
	if (clock_nsec() < endpoint->late_until) {
		endpoint->last_word_at = endpoint->late_until;
		verbs_timer_start(endpoint->device);
		return 0;
	}
	if (rdma_establish(endpoint->id))
		return errno == EINVAL ? ECONNABORTED : errno;
	return 0;
}

void verbs_last_word(struct verbs_endpoint *endpoint)
{
	endpoint->last_word_at = 0;
	/* After EINVAL the connection has ended, and an event says how. After other errors rdma_cm tells the peer only. */
	if (rdma_establish(endpoint->id) && errno != EINVAL)
		verbs_ended(endpoint);
}

static void answered(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	struct discriminator unused;
	enum wire_code code = wire_read(event->param.conn.private_data,
					event->param.conn.private_data_len, &endpoint->peer, &unused);
	int error = EPROTO;

	endpoint->peer.host = endpoint->probe.host;
	if (code == WIRE_ACCEPT && endpoint->peer.reliability == endpoint->probe.own.reliability) {
		endpoint->peer_extra = wire_read_extra(event->param.conn.private_data);
		endpoint_establishing(endpoint->vi);
		error = verbs_endpoint_start(endpoint);
	}
	if (!error)
		error = establish(endpoint);
	if (error == ECONNABORTED) { /* the accepting process is gone again */
		verbs_fail(endpoint, VIP_TIMEOUT);
		return;
	}
	if (error) {
		log_error_ratelimited("cannot complete a connection: %s%s", strerror(error), user_hint(error));
		verbs_fail(endpoint, error == EPROTO ? VIP_NOT_REACHABLE : VIP_ERROR_RESOURCE);
		return;
	}
	endpoint->phase = VERBS_CONNECTED;
	control_want(endpoint, false);
	endpoint_connected(endpoint->vi, &endpoint->peer);
}

/* Is it an answer that we have called lost? The accepting side has forgotten it, and may have taken it back already. */
static bool is_void(const struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	const struct verbs_probe *probe = &endpoint->probe;
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR};
	int mask;

	if (!probe->unheard)
		return false;
	if (rdma_init_qp_attr(id, &attributes, &mask))
		return errno == EINVAL;
	for (unsigned i = 0; i < VERBS_VOID_ANSWERS && i < probe->unheard; i++)
		if (probe->void_psn[i] == attributes.rq_psn)
			return true;
	return false;
}

/* The private data of a refusal as our code; 0 when it has none. */
static enum wire_code words_of(const struct rdma_cm_event *event)
{
	struct discriminator unused;
	struct connect_info unused_too;

	if (event->status != REJECT_CONSUMER)
		return 0;
	return wire_read(event->param.conn.private_data, event->param.conn.private_data_len,
			 &unused_too, &unused);
}

/* A process has refused the request; it was not refused for want of a listener. */
static bool is_final(const struct rdma_cm_event *event)
{
	enum wire_code code = words_of(event);

	return code == WIRE_REJECT || code == WIRE_BAD_VERSION;
}

static void refused(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	switch (event->status) {
	case REJECT_CONSUMER:
		switch (words_of(event)) {
		case WIRE_REJECT:
			verbs_fail(endpoint, VIP_REJECT);
			return;
		case WIRE_BAD_VERSION:
			log_error_ratelimited("the peer has another version of this library");
			verbs_fail(endpoint, VIP_REJECT);
			return;
		case WIRE_BUSY:
			endpoint_busy(endpoint->vi);
			break;
		default: /* WIRE_NO_MATCH; or no private data: the listener has gone */
			break;
		}
		break;
	case REJECT_STALE: /* the peer has not seen yet that this queue pair was disconnected */
		no_answer(endpoint, VIP_ERROR_RESOURCE);
		return;
	default: /* REJECT_INVALID_SERVICE, -ECONNREFUSED: no listener */
		break;
	}
	try_next_port(endpoint);
}

/* The one of the two that has not got there goes; the other one is waited for. */
static void keep_repeat(struct verbs_endpoint *endpoint)
{
	struct verbs_probe *probe = &endpoint->probe;

	drop(endpoint, &endpoint->id, &probe->is_out);
	endpoint->id = probe->repeat;
	probe->is_out = probe->repeat_is_out;
	probe->repeat_is_out = false;
	probe->repeat = NULL;
}

/* The host has the request. */
static void arrived(struct verbs_endpoint *endpoint)
{
	endpoint->probe.has_arrived = true;
	endpoint->probe.is_out = false;
	endpoint->probe.silence = 0;
}

/* There is no way to the host. */
static void unresolved(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	bool is_route = event->event == RDMA_CM_EVENT_ROUTE_ERROR;
	char host[INET6_ADDRSTRLEN];
	int error = -event->status;

	/* A peer-to-peer end may still request us, and InfiniBand's subnet manager may answer late. */
	if (error == ETIMEDOUT && (endpoint->probe.own.peer_to_peer || is_route)) {
		no_answer(endpoint, VIP_TIMEOUT);
		return;
	}
	host_text(&endpoint->probe.host, host);
	log_ratelimited(LOG_LEVEL_INFO, "%s is not reachable: %s", host,
			error == ETIMEDOUT ? "no host on the network has this address" : strerror(error));
	verbs_fail(endpoint, error == ETIMEDOUT ? VIP_NOT_REACHABLE : verbs_reason(error));
}

static void repeat_event(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(endpoint->probe.repeat, RESOLVE_MSEC))
			drop_repeat(endpoint);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (send_request(endpoint, endpoint->probe.repeat))
			drop_repeat(endpoint);
		else
			endpoint->probe.repeat_is_out = true;
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (is_void(endpoint, endpoint->probe.repeat)) {
			drop_repeat(endpoint);
			break;
		}
		keep_repeat(endpoint);
		answered(endpoint, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (event->status == REJECT_STALE) {
			drop_repeat(endpoint);
			arrived(endpoint);
		} else {
			refused(endpoint, event);
		}
		break;
	default: /* what has no answer is no news */
		drop_repeat(endpoint);
		break;
	}
}

static void resolving_event(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(endpoint->id, RESOLVE_MSEC))
			verbs_fail(endpoint, verbs_reason(errno));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		send_first(endpoint);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		unresolved(endpoint, event);
		break;
	default:
		break;
	}
}

static void requesting_event(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (is_void(endpoint, endpoint->id)) {
			if (endpoint->probe.repeat_is_out)
				keep_repeat(endpoint);
			else
				try_port(endpoint);
			break;
		}
		drop_repeat(endpoint);
		answered(endpoint, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (!endpoint->probe.repeat_is_out || is_final(event)) {
			refused(endpoint, event);
			break;
		}
		/* A listener may have come since, and taken the later request. */
		keep_repeat(endpoint);
		if (event->status == REJECT_STALE)
			arrived(endpoint);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		no_answer(endpoint, VIP_TIMEOUT);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		unresolved(endpoint, event);
		break;
	default:
		break;
	}
}

void verbs_request_event(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	bool is_repeat = event->id == endpoint->probe.repeat;

	if (!is_repeat && event->id != endpoint->id)
		return;
	if (event->event == RDMA_CM_EVENT_CONNECT_RESPONSE || event->event == RDMA_CM_EVENT_REJECTED)
		*(is_repeat ? &endpoint->probe.repeat_is_out : &endpoint->probe.is_out) = false;
	if (is_repeat)
		repeat_event(endpoint, event);
	else if (endpoint->phase == VERBS_RESOLVING)
		resolving_event(endpoint, event);
	else
		requesting_event(endpoint, event);
}

/* One at a time is under way; of two it is not known which of them the host has, so both stay. */
static void repeat(struct verbs_endpoint *endpoint, int64_t now)
{
	struct verbs_probe *probe = &endpoint->probe;

	probe->repeat_pause *= 2;
	if (probe->repeat_pause > LAST_REPEAT)
		probe->repeat_pause = LAST_REPEAT;
	probe->repeat_due = now + probe->repeat_pause;
	if (probe->repeat && !probe->has_arrived)
		return;
	drop_repeat(endpoint);
	if (resolve(endpoint, &probe->repeat))
		drop_repeat(endpoint);
}

void verbs_answer_missing(struct verbs_endpoint *endpoint, const struct wire_control_fields *fields,
			 uint16_t port)
{
	if (!endpoint->asked || endpoint->probe.asked_psn != fields->number)
		endpoint->asked = clock_nsec();
	if (!endpoint->probe.repeat_is_out) /* else it may be about that one */
		endpoint->probe.is_out = false;
	endpoint->peer.host = endpoint->probe.host;
	endpoint->peer_extra.port = port;
	endpoint->peer_qp = fields->from;
	endpoint->probe.asked_psn = fields->number;
}

/* The accepting side drops its half of the connection and takes the request again: there is time for that. */
static void ask_again(struct verbs_endpoint *endpoint, int64_t now)
{
	struct verbs_probe *probe = &endpoint->probe;

	endpoint->asked = 0;
	if (!control_tell(endpoint, WIRE_UNHEARD, endpoint->peer_qp, probe->asked_psn))
		return;
	probe->void_psn[probe->unheard++ % VERBS_VOID_ANSWERS] = probe->asked_psn;
	endpoint_busy(endpoint->vi);
	probe->has_arrived = false;
	drop_repeat(endpoint);
	repeat_soon(endpoint, now - FIRST_REPEAT);
}

void verbs_request_tick(struct verbs_endpoint *endpoint, int64_t now)
{
	if (++endpoint->probe.silence >= SILENT_TICKS) {
		no_answer(endpoint, VIP_TIMEOUT);
		return;
	}
	if (now >= endpoint->probe.repeat_due)
		repeat(endpoint, now);
	if (endpoint->asked && now - endpoint->asked >= UNHEARD << endpoint->probe.unheard)
		ask_again(endpoint, now);
}

void verbs_connect(struct device_endpoint *base, const struct connect_info *own,
			const struct in6_addr *host, const struct discriminator *wanted)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	struct verbs_probe *probe = &endpoint->probe;

	probe->own = *own;
	probe->host = *host;
	probe->wanted = *wanted;
	try_port(endpoint);
}
