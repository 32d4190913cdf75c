// SPDX-License-Identifier: BSD-2-Clause
// Devices, contexts, ports, protection domains, asynchronous events.
#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <endian.h>

namespace fake
{

static int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr, size_t size);

std::unique_ptr<Device> make_device(const fake_device &cfg)
{
	auto dev = std::make_unique<Device>();

	dev->cfg = cfg;
	snprintf(dev->name, sizeof dev->name, "%s", cfg.name);
	snprintf(dev->dev_name, sizeof dev->dev_name, "uverbs-%s", cfg.name);
	dev->cfg.name = dev->name;
	snprintf(dev->ibdev_path, sizeof dev->ibdev_path, "%s", cfg.sysfs ? cfg.sysfs : "");
	dev->cfg.sysfs = nullptr; // the caller's text may be gone later, as those of addresses
	dev->transport_type = cfg.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	auto take = [&](const char **addresses) {
		for (int i = 0; i < FAKE_MAX_ADDRESSES && addresses[i]; ++i) {
			Addr addr;
			if (!Addr::parse(addresses[i], addr))
				die("device %s: \"%s\" is no IP address", cfg.name, addresses[i]);
			dev->addrs.push_back(addr);
			addresses[i] = nullptr;
		}
	};
	take(dev->cfg.addresses);
	dev->own_addrs = dev->addrs.size();
	take(dev->cfg.vlan);
	return dev;
}

Context *open_context(Device *dev)
{
	auto *ctx = new Context();

	if (dev->cfg.hangs)
		misuse("device %s is opened, which hangs", dev->name);
	ctx->dev = dev;
	ctx->sz = sizeof(verbs_context);
	ctx->query_port = query_port;
	ctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->context.device = dev;
	ctx->context.cmd_fd = -1;
	ctx->context.num_comp_vectors = std::max(1, dev->cfg.comp_vectors);
	ctx->context.ops.poll_cq = poll_cq;
	ctx->context.ops.req_notify_cq = req_notify_cq;
	ctx->context.ops.post_send = post_send;
	ctx->context.ops.post_recv = post_recv;
	if (!ctx->signal.open()) {
		delete ctx;
		return nullptr;
	}
	ctx->context.async_fd = ctx->signal.fd;
	world().contexts.insert(ctx);
	return ctx;
}

void close_context(Context *ctx)
{
	world().contexts.erase(ctx);
	if (ctx->dev->cm_context == ctx)
		ctx->dev->cm_context = nullptr;
	ctx->signal.close();
	delete ctx;
}

Device *device_of(const Addr &addr)
{
	World &w = world();

	if (addr.loopback())
		return w.devices.empty() ? nullptr : w.devices[0].get();
	for (auto &dev : w.devices)
		for (const Addr &own : dev->addrs)
			if (own == addr)
				return dev.get();
	return nullptr;
}

uint32_t interface_of(const Device *dev, bool is_vlan)
{
	const auto &all = world().devices;

	for (size_t i = 0; i < all.size(); i++)
		if (all[i].get() == dev)
			return interface_index(i, is_vlan);
	return 0;
}

ibv_mtu Device::mtu() const
{
	int code = IBV_MTU_256;
	for (; code < IBV_MTU_4096 && (128 << code) < cfg.mtu; ++code)
		;
	return static_cast<ibv_mtu>(code);
}

// Number 0 is the port's own one, the others are those of its addresses.
ibv_gid Device::gid(size_t index) const
{
	ibv_gid gid{};

	if (index)
		return addrs[index - 1].gid();
	gid.raw[0] = 0xfe;
	gid.raw[1] = 0x80;
	memcpy(gid.raw + 8, name, std::min<size_t>(8, strlen(name)));
	return gid;
}

uint16_t Device::pkey(const Addr &own) const
{
	for (size_t i = own_addrs; cfg.vlan_pkey && i < addrs.size(); i++)
		if (addrs[i] == own)
			return cfg.vlan_pkey;
	return cfg.pkeys[0];
}

// All that a port has. RoCE v1 comes before v2 where the device has both. A VLAN may have the same addresses.
static std::vector<ibv_gid_entry> gid_table(const Device *dev, uint32_t port)
{
	const uint32_t latest = dev->cfg.v1_only ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	std::vector<ibv_gid_entry> table;

	auto add = [&](size_t number, uint32_t type, uint32_t interface = 0) {
		ibv_gid_entry entry{};
		entry.gid = dev->gid(number);
		entry.gid_index = static_cast<uint32_t>(table.size());
		entry.port_num = dev->cfg.port;
		entry.gid_type = type;
		entry.ndev_ifindex = interface;
		table.push_back(entry);
	};
	if (port != dev->cfg.port)
		return table;
	if (dev->cfg.infiniband)
		add(0, IBV_GID_TYPE_IB);
	else
		add(0, latest, interface_of(dev, false));
	for (size_t i = 0; i < dev->unused_gids; i++)
		table.emplace_back();
	for (size_t i = 1; dev->cfg.has_twin && i <= dev->addrs.size(); ++i)
		add(i, IBV_GID_TYPE_ROCE_V2, 99);
	for (size_t i = 1; !dev->cfg.infiniband && i <= dev->addrs.size(); ++i) {
		if (dev->cfg.v1_first)
			add(i, IBV_GID_TYPE_ROCE_V1, interface_of(dev, i > dev->own_addrs));
		add(i, latest, interface_of(dev, i > dev->own_addrs));
	}
	return table;
}

ibv_gid gid_at(const Device *dev, size_t index)
{
	std::vector<ibv_gid_entry> table = gid_table(dev, dev->cfg.port);

	return index < table.size() ? table[index].gid : ibv_gid{};
}

static std::vector<uint16_t> pkey_table(const Device *dev)
{
	std::vector<uint16_t> table;

	for (uint16_t pkey : dev->cfg.pkeys)
		if (pkey)
			table.push_back(pkey);
	if (dev->cfg.pkeys_backwards)
		std::reverse(table.begin(), table.end());
	return table;
}

static int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr, size_t size)
{
	FAKE_ENTER(ibv_query_port);
	const fake_device &cfg = ctx_of(context)->dev->cfg;
	ibv_port_attr a{};

	fault = fault_of(context, fault);
	if (fault)
		return by_value(fault);
	if (port_num < 1 || port_num > cfg.port)
		return by_value(EINVAL);
	a.state = cfg.port_up && port_num == cfg.port ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.active_mtu = ctx_of(context)->dev->mtu();
	a.lid = cfg.no_lid ? 0 : cfg.lid;
	a.flags = cfg.grh_required ? IBV_QPF_GRH_REQUIRED : 0;
	a.max_msg_sz = cfg.max_msg_size;
	a.link_layer = cfg.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
	memcpy(attr, &a, std::min(size, sizeof a));
	return 0;
}

template <typename Object> static bool is_used(const std::set<Object *> &objects, const ibv_context *context)
{
	return std::any_of(objects.begin(), objects.end(),
			   [=](const Object *each) { return each->context == context; });
}

} // namespace fake

using namespace fake;

void fake_set_devices(int count, const fake_device *devices)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	World &w = world();

	for (auto &dev : w.devices)
		w.retired.push_back(std::move(dev));
	w.devices.clear();
	for (int i = 0; i < count; ++i)
		w.devices.push_back(make_device(devices[i]));
}

void fake_move_address(const char *address, int index, bool tells)
{
	Addr addr;
	std::unique_lock<std::mutex> lock(world().mutex);
	Device *dev = world().devices.at(0).get();
	const std::string name = dev->name;

	dev->addrs.clear();
	dev->own_addrs = SIZE_MAX;
	dev->unused_gids = static_cast<size_t>(index) - 1;
	if (address && Addr::parse(address, addr))
		dev->addrs.push_back(addr);
	lock.unlock();
	if (tells)
		fake_async_event_port(IBV_EVENT_GID_CHANGE, name.c_str());
}

void fake_change_device(const std::function<void(fake_device &)> &change)
{
	std::lock_guard<std::mutex> lock(world().mutex);

	change(world().devices.at(0)->cfg);
}

std::vector<int> fake_kept_to(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);

	return world().kept_to;
}

ibv_device **ibv_get_device_list(int *num_devices)
{
	FAKE_ENTER(ibv_get_device_list);
	World &w = world();

	use_our_interfaces();
	use_our_sockets();
	if (num_devices)
		*num_devices = 0;
	if (fault)
		return by_null(fault);
	auto **list = static_cast<ibv_device **>(calloc(w.devices.size() + 1, sizeof(ibv_device *)));
	for (size_t i = 0; i < w.devices.size(); ++i)
		list[i] = w.devices[i].get();
	if (num_devices)
		*num_devices = static_cast<int>(w.devices.size());
	++w.lists;
	return list;
}

void ibv_free_device_list(ibv_device **list)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	free(list);
	--world().lists;
}

const char *ibv_get_device_name(ibv_device *device)
{
	return device->name;
}

ibv_context *ibv_open_device(ibv_device *device)
{
	FAKE_ENTER(ibv_open_device);
	if (fault)
		return by_null(fault);
	Context *ctx = open_context(static_cast<Device *>(device));
	return ctx ? &ctx->context : nullptr;
}

int ibv_close_device(ibv_context *context)
{
	FAKE_ENTER(ibv_close_device);
	const World &w = world();
	Context *ctx = ctx_of(context);

	if (fault)
		return by_minus(fault);
	if (is_used(w.pds, context) || is_used(w.cqs, context) || is_used(w.channels, context))
		misuse("ibv_close_device: objects of the context are alive"); // fake_reset() frees it after them
	else
		close_context(ctx);
	return 0;
}

int ibv_query_device(ibv_context *context, ibv_device_attr *attr)
{
	FAKE_ENTER(ibv_query_device);
	const fake_device &cfg = ctx_of(context)->dev->cfg;

	if (fault)
		return by_value(fault);
	*attr = ibv_device_attr{};
	attr->phys_port_cnt = cfg.port;
	attr->max_mr_size = cfg.max_mr_size ? cfg.max_mr_size : UINT64_MAX;
	attr->max_qp = cfg.max_qp;
	attr->max_qp_wr = cfg.max_qp_wr;
	attr->max_sge = cfg.max_sge;
	attr->max_sge_rd = cfg.max_sge_rd ? cfg.max_sge_rd : cfg.max_sge;
	attr->max_cq = 1048576;
	attr->max_cqe = cfg.max_cqe;
	attr->max_mr = cfg.max_mr;
	attr->max_pd = 1048576;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = cfg.max_rd_atomic;
	attr->vendor_id = cfg.vendor_id;
	attr->atomic_cap = !cfg.atomics ? IBV_ATOMIC_NONE : cfg.global_atomics ? IBV_ATOMIC_GLOB : IBV_ATOMIC_HCA;
	attr->max_pkeys = static_cast<uint16_t>(pkey_table(ctx_of(context)->dev).size());
	return 0;
}

// The old symbol behind the macro. It is called only when a context has no extensions.
int ibv_query_port(ibv_context *, uint8_t, struct _compat_ibv_port_attr *)
{
	return by_value(EOPNOTSUPP);
}

ibv_fork_status ibv_is_fork_initialized()
{
	FAKE_ENTER(ibv_is_fork_initialized);
	(void)fault;
	return world().fork;
}

int ibv_fork_init()
{
	FAKE_ENTER(ibv_fork_init);
	World &w = world();

	if (!fault && w.fork == IBV_FORK_DISABLED && w.has_registered)
		fault = EINVAL;
	if (fault)
		return by_value(fault);
	if (w.fork == IBV_FORK_DISABLED)
		w.fork = IBV_FORK_ENABLED;
	return 0;
}

void fake_set_fork(ibv_fork_status status)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	world().fork = status;
}

ibv_pd *ibv_alloc_pd(ibv_context *context)
{
	FAKE_ENTER(ibv_alloc_pd);
	fault = fault_of(context, fault);
	if (fault)
		return by_null(fault);
	auto *pd = new ibv_pd();
	pd->context = context;
	world().pds.insert(pd);
	return pd;
}

int ibv_dealloc_pd(ibv_pd *pd)
{
	FAKE_ENTER(ibv_dealloc_pd);
	World &w = world();
	bool is_used = std::any_of(w.mrs.begin(), w.mrs.end(), [=](const Mr *mr) { return mr->pd == pd; }) ||
		       std::any_of(w.qps.begin(), w.qps.end(), [=](const auto &each) { return each.second->pd == pd; });

	if (fault)
		return by_value(fault);
	if (is_used) {
		misuse("ibv_dealloc_pd: memory regions or queue pairs are in the domain");
		return by_value(EBUSY);
	}
	fault = fault_of(pd->context, 0);
	w.pds.erase(pd);
	delete pd;
	return fault ? by_value(fault) : 0;
}

int _ibv_query_gid_ex(ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *entry, uint32_t, size_t)
{
	FAKE_ENTER(ibv_query_gid_ex);
	std::vector<ibv_gid_entry> table = gid_table(ctx_of(context)->dev, port);

	fault = fault_of(context, fault);
	if (fault)
		return by_value(fault);
	if (index >= table.size())
		return by_value(EINVAL);
	*entry = table[index];
	return entry->port_num ? 0 : by_value(ENODATA); // an empty one
}

int ibv_query_gid(ibv_context *context, uint8_t port, int index, ibv_gid *gid)
{
	FAKE_ENTER(ibv_query_gid);
	std::vector<ibv_gid_entry> table = gid_table(ctx_of(context)->dev, port);

	if (refused(fault_of(context, fault), index < 0 || static_cast<size_t>(index) >= table.size()))
		return -1;
	*gid = table[static_cast<size_t>(index)].gid;
	return 0;
}

int ibv_query_pkey(ibv_context *context, uint8_t, int index, __be16 *pkey)
{
	FAKE_ENTER(ibv_query_pkey);
	std::vector<uint16_t> table = pkey_table(ctx_of(context)->dev);

	if (refused(fault_of(context, fault), index < 0 || static_cast<size_t>(index) >= table.size()))
		return -1;
	*pkey = htobe16(table[static_cast<size_t>(index)]);
	return 0;
}
