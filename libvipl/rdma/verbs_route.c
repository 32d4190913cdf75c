/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routes to hosts, found by rdma_cm: it asks the network for addresses, and InfiniBand's subnet manager for paths. What it has
 * found is kept for a moment, so that many connections with a host ask once.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/user.h"
#include "rdma.h"

#define RESOLVE_MSEC 3000 /* as long as Linux asks for an address, three times */
#define FRESH_NSEC   (5 * NSEC_PER_SEC)

struct verbs_route {
	LIST_ENTRY(verbs_route) in_device;
	struct in6_addr host;
	struct rdma_cm_id *id; /* while it is being found */
	struct verbs_path path;
	int64_t found_at;
	LIST_HEAD(, verbs_endpoint) waiters;
};

/* It is a call by the channel's descriptor, which the program may have closed. */
void verbs_destroy_id(struct rdma_cm_id *id)
{
	if (id && fd_is_own(id->channel->fd))
		rdma_destroy_id(id);
}

static void forget(struct verbs_route *route)
{
	LIST_REMOVE(route, in_device);
	verbs_destroy_id(route->id);
	free(route);
}

/* Reports the result to all that wait for it. Nobody asks for a route from within the report. */
static void conclude(struct verbs_route *route, int error)
{
	struct verbs_endpoint *endpoint;

	verbs_destroy_id(route->id);
	route->id = NULL;
	route->found_at = clock_nsec();
	while ((endpoint = LIST_FIRST(&route->waiters))) {
		verbs_route_forget(endpoint);
		endpoint->path = route->path;
		endpoint_routed(endpoint->vi, error);
	}
	if (error)
		forget(route);
}

void verbs_route_forget(struct verbs_endpoint *endpoint)
{
	if (!endpoint->awaits_route)
		return;
	LIST_REMOVE(endpoint, in_route);
	endpoint->awaits_route = false;
}

/* With these errors rdma_cm says that no way leads there, and so does the subnet manager. */
static int reason(int error)
{
	return error == EINVAL || error == EADDRNOTAVAIL ? ENODEV : error;
}

static int error_of_event(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_ADDR_ERROR && event->status == -ETIMEDOUT)
		return EHOSTUNREACH; /* nobody on the network has this address */
	return event->status < 0 ? reason(-event->status) : EHOSTUNREACH;
}

static int learn(struct verbs_device *device, struct verbs_route *route)
{
	const struct rdma_ib_addr *addresses = &route->id->route.addr.addr.ibaddr;
	const struct ibv_sa_path_rec *record = route->id->route.path_rec;
	struct verbs_path *path = &route->path;

	*path = (struct verbs_path){.gid = addresses->dgid, .own_gid = addresses->sgid, .mtu = device->mtu, .pkey = be16toh(addresses->pkey)};
	if (route->id->route.num_paths > 0 && record) {
		path->pkey = be16toh(record->pkey);
		path->own_lid = be16toh(record->slid);
		path->lid = be16toh(record->dlid);
		path->sl = record->sl;
		path->traffic_class = record->traffic_class;
		path->flow_label = be32toh(record->flow_label) & 0xfffff;
		path->hop_limit = record->hop_limit;
		path->rate = record->rate;
		if (record->mtu >= IBV_MTU_256 && (enum ibv_mtu)record->mtu < path->mtu)
			path->mtu = record->mtu;
	}
	return verbs_path_complete(device, path);
}

void verbs_route_event(struct verbs_device *device, const struct rdma_cm_event *event)
{
	struct verbs_route *route = event->id->context;

	if (!route) /* of the id that hears of the device's removal */
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(route->id, RESOLVE_MSEC))
			conclude(route, reason(errno));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		conclude(route, learn(device, route));
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		conclude(route, error_of_event(event));
		break;
	default:
		break;
	}
}

static struct verbs_route *find(struct verbs_device *device, const struct in6_addr *host)
{
	struct verbs_route *route, *next;
	int64_t now = clock_nsec();

	for (route = LIST_FIRST(&device->routes); route; route = next) {
		next = LIST_NEXT(route, in_device);
		if (!route->id && now - route->found_at >= FRESH_NSEC)
			forget(route);
		else if (host_equal(&route->host, host))
			return route;
	}
	return NULL;
}

/* 0 or errno. */
static int begin(struct verbs_device *device, struct verbs_route *route)
{
	const struct in6_addr *own = verbs_own_host(device, &route->host);
	struct sockaddr_storage from, to;

	if (!own)
		return ENETUNREACH;
	if (!fd_is_own(device->events->fd))
		return EBADF;
	if (rdma_create_id(device->events, &route->id, route, RDMA_PS_TCP)) {
		route->id = NULL;
		return errno;
	}
	verbs_socket(device, own, 0, &from);
	verbs_socket(device, &route->host, 0, &to);
	return rdma_resolve_addr(route->id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MSEC)
		       ? reason(errno)
		       : 0;
}

int verbs_route(struct device_endpoint *base, const struct in6_addr *host)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	struct verbs_device *device = endpoint->device;
	struct verbs_route *route = find(device, host);
	int error;

	verbs_route_forget(endpoint);
	if (device->is_refused || device->user != own_user())
		return EACCES;
	if (route && !route->id) {
		endpoint->path = route->path;
		return 0;
	}
	if (!route) {
		route = calloc(1, sizeof(*route));
		if (!route)
			return ENOMEM;
		route->host = *host;
		LIST_INIT(&route->waiters);
		LIST_INSERT_HEAD(&device->routes, route, in_device);
		error = begin(device, route);
		if (error) {
			forget(route);
			return error;
		}
	}
	LIST_INSERT_HEAD(&route->waiters, endpoint, in_route);
	endpoint->awaits_route = true;
	return EINPROGRESS;
}

void verbs_routes_refused(struct verbs_device *device)
{
	struct verbs_route *route, *next;

	for (route = LIST_FIRST(&device->routes); route; route = next) {
		next = LIST_NEXT(route, in_device);
		if (route->id)
			conclude(route, EACCES);
	}
}

void verbs_routes_free(struct verbs_device *device)
{
	while (!LIST_EMPTY(&device->routes))
		forget(LIST_FIRST(&device->routes));
}
