/*
 * The name service: VipNSInit, VipNSGetHostByName, VipNSGetHostByAddr, VipNSShutdown. Names and
 * addresses are looked up in a hosts file of VIPL's own (lines of a name and an address: four
 * numbers with dots, or six bytes in hex with colons), then by the system.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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

/* A line of the hosts file. */
struct entry {
	char name[256];
	uint8_t address[HOST_ADDRESS_LEN];
};

/* The next one that has a name and an address; false at the end. */
static bool read_entry(FILE *file, struct entry *entry)
{
	char line[512], address[64];

	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "#\n")] = '\0';
		if (sscanf(line, "%255s %63s", entry->name, address) == 2 &&
		    parse_address(address, entry->address))
			return true;
	}
	return false;
}

/* Counts `index` down by the addresses found; true when it was reached. */
static bool find_in_file(const char *name, VIP_ULONG *index, uint8_t out[HOST_ADDRESS_LEN])
{
	FILE *file = fopen(config()->hosts, "re");
	struct entry entry;
	bool found = false;

	while (file && !found && read_entry(file, &entry)) {
		if (!same_host(name, entry.name))
			continue;
		memcpy(out, entry.address, HOST_ADDRESS_LEN);
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

/* Debian gives a machine's own name 127.0.1.1: this NIC is meant. */
static void replace_loopback(const struct nic *nic, uint8_t address[HOST_ADDRESS_LEN])
{
	if (address[0] == IN_LOOPBACKNET)
		host_address_write(address, nic->host);
}

static bool find_by_name(const struct nic *nic, const char *name, VIP_ULONG index,
			 uint8_t out[HOST_ADDRESS_LEN])
{
	if (!find_in_file(name, &index, out) && !find_in_system(name, &index, out))
		return false;
	replace_loopback(nic, out);
	return true;
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
	if (find_by_name(nic, Name, NameIndex, host)) {
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

static bool name_in_file(const struct nic *nic, const uint8_t wanted[HOST_ADDRESS_LEN],
			 char name[NI_MAXHOST])
{
	FILE *file = fopen(config()->hosts, "re");
	struct entry entry;
	bool found = false;

	while (file && !found && read_entry(file, &entry)) {
		replace_loopback(nic, entry.address);
		found = !memcmp(entry.address, wanted, HOST_ADDRESS_LEN);
	}
	if (file)
		fclose(file);
	if (found)
		strcpy(name, entry.name);
	return found;
}

static bool name_in_system(struct in_addr host, char name[NI_MAXHOST])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = host};

	return !getnameinfo((struct sockaddr *)&address, sizeof(address), name, NI_MAXHOST, NULL, 0,
			    NI_NAMEREQD);
}

/* The system may know this machine by another one of its addresses only. */
static bool name_of_this_machine(const struct nic *nic, char name[NI_MAXHOST])
{
	uint8_t host[HOST_ADDRESS_LEN];

	return !gethostname(name, NI_MAXHOST) && find_by_name(nic, name, 0, host) &&
	       !memcmp(host, nic->local_address, HOST_ADDRESS_LEN);
}

static bool find_by_address(const struct nic *nic, const VIP_NET_ADDRESS *address,
			    char name[NI_MAXHOST])
{
	uint8_t wanted[HOST_ADDRESS_LEN];
	struct in_addr host;
	bool is_internet = address_host(address, &host);

	memcpy(wanted, (const uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress),
	       sizeof(wanted));
	replace_loopback(nic, wanted);
	if (name_in_file(nic, wanted, name))
		return true;
	if (!is_internet) /* the system does not know it */
		return false;
	memcpy(&host, wanted, sizeof(host));
	return name_in_system(host, name) ||
	       (host.s_addr == nic->host.s_addr && name_of_this_machine(nic, name));
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
			      VIP_ULONG *NameLen)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	char name[NI_MAXHOST];
	size_t length;

	if (!nic)
		return rc;
	if (!Address || !Name || !NameLen || Address->HostAddressLen != HOST_ADDRESS_LEN)
		goto put_nic;
	rc = VIP_ERROR_NAMESERVICE;
	if (!find_by_address(nic, Address, name))
		goto put_nic;
	length = strlen(name);
	rc = VIP_ERROR_RESOURCE;
	if (*NameLen > length) {
		memcpy(Name, name, length + 1);
		rc = VIP_SUCCESS;
	}
	*NameLen = rc == VIP_SUCCESS ? length : length + 1;
put_nic:
	nic_put(nic);
	return rc;
}
