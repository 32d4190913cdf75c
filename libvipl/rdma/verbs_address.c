/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An RDMA NIC's addresses, and the TCP ports of discriminators. A NIC has one IPv4 address. Where programs get long
 * addresses it also has one IPv6 address of the same interface, by which it is known.
 */
#include <string.h>

#include "rdma.h"

#define FIRST_PORT   0x4000u /* below the ports that the system gives to programs that ask for any */
#define BUCKETS      4096u
#define BUCKET_PORTS 4u /* so many processes of a host can wait in one bucket */

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
	*place = (struct place){0};
	verbs_socket(device, host, port, &place->address);
	place->length = host_is_ipv4(host) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

unsigned verbs_place(struct device *base, const struct in6_addr *host, const struct discriminator *wanted,
		     unsigned number, struct place at[PLACE_ADDRESSES])
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
	if (own && !IN6_IS_ADDR_LINKLOCAL(own)) /* which the system keeps to its interface */
		from->interface = device->interface;
}
