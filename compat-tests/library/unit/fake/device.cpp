// SPDX-License-Identifier: BSD-2-Clause
// Devices, contexts, ports, protection domains, asynchronous events.
#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace fake
{

static int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr, size_t size);

static std::unique_ptr<Device> make_device(const fake_device &cfg)
{
	auto dev = std::make_unique<Device>();

	dev->cfg = cfg;
	dev->node_type = IBV_NODE_CA;
	dev->transport_type = IBV_TRANSPORT_IB;
	snprintf(dev->name, sizeof dev->name, "%s", cfg.name);
	dev->cfg.name = dev->name;
	snprintf(dev->dev_name, sizeof dev->dev_name, "uverbs_%.50s", cfg.name);
	snprintf(dev->ibdev_path, sizeof dev->ibdev_path, "/sys/class/infiniband/%s", cfg.name);
	for (int i = 0; i < FAKE_MAX_ADDRESSES && cfg.addresses[i]; ++i) {
		Addr addr;
		if (!Addr::parse(cfg.addresses[i], addr))
			die("device %s: \"%s\" is no IP address", cfg.name, cfg.addresses[i]);
		dev->addrs.push_back(addr);
		dev->cfg.addresses[i] = nullptr; // the caller's text may be gone later
	}
	return dev;
}

static void set_devices(World &w, int count, const fake_device *list)
{
	for (auto &dev : w.devices)
		w.retired.push_back(std::move(dev));
	w.devices.clear();
	for (int i = 0; i < count; ++i)
		w.devices.push_back(make_device(list[i]));
}

void default_devices(World &w)
{
	fake_device one;
	fake_device_default(&one);
	set_devices(w, 1, &one);
}

Context *open_context(Device *dev)
{
	auto *ctx = new Context;

	ctx->dev = dev;
	ctx->sz = sizeof(verbs_context);
	ctx->query_port = query_port;
	ctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->context.device = dev;
	ctx->context.cmd_fd = -1;
	ctx->context.num_comp_vectors = 1;
	ctx->context.ops.poll_cq = poll_cq;
	ctx->context.ops.req_notify_cq = req_notify_cq;
	ctx->context.ops.post_send = post_send;
	ctx->context.ops.post_recv = post_recv;
	pthread_mutex_init(&ctx->context.mutex, nullptr);
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
	pthread_mutex_destroy(&ctx->context.mutex);
	delete ctx;
}

Device *device_of(const Addr &addr)
{
	World &w = world();

	if (addr.loopback())
		return w.devices.empty() ? nullptr : w.devices[0].get();
	for (auto &dev : w.devices)
		for (const Addr &own : dev->addrs)
			if (own.same_ip(addr))
				return dev.get();
	return nullptr;
}

static ibv_mtu mtu_code(int bytes)
{
	int code = IBV_MTU_256;
	for (; code < IBV_MTU_4096 && (128 << code) < bytes; ++code)
		;
	return static_cast<ibv_mtu>(code);
}

static int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr, size_t size)
{
	FAKE_ENTER(ibv_query_port);
	const fake_device &cfg = ctx_of(context)->dev->cfg;
	ibv_port_attr a{};

	if (fault)
		return by_value(fault);
	if (port_num != 1)
		return by_value(EINVAL);
	a.state = cfg.port_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.max_mtu = IBV_MTU_4096;
	a.active_mtu = mtu_code(cfg.mtu);
	a.gid_tbl_len = 1024;
	a.pkey_tbl_len = 1;
	a.max_msg_sz = cfg.max_msg_size;
	a.active_width = 1;
	a.active_speed = 1;
	a.phys_state = cfg.port_up ? 5 : 3;
	a.link_layer = IBV_LINK_LAYER_ETHERNET;
	memcpy(attr, &a, std::min(size, sizeof a));
	return 0;
}

} // namespace fake

using namespace fake;

void fake_device_default(fake_device *device)
{
	*device = fake_device{};
	device->name = "fake0";
	device->addresses[0] = "10.9.9.1";
	device->max_sge = 32;
	device->max_qp_wr = 1048576;
	device->max_cqe = 32767;
	device->max_inline = 512;
	device->max_mr = 524287;
	device->max_qp = 1048576;
	device->max_rd_atomic = 128;
	device->mtu = 1024;
	device->max_msg_size = 0x800000;
	device->vendor_id = 0xffffff;
	device->keys = FAKE_KEYS_RXE;
	device->resize_cq = device->uc = device->atomics = device->port_up = true;
}

void fake_set_devices(int count, const fake_device *devices)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	set_devices(world(), count, devices);
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
	auto **list =
		static_cast<ibv_device **>(calloc(w.devices.size() + 1, sizeof(ibv_device *)));
	for (size_t i = 0; i < w.devices.size(); ++i)
		list[i] = w.devices[i].get();
	if (num_devices)
		*num_devices = static_cast<int>(w.devices.size());
	++w.live.device_lists;
	return list;
}

void ibv_free_device_list(ibv_device **list)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	free(list);
	--world().live.device_lists;
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
	if (!ctx)
		return nullptr;
	++world().live.contexts;
	return &ctx->context;
}

int ibv_close_device(ibv_context *context)
{
	FAKE_ENTER(ibv_close_device);
	Context *ctx = ctx_of(context);

	if (fault)
		return by_minus(fault);
	--world().live.contexts;
	if (ctx->objects) // they still point to the context: fake_reset() frees it after them
		misuse("ibv_close_device: %d objects of the context are alive", ctx->objects);
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
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000;
	attr->max_qp = cfg.max_qp;
	attr->max_qp_wr = cfg.max_qp_wr;
	attr->max_sge = attr->max_sge_rd = cfg.max_sge;
	attr->max_cq = 1048576;
	attr->max_cqe = cfg.max_cqe;
	attr->max_mr = cfg.max_mr;
	attr->max_pd = 1048576;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = cfg.max_rd_atomic;
	attr->max_res_rd_atom = cfg.max_rd_atomic * 1024;
	attr->vendor_id = cfg.vendor_id;
	attr->atomic_cap = cfg.atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	attr->phys_port_cnt = 1;
	return 0;
}

// The old symbol behind the macro. It is called only when a context has no extensions.
int ibv_query_port(ibv_context *, uint8_t, struct _compat_ibv_port_attr *)
{
	return by_value(EOPNOTSUPP);
}

ibv_pd *ibv_alloc_pd(ibv_context *context)
{
	FAKE_ENTER(ibv_alloc_pd);
	World &w = world();
	Context *ctx = ctx_of(context);

	if (fault)
		return by_null(fault);
	Pd *pd = new Pd;
	pd->context = context;
	w.pds.insert(pd);
	++w.live.pds;
	++ctx->objects;
	return pd;
}

int ibv_dealloc_pd(ibv_pd *ibpd)
{
	FAKE_ENTER(ibv_dealloc_pd);
	World &w = world();
	auto *pd = static_cast<Pd *>(ibpd);

	if (fault)
		return by_value(fault);
	if (pd->users) {
		misuse("ibv_dealloc_pd: %d memory regions or queue pairs are in the domain",
		       pd->users);
		return by_value(EBUSY);
	}
	--w.live.pds;
	--ctx_of(pd->context)->objects;
	w.pds.erase(pd);
	delete pd;
	return 0;
}
