/* VIP_NET_ADDRESS to and from the parts that connections are made of. */
#include "address.h"

#include <stddef.h>
#include <string.h>

bool address_discriminator(const VIP_NET_ADDRESS *address, struct discriminator *out)
{
	/* HostAddress is declared with one byte; the discriminator lies beyond it. */
	const uint8_t *bytes = (const uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress);

	if (address->HostAddressLen > 16 || address->DiscriminatorLen > MAX_DISCRIMINATOR_LEN)
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

bool address_host(const VIP_NET_ADDRESS *address, struct in_addr *out)
{
	const uint8_t *bytes = (const uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress);

	if (bytes[4] || bytes[5])
		return false;
	memcpy(&out->s_addr, bytes, sizeof(out->s_addr));
	return out->s_addr != INADDR_ANY;
}

void host_address_write(uint8_t out[HOST_ADDRESS_LEN], struct in_addr host)
{
	memcpy(out, &host.s_addr, sizeof(host.s_addr));
	out[4] = out[5] = 0;
}

void address_write(VIP_NET_ADDRESS *address, struct in_addr host,
		   const struct discriminator *discriminator)
{
	uint8_t *bytes = (uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress);

	address->HostAddressLen = HOST_ADDRESS_LEN;
	address->DiscriminatorLen = discriminator->length;
	host_address_write(bytes, host);
	memcpy(bytes + HOST_ADDRESS_LEN, discriminator->bytes, discriminator->length);
}
