/* VIP_NET_ADDRESS: host address bytes followed directly by discriminator bytes. */
#ifndef VIPL_ADDRESS_H
#define VIPL_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "vipl.h"

#define HOST_ADDRESS_LEN      6  /* IPv4 address, then two bytes of zero */
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

/* False when the host part, of HOST_ADDRESS_LEN bytes, is no IPv4 address in our form. */
bool address_host(const VIP_NET_ADDRESS *address, struct in_addr *out);
void host_address_write(uint8_t out[HOST_ADDRESS_LEN], struct in_addr host);

/* Writes the whole address; the caller's memory has room for it. */
void address_write(VIP_NET_ADDRESS *address, struct in_addr host,
		   const struct discriminator *discriminator);

#endif
