/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The name service: VipNSInit, VipNSGetHostByName, VipNSGetHostByAddr, VipNSShutdown. Names and addresses are looked up in
 * VIPL's own hosts file (lines of a name and an address: IPv4, IPv6, or six bytes in hex with colons), then by the system. Only
 * addresses that fit host_length() bytes are found.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "pvip.h"
#include "base/config.h"
#include "core/nic.h"

/* VIA knows one name service per NIC; ours needs no state, so it may be begun and ended at will. */
VIP_RETURN PVipNSInit(struct nic *nic, VIP_PVOID NSInitInfo)
{
	(void)nic, (void)NSInitInfo;
	return VIP_SUCCESS;
}

VIP_RETURN PVipNSShutdown(struct nic *nic)
{
	(void)nic;
	return VIP_SUCCESS;
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

/* A loopback address means this NIC: Debian gives a machine's own name 127.0.1.1. False: the address does not fit. */
static bool tell_host(const struct nic *nic, const struct in6_addr *host, uint8_t *out)
{
	return host_write(out, host_is_loopback(host) ? &nic->host : host);
}

/* `bytes`: an address from the hosts file or the program, which need not be an internet address. */
static bool tell_bytes(const struct nic *nic, const uint8_t *bytes, uint16_t length, uint8_t *out)
{
	struct in6_addr host;

	if (host_read(bytes, length, &host))
		return tell_host(nic, &host, out);
	if (length != host_length())
		return false;
	memcpy(out, bytes, length);
	return true;
}

static bool parse_bytes(const struct nic *nic, const char *text, uint8_t *out)
{
	unsigned numbers[SHORT_HOST_LEN];
	uint8_t bytes[SHORT_HOST_LEN];
	char rest;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &numbers[0], &numbers[1], &numbers[2],
		   &numbers[3], &numbers[4], &numbers[5], &rest) != SHORT_HOST_LEN)
		return false;
	for (unsigned i = 0; i < SHORT_HOST_LEN; i++)
		bytes[i] = (uint8_t)numbers[i];
	return tell_bytes(nic, bytes, sizeof(bytes), out);
}

static bool parse_address(const struct nic *nic, const char *text, uint8_t *out)
{
	struct in6_addr host;
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1)
		host = host_from_ipv4(ipv4);
	else if (inet_pton(AF_INET6, text, &host) != 1)
		return parse_bytes(nic, text, out);
	return tell_host(nic, &host, out);
}

/* A line of the hosts file. */
struct entry {
	char name[256];
	uint8_t address[LONG_HOST_LEN];
};

/* The one of this number among those of a name, or with this address. Counts the number down by those found. */
static bool find_in_file(const struct nic *nic, const char *name, const uint8_t *wanted, VIP_ULONG *index, struct entry *entry)
{
	FILE *file = fopen(config()->hosts, "re");
	char *line = NULL, address[64];
	bool found = false;
	size_t room = 0;

	while (file && !found && getline(&line, &room, file) >= 0) {
		line[strcspn(line, "#\n")] = '\0';
		if (sscanf(line, "%255s %63s", entry->name, address) == 2 && parse_address(nic, address, entry->address) &&
		    (name ? same_host(name, entry->name) : !memcmp(entry->address, wanted, host_length())))
			found = !(*index)--;
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Those of one family. */
static bool find_among(const struct nic *nic, const struct addrinfo *info, int family,
		       VIP_ULONG *index, uint8_t *out)
{
	for (; info; info = info->ai_next) {
		struct in6_addr host;

		if (info->ai_family != family)
			continue;
		host = host_from_socket(info->ai_addr);
		if (tell_host(nic, &host, out) && !(*index)--)
			return true;
	}
	return false;
}

static bool find_in_system(const struct nic *nic, const char *name, VIP_ULONG *index, uint8_t *out)
{
	int own = host_is_ipv4(&nic->host) ? AF_INET : AF_INET6;
	int other = own == AF_INET ? AF_INET6 : AF_INET;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all;
	bool found;

	hints.ai_family = host_length() == SHORT_HOST_LEN ? AF_INET : AF_UNSPEC;
	if (getaddrinfo(name, NULL, &hints, &all))
		return false;
	/* The NIC may reach only addresses of its own family, so these come first. */
	found = find_among(nic, all, own, index, out) || find_among(nic, all, other, index, out);
	freeaddrinfo(all);
	return found;
}

/* A machine's own name that no file knows means the NIC, as does Debian's 127.0.1.1. */
static bool is_own_name(const char *name)
{
	struct utsname own;

	return !uname(&own) && *own.nodename && same_host(name, own.nodename);
}

static bool find_by_name(const struct nic *nic, const char *name, VIP_ULONG index, uint8_t *out)
{
	bool is_first = !index;
	struct entry entry;

	if (find_in_file(nic, name, NULL, &index, &entry)) {
		memcpy(out, entry.address, host_length());
		return true;
	}
	if (find_in_system(nic, name, &index, out))
		return true;
	return is_first && is_own_name(name) && host_write(out, &nic->host);
}

VIP_RETURN PVipNSGetHostByName(struct nic *nic, VIP_CHAR *Name, VIP_NET_ADDRESS *Address, VIP_ULONG NameIndex)
{
	uint8_t host[LONG_HOST_LEN];

	if (!find_by_name(nic, Name, NameIndex, host))
		return VIP_ERROR_NAMESERVICE;
	/* Nothing else: the discriminator is the program's, and what was here may be garbage. */
	Address->HostAddressLen = host_length();
	memcpy((uint8_t *)Address + offsetof(VIP_NET_ADDRESS, HostAddress), host, host_length());
	return VIP_SUCCESS;
}

static bool name_in_system(const struct in6_addr *host, char name[NI_MAXHOST])
{
	struct sockaddr_storage address;
	socklen_t length = host_to_socket(host, 0, &address);

	return !getnameinfo((struct sockaddr *)&address, length, name, NI_MAXHOST, NULL, 0,
			    NI_NAMEREQD);
}

/* The system may know this machine only by another address. */
static bool name_of_this_machine(const struct nic *nic, char name[NI_MAXHOST])
{
	uint8_t host[LONG_HOST_LEN];

	return !gethostname(name, NI_MAXHOST) && find_by_name(nic, name, 0, host) &&
	       !memcmp(host, nic->local_address, host_length());
}

static bool find_by_address(const struct nic *nic, const VIP_NET_ADDRESS *address,
			    char name[NI_MAXHOST])
{
	uint8_t wanted[LONG_HOST_LEN];
	struct in6_addr host;
	struct entry entry;
	VIP_ULONG first = 0;

	if (!tell_bytes(nic, (const uint8_t *)address + offsetof(VIP_NET_ADDRESS, HostAddress),
			address->HostAddressLen, wanted))
		return false;
	if (find_in_file(nic, NULL, wanted, &first, &entry)) {
		strcpy(name, entry.name);
		return true;
	}
	if (!address_host(address, &host)) /* the system does not know it */
		return false;
	if (host_is_loopback(&host))
		host = nic->host;
	return name_in_system(&host, name) ||
	       (host_equal(&host, &nic->host) && name_of_this_machine(nic, name));
}

VIP_RETURN PVipNSGetHostByAddr(struct nic *nic, VIP_NET_ADDRESS *Address, VIP_CHAR *Name, VIP_ULONG *NameLen)
{
	char name[NI_MAXHOST];
	size_t length;

	if (!host_length_is_known(Address->HostAddressLen))
		return VIP_INVALID_PARAMETER;
	if (!find_by_address(nic, Address, name))
		return VIP_ERROR_NAMESERVICE;
	length = strlen(name);
	if (*NameLen <= length) {
		*NameLen = length + 1;
		return VIP_ERROR_RESOURCE;
	}
	memcpy(Name, name, length + 1);
	*NameLen = length;
	return VIP_SUCCESS;
}
