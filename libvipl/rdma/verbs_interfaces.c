/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces and addresses of this machine, and the RDMA port that rdma_cm takes for each address. */
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "verbs_candidates.h"

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
static unsigned add_interface(struct own_network *network, const struct ifaddrs *entry)
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
		if (link.sll_halen == sizeof(added->mac))
			memcpy(added->mac, link.sll_addr, sizeof(added->mac));
	}
	network->interface_count++;
	return index;
}

static void add_address(struct own_network *network, const struct ifaddrs *entry, sa_family_t family)
{
	struct own_address *added = &network->addresses[network->address_count];

	if (!entry->ifa_addr || entry->ifa_addr->sa_family != family || entry->ifa_flags & IFF_LOOPBACK)
		return;
	added->index = add_interface(network, entry);
	if (!added->index) /* it has just gone */
		return;
	memcpy(&added->socket, entry->ifa_addr,
	       family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)); /* with its scope */
	added->host = host_from_socket(entry->ifa_addr);
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
			add_interface(network, entry);
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

/* rdma_cm knows for every link layer whose an address is. 0 or errno. */
static int ask(struct rdma_event_channel *events, struct own_address *address)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP))
		return errno ? errno : EIO;
	if (rdma_bind_addr(id, (struct sockaddr *)&address->socket)) {
		address->error = errno ? errno : EIO;
	} else if (id->verbs) {
		snprintf(address->device, sizeof(address->device), "%s", ibv_get_device_name(id->verbs->device));
		address->port = id->port_num;
	}
	rdma_destroy_id(id);
	return 0;
}

static void ask_for_all(struct own_network *network)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	int error = 0;

	if (!events) {
		give_up(network, CANDIDATE_NO_MANAGER, "no RDMA connection manager: %s",
			failure_of("rdma_create_event_channel()", errno));
		return;
	}
	for (size_t i = 0; i < network->address_count && !error; i++)
		error = ask(events, &network->addresses[i]);
	if (error)
		give_up(network, CANDIDATE_FAILED, "%s", failure_of("rdma_create_id()", error));
	rdma_destroy_event_channel(events);
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
	ask_for_all(network);
}

void own_network_free(struct own_network *network)
{
	free(network->interfaces);
	free(network->addresses);
}
