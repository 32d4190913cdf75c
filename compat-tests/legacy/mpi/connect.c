/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - connects with all processes at the start: by request and wait, or peer-to-peer. */
#include <string.h>

#include "layer.h"

#define PATIENCE 60000 /* milliseconds */

/* Makes the request until the peer waits, as programs did: the peer may not be ready. */
VIP_RETURN connect_request(struct channel *channel, int of)
{
	double end = mp_now() + PATIENCE / 1000;
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	VIP_RETURN code;

	address_make(&local, settings.rank, channel->peer);
	address_make(&remote, channel->peer, of);
	do
		code = VipConnectRequest(channel->vi, &local.net, &remote.net, PATIENCE,
					 &attributes);
	while (code == VIP_NO_MATCH && mp_now() < end);
	return code;
}

static void wait_for(struct channel *channel)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE request;
	struct discriminator from;

	address_make(&local, settings.rank, channel->peer);
	memset(&remote, 0, sizeof(remote));
	must(VipConnectWait(nic, &local.net, PATIENCE, &remote.net, &attributes, &request),
	     "VipConnectWait");
	from = address_discriminator(&remote);
	if (from.job != table.job || from.at != channel->peer || from.of != settings.rank)
		mp_fail("waited for rank %d, and got job %d, rank %d, for rank %d", channel->peer,
			from.job, from.at, from.of);
	must(VipConnectAccept(request, channel->vi), "VipConnectAccept");
}

/*
 * Each process first sends requests to the lower ranks, in their order. Then it waits for the
 * higher ranks, in theirs. So there is no deadlock. Many requests reach rank 0 before it waits for
 * them.
 */
void connect_all(void)
{
	int i;

	doing = "its peers, to connect";
	for (i = 0; i < settings.size; ++i) {
		if (i == settings.rank)
			continue;
		if (i < settings.rank)
			must(connect_request(&channels[i], settings.rank), "VipConnectRequest");
		else
			wait_for(&channels[i]);
		channels[i].link = CONNECTED;
	}
}

void connect_peers(void)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	int i;

	doing = "its equals, to connect";
	for (i = 0; i < settings.size; ++i) {
		if (i == settings.rank)
			continue;
		address_make(&local, settings.rank, i);
		address_make(&remote, i, settings.rank);
		must(VipConnectPeerRequest(channels[i].vi, &local.net, &remote.net, PATIENCE),
		     "VipConnectPeerRequest");
	}
	for (i = 0; i < settings.size; ++i) {
		if (i == settings.rank)
			continue;
		must(VipConnectPeerWait(channels[i].vi, &attributes), "VipConnectPeerWait");
		channels[i].link = CONNECTED;
	}
}
