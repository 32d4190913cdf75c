// SPDX-License-Identifier: BSD-2-Clause
// Connection identifiers: creation, addresses, routes.
#include "world.h"

#include <endian.h>

namespace fake
{

void set_addresses(Id *id)
{
	id->src.put(&id->route.addr.src_addr);
	id->dst.put(&id->route.addr.dst_addr);
}

void attach(Id *id, Device *dev)
{
	if (!dev->cm_context)
		dev->cm_context = open_context(dev);
	if (!dev->cm_context)
		die("no context for device %s: %s", dev->name, strerror(errno));
	id->verbs = &dev->cm_context->context;
	id->port_num = 1;
}

static void release_port(Id *id)
{
	auto &ports = world().ports;
	auto range = ports.equal_range(id->src.port);

	for (auto it = range.first; it != range.second; ++it) {
		if (it->second == id) {
			ports.erase(it);
			return;
		}
	}
}

static bool is_taken(const Addr &addr)
{
	auto range = world().ports.equal_range(addr.port);

	for (auto it = range.first; it != range.second; ++it)
		if (addr.same_ip(it->second->src))
			return true;
	return false;
}

static uint16_t free_port()
{
	World &w = world();

	do {
		if (++w.next_port > 60999)
			w.next_port = 32768;
	} while (w.ports.count(w.next_port));
	return w.next_port;
}

static int bind_to(Id *id, Addr addr)
{
	Device *dev = device_of(addr);

	if (addr.link_local() && !addr.scope)
		return EINVAL;
	if (!dev) // the wildcard address, too: this library never binds to it
		return EADDRNOTAVAIL;
	if (!addr.port)
		addr.port = free_port();
	else if (is_taken(addr))
		return EADDRINUSE;
	attach(id, dev);
	id->src = addr;
	id->has_port = true;
	id->state = Cm::BOUND;
	world().ports.emplace(addr.port, id);
	set_addresses(id);
	return 0;
}

Reach reach_of(const Addr &dst)
{
	auto &reach = world().reach;
	auto it = reach.find(std::string(reinterpret_cast<const char *>(dst.ip), sizeof dst.ip));

	if (it != reach.end())
		return it->second;
	return {device_of(dst) ? FAKE_REACH_OK : FAKE_REACH_TIMEOUT, -1};
}

// The source address that the routing table would choose.
static Addr choose_source(const Addr &dst)
{
	World &w = world();
	Device *dev = device_of(dst);

	if (dst.loopback())
		return dst;
	if (!dev && !w.devices.empty())
		dev = w.devices[0].get();
	if (dev)
		for (const Addr &addr : dev->addrs)
			if (addr.family == dst.family)
				return addr;
	return Addr();
}

// The port's own GID is that of InfiniBand; RoCE has those of the addresses.
static ibv_gid gid_of(const Addr &addr)
{
	const Device *dev = device_of(addr);

	return dev && dev->cfg.infiniband ? dev->gid(0) : addr.gid();
}

static void set_gids(Id *id)
{
	rdma_ib_addr &ib = id->route.addr.addr.ibaddr;

	ib.sgid = gid_of(id->src);
	ib.dgid = gid_of(id->dst);
	ib.pkey = htobe16(ctx_of(id->verbs)->dev->cfg.pkeys[0]);
}

static void set_path(Id *id)
{
	const Device *own = ctx_of(id->verbs)->dev, *other = device_of(id->dst);
	ibv_sa_path_rec &path = id->path;

	path.sgid = id->route.addr.addr.ibaddr.sgid;
	path.dgid = id->route.addr.addr.ibaddr.dgid;
	path.pkey = id->route.addr.addr.ibaddr.pkey;
	path.mtu = static_cast<uint8_t>(own->cfg.path_mtu ? own->cfg.path_mtu : own->mtu());
	path.sl = own->cfg.sl;
	path.traffic_class = own->cfg.traffic_class;
	path.hop_limit = own->cfg.infiniband ? 1 : 64;
	path.slid = htobe16(own->cfg.lid);
	path.dlid = htobe16(other ? other->cfg.lid : 0);
	id->route.path_rec = &id->path;
	id->route.num_paths = 1;
}

void free_id(Id *id)
{
	World &w = world();

	drop_events(id);
	if (id->has_port)
		release_port(id);
	--channel_of(id)->ids;
	w.ids.erase(id);
	delete id;
}

static int bind_source(Id *id, const sockaddr *src_addr, const Addr &dst)
{
	Addr src;

	if (id->state != Cm::IDLE)
		return 0;
	if (!Addr::from(src_addr, src) || src.any()) {
		uint16_t port = src.port;
		src = choose_source(dst);
		src.port = port;
		if (!src.family)
			return ENETUNREACH;
	}
	return bind_to(id, src);
}

} // namespace fake

using namespace fake;

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **out, void *context, rdma_port_space ps)
{
	FAKE_ENTER(rdma_create_id);
	if (refused(fault, !channel || ps != RDMA_PS_TCP))
		return -1;
	auto *id = new Id;
	id->channel = channel;
	id->context = context;
	id->ps = ps;
	id->qp_type = IBV_QPT_RC;
	world().ids.insert(id);
	++world().live.ids;
	++channel_of(id)->ids;
	*out = id;
	return 0;
}

int rdma_destroy_id(rdma_cm_id *rid)
{
	FAKE_ENTER(rdma_destroy_id);
	auto *id = static_cast<Id *>(rid);

	if (fault)
		return by_minus(fault);
	if (!world().ids.count(id))
		die("rdma_destroy_id: no such id (destroyed twice?)");
	if (id->unacked)
		die("rdma_destroy_id would wait for ever: %u events of the id are not acknowledged",
		    id->unacked);
	--world().live.ids;
	free_id(id);
	return 0;
}

int rdma_bind_addr(rdma_cm_id *rid, sockaddr *sa)
{
	FAKE_ENTER(rdma_bind_addr);
	auto *id = static_cast<Id *>(rid);
	Addr addr;

	if (!fault && (id->state != Cm::IDLE || !Addr::from(sa, addr)))
		fault = EINVAL;
	if (!fault)
		fault = bind_to(id, addr);
	return fault ? by_minus(fault) : 0;
}

int rdma_resolve_addr(rdma_cm_id *rid, sockaddr *src_addr, sockaddr *dst_addr, int timeout_ms)
{
	FAKE_ENTER(rdma_resolve_addr);
	auto *id = static_cast<Id *>(rid);
	Addr dst;

	if (!fault &&
	    ((id->state != Cm::IDLE && id->state != Cm::BOUND) || !Addr::from(dst_addr, dst)))
		fault = EINVAL;
	if (!fault && dst.link_local() && !dst.scope)
		fault = EINVAL;
	if (!fault)
		fault = bind_source(id, src_addr, dst);
	if (fault)
		return by_minus(fault);
	Reach reach = reach_of(dst);
	if (reach.how == FAKE_REACH_UNREACHABLE || !ctx_of(id->verbs)->dev->cfg.port_up)
		return by_minus(ENETUNREACH);
	id->dst = dst;
	set_addresses(id);
	if (reach.how == FAKE_REACH_TIMEOUT) { // the id may try again afterwards
		Event *event = make_event(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
		queue_event_in(channel_of(id), event, reach.ms >= 0 ? reach.ms : timeout_ms);
		return 0;
	}
	set_gids(id);
	id->state = Cm::ADDR_RESOLVED;
	report(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

int rdma_resolve_route(rdma_cm_id *rid, int)
{
	FAKE_ENTER(rdma_resolve_route);
	auto *id = static_cast<Id *>(rid);

	if (refused(fault, id->state != Cm::ADDR_RESOLVED))
		return -1;
	id->state = Cm::ROUTE_RESOLVED;
	set_path(id);
	report(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return 0;
}
