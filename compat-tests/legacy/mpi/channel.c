/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.c - a VI for each peer. It is made first, connected then or later, and destroyed at the
 * end.
 */
#include <stddef.h>
#include <string.h>

#include "layer.h"

struct channel channels[MAX_PROCESSES];
pthread_mutex_t connecting_lock = PTHREAD_MUTEX_INITIALIZER;

void address_make(union address *address, int at, int of)
{
	const struct host *host = &table.hosts[at];
	struct discriminator discriminator;

	discriminator.job = table.job;
	discriminator.at = at;
	discriminator.of = of;
	memset(address, 0, sizeof(*address));
	address->net.HostAddressLen = (VIP_UINT16)host->bytes;
	address->net.DiscriminatorLen = sizeof(discriminator);
	memcpy(address->net.HostAddress, host->address, host->bytes);
	memcpy(address->room + offsetof(VIP_NET_ADDRESS, HostAddress) + host->bytes, &discriminator,
	       sizeof(discriminator));
}

struct discriminator address_discriminator(const union address *address)
{
	struct discriminator discriminator;

	memset(&discriminator, 0, sizeof(discriminator));
	if (address->net.DiscriminatorLen == sizeof(discriminator))
		memcpy(&discriminator,
		       address->room + offsetof(VIP_NET_ADDRESS, HostAddress) +
			       address->net.HostAddressLen,
		       sizeof(discriminator));
	return discriminator;
}

/*
 * Makes a VI with its receives posted: the peer's first packet may come as soon as it is connected.
 */
static void make(struct channel *channel)
{
	VIP_VI_ATTRIBUTES attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = longest_transfer;
	attributes.Ptag = ptag;
	attributes.EnableRdmaWrite = VIP_TRUE;
	must(VipCreateVi(nic, &attributes, cq, cq, &channel->vi), "VipCreateVi");
	packets_prepare(channel);
}

void channels_open(void)
{
	int i;

	for (i = 0; i < settings.size; ++i) {
		channels[i].peer = i;
		if (i != settings.rank)
			make(&channels[i]);
	}
	if (settings.connecting == CONNECT_ALL)
		connect_all();
	else if (settings.connecting == CONNECT_PEERS)
		connect_peers();
	else
		demand_start();
}

struct channel *channel_of(VIP_VI_HANDLE vi)
{
	int i;

	for (i = 0; i < settings.size; ++i)
		if (i != settings.rank && channels[i].vi == vi)
			return &channels[i];
	return NULL;
}

void channels_close(void)
{
	int i;

	for (i = 0; i < settings.size; ++i) {
		if (i == settings.rank)
			continue;
		must(VipDisconnect(channels[i].vi), "VipDisconnect");
		must(VipDestroyVi(channels[i].vi), "VipDestroyVi");
	}
}
