/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA device's addresses, and the TCP ports of discriminators. The device has one IPv4 address. Where programs get long
 * addresses it also has one IPv6 address, by which the NIC is known: a global or unique local one, or else a link-local one.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "base/log.h"
#include "rdma.h"

#define FIRST_PORT   0x4000u /* below the ports that the system gives to programs that ask for any */
#define BUCKETS	     4096u
#define BUCKET_PORTS 4u /* so many processes of a host can wait in one bucket */

/* Returns true if the address is one of the device's. rdma_cm knows this for every link layer. *error: why it does not. */
static bool is_of_device(struct verbs_device *device, struct sockaddr *address, int *error)
{
	struct rdma_cm_id *id;
	bool matches;

	if (rdma_create_id(device->events, &id, NULL, RDMA_PS_TCP)) {
		*error = cause("rdma_create_id()", errno);
		return false;
	}
	matches = !rdma_bind_addr(id, address);
	if (!matches && errno != ENODEV && errno != EADDRNOTAVAIL) /* by which it is no RDMA device's */
		*error = cause("rdma_bind_addr()", errno);
	/* All addresses have to be of one port, since queue pairs are. */
	matches = matches && id->verbs &&
		  !strcmp(ibv_get_device_name(id->verbs->device),
			  ibv_get_device_name(device->context->device)) &&
		  (!device->port || device->port == id->port_num);
	if (matches)
		device->port = id->port_num;
	rdma_destroy_id(id);
	return matches;
}

static bool is_link_local(const struct sockaddr *address)
{
	struct in6_addr host = host_from_socket(address);

	return IN6_IS_ADDR_LINKLOCAL(&host);
}

/*
 * Finds the device's oldest address of this family. Linux lists the oldest IPv4 address first, and the oldest IPv6 address
 * last; newer IPv6 addresses may be temporary ones. False when there is none.
 */
static bool find_address(struct verbs_device *device, const struct ifaddrs *one, sa_family_t family,
			 bool link_local, struct in6_addr *host, int *error)
{
	bool found = false;

	for (; one && !(found && family == AF_INET); one = one->ifa_next) {
		struct sockaddr_storage address = {0};

		if (!one->ifa_addr || one->ifa_addr->sa_family != family ||
		    one->ifa_flags & IFF_LOOPBACK || is_link_local(one->ifa_addr) != link_local)
			continue;
		memcpy(&address, one->ifa_addr,
		       family == AF_INET ? sizeof(struct sockaddr_in)
					 : sizeof(struct sockaddr_in6)); /* with its scope */
		if (!is_of_device(device, (struct sockaddr *)&address, error))
			continue;
		found = true;
		*host = host_from_socket(one->ifa_addr);
		if (family == AF_INET6)
			device->interface = if_nametoindex(one->ifa_name);
	}
	return found;
}

/* Logs the other addresses of the device. Nobody listens there: a request gets VIP_NO_MATCH. */
static void tell_others(struct verbs_device *device, const struct ifaddrs *one)
{
	char own[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
	int unused;

	host_text(&device->ipv4, own);
	for (; one; one = one->ifa_next) {
		struct in6_addr host;

		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET)
			continue;
		host = host_from_socket(one->ifa_addr);
		if (host_is_loopback(&host) || host_equal(&host, &device->ipv4) || !is_of_device(device, one->ifa_addr, &unused))
			continue;
		host_text(&host, other);
		log_info("RDMA device %s is reached at %s, and not at %s",
			 ibv_get_device_name(device->context->device), own, other);
	}
}

int verbs_find_addresses(struct verbs_device *device)
{
	bool takes_ipv6 = host_length() == LONG_HOST_LEN, found;
	const char *lacks = takes_ipv6 ? "IP address" : "IPv4 address";
	struct ifaddrs *all;
	int error = 0;

	if (getifaddrs(&all)) {
		log_error("cannot list this machine's addresses: %s", failure_of("getifaddrs()", errno));
		return EIO;
	}
	/* The first address decides about the port. So the addresses that most peers can reach come first. */
	found = takes_ipv6 && find_address(device, all, AF_INET6, false, &device->ipv6, &error);
	found |= find_address(device, all, AF_INET, false, &device->ipv4, &error);
	if (takes_ipv6 && IN6_IS_ADDR_UNSPECIFIED(&device->ipv6))
		found |= find_address(device, all, AF_INET6, true, &device->ipv6, &error);
	if (!found && !takes_ipv6 &&
	    (find_address(device, all, AF_INET6, false, &device->ipv6, &error) ||
	     find_address(device, all, AF_INET6, true, &device->ipv6, &error)))
		lacks = "IPv4 address; its IPv6 address needs host addresses of 16 bytes "
			"(VIPL_ADDRESS_BYTES=16)";
	if (!IN6_IS_ADDR_UNSPECIFIED(&device->ipv4))
		tell_others(device, all);
	freeifaddrs(all);
	if (found)
		return 0;
	if (error)
		log_error("cannot learn the addresses of RDMA device %s: %s", ibv_get_device_name(device->context->device),
			  failure(error));
	else
		log_error("RDMA device %s: in this network namespace rdma_bind_addr() finds no %s",
			  ibv_get_device_name(device->context->device), lacks);
	return ENODEV;
}

const struct in6_addr *verbs_own_host(const struct verbs_device *device, const struct in6_addr *host)
{
	const struct in6_addr *own = host_is_ipv4(host) ? &device->ipv4 : &device->ipv6;

	return IN6_IS_ADDR_UNSPECIFIED(own) ? NULL : own;
}

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
	memset(&place->address, 0, sizeof(place->address));
	verbs_socket(device, host, port, &place->address);
	place->length = host_is_ipv4(host) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

unsigned verbs_place(struct device *base, const struct in6_addr *host, const struct discriminator *wanted, unsigned number,
		     struct place at[PLACE_ADDRESSES])
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
}
