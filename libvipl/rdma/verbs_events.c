/* SPDX-License-Identifier: BSD-2-Clause */
/* What the device tells: its asynchronous events, and those of rdma_cm, which only finds routes and knows when a device goes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "base/container.h"
#include "base/fd.h"
#include "base/log.h"
#include "rdma.h"

#define EVENTS_AT_ONCE 16u /* of rdma_cm; then it is the turn of the NIC's other work */

static void cm_ready(struct watch *watch)
{
	struct verbs_device *device = container_of(watch, struct verbs_device, cm_watch);
	struct rdma_cm_event *event;
	unsigned i = 0;

	for (; i < EVENTS_AT_ONCE && !rdma_get_cm_event(device->events, &event); i++) {
		struct rdma_cm_event copy = *event;

		/* Handling may destroy the id, which waits until its events are acknowledged. */
		rdma_ack_cm_event(event);
		log_debug("%s, status %d", rdma_event_str(copy.event), copy.status);
		if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			device_failed(device->nic);
		else
			verbs_route_event(device, &copy);
	}
	device->refusal = i == EVENTS_AT_ONCE ? 0 : verbs_death_of(device->events->fd);
	if (!device->refusal)
		return;
	device_routed(device->nic, NULL); /* no route is found any more */
	watch_end(device->base.event_fd, watch); /* the event stays, and the agent would be told of it for ever */
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
	if (verbs_is_unreliable(endpoint)) {
		vi_stalled(endpoint->vi);
		return;
	}
	if (type == IBV_EVENT_QP_ACCESS_ERR)
		endpoint->cause = refused_operation(endpoint);
	atomic_store_explicit(type == IBV_EVENT_QP_FATAL ? &endpoint->fails : &endpoint->refuses, true, memory_order_relaxed);
	vi_failed(endpoint->vi, endpoint->cause);
}

/* Of our port. The last two are only about the way to others, and what this has found until now may be wrong in any case. */
static void port_event(struct verbs_device *device, enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		device_linked(device->nic, type == IBV_EVENT_PORT_ACTIVE);
		break;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		verbs_routes_forget(device);
		device_changed(device->nic);
		break;
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		verbs_routes_forget(device);
		break;
	default:
		break;
	}
}

static void async_event(struct verbs_device *device, const struct ibv_async_event *event)
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
		if (event->element.port_num == device->port)
			port_event(device, event->event_type);
		break;
	}
}

/* Reads tell of it by EIO, or only poll() does. */
int verbs_death_of(int fd)
{
	struct pollfd file = {.fd = fd, .events = POLLIN};
	const int error = errno;

	if (error == EINTR || error == ENOMEM)
		return 0;
	if (error != EAGAIN)
		return error;
	return poll(&file, 1, 0) > 0 && file.revents & (POLLERR | POLLHUP) ? EIO : 0;
}

/* False when there was none. */
static bool read_events(struct verbs_device *device)
{
	struct ibv_async_event event;
	bool is_any = false;

	device->hears = true;
	/* Objects are destroyed with the NIC's lock, or not before their events are acknowledged. */
	for (; !ibv_get_async_event(device->context, &event); is_any = true) {
		log_debug("asynchronous event: %s", ibv_event_type_str(event.event_type));
		async_event(device, &event);
		ibv_ack_async_event(&event);
	}
	device->hears = false;
	return is_any;
}

void verbs_hear(struct verbs_device *device)
{
	if (!device->hears && fd_is_own(device->context->async_fd)) /* else an event has led here; or see verbs_close() */
		read_events(device);
}

static void async_ready(struct watch *watch)
{
	struct verbs_device *device = container_of(watch, struct verbs_device, async_watch);
	int error;

	if (read_events(device))
		return;
	error = verbs_death_of(device->context->async_fd);
	if (!error)
		return;
	watch_end(device->base.event_fd, watch);
	device_gone(device->nic, error);
}

int verbs_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return 0;
	return cause("fcntl(F_SETFL)", errno);
}

static int watch_file(struct verbs_device *device, struct watch *watch, int fd, void (*ready)(struct watch *watch))
{
	int error = verbs_set_nonblocking(fd);

	watch->ready = ready;
	return error ? error : watch_begin(device->base.event_fd, watch, fd, EPOLLIN);
}

int verbs_watch_events(struct verbs_device *device)
{
	int error = watch_file(device, &device->cm_watch, device->events->fd, cm_ready);

	return error ? error : watch_file(device, &device->async_watch, device->context->async_fd, async_ready);
}
