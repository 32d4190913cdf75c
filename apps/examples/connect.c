/* SPDX-License-Identifier: BSD-2-Clause */
/* How a client and a server connect: addresses and VIs. Where two are equals, see peers.c. */
#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT 60000 /* milliseconds */

/*
 * An address is a host and a discriminator, any bytes, which tells the servers of a host apart as a port does for TCP. Here it is
 * the name of the server's program. There is room for the longest discriminator, because the library writes those of clients into
 * a server's address.
 */
VIP_NET_ADDRESS *new_address(const struct nic *nic, const char *host, const char *discriminator)
{
	VIP_NET_ADDRESS *address =
		calloc(1, sizeof(*address) + nic->attributes.NicAddressLen + nic->attributes.MaxDiscriminatorLen);
	size_t length = strlen(discriminator);
	char name[256];

	if (!address || length > nic->attributes.MaxDiscriminatorLen)
		must(VIP_ERROR_RESOURCE, "no memory for an address, or its discriminator is too long");
	if (host) {
		snprintf(name, sizeof(name), "%s", host); /* VIPL's parameter is not const */
		must(VipNSGetHostByName(nic->handle, name, address, 0), host);
	} else {
		address->HostAddressLen = nic->attributes.NicAddressLen;
		memcpy(address->HostAddress, nic->attributes.LocalNicAddress, address->HostAddressLen);
	}
	address->DiscriminatorLen = (VIP_UINT16)length;
	memcpy(address->HostAddress + address->HostAddressLen, discriminator, length);
	return address;
}

/* Both VIs of a connection need the same level and the same size. The NIC delivers what is sent here, or ends the connection. */
VIP_VI_HANDLE new_vi(const struct nic *nic, VIP_CQ_HANDLE receive_cq)
{
	VIP_VI_ATTRIBUTES attributes = {0};
	VIP_VI_HANDLE vi;

	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = TEXT_SIZE;
	attributes.Ptag = nic->ptag;
	attributes.EnableRdmaWrite = VIP_TRUE; /* for rdma_write: into regions that allow it */
	must(VipCreateVi(nic->handle, &attributes, NULL, receive_cq, &vi), "cannot create a VI");
	return vi;
}

/* A server of this name: waits for a client, makes a VI for it, posts its first receive, and only then accepts the connection. */
VIP_VI_HANDLE accept_client(const struct nic *nic, const char *name, VIP_CQ_HANDLE receive_cq, struct message *receive)
{
	VIP_NET_ADDRESS *local = new_address(nic, NULL, name), *remote = new_address(nic, NULL, "");
	VIP_VI_ATTRIBUTES clients; /* a server could refuse the client because of them: VipConnectReject */
	VIP_CONN_HANDLE request;
	VIP_VI_HANDLE vi;

	remote->DiscriminatorLen = nic->attributes.MaxDiscriminatorLen; /* there is so much room */
	must(VipConnectWait(nic->handle, local, VIP_INFINITE, remote, &clients, &request), "no client came");
	vi = new_vi(nic, receive_cq);
	post_receive(vi, receive);
	must(VipConnectAccept(request, vi), "cannot accept the client");
	free(remote);
	free(local);
	return vi;
}

/* A client: its own discriminator is free, and here no other process of this host has it. */
void connect_to_server(const struct nic *nic, VIP_VI_HANDLE vi, const char *host, const char *name)
{
	VIP_NET_ADDRESS *local, *remote = new_address(nic, host, name);
	VIP_VI_ATTRIBUTES servers;
	char own[16];

	snprintf(own, sizeof(own), "%ld", (long)getpid());
	local = new_address(nic, NULL, own);
	must(VipConnectRequest(vi, local, remote, TIMEOUT, &servers), "cannot connect to the server");
	free(remote);
	free(local);
}
