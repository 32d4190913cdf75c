/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses to and from the parts that connections are made of. */
#include "address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#include "config.h"

#define IPV4_AT 12 /* where the IPv4 address is in ::ffff:a.b.c.d */

bool address_discriminator(const VIP_NET_ADDRESS *address, struct discriminator *out)
{
	/* HostAddress is declared with one byte; the discriminator lies beyond it. */
	const uint8_t *bytes = (const uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress);

	if (address->HostAddressLen > LONG_HOST_LEN ||
	    address->DiscriminatorLen > MAX_DISCRIMINATOR_LEN)
		return false;
	memset(out, 0, sizeof(*out));
	out->length = (uint8_t)address->DiscriminatorLen;
	memcpy(out->bytes, bytes + address->HostAddressLen, out->length);
	return true;
}

bool discriminator_equal(const struct discriminator *a, const struct discriminator *b)
{
	return a->length == b->length && !memcmp(a->bytes, b->bytes, a->length);
}

int discriminator_compare(const struct discriminator *a, const struct discriminator *b)
{
	int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);

	return order ? order : a->length - b->length;
}

uint16_t host_length(void)
{
	return config()->long_addresses ? LONG_HOST_LEN : SHORT_HOST_LEN;
}

bool host_length_is_known(uint16_t length)
{
	return length == SHORT_HOST_LEN || length == host_length();
}

struct in6_addr host_from_ipv4(struct in_addr ipv4)
{
	struct in6_addr host = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	memcpy(host.s6_addr + IPV4_AT, &ipv4, sizeof(ipv4));
	return host;
}

static struct in_addr ipv4_of(const struct in6_addr *host)
{
	struct in_addr ipv4;

	memcpy(&ipv4, host->s6_addr + IPV4_AT, sizeof(ipv4));
	return ipv4;
}

bool host_is_ipv4(const struct in6_addr *host)
{
	return IN6_IS_ADDR_V4MAPPED(host);
}

bool host_equal(const struct in6_addr *a, const struct in6_addr *b)
{
	return IN6_ARE_ADDR_EQUAL(a, b);
}

bool host_is_loopback(const struct in6_addr *host)
{
	return host_is_ipv4(host) ? host->s6_addr[IPV4_AT] == IN_LOOPBACKNET
				  : IN6_IS_ADDR_LOOPBACK(host);
}

bool host_read(const uint8_t *bytes, uint16_t length, struct in6_addr *out)
{
	struct in_addr ipv4;

	if (length == LONG_HOST_LEN) {
		memcpy(out, bytes, sizeof(*out));
	} else {
		if (bytes[4] || bytes[5])
			return false;
		memcpy(&ipv4, bytes, sizeof(ipv4));
		*out = host_from_ipv4(ipv4);
	}
	return host_is_ipv4(out) ? ipv4_of(out).s_addr != INADDR_ANY
				 : !IN6_IS_ADDR_UNSPECIFIED(out);
}

bool address_host(const VIP_NET_ADDRESS *address, struct in6_addr *out)
{
	return host_read((const uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress),
			 address->HostAddressLen, out);
}

bool host_write(uint8_t *out, const struct in6_addr *host)
{
	if (host_length() == LONG_HOST_LEN) {
		memcpy(out, host, LONG_HOST_LEN);
		return true;
	}
	if (!host_is_ipv4(host))
		return false;
	memcpy(out, host->s6_addr + IPV4_AT, sizeof(struct in_addr));
	out[4] = out[5] = 0;
	return true;
}

void address_write(VIP_NET_ADDRESS *address, const struct in6_addr *host,
		   const struct discriminator *discriminator)
{
	uint8_t *bytes = (uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress);

	address->HostAddressLen = host_length();
	address->DiscriminatorLen = discriminator->length;
	host_write(bytes, host);
	memcpy(bytes + host_length(), discriminator->bytes, discriminator->length);
}

char *host_text(const struct in6_addr *host, char out[INET6_ADDRSTRLEN])
{
	if (host_is_ipv4(host))
		inet_ntop(AF_INET, host->s6_addr + IPV4_AT, out, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, host, out, INET6_ADDRSTRLEN);
	return out;
}

socklen_t host_to_socket(const struct in6_addr *host, uint16_t port, struct sockaddr_storage *out)
{
	*out = (struct sockaddr_storage){0};
	if (host_is_ipv4(host)) {
		struct sockaddr_in *ipv4 = (struct sockaddr_in *)out;

		ipv4->sin_family = AF_INET;
		ipv4->sin_port = htons(port);
		ipv4->sin_addr = ipv4_of(host);
		return sizeof(*ipv4);
	} else {
		struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)out;

		ipv6->sin6_family = AF_INET6;
		ipv6->sin6_port = htons(port);
		ipv6->sin6_addr = *host;
		return sizeof(*ipv6);
	}
}

struct in6_addr host_from_socket(const struct sockaddr *address)
{
	const void *is = address;

	return address->sa_family == AF_INET
		       ? host_from_ipv4(((const struct sockaddr_in *)is)->sin_addr)
		       : ((const struct sockaddr_in6 *)is)->sin6_addr;
}
