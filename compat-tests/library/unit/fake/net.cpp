// SPDX-License-Identifier: BSD-2-Clause
// getifaddrs() of the simulated host: lo, one interface per device, and VLANs of these.
#include "world.h"

#include <cstdlib>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>

namespace fake
{

struct Interface : ifaddrs {
	sockaddr_storage addr{};
	std::string name;
	Interface() : ifaddrs{}
	{
	}
};

// Puts an entry in front of the list. As on a real host, every interface also has one without an IP address.
static ifaddrs *add(ifaddrs *&list, const std::string &name, const Addr *addr = nullptr, unsigned flags = IFF_UP)
{
	auto *entry = new Interface;

	entry->name = name;
	entry->ifa_name = entry->name.data();
	entry->ifa_flags = flags;
	entry->ifa_next = list;
	if (addr) {
		entry->addr.ss_family = addr->is_ipv4() ? AF_INET : AF_INET6;
		entry->ifa_addr = reinterpret_cast<sockaddr *>(&entry->addr);
		addr->put(entry->ifa_addr);
	}
	return list = entry;
}

// The hardware address of IPoIB: flags and the number of a queue pair, and the port's GID.
static void set_hardware_address(ifaddrs *entry, const ibv_gid &gid)
{
	auto &storage = static_cast<Interface *>(entry)->addr;
	auto *link = reinterpret_cast<sockaddr_ll *>(&storage);

	link->sll_family = AF_PACKET;
	link->sll_hatype = ARPHRD_INFINIBAND;
	link->sll_halen = 20;
	memcpy(reinterpret_cast<char *>(&storage) + offsetof(sockaddr_ll, sll_addr) + 4, &gid, sizeof gid);
	entry->ifa_addr = reinterpret_cast<sockaddr *>(&storage);
}

// A sanitizer's run-time library has a getifaddrs(), too. A file that is always linked refers to
// this one, so that this getifaddrs() is called.
void use_our_interfaces()
{
}

} // namespace fake

using namespace fake;

extern "C" int getifaddrs(ifaddrs **list) noexcept
{
	FAKE_ENTER(getifaddrs);
	World &w = world();

	if (fault)
		return by_minus(fault);
	*list = nullptr;
	for (size_t i = w.devices.size(); i-- > 0;) { // the list is built from its end
		const std::string name = "eth" + std::to_string(i);
		const Device &device = *w.devices[i];
		const unsigned flags = device.cfg.interface_down ? 0 : IFF_UP;
		for (size_t j = device.addrs.size(); j-- > 0;) {
			const bool is_vlan = j >= device.own_addrs;
			Addr addr = device.addrs[j];
			addr.scope = addr.link_local() ? interface_index(i, is_vlan) : 0;
			add(*list, name + (is_vlan ? ".100" : ""), &addr, flags);
		}
		for (const char *end : {".100", ""}) {
			if (*end && device.own_addrs == device.addrs.size())
				continue;
			ifaddrs *link = add(*list, name + end, nullptr, flags);
			if (device.cfg.infiniband)
				set_hardware_address(link, device.gid(0));
		}
	}
	for (const char *text : {"::1", "127.0.0.1"}) {
		Addr loopback;
		Addr::parse(text, loopback);
		add(*list, "lo", &loopback, IFF_LOOPBACK | IFF_UP);
	}
	++w.lists;
	return 0;
}

extern "C" unsigned if_nametoindex(const char *name) noexcept
{
	return name[0] == 'e' ? interface_index(strtoul(name + strlen("eth"), nullptr, 10), strchr(name, '.')) : 1;
}

extern "C" void freeifaddrs(ifaddrs *list) noexcept
{
	std::lock_guard<std::mutex> lock(world().mutex);

	--world().lists;
	while (list) {
		auto *entry = static_cast<Interface *>(list);
		list = list->ifa_next;
		delete entry;
	}
}
