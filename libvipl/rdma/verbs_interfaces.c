/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces and addresses of this machine. */
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "verbs_candidates.h"

#define GID_AT 4 /* in a hardware address of InfiniBand: RFC 4391 */

static void __attribute__((format(printf, 3, 4)))
give_up(struct own_network *network, enum candidate_reason reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(network->why, sizeof(network->why), format, args);
	va_end(args);
	network->reason = reason;
}

const struct own_interface *own_interface(const struct own_network *network, unsigned index)
{
	for (size_t i = 0; i < network->interface_count; i++)
		if (network->interfaces[i].index == index)
			return &network->interfaces[i];
	return NULL;
}

/* Linux lists each interface once without an IP address, and then once for each. */
static unsigned add_own_interface(struct own_network *network, const struct ifaddrs *entry)
{
	const unsigned index = if_nametoindex(entry->ifa_name);
	struct own_interface *added = &network->interfaces[network->interface_count];

	if (!index || own_interface(network, index))
		return index;
	added->index = index;
	/* "eth0:1" is the label of an address of eth0's. */
	snprintf(added->name, sizeof(added->name), "%.*s", (int)strcspn(entry->ifa_name, ":"), entry->ifa_name);
	added->is_up = entry->ifa_flags & IFF_UP;
	if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_PACKET) {
		struct sockaddr_ll link;

		memcpy(&link, entry->ifa_addr, sizeof(link));
		added->is_infiniband = link.sll_hatype == ARPHRD_INFINIBAND && link.sll_halen == GID_AT + sizeof(added->gid);
		if (link.sll_halen == sizeof(added->mac))
			memcpy(added->mac, link.sll_addr, sizeof(added->mac));
		if (added->is_infiniband) /* longer than struct sockaddr_ll */
			memcpy(added->gid, (const char *)entry->ifa_addr + offsetof(struct sockaddr_ll, sll_addr) + GID_AT,
			       sizeof(added->gid));
	}
	network->interface_count++;
	return index;
}

static void add_address(struct own_network *network, const struct ifaddrs *entry, sa_family_t family)
{
	struct own_address *added = &network->addresses[network->address_count];
	const struct own_interface *interface;

	if (!entry->ifa_addr || entry->ifa_addr->sa_family != family || entry->ifa_flags & IFF_LOOPBACK)
		return;
	added->index = add_own_interface(network, entry);
	if (!added->index) /* it has just gone */
		return;
	memcpy(&added->socket, entry->ifa_addr,
	       family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)); /* with its scope */
	added->gid = added->host = host_from_socket(entry->ifa_addr);
	interface = own_interface(network, added->index);
	if (interface->is_infiniband)
		memcpy(&added->gid, interface->gid, sizeof(added->gid));
	network->address_count++;
}

/* Linux lists the oldest IPv4 address of an interface first, and the oldest IPv6 address last. 0 or errno. */
static int list_addresses(struct own_network *network, const struct ifaddrs *all)
{
	const struct ifaddrs *entry, **entries;
	size_t count = 0;

	for (entry = all; entry; entry = entry->ifa_next)
		count++;
	entries = zeroed(count + 1, sizeof(*entries));
	network->interfaces = zeroed(count + 1, sizeof(*network->interfaces));
	network->addresses = zeroed(count + 1, sizeof(*network->addresses));
	if (!entries || !network->interfaces || !network->addresses) {
		free(entries);
		return ENOMEM;
	}
	count = 0;
	for (entry = all; entry; entry = entry->ifa_next) {
		entries[count++] = entry;
		if (!(entry->ifa_flags & IFF_LOOPBACK))
			add_own_interface(network, entry);
		add_address(network, entry, AF_INET);
	}
	while (count)
		add_address(network, entries[--count], AF_INET6);
	free(entries);
	return 0;
}

/* getifaddrs() does not tell them. Without this file only those are known that rdma_cm refuses. */
static void read_flags(struct own_network *network)
{
	FILE *file = fopen("/proc/net/if_inet6", "re");
	unsigned words[4], index, flags;

	while (file && fscanf(file, "%8x%8x%8x%8x %x %*x %*x %x %*s", &words[0], &words[1], &words[2], &words[3],
			      &index, &flags) == 6) {
		struct in6_addr host;

		for (int i = 0; i < 4; i++)
			host.s6_addr32[i] = htonl(words[i]);
		for (size_t i = 0; i < network->address_count; i++)
			if (network->addresses[i].index == index && host_equal(&network->addresses[i].host, &host))
				network->addresses[i].flags = flags;
	}
	if (file)
		fclose(file);
}

void own_network_find(struct own_network *network)
{
	struct ifaddrs *all;
	int error;

	*network = (struct own_network){0};
	if (getifaddrs(&all)) {
		give_up(network, CANDIDATE_FAILED, "cannot list this machine's addresses: %s",
			failure_of("getifaddrs()", errno));
		return;
	}
	error = list_addresses(network, all);
	freeifaddrs(all);
	if (error) {
		give_up(network, CANDIDATE_FAILED, "cannot list this machine's addresses: %s", failure(error));
		return;
	}
	read_flags(network);
	network->manager = rdma_create_event_channel();
	if (!network->manager)
		give_up(network, CANDIDATE_NO_MANAGER, "no RDMA connection manager: %s",
			failure_of("rdma_create_event_channel()", errno));
}

void own_network_free(struct own_network *network)
{
	if (network->manager)
		rdma_destroy_event_channel(network->manager);
	free(network->interfaces);
	free(network->addresses);
}
