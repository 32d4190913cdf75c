// SPDX-License-Identifier: BSD-2-Clause
// rdma_cm, by which the library finds routes: identifiers, their addresses, and events.
#include "world.h"

#include <algorithm>
#include <endian.h>

namespace fake
{

static CmChannel *channel_of(const Id *id)
{
	return static_cast<CmChannel *>(id->channel);
}

static void report(Id *id, rdma_cm_event_type type, int status = 0)
{
	rdma_cm_event event{};

	event.id = id;
	event.event = type;
	event.status = status;
	channel_of(id)->ready.push_back(event);
	channel_of(id)->signal.set(true);
}

static bool is_told(const Id *id) // of an event that it has not acknowledged
{
	const auto &out = world().events_out;

	return std::any_of(out.begin(), out.end(), [=](const rdma_cm_event *event) { return event->id == id; });
}

void free_id(Id *id)
{
	auto &ready = channel_of(id)->ready;

	ready.erase(
		std::remove_if(ready.begin(), ready.end(), [=](const rdma_cm_event &event) { return event.id == id; }),
		ready.end());
	channel_of(id)->signal.set(!ready.empty());
	world().ids.erase(id);
	delete id;
}

void free_cm_channel(CmChannel *channel)
{
	channel->signal.close();
	world().cm_channels.erase(channel);
	delete channel;
}

// 0 or errno. The library has the system choose the port.
static int bind_to(Id *id, const Addr &addr)
{
	Device *dev = device_of(addr);

	if (addr.link_local() && !addr.scope)
		return EINVAL;
	if (!dev) // the wildcard address, too: this library never binds to it
		return EADDRNOTAVAIL;
	if (!dev->cm_context)
		dev->cm_context = open_context(dev);
	if (!dev->cm_context)
		die("no context for device %s: %s", dev->name, strerror(errno));
	id->verbs = &dev->cm_context->context;
	id->port_num = dev->cfg.port;
	id->src = addr;
	id->state = Cm::BOUND;
	return 0;
}

fake_reach reach_of(const Addr &dst)
{
	auto it = world().reach.find(dst);

	if (it != world().reach.end())
		return it->second;
	return device_of(dst) ? FAKE_REACH_OK : FAKE_REACH_NOBODY;
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
	ib.pkey = htobe16(ctx_of(id->verbs)->dev->pkey(id->src));
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
	path.hop_limit = own->cfg.infiniband ? own->cfg.hops : 64;
	path.slid = htobe16(own->cfg.lid);
	path.dlid = htobe16(other ? other->cfg.lid : 0);
	id->route.path_rec = &id->path;
	id->route.num_paths = 1;
}

} // namespace fake

using namespace fake;

rdma_event_channel *rdma_create_event_channel(void)
{
	FAKE_ENTER(rdma_create_event_channel);
	if (fault)
		return by_null(fault);
	auto *channel = new CmChannel();
	if (!channel->signal.open()) {
		delete channel;
		return nullptr;
	}
	channel->fd = channel->signal.fd;
	world().cm_channels.insert(channel);
	return channel;
}

void rdma_destroy_event_channel(rdma_event_channel *channel)
{
	FAKE_ENTER(rdma_destroy_event_channel);
	(void)fault;
	for (const Id *id : world().ids)
		if (id->channel == channel)
			die("rdma_destroy_event_channel: an id still uses it");
	free_cm_channel(static_cast<CmChannel *>(channel));
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **out, void *context, rdma_port_space ps)
{
	FAKE_ENTER(rdma_create_id);
	if (refused(fault, !channel || ps != RDMA_PS_TCP))
		return -1;
	auto *id = new Id();
	id->channel = channel;
	id->context = context;
	id->ps = ps;
	id->qp_type = IBV_QPT_RC;
	world().ids.insert(id);
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
	if (is_told(id))
		die("rdma_destroy_id would wait for ever: an event of the id is not acknowledged");
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

int rdma_resolve_addr(rdma_cm_id *rid, sockaddr *src_addr, sockaddr *dst_addr, int)
{
	FAKE_ENTER(rdma_resolve_addr);
	auto *id = static_cast<Id *>(rid);
	Addr src;

	if (!fault && (id->state != Cm::IDLE || !Addr::from(src_addr, src) || !Addr::from(dst_addr, id->dst) ||
		       (id->dst.link_local() && !id->dst.scope)))
		fault = EINVAL;
	if (!fault)
		fault = bind_to(id, src);
	fake_reach reach = reach_of(id->dst);
	if (!fault && (reach == FAKE_REACH_UNREACHABLE || !ctx_of(id->verbs)->dev->cfg.port_up))
		fault = ENETUNREACH;
	if (fault)
		return by_minus(fault);
	if (reach == FAKE_REACH_NOBODY)
		report(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	if (reach == FAKE_REACH_NOBODY || reach == FAKE_REACH_UNKNOWN)
		return 0;
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

int rdma_get_cm_event(rdma_event_channel *rchannel, rdma_cm_event **out)
{
	FAKE_ENTER(rdma_get_cm_event);
	auto *channel = static_cast<CmChannel *>(rchannel);

	if (fault)
		return by_minus(fault);
	if (channel->ready.empty())
		return nothing_to_read(channel->fd);
	*out = new rdma_cm_event(channel->ready.front());
	world().events_out.insert(*out);
	channel->ready.pop_front();
	channel->signal.set(!channel->ready.empty());
	return 0;
}

int rdma_ack_cm_event(rdma_cm_event *event)
{
	FAKE_ENTER(rdma_ack_cm_event);
	if (refused(fault, !event))
		return -1;
	if (!world().events_out.erase(event))
		die("rdma_ack_cm_event: this event is acknowledged already or none of ours");
	delete event;
	return 0;
}

// The library's log has this text. No test reads it.
const char *rdma_event_str(rdma_cm_event_type)
{
	return "an event of rdma_cm";
}

void fake_address(const char *ip, fake_reach how)
{
	Addr addr;

	if (!Addr::parse(ip, addr))
		die("fake_address: \"%s\" is no IP address", ip);
	std::lock_guard<std::mutex> lock(world().mutex);
	world().reach[addr] = how;
}

void fake_remove_devices(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);

	for (Id *id : world().ids)
		if (id->verbs)
			report(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
}
