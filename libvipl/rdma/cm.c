/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: what happens to them, accepting and ending them. The requester's side is in request.c.
 *
 * The NIC's lock is held from before an event is taken to after it was handled, so an id is never
 * destroyed while another thread has an event of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/user.h"
#include "ping.h"
#include "rdma.h"
#include "wire.h"

/* A probe that is younger may still get its answer, and on a busy machine one that is not much older. */
#define ANSWER_TIME   (100 * NSEC_PER_MSEC)
/* The accepting side asks the requester whether it has the answer, after this time without a confirmation. */
#define FIRST_ASK     (250 * NSEC_PER_MSEC)
#define ASK_AGAIN     (1000 * NSEC_PER_MSEC)
#define LAST_ACKS     (50 * NSEC_PER_MSEC)
/* Meanwhile rdma_cm repeats the answer twice, which mostly brings the last word. It gives up after a minute. */
#define PROVE_AFTER   (10000 * NSEC_PER_MSEC)
#define READS_AT_ONCE 16

/* The kinds of descriptors in the device's epoll. */
enum source { ASYNC_EVENTS, CM_EVENTS, CONTROL_EVENTS, TIMER, SOURCES };

void verbs_drop_ids(struct verbs_endpoint *endpoint)
{
	/* The requester may have our answer, and be connected as far as it knows. */
	if (endpoint->phase == VERBS_ACCEPTING)
		control_tell(endpoint, WIRE_GONE, endpoint->peer_qp, endpoint->own_psn);
	endpoint->phase = VERBS_UNCONNECTED;
	endpoint->prove_at = 0;
	endpoint->ends_at = 0;
	endpoint->last_word_at = 0;
	verbs_destroy_ids(endpoint);
}

void verbs_fail(struct verbs_endpoint *endpoint, VIP_RETURN reason)
{
	verbs_drop_ids(endpoint);
	endpoint_refused(endpoint->vi, reason);
}

VIP_RETURN verbs_reason(int error)
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
		log_error_ratelimited("cannot connect: %s%s%s", strerror(error), memory_hint(error),
				      user_hint(error));
		return VIP_ERROR_RESOURCE;
	}
}

static uint8_t reads_at_once(int limit)
{
	return (uint8_t)(limit < READS_AT_ONCE ? limit : READS_AT_ONCE);
}

void verbs_fill_parameters(const struct verbs_endpoint *endpoint, const struct in6_addr *host,
			  struct rdma_conn_param *parameters, struct wire_message *message)
{
	const struct ibv_device_attr *limits = &endpoint->device->limits;

	wire_write_extra(message, (struct wire_extra){
					  .flush_rkey = endpoint->flush_mr ? endpoint->flush_mr->rkey : 0,
					  .port = control_port(endpoint->device, host),
					  .mtu = (uint8_t)endpoint->device->mtu,
				  });
	*parameters = (struct rdma_conn_param){
		.private_data = message,
		.private_data_len = sizeof(*message),
		.responder_resources = reads_at_once(limits->max_qp_rd_atom),
		.initiator_depth = reads_at_once(limits->max_qp_init_rd_atom),
		.retry_count = 6,
		.qp_num = endpoint->qp->qp_num,
	};
}

static void established(struct verbs_endpoint *endpoint)
{
	endpoint->phase = VERBS_CONNECTED;
	endpoint_connected(endpoint->vi, &endpoint->peer);
}

/*
 * Soft-RoCE of newer kernels (seen in Linux 6.12) works on acknowledgements behind the arrival of packets, and drops
 * those that it has not got to when the queue pair changes to ERR. So what the peer has received before it
 * disconnected would be flushed. There the end is put off a little while sends are outstanding. This function does not
 * wait, since all VIs of a peer may end at once.
 */
static bool put_off_end(struct verbs_endpoint *endpoint)
{
	if (!verbs_is_soft(endpoint->device) || verbs_is_unreliable(endpoint) ||
	    !workqueue_with_device(endpoint->send_queue))
		return false;
	if (!endpoint->ends_at)
		endpoint->ends_at = clock_nsec() + LAST_ACKS;
	verbs_timer_start(endpoint->device);
	return true;
}

void verbs_ended(struct verbs_endpoint *endpoint)
{
	if (endpoint->phase == VERBS_CONNECTED) {
		if (!put_off_end(endpoint))
			endpoint_lost(endpoint->vi);
	} else if (endpoint->phase != VERBS_UNCONNECTED) {
		verbs_fail(endpoint, VIP_TIMEOUT);
	}
}

/* A requester that disconnects at once may do so before its last word of connecting arrives. */
static void disconnected(struct verbs_endpoint *endpoint)
{
	if (endpoint->phase == VERBS_ACCEPTING)
		established(endpoint);
	if (endpoint->phase == VERBS_CONNECTED)
		endpoint_closed(endpoint->vi);
	verbs_ended(endpoint);
}

/* The requester has our answer, though its last word, which rdma_cm waits for, has not come. */
static void confirmed(struct verbs_endpoint *endpoint)
{
	endpoint->prove_at = clock_nsec() + PROVE_AFTER;
	established(endpoint);
}

/*
 * Tells rdma_cm what only we know: that the connection is there. This is put off, because the last word is mostly
 * late and not lost, and rdma_cm does two harmful things when it is told early. It takes a repeated request that it
 * works on afterwards for a new one, and ends the connection. And if the connection ends before the kernel has worked
 * on this, rdma_destroy_id() waits until the answer has been repeated in vain: for a minute, with the NIC's lock.
 */
static void prove(struct verbs_endpoint *endpoint)
{
	endpoint->prove_at = 0;
	/* If it refuses, the last word has come meanwhile, or the connection has ended. */
	rdma_notify(endpoint->id, IBV_EVENT_COMM_EST);
}

enum wire_code verbs_control_arrived(struct verbs_endpoint *endpoint, enum wire_code code,
				    const struct wire_control_fields *fields, uint16_t port)
{
	bool is_peer = fields->from == endpoint->peer_qp &&
		       (endpoint->phase == VERBS_CONNECTED || endpoint->phase == VERBS_ACCEPTING);
	bool is_accepting = endpoint->phase == VERBS_ACCEPTING;
	bool is_answer = is_peer && fields->number == endpoint->own_psn;
	bool is_news = is_peer && fields->number == endpoint->peer_psn;

	switch (code) {
	case WIRE_ASK:
		if (endpoint->phase == VERBS_RESOLVING)
			return WIRE_UNHEARD;
		if (endpoint->phase == VERBS_REQUESTING) {
			verbs_answer_missing(endpoint, fields, port);
			break;
		}
		if (is_news && is_accepting) /* it asks as a connected end */
			confirmed(endpoint);
		return is_news ? WIRE_CONNECTED : WIRE_GONE;
	case WIRE_GONE:
		if (is_answer && is_accepting)
			verbs_fail(endpoint, VIP_TIMEOUT);
		else if (is_answer || is_news)
			disconnected(endpoint);
		break;
	case WIRE_CONNECTED:
		if (is_answer && is_accepting)
			confirmed(endpoint);
		return is_peer ? 0 : WIRE_GONE;
	case WIRE_UNHEARD:
		if (is_answer && is_accepting) {
			verbs_drop_ids(endpoint);
			endpoint_unheard(endpoint->vi);
		} else if (is_answer) { /* it has begun anew since */
			disconnected(endpoint);
		}
		break;
	default:
		break;
	}
	return 0;
}

/* Events may come in any phase: those that do not belong to it mean nothing. */
static void endpoint_event(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	bool requests = verbs_is_asking(endpoint);

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (requests)
			verbs_request_event(endpoint, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (requests)
			verbs_request_event(endpoint, event);
		else if (event->event == RDMA_CM_EVENT_REJECTED && endpoint->phase == VERBS_CONNECTED)
			disconnected(endpoint); /* by the accepting side, before the last word */
		else
			verbs_ended(endpoint);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		endpoint->prove_at = 0;
		if (endpoint->phase == VERBS_ACCEPTING)
			established(endpoint);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(endpoint);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		verbs_ended(endpoint);
		break;
	default: /* TIMEWAIT_EXIT and the like mean nothing here */
		break;
	}
}

static void dispatch(struct verbs_device *device, struct rdma_cm_event *event)
{
	enum verbs_role *role = event->id->context;

	log_debug("%s, status %d", rdma_event_str(event->event), event->status);
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		device_failed(device->nic);
	else if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		verbs_request_arrived(device, event->id, &event->param.conn);
	else if (role && *role == VERBS_ENDPOINT)
		endpoint_event((struct verbs_endpoint *)role, event);
	else if (role && *role == VERBS_PING)
		ping_event((struct ping *)role, event);
}

static void handle_cm_events(struct verbs_device *device)
{
	struct rdma_cm_event *event;
	unsigned i = 0;

	for (; i < VERBS_EVENTS_AT_ONCE && !rdma_get_cm_event(device->events, &event); i++) {
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
	if (i == VERBS_EVENTS_AT_ONCE || errno != EACCES)
		return;
	log_error("no connection can be made or accepted: %s%s", strerror(EACCES), user_hint(EACCES));
	device->is_refused = true;
	/* The event stays, and the agent would be told of it for ever. */
	if (fd_is_own(device->base.event_fd))
		epoll_ctl(device->base.event_fd, EPOLL_CTL_DEL, device->events->fd, NULL);
}

/* The peer was refused an RDMA operation; the device does not say which. */
static VIP_ERROR_CODE refused_operation(const struct verbs_endpoint *endpoint)
{
	if (!(endpoint->access & IBV_ACCESS_REMOTE_READ))
		return VIP_ERROR_RDMAW_PROT;
	return endpoint->access & IBV_ACCESS_REMOTE_WRITE ? VIP_ERROR_CONN_LOST
							   : VIP_ERROR_RDMAR_PROT;
}

static void qp_event(struct verbs_endpoint *endpoint, enum ibv_event_type type)
{
	if (verbs_is_unreliable(endpoint))
		endpoint_stalled(endpoint->vi);
	else
		endpoint_failed(endpoint->vi, type == IBV_EVENT_QP_ACCESS_ERR
						      ? refused_operation(endpoint)
						      : VIP_ERROR_CONN_LOST);
}

static void async_event(struct verbs_device *device, const struct ibv_async_event *event)
{
	struct verbs_endpoint *endpoint;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		qp_event(event->element.qp->qp_context, event->event_type);
		break;
	case IBV_EVENT_COMM_EST: /* a first message has come before the requester's last word */
		endpoint = event->element.qp->qp_context;
		if (endpoint->phase == VERBS_ACCEPTING)
			confirmed(endpoint);
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

static void handle_async_events(struct verbs_device *device)
{
	struct ibv_async_event event;

	/* Objects are destroyed with the NIC's lock, or not before their events are acknowledged. */
	while (!ibv_get_async_event(device->context, &event)) {
		log_debug("asynchronous event: %s", ibv_event_type_str(event.event_type));
		async_event(device, &event);
		ibv_ack_async_event(&event);
	}
}

void verbs_timer_start(struct verbs_device *device)
{
	static const struct itimerspec tick = {.it_value.tv_nsec = VERBS_TICK};

	if (!device->timer_runs && fd_is_own(device->timer_fd))
		timerfd_settime(device->timer_fd, 0, &tick, NULL);
	device->timer_runs = true;
}

/* A requester that has not confirmed our answer may wait for it, be connected, or be gone. */
static void accepting_tick(struct verbs_endpoint *endpoint, int64_t now)
{
	int64_t due = endpoint->asked ? endpoint->asked + ASK_AGAIN : endpoint->began + FIRST_ASK;

	if (now - endpoint->began >= ACCEPT_MSEC * NSEC_PER_MSEC)
		verbs_fail(endpoint, VIP_TIMEOUT);
	else if (now >= due &&
		 control_tell(endpoint, WIRE_ASK, endpoint->peer_qp, endpoint->own_psn))
		endpoint->asked = now;
}

static void tick(struct verbs_device *device)
{
	struct verbs_endpoint *endpoint;
	int64_t now = clock_nsec();
	uint64_t unused;
	bool goes_on;

	if (!fd_is_own(device->timer_fd) || read(device->timer_fd, &unused, sizeof(unused)) < 0)
		return;
	device->timer_runs = false;
	goes_on = control_tick(device);
	LIST_FOREACH(endpoint, &device->endpoints, in_device) {
		if (endpoint->phase == VERBS_REQUESTING)
			verbs_request_tick(endpoint, now);
		else if (endpoint->phase == VERBS_ACCEPTING)
			accepting_tick(endpoint, now);
		else if (endpoint->ends_at && now >= endpoint->ends_at)
			endpoint_lost(endpoint->vi);
		if (endpoint->prove_at && now >= endpoint->prove_at)
			prove(endpoint);
		if (endpoint->last_word_at && now >= endpoint->last_word_at)
			verbs_last_word(endpoint);
		goes_on |= endpoint->phase == VERBS_REQUESTING || endpoint->phase == VERBS_ACCEPTING ||
			   endpoint->prove_at || endpoint->last_word_at || endpoint->ends_at;
	}
	if (goes_on)
		verbs_timer_start(device);
}

/* 0 or errno. */
static int watch(struct verbs_device *device, int fd, enum source source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    epoll_ctl(device->base.event_fd, EPOLL_CTL_ADD, fd, &event))
		return errno;
	return 0;
}

int verbs_watch_events(struct verbs_device *device)
{
	int error = watch(device, device->events->fd, CM_EVENTS);

	if (!error)
		error = watch(device, device->context->async_fd, ASYNC_EVENTS);
	if (!error)
		error = watch(device, device->timer_fd, TIMER);
	return error;
}

int verbs_watch_control(struct verbs_device *device)
{
	return watch(device, device->control.epoll_fd, CONTROL_EVENTS);
}

void verbs_serve(struct device *base)
{
	struct verbs_device *device = (struct verbs_device *)base;
	struct epoll_event events[SOURCES];
	bool ready[SOURCES] = {false};
	int count = fd_is_own(base->event_fd) ? epoll_wait(base->event_fd, events, SOURCES, 0) : 0;

	while (count > 0)
		ready[events[--count].data.u32] = true;
	if (ready[ASYNC_EVENTS]) /* first: they say why a connection ended */
		handle_async_events(device);
	if (ready[CM_EVENTS])
		handle_cm_events(device);
	if (ready[CONTROL_EVENTS])
		control_serve(device);
	if (ready[TIMER])
		tick(device);
}

void verbs_accept(struct device_request *base, struct device_endpoint *base_endpoint,
		       const struct connect_info *own)
{
	struct verbs_request *request = (struct verbs_request *)base;
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base_endpoint;
	struct rdma_conn_param parameters;
	struct wire_message message;
	int error;

	endpoint->id = request->id;
	endpoint->id->context = endpoint;
	endpoint->peer = request->peer;
	endpoint->peer_extra = request->peer_extra;
	endpoint->phase = VERBS_ACCEPTING;
	endpoint->began = clock_nsec();
	endpoint->asked = 0;
	free(request);

	wire_write(&message, WIRE_ACCEPT, own, NULL);
	verbs_fill_parameters(endpoint, &endpoint->peer.host, &parameters, &message);
	/* The queue pair must take messages before the requester learns that it may send. */
	endpoint_establishing(endpoint->vi);
	error = verbs_endpoint_start(endpoint);
	if (error == ETIMEDOUT || error == EHOSTUNREACH) /* its host is not there any more */
		error = ECONNABORTED;
	if (error && error != ECONNABORTED) {
		log_error_ratelimited("cannot prepare to accept: %s%s", strerror(error), user_hint(error));
		wire_write(&message, WIRE_REJECT, NULL, NULL);
		rdma_reject(endpoint->id, &message, sizeof(message));
		verbs_fail(endpoint, VIP_ERROR_RESOURCE);
		return;
	}
	if (!error && rdma_accept(endpoint->id, &parameters))
		error = errno;
	if (error == ECONNABORTED || error == EINVAL) { /* the requester has given up */
		verbs_fail(endpoint, VIP_TIMEOUT);
		return;
	}
	if (error) {
		log_error_ratelimited("cannot accept: %s%s", strerror(error), user_hint(error));
		verbs_fail(endpoint, VIP_ERROR_RESOURCE);
		return;
	}
	control_want(endpoint, true);
	verbs_timer_start(endpoint->device);
}

VIP_RETURN verbs_cancel(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	bool unheard = clock_nsec() - endpoint->began < ANSWER_TIME + endpoint->probe.slowest;

	verbs_drop_ids(endpoint);
	return endpoint->probe.no_listener && unheard ? VIP_NO_MATCH : VIP_TIMEOUT;
}

void verbs_disconnect(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (endpoint->phase == VERBS_CONNECTED) {
		if (endpoint->last_word_at)
			rdma_establish(endpoint->id);
		control_tell(endpoint, WIRE_GONE, endpoint->peer_qp, endpoint->own_psn);
		rdma_disconnect(endpoint->id);
	}
	verbs_drop_ids(endpoint);
}
