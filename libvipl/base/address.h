/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses. In the library a host is a struct in6_addr, IPv4 as ::ffff:a.b.c.d; here is what it
 * looks like to programs, in VIP_NET_ADDRESS (host address bytes followed directly by discriminator
 * bytes), and to the system.
 */
#ifndef VIPL_ADDRESS_H
#define VIPL_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "vipl.h"

#define SHORT_HOST_LEN	      6  /* IPv4 address, then two bytes of zero */
#define LONG_HOST_LEN	      16 /* IPv6 address */
#define MAX_DISCRIMINATOR_LEN 20 /* two of them fit into a connection request */

struct discriminator {
	uint8_t length;
	uint8_t bytes[MAX_DISCRIMINATOR_LEN];
};

/* False when the discriminator is too long. */
bool address_discriminator(const VIP_NET_ADDRESS *address, struct discriminator *out);
bool discriminator_equal(const struct discriminator *a, const struct discriminator *b);
/* Less than, equal to or greater than 0; peers must agree, so this is part of the protocol. */
int discriminator_compare(const struct discriminator *a, const struct discriminator *b);

/* How long the host addresses are that programs get: one of the two, by configuration. */
uint16_t host_length(void);
/* Do we take host addresses of this length from a program? Short ones always: they are IPv4. */
bool host_length_is_known(uint16_t length);
/* A host address of a known length. False: it is 0, or no internet address. */
bool host_read(const uint8_t *bytes, uint16_t length, struct in6_addr *out);
bool address_host(const VIP_NET_ADDRESS *address, struct in6_addr *out);
/* host_length() bytes. False when they cannot hold it: IPv6, but short addresses. */
bool host_write(uint8_t *out, const struct in6_addr *host);
/* Writes the whole address; the caller's memory has room for it. */
void address_write(VIP_NET_ADDRESS *address, const struct in6_addr *host,
		   const struct discriminator *discriminator);

struct in6_addr host_from_ipv4(struct in_addr ipv4);
bool host_is_ipv4(const struct in6_addr *host);
bool host_equal(const struct in6_addr *a, const struct in6_addr *b);
/* 127.0.0.0/8 or ::1 */
bool host_is_loopback(const struct in6_addr *host);

char *host_text(const struct in6_addr *host, char out[INET6_ADDRSTRLEN]);
/* The same, as long as the block lasts that this is in. */
#define host_name(host) host_text(host, (char[INET6_ADDRSTRLEN]){0})

/* IPv4 or IPv6, as it is. The size for system calls. */
socklen_t host_to_socket(const struct in6_addr *host, uint16_t port, struct sockaddr_storage *out);
struct in6_addr host_from_socket(const struct sockaddr *address);

#endif
