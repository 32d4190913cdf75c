/*
 * The name service: VipNSInit, VipNSGetHostByName, VipNSShutdown. Names are looked up in a hosts
 * file of VIPL's own (lines of a name and an address: four numbers with dots, or six bytes in hex
 * with colons), then by the system.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "nic.h"

/* VIA knows one name service per NIC; ours needs no state, so it may be begun and ended at will. */
VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo)
{
	struct nic *nic = nic_get(NicHandle);

	(void)NSInitInfo;
	if (!nic)
		return VIP_INVALID_PARAMETER;
	nic_put(nic);
	return VIP_SUCCESS;
}

VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE NicHandle)
{
	return VipNSInit(NicHandle, NULL);
}

/* "host" names "host.domain", and the other way round. */
static bool same_host(const char *a, const char *b)
{
	size_t a_length = strlen(a), b_length = strlen(b);

	if (!strchr(a, '.'))
		b_length = strcspn(b, ".");
	else if (!strchr(b, '.'))
		a_length = strcspn(a, ".");
	return a_length == b_length && !strncasecmp(a, b, a_length);
}

static bool parse_address(const char *text, uint8_t out[HOST_ADDRESS_LEN])
{
	unsigned bytes[HOST_ADDRESS_LEN];
	struct in_addr host;
	char rest;

	if (inet_pton(AF_INET, text, &host) == 1) {
		host_address_write(out, host);
		return true;
	}
	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &bytes[0], &bytes[1], &bytes[2], &bytes[3],
		   &bytes[4], &bytes[5], &rest) != HOST_ADDRESS_LEN)
		return false;
	for (unsigned i = 0; i < HOST_ADDRESS_LEN; i++)
		out[i] = (uint8_t)bytes[i];
	return true;
}

/* Counts `index` down by the addresses found; true when it was reached. */
static bool find_in_file(const char *name, VIP_ULONG *index, uint8_t out[HOST_ADDRESS_LEN])
{
	char line[512], entry[256], address[64];
	FILE *file = fopen(config()->hosts, "re");
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "#\n")] = '\0';
		if (sscanf(line, "%255s %63s", entry, address) != 2 || !same_host(name, entry) ||
		    !parse_address(address, out))
			continue;
		found = !(*index)--;
	}
	if (file)
		fclose(file);
	return found;
}

static bool find_in_system(const char *name, VIP_ULONG *index, uint8_t out[HOST_ADDRESS_LEN])
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *all, *info;
	bool found = false;

	if (getaddrinfo(name, NULL, &hints, &all))
		return false;
	for (info = all; info && !found; info = info->ai_next) {
		host_address_write(out,
				   ((struct sockaddr_in *)(void *)info->ai_addr)->sin_addr);
		found = !(*index)--;
	}
	freeaddrinfo(all);
	return found;
}

VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name, VIP_NET_ADDRESS *Address,
			      VIP_ULONG NameIndex)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	uint8_t host[HOST_ADDRESS_LEN];

	if (!nic)
		return rc;
	if (!Name || !Address)
		goto put_nic;
	rc = VIP_ERROR_NAMESERVICE;
	if (find_in_file(Name, &NameIndex, host) || find_in_system(Name, &NameIndex, host)) {
		/* Debian gives a machine's own name 127.0.1.1: this NIC is meant. */
		if (host[0] == IN_LOOPBACKNET)
			host_address_write(host, nic->host);
		/* Only these: the discriminator is the program's, and what was here is garbage. */
		Address->HostAddressLen = HOST_ADDRESS_LEN;
		memcpy((uint8_t *)Address + offsetof(VIP_NET_ADDRESS, HostAddress), host,
		       sizeof(host));
		rc = VIP_SUCCESS;
	}
put_nic:
	nic_put(nic);
	return rc;
}
