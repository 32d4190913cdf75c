/* SPDX-License-Identifier: BSD-2-Clause */
/* What this machine has: network interfaces and their addresses, RDMA devices by name and file, and the GIDs of a port. */
#include <glob.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "verbs_candidates.h"

#define GID_AT 4 /* in a hardware address of InfiniBand: RFC 4391 */

const struct own_interface *own_interface(const struct own_network *network, unsigned index)
{
	for (size_t i = 0; i < network->interface_count; i++)
		if (network->interfaces[i].index == index)
			return &network->interfaces[i];
	return NULL;
}

/* Linux lists each interface once without an IP address, and then once for each. NULL: it has just gone. */
static const struct own_interface *add_own_interface(struct own_network *network, const struct ifaddrs *entry)
{
	const unsigned index = if_nametoindex(entry->ifa_name);
	struct own_interface *added = &network->interfaces[network->interface_count];

	if (!index || own_interface(network, index))
		return own_interface(network, index);
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
	return added;
}

static void set_address(struct own_address *address, const struct ifaddrs *entry, const struct own_interface *interface)
{
	const bool is_ipv4 = entry->ifa_addr->sa_family == AF_INET;

	/* With its scope. */
	memcpy(&address->socket, entry->ifa_addr, is_ipv4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	address->index = interface->index;
	address->gid = address->host = host_from_socket(entry->ifa_addr);
	if (interface->is_infiniband)
		memcpy(&address->gid, interface->gid, sizeof(address->gid));
}

/* Linux lists the oldest IPv4 address of an interface first, and the oldest IPv6 address last. 0 or errno. */
static int list_addresses(struct own_network *network, const struct ifaddrs *all)
{
	const struct ifaddrs *entry;
	size_t room = 0, ipv6;

	for (entry = all; entry; entry = entry->ifa_next)
		room++;
	network->interfaces = zeroed(room + 1, sizeof(*network->interfaces));
	network->addresses = zeroed(room + 1, sizeof(*network->addresses));
	if (!network->interfaces || !network->addresses)
		return ENOMEM;
	ipv6 = room;
	for (entry = all; entry; entry = entry->ifa_next) {
		const struct own_interface *interface =
			entry->ifa_flags & IFF_LOOPBACK ? NULL : add_own_interface(network, entry);

		if (!interface || !entry->ifa_addr)
			continue;
		if (entry->ifa_addr->sa_family == AF_INET)
			set_address(&network->addresses[network->address_count++], entry, interface);
		else if (entry->ifa_addr->sa_family == AF_INET6)
			set_address(&network->addresses[--ipv6], entry, interface);
	}
	memmove(&network->addresses[network->address_count], &network->addresses[ipv6],
		(room - ipv6) * sizeof(*network->addresses));
	network->address_count += room - ipv6;
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
	error = getifaddrs(&all) ? cause("getifaddrs()", errno) : 0;
	if (!error) {
		error = list_addresses(network, all);
		freeifaddrs(all);
	}
	if (error) {
		network->reason = CANDIDATE_FAILED;
		snprintf(network->why, sizeof(network->why), "cannot list this machine's addresses: %s", failure(error));
		return;
	}
	read_flags(network);
	network->manager = rdma_create_event_channel();
	if (!network->manager) {
		network->reason = CANDIDATE_NO_MANAGER;
		snprintf(network->why, sizeof(network->why), "no RDMA connection manager: %s",
			 failure_of("rdma_create_event_channel()", errno));
	}
}

void own_network_free(struct own_network *network)
{
	if (network->manager)
		rdma_destroy_event_channel(network->manager);
	free(network->interfaces);
	free(network->addresses);
}

struct ibv_device *verbs_device_called(struct ibv_device *const *list, const char *name)
{
	while (list && *list && strcmp(ibv_get_device_name(*list), name) != 0)
		list++;
	return list ? *list : NULL;
}

struct ibv_context *verbs_device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *device = verbs_device_called(list, name);
	struct ibv_context *context;
	int error;

	if (!list) {
		cause("ibv_get_device_list()", errno);
		return NULL;
	}
	errno = ENODEV;
	context = device ? ibv_open_device(device) : NULL;
	error = context ? 0 : cause("ibv_open_device()", errno);
	ibv_free_device_list(list);
	errno = error;
	return context;
}

static bool says(const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	char said[64] = "";
	bool is_same = file && fscanf(file, "%63s", said) == 1 && !strcmp(said, word);

	if (file)
		fclose(file);
	return is_same;
}

bool verbs_device_node(const char *name, char node[64])
{
	static const char of_class[] = "/sys/class/infiniband_verbs/";
	bool is_found = false;
	glob_t files;

	if (glob("/sys/class/infiniband_verbs/*/ibdev", GLOB_NOSORT, NULL, &files))
		return false;
	for (size_t i = 0; i < files.gl_pathc && !is_found; i++) {
		const char *file = files.gl_pathv[i] + strlen(of_class);

		is_found = says(files.gl_pathv[i], name);
		snprintf(node, 64, "/dev/infiniband/%.*s", (int)strcspn(file, "/"), file);
	}
	globfree(&files);
	return is_found;
}

/* The kernel lists the interfaces of Ethernet's GIDs. An interface of InfiniBand has one of the port's GIDs. */
bool verbs_device_may_own(const char *device_path, const struct own_interface *interface)
{
	const uint8_t *gid = interface->gid;
	char pattern[320], word[64];
	bool may = false;
	glob_t files;

	if (interface->is_infiniband)
		for (int i = 0; i < 8; i++)
			sprintf(word + 5 * i, i < 7 ? "%02x%02x:" : "%02x%02x", gid[2 * i], gid[2 * i + 1]);
	else
		snprintf(word, sizeof(word), "%s", interface->name);
	snprintf(pattern, sizeof(pattern), "%s/ports/*/%s", device_path, interface->is_infiniband ? "gids/*" : "gid_attrs/ndevs/*");
	if (glob(pattern, GLOB_NOSORT, NULL, &files))
		return true; /* which nobody knows */
	for (size_t i = 0; i < files.gl_pathc && !may; i++)
		may = says(files.gl_pathv[i], word);
	globfree(&files);
	return may;
}

int verbs_gid_next(struct ibv_context *context, uint8_t port, unsigned from, struct ibv_gid_entry *entry)
{
	int error = ENOENT;

	for (unsigned i = from; i < MOST_GIDS; i++) {
		error = ibv_query_gid_ex(context, port, i, entry, 0);
		if (error != ENODATA && error != ENODEV) /* an empty one, or its interface is elsewhere */
			break;
	}
	return error == EINVAL || error == ENODATA || error == ENODEV ? ENOENT : error;
}
