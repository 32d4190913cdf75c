/* SPDX-License-Identifier: BSD-2-Clause */
/* What the device tells: its asynchronous events, and those of rdma_cm, which only finds routes and knows when a device goes. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "rdma.h"

#define EVENTS_AT_ONCE 16u /* of rdma_cm; then it is the turn of the NIC's other work */

/* The kinds of descriptors in the device's epoll. */
enum source { ASYNC_EVENTS, CM_EVENTS, SOURCES };

static void handle_cm_events(struct verbs_device *device)
{
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
	if (i == EVENTS_AT_ONCE || errno != EACCES)
		return;
	device->is_refused = true;
	verbs_routes_refused(device);
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

	return error ? error : watch(device, device->context->async_fd, ASYNC_EVENTS);
}

void verbs_serve(struct device *base)
{
	struct verbs_device *device = (struct verbs_device *)base;
	struct epoll_event events[SOURCES];
	bool ready[SOURCES] = {false};
	int count = fd_is_own(base->event_fd) ? epoll_wait(base->event_fd, events, SOURCES, 0) : 0;

	while (count > 0)
		ready[events[--count].data.u32] = true;
	if (ready[ASYNC_EVENTS])
		handle_async_events(device);
	if (ready[CM_EVENTS])
		handle_cm_events(device);
}
