// SPDX-License-Identifier: BSD-2-Clause
// getifaddrs() of the simulated host: lo and one interface per device.
#include "world.h"

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <ifaddrs.h>
#include <net/if.h>

namespace fake
{

struct Interface : ifaddrs {
	sockaddr_storage addr{}, mask{};
	char name[IFNAMSIZ] = {};
	Interface() : ifaddrs{}
	{
	}
};

static Interface *add(Interface *next, const char *name, const Addr &addr, unsigned flags)
{
	auto *entry = new Interface;
	Addr mask;

	snprintf(entry->name, sizeof entry->name, "%s", name);
	mask.family = addr.family;
	memset(mask.ip, 0xff, addr.family == AF_INET ? 3 : 8);
	addr.put(reinterpret_cast<sockaddr *>(&entry->addr));
	mask.put(reinterpret_cast<sockaddr *>(&entry->mask));
	entry->ifa_name = entry->name;
	entry->ifa_addr = reinterpret_cast<sockaddr *>(&entry->addr);
	entry->ifa_netmask = reinterpret_cast<sockaddr *>(&entry->mask);
	entry->ifa_flags = flags | IFF_UP | IFF_RUNNING;
	entry->ifa_next = next;
	return entry;
}

// As on a real host, every interface also has an entry without an IP address.
static Interface *add_nameless(Interface *next, const char *name)
{
	auto *entry = new Interface;

	snprintf(entry->name, sizeof entry->name, "%s", name);
	entry->ifa_name = entry->name;
	entry->ifa_flags = IFF_UP;
	entry->ifa_next = next;
	return entry;
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
	Interface *head = nullptr;
	char name[IFNAMSIZ];

	if (fault)
		return by_minus(fault);
	for (size_t i = w.devices.size(); i-- > 0;) { // the list is built from its end
		snprintf(name, sizeof name, "eth%u", static_cast<unsigned>(i));
		const auto &addrs = w.devices[i]->addrs;
		for (size_t j = addrs.size(); j-- > 0;) {
			Addr addr = addrs[j];
			addr.scope = addr.link_local() ? interface_index(i) : 0;
			head = add(head, name, addr, IFF_BROADCAST | IFF_MULTICAST);
		}
		head = add_nameless(head, name);
	}
	Addr loopback;
	Addr::parse("::1", loopback);
	head = add(head, "lo", loopback, IFF_LOOPBACK);
	Addr::parse("127.0.0.1", loopback);
	head = add(head, "lo", loopback, IFF_LOOPBACK);
	++w.live.ifaddrs;
	*list = head;
	return 0;
}

extern "C" unsigned if_nametoindex(const char *name) noexcept
{
	return name[0] == 'e' ? interface_index(strtoul(name + strlen("eth"), nullptr, 10)) : 1;
}

extern "C" void freeifaddrs(ifaddrs *list) noexcept
{
	std::lock_guard<std::mutex> lock(world().mutex);

	if (list)
		--world().live.ifaddrs;
	while (list) {
		auto *entry = static_cast<Interface *>(list);
		list = list->ifa_next;
		delete entry;
	}
}
