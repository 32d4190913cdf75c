/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where connections come from and go to: the NIC's addresses, the TCP ports of discriminators, and routes to hosts.
 *
 * A NIC has one IPv4 address. Where programs get long addresses it also has one IPv6 address of the same interface, by which it is
 * known. rdma_cm finds routes: it asks the network for addresses, and InfiniBand's subnet manager for paths. What it has found is
 * kept for a moment, so that many connections with a host ask once.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/user.h"
#include "rdma.h"

#define FIRST_PORT   0x4000u /* below the ports that the system gives to programs that ask for any */
#define BUCKETS      4096u
#define BUCKET_PORTS 4u /* so many processes of a host can wait in one bucket */

#define RESOLVE_MSEC 3000 /* as long as Linux asks for an address, three times */
#define FRESH_NSEC   (5 * NSEC_PER_SEC)

struct verbs_route {
	LIST_ENTRY(verbs_route) in_device;
	struct in6_addr host;
	struct rdma_cm_id *id; /* while it is being found */
	struct verbs_path path;
	int error; /* while it is reported that there is none */
	int64_t found_at;
};

/* ---- addresses ---- */

void verbs_socket(const struct verbs_device *device, const struct in6_addr *host, uint16_t port,
		  struct sockaddr_storage *out)
{
	host_to_socket(host, port, out);
	if (IN6_IS_ADDR_LINKLOCAL(host))
		((struct sockaddr_in6 *)out)->sin6_scope_id = device->interface;
}

/* FNV-1a: peers must agree, so this is part of the protocol. */
static uint16_t bucket_port(const struct discriminator *discriminator, unsigned index)
{
	uint32_t hash = 2166136261u;

	for (unsigned i = 0; i < discriminator->length; i++)
		hash = (hash ^ discriminator->bytes[i]) * 16777619u;
	return (uint16_t)(FIRST_PORT + hash % BUCKETS * BUCKET_PORTS + index);
}

static void place_at(const struct verbs_device *device, const struct in6_addr *host, uint16_t port, struct place *place)
{
	*place = (struct place){0};
	verbs_socket(device, host, port, &place->address);
	place->length = host_is_ipv4(host) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

unsigned verbs_place(struct device *base, const struct in6_addr *host, const struct discriminator *wanted,
		     unsigned number, struct place at[PLACE_ADDRESSES])
{
	const struct verbs_device *device = (struct verbs_device *)base;
	const struct in6_addr *const own[PLACE_ADDRESSES] = {&device->ipv4, &device->ipv6};
	uint16_t port = bucket_port(wanted, number);
	unsigned count = 0;

	if (number >= BUCKET_PORTS)
		return 0;
	if (host)
		place_at(device, host, port, &at[count++]);
	for (unsigned i = 0; !host && i < PLACE_ADDRESSES; i++)
		if (!IN6_IS_ADDR_UNSPECIFIED(own[i]))
			place_at(device, own[i], port, &at[count++]);
	return count;
}

void verbs_source(struct device *base, const struct in6_addr *host, struct place *from)
{
	const struct verbs_device *device = (struct verbs_device *)base;
	const struct in6_addr *own = verbs_own_host(device, host);

	place_at(device, own ? own : &in6addr_any, 0, from);
	if (own && !IN6_IS_ADDR_LINKLOCAL(own)) /* which the system keeps to its interface */
		from->interface = device->interface;
}

/* ---- routes ---- */

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

/* All that wait for it ask again from within the report. */
static void conclude(struct verbs_device *device, struct verbs_route *route, int error)
{
	const struct in6_addr host = route->host;

	verbs_destroy_id(route->id);
	route->id = NULL;
	route->error = error;
	route->found_at = clock_nsec();
	device_routed(device->nic, &host);
	if (error)
		forget(route);
}

/* With these errors rdma_cm says that no way leads there, and so does the subnet manager. */
static int reason(int error)
{
	return error == EINVAL || error == EADDRNOTAVAIL ? ENETUNREACH : error;
}

static int error_of_event(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_ADDR_ERROR && event->status == -ETIMEDOUT)
		return EHOSTUNREACH; /* nobody on the network has this address */
	return event->status < 0 ? reason(-event->status) : EHOSTUNREACH;
}

static void learn(struct verbs_route *route)
{
	const struct rdma_ib_addr *addresses = &route->id->route.addr.addr.ibaddr;
	const struct ibv_sa_path_rec *record = route->id->route.path_rec;
	struct verbs_path *path = &route->path;

	*path = (struct verbs_path){.to = {.grh = {.dgid = addresses->dgid}},
				    .own_gid = addresses->sgid,
				    .mtu = IBV_MTU_4096,
				    .pkey = be16toh(addresses->pkey)};
	if (route->id->route.num_paths > 0 && record) {
		path->pkey = be16toh(record->pkey);
		path->own_lid = be16toh(record->slid);
		path->to.dlid = be16toh(record->dlid);
		path->to.sl = record->sl;
		path->to.grh.traffic_class = record->traffic_class;
		path->to.grh.flow_label = be32toh(record->flow_label) & 0xfffff;
		path->to.grh.hop_limit = record->hop_limit;
		path->to.static_rate = record->rate;
		if (record->mtu >= IBV_MTU_256 && (enum ibv_mtu)record->mtu < path->mtu)
			path->mtu = record->mtu;
	}
}

/*
 * A bond of two devices has its address at the active one, and queue pairs of the other cannot use it. (rdma_cm opens devices
 * itself, and their names may change, but not those of their files.)
 */
static bool is_elsewhere(const struct verbs_device *device, const struct rdma_cm_id *id)
{
	struct ibv_device *own = device->context->device, *found = id->verbs->device;

	if (!strcmp(found->dev_name, own->dev_name) && id->port_num == device->port)
		return false;
	log_error_ratelimited("RDMA device %s port %u: its address is at %s port %u now, so open the NIC again",
			      ibv_get_device_name(own), device->port, ibv_get_device_name(found), id->port_num);
	return true;
}

void verbs_route_event(struct verbs_device *device, const struct rdma_cm_event *event)
{
	struct verbs_route *route = event->id->context;

	if (!route) /* of the id that hears of the device's removal */
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (route->id->verbs && is_elsewhere(device, route->id))
			conclude(device, route, cause("the port of the NIC's address", ENODEV));
		else if (rdma_resolve_route(route->id, RESOLVE_MSEC))
			conclude(device, route, cause("rdma_resolve_route()", reason(errno)));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		learn(route);
		conclude(device, route, verbs_path_complete(device, &route->path));
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		conclude(device, route,
			 cause(event->event == RDMA_CM_EVENT_ADDR_ERROR ? "rdma_resolve_addr()" : "rdma_resolve_route()",
			       error_of_event(event)));
		break;
	default:
		break;
	}
}

static struct verbs_route *find_route(struct verbs_device *device, const struct in6_addr *host)
{
	struct verbs_route *route, *next;
	int64_t now = clock_nsec();

	for (route = LIST_FIRST(&device->routes); route; route = next) {
		next = LIST_NEXT(route, in_device);
		if (!route->id && !route->error &&
		    (now - route->found_at >= FRESH_NSEC || route->found_at <= device->routes_until))
			forget(route);
		else if (host_equal(&route->host, host))
			return route;
	}
	return NULL;
}

/* EINPROGRESS, or why it cannot be found. */
static int resolve(struct verbs_device *device, const struct in6_addr *host)
{
	const struct in6_addr *own = verbs_own_host(device, host);
	struct sockaddr_storage from, to;
	struct verbs_route *route;
	int error;

	if (!own)
		return ENETUNREACH;
	if (!fd_is_own(device->events->fd))
		return cause("rdma_create_id()", EBADF);
	route = zeroed(1, sizeof(*route));
	if (!route)
		return ENOMEM;
	if (rdma_create_id(device->events, &route->id, route, RDMA_PS_TCP)) {
		error = cause("rdma_create_id()", errno);
		free(route);
		return error;
	}
	route->host = *host;
	LIST_INSERT_HEAD(&device->routes, route, in_device);
	verbs_socket(device, own, 0, &from);
	verbs_socket(device, host, 0, &to);
	if (!rdma_resolve_addr(route->id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MSEC))
		return EINPROGRESS;
	error = cause("rdma_resolve_addr()", reason(errno));
	forget(route);
	return error;
}

int verbs_route(struct device_endpoint *base, const struct in6_addr *host)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	struct verbs_device *device = endpoint->device;
	struct verbs_route *route;

	if (device->refusal)
		return cause("rdma_get_cm_event()", device->refusal);
	if (device->user != own_user())
		return cause("rdma_resolve_addr()", EACCES);
	route = find_route(device, host);
	if (!route)
		return resolve(device, host);
	if (route->id)
		return EINPROGRESS;
	endpoint->path = route->path;
	return route->error;
}

void verbs_routes_free(struct verbs_device *device)
{
	while (!LIST_EMPTY(&device->routes))
		forget(LIST_FIRST(&device->routes));
}
