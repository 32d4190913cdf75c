/*
 * Connecting. The requester tries the ports of the discriminator's bucket one after the other,
 * each with a new cm_id, until one's owner says yes or no, or nobody waits on any of them. Until an
 * answer comes the queue pair stays in INIT, so posted receives outlive every failure.
 *
 * The NIC's lock is held from before an event is taken to after it was handled, so an id is never
 * destroyed while somebody else has an event of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "log.h"
#include "rdma.h"
#include "wire.h"

#define RESOLVE_MSEC 2000
/* A probe without an answer for so long has reached somebody. */
#define ANSWER_NSEC   100000000
#define READS_AT_ONCE 16

/* REJECTED's status, by the InfiniBand architecture. */
enum { REJECT_INVALID_SERVICE = 8, REJECT_STALE = 10, REJECT_CONSUMER = 28 };

static void drop_id(struct rdma_endpoint *endpoint)
{
	endpoint->phase = RDMA_UNCONNECTED;
	if (endpoint->id)
		rdma_destroy_id(endpoint->id);
	endpoint->id = NULL;
}

/* Connecting has failed. */
static void fail(struct rdma_endpoint *endpoint, VIP_RETURN reason)
{
	drop_id(endpoint);
	endpoint_refused(endpoint->vi, reason);
}

static VIP_RETURN reason_of(int error)
{
	switch (error) {
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case EADDRNOTAVAIL:
	case EINVAL:
	case ENODEV:
		return VIP_NOT_REACHABLE;
	case ETIMEDOUT:
		return VIP_TIMEOUT;
	default:
		return VIP_ERROR_RESOURCE;
	}
}

/* Asks the owner of one port of the bucket. */
static void probe(struct rdma_endpoint *endpoint)
{
	struct rdma_device *device = endpoint->device;
	struct sockaddr_storage from, to;

	drop_id(endpoint);
	endpoint->probe_began = clock_nsec();
	endpoint->phase = RDMA_RESOLVING;
	if (rdma_create_id(device->events, &endpoint->id, endpoint, RDMA_PS_TCP)) {
		endpoint->id = NULL;
		fail(endpoint, VIP_ERROR_RESOURCE);
		return;
	}
	rdma_socket(device, &endpoint->own.host, 0, &from);
	rdma_socket(device, &endpoint->host, rdma_bucket_port(&endpoint->wanted, endpoint->probe),
		    &to);
	if (rdma_resolve_addr(endpoint->id, (struct sockaddr *)&from, (struct sockaddr *)&to,
			      RESOLVE_MSEC))
		fail(endpoint, reason_of(errno));
}

/* This port has told nothing of who waits there: the next look goes on with it. */
static void undecided(struct rdma_endpoint *endpoint, VIP_RETURN reason)
{
	endpoint->nobody = false;
	drop_id(endpoint);
	endpoint_undecided(endpoint->vi, reason);
}

/* Nobody on this port waits for the discriminator. */
static void probe_next(struct rdma_endpoint *endpoint)
{
	endpoint->nobody = true;
	if (++endpoint->probe < RDMA_BUCKET_PORTS) {
		probe(endpoint);
		return;
	}
	endpoint->probe = 0;
	drop_id(endpoint);
	endpoint_nobody(endpoint->vi);
}

static uint8_t reads_at_once(int limit)
{
	return (uint8_t)(limit < READS_AT_ONCE ? limit : READS_AT_ONCE);
}

static void fill_parameters(const struct rdma_endpoint *endpoint,
			    struct rdma_conn_param *parameters, const struct wire_message *message)
{
	const struct ibv_device_attr *limits = &endpoint->device->limits;

	*parameters = (struct rdma_conn_param){
		.private_data = message,
		.private_data_len = sizeof(*message),
		.responder_resources = reads_at_once(limits->max_qp_rd_atom),
		.initiator_depth = reads_at_once(limits->max_qp_init_rd_atom),
		.retry_count = 6,
		.qp_num = endpoint->qp->qp_num,
	};
}

static void write_mark(struct wire_message *message, const struct rdma_endpoint *endpoint)
{
	wire_write_mark(message, endpoint->mark ? endpoint->mark->rkey : 0);
}

static void send_request(struct rdma_endpoint *endpoint)
{
	struct rdma_conn_param parameters;
	struct wire_message message;

	wire_write(&message, endpoint->own.mutual ? WIRE_MUTUAL_REQUEST : WIRE_REQUEST,
		   &endpoint->own, &endpoint->wanted);
	write_mark(&message, endpoint);
	fill_parameters(endpoint, &parameters, &message);
	endpoint->phase = RDMA_REQUESTING;
	if (rdma_connect(endpoint->id, &parameters))
		fail(endpoint, reason_of(errno));
}

static void answered(struct rdma_endpoint *endpoint, const struct rdma_cm_event *event)
{
	struct discriminator unused;
	enum wire_code code = wire_read(event->param.conn.private_data,
					event->param.conn.private_data_len, &endpoint->peer, &unused);
	int error = EPROTO;

	endpoint->peer.host = endpoint->host;
	if (code == WIRE_ACCEPT && endpoint->peer.reliability == endpoint->own.reliability) {
		endpoint->peer_mark = wire_read_mark(event->param.conn.private_data);
		error = rdma_endpoint_start(endpoint);
	}
	if (!error && rdma_establish(endpoint->id))
		error = errno == EINVAL ? ECONNABORTED : errno;
	if (error == ECONNABORTED) { /* who has accepted is gone again */
		fail(endpoint, VIP_TIMEOUT);
		return;
	}
	if (error) {
		log_error("cannot complete a connection: %s", strerror(error));
		fail(endpoint, error == EPROTO ? VIP_NOT_REACHABLE : VIP_ERROR_RESOURCE);
		return;
	}
	endpoint->phase = RDMA_CONNECTED;
	endpoint_connected(endpoint->vi, &endpoint->peer);
}

static void refused(struct rdma_endpoint *endpoint, const struct rdma_cm_event *event)
{
	struct discriminator unused;
	struct connect_info unused_too;

	switch (event->status) {
	case REJECT_CONSUMER:
		switch (wire_read(event->param.conn.private_data,
				  event->param.conn.private_data_len, &unused_too, &unused)) {
		case WIRE_REJECT:
			fail(endpoint, VIP_REJECT);
			return;
		case WIRE_BAD_VERSION:
			log_error("the peer has another version of this library");
			fail(endpoint, VIP_REJECT);
			return;
		default: /* WIRE_NO_MATCH; or without words: who listened has gone */
			break;
		}
		break;
	case REJECT_STALE: /* the peer has not seen yet that this queue pair was disconnected */
		undecided(endpoint, VIP_ERROR_RESOURCE);
		return;
	default: /* REJECT_INVALID_SERVICE, -ECONNREFUSED: nobody listens */
		break;
	}
	probe_next(endpoint);
}

/* No way to the host, or no answer: a dead host is asked again until the caller's time is over. */
static void unanswered(struct rdma_endpoint *endpoint, int error)
{
	if (error == ETIMEDOUT)
		undecided(endpoint, VIP_TIMEOUT);
	else
		fail(endpoint, reason_of(error));
}

static void established(struct rdma_endpoint *endpoint)
{
	endpoint->phase = RDMA_CONNECTED;
	endpoint_connected(endpoint->vi, &endpoint->peer);
}

/* Whatever was there has ended, as far as this side knows without having been answered. */
static void ended(struct rdma_endpoint *endpoint)
{
	if (endpoint->phase == RDMA_CONNECTED)
		endpoint_lost(endpoint->vi);
	else if (endpoint->phase != RDMA_UNCONNECTED)
		fail(endpoint, VIP_TIMEOUT);
}

/* A requester that disconnects at once may do so before its last word of connecting arrives. */
static void disconnected(struct rdma_endpoint *endpoint)
{
	if (endpoint->phase == RDMA_ACCEPTING)
		established(endpoint);
	ended(endpoint);
}

/* Events may come in any phase: those that do not belong to it mean nothing. */
static void endpoint_event(struct rdma_endpoint *endpoint, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (endpoint->phase == RDMA_RESOLVING &&
		    rdma_resolve_route(endpoint->id, RESOLVE_MSEC))
			fail(endpoint, reason_of(errno));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (endpoint->phase == RDMA_RESOLVING)
			send_request(endpoint);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (endpoint->phase == RDMA_RESOLVING || endpoint->phase == RDMA_REQUESTING)
			unanswered(endpoint, -event->status);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (endpoint->phase == RDMA_REQUESTING)
			answered(endpoint, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (endpoint->phase == RDMA_REQUESTING)
			refused(endpoint, event);
		else
			ended(endpoint);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		if (endpoint->phase == RDMA_REQUESTING)
			unanswered(endpoint, ETIMEDOUT);
		else
			ended(endpoint);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (endpoint->phase == RDMA_ACCEPTING)
			established(endpoint);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(endpoint);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		ended(endpoint);
		break;
	default: /* TIMEWAIT_EXIT and the like mean nothing here */
		break;
	}
}

static void dispatch(struct rdma_device *device, struct rdma_cm_event *event)
{
	enum rdma_role *role = event->id->context;

	log_debug("%s, status %d", rdma_event_str(event->event), event->status);
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		device_failed(device->nic);
	else if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		rdma_request_arrived(device, event->id, event->param.conn.private_data,
				     event->param.conn.private_data_len);
	else if (role && *role == RDMA_ENDPOINT)
		endpoint_event((struct rdma_endpoint *)role, event);
}

static void handle_cm_events(struct rdma_device *device)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(device->events, &event)) {
		struct rdma_cm_event copy = *event;
		uint8_t private_data[256];

		/* Handling may destroy the id, which waits until its events are acknowledged. */
		if (copy.param.conn.private_data)
			copy.param.conn.private_data =
				memcpy(private_data, event->param.conn.private_data,
				       event->param.conn.private_data_len);
		rdma_ack_cm_event(event);
		dispatch(device, &copy);
	}
}

/* The peer was refused an RDMA operation; the device does not say which. */
static VIP_ERROR_CODE refused_operation(const struct rdma_endpoint *endpoint)
{
	if (!(endpoint->access & IBV_ACCESS_REMOTE_READ))
		return VIP_ERROR_RDMAW_PROT;
	return endpoint->access & IBV_ACCESS_REMOTE_WRITE ? VIP_ERROR_CONN_LOST
							   : VIP_ERROR_RDMAR_PROT;
}

static void qp_event(struct rdma_endpoint *endpoint, enum ibv_event_type type)
{
	if (rdma_is_unreliable(endpoint))
		endpoint_stalled(endpoint->vi);
	else
		endpoint_failed(endpoint->vi, type == IBV_EVENT_QP_ACCESS_ERR
						      ? refused_operation(endpoint)
						      : VIP_ERROR_CONN_LOST);
}

static void async_event(struct rdma_device *device, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		qp_event(event->element.qp->qp_context, event->event_type);
		break;
	case IBV_EVENT_CQ_ERR:
		cq_failed(event->element.cq->cq_context);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		device_failed(device->nic);
		break;
	default:
		break;
	}
}

static void handle_async_events(struct rdma_device *device)
{
	struct ibv_async_event event;

	/* Objects are destroyed with the NIC's lock, or not before their events are acknowledged. */
	while (!ibv_get_async_event(device->context, &event)) {
		log_debug("asynchronous event: %s", ibv_event_type_str(event.event_type));
		async_event(device, &event);
		ibv_ack_async_event(&event);
	}
}

void rdma_serve(struct device *base)
{
	struct rdma_device *device = (struct rdma_device *)base;

	handle_async_events(device); /* first: they say why a connection ended */
	handle_cm_events(device);
}

void rdma_connect_start(struct device_endpoint *base, const struct connect_info *own,
			const struct in6_addr *host, const struct discriminator *wanted)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;

	endpoint->own = *own;
	endpoint->host = *host;
	endpoint->wanted = *wanted;
	probe(endpoint);
}

void rdma_accept_start(struct device_request *base, struct device_endpoint *base_endpoint,
		       const struct connect_info *own)
{
	struct rdma_request *request = (struct rdma_request *)base;
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base_endpoint;
	struct rdma_conn_param parameters;
	struct wire_message message;
	int error;

	endpoint->id = request->id;
	endpoint->id->context = endpoint;
	endpoint->peer = request->peer;
	endpoint->peer_mark = request->peer_mark;
	endpoint->phase = RDMA_ACCEPTING;
	free(request);

	wire_write(&message, WIRE_ACCEPT, own, NULL);
	write_mark(&message, endpoint);
	fill_parameters(endpoint, &parameters, &message);
	/* The queue pair must take messages before the requester learns that it may send. */
	error = rdma_endpoint_start(endpoint);
	if (error && error != ECONNABORTED) {
		log_error("cannot prepare to accept: %s", strerror(error));
		wire_write(&message, WIRE_REJECT, NULL, NULL);
		rdma_reject(endpoint->id, &message, sizeof(message));
		fail(endpoint, VIP_ERROR_RESOURCE);
		return;
	}
	if (!error && rdma_accept(endpoint->id, &parameters))
		error = errno;
	if (error) /* ECONNABORTED, EINVAL: the requester has given up */
		fail(endpoint, error == ECONNABORTED || error == EINVAL ? VIP_TIMEOUT
									: VIP_ERROR_RESOURCE);
}

VIP_RETURN rdma_cancel(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;
	bool unheard = clock_nsec() - endpoint->probe_began < ANSWER_NSEC;

	drop_id(endpoint);
	return endpoint->nobody && unheard ? VIP_NO_MATCH : VIP_TIMEOUT;
}

void rdma_hang_up(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;

	if (endpoint->phase == RDMA_CONNECTED)
		rdma_disconnect(endpoint->id);
	drop_id(endpoint);
}
