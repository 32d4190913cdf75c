/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect.c - a VI for each peer. It is made first, and connected at the start, by request and wait or
 * peer-to-peer, or on demand. It is destroyed at the end.
 */
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

#include "layer.h"

#define PATIENCE 60000 /* milliseconds */
#define LOOK     100   /* milliseconds between two looks of the waiting thread at `over` */

/* An address with room for its bytes. */
union address {
	VIP_NET_ADDRESS net;
	unsigned char room[64];
};

struct channel channels[MAX_PROCESSES];
pthread_mutex_t connecting_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t waiter;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int over; /* guarded by connecting_lock */

static void address_make(union address *address, int at, int of)
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

static struct discriminator address_discriminator(const union address *address)
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

/* ---- at the start ---- */

/* Makes the request until the peer waits, as programs did: the peer may not be ready. */
static VIP_RETURN connect_request(struct channel *channel, int of)
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
static void connect_all(void)
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

static void connect_peers(void)
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

/*
 * ---- on demand ----
 *
 * A process that has something to send makes a request. A thread of each process waits for requests. When two
 * processes request each other the lower rank wins: it rejects the other's request, and the other process accepts
 * its request.
 */

static void accept_it(struct channel *channel, VIP_CONN_HANDLE request)
{
	must(VipConnectAccept(request, channel->vi), "VipConnectAccept");
	channel->link = CONNECTED;
	pthread_cond_broadcast(&changed);
}

static void asked_by(int peer, VIP_CONN_HANDLE request)
{
	struct channel *channel = &channels[peer];

	pthread_mutex_lock(&connecting_lock);
	if (channel->link == UNCONNECTED) {
		accept_it(channel, request);
	} else if (channel->link == ASKING && settings.rank < peer) {
		must(VipConnectReject(request), "VipConnectReject");
	} else if (channel->link == ASKING) {
		channel->held = request;
		channel->link = HELD;
	} else {
		mp_fail("rank %d asks for a connection that it has", peer);
	}
	pthread_mutex_unlock(&connecting_lock);
}

static int is_over(void)
{
	int result;

	pthread_mutex_lock(&connecting_lock);
	result = over;
	pthread_mutex_unlock(&connecting_lock);
	return result;
}

static void *wait_for_anybody(void *unused)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes;
	struct discriminator from;
	VIP_CONN_HANDLE request;
	VIP_RETURN code;

	while (!is_over()) {
		address_make(&local, settings.rank, ANYBODY);
		memset(&remote, 0, sizeof(remote));
		code = VipConnectWait(nic, &local.net, LOOK, &remote.net, &attributes, &request);
		if (code == VIP_TIMEOUT)
			continue;
		must(code, "VipConnectWait");
		from = address_discriminator(&remote);
		if (from.job != table.job || from.at < 0 || from.at >= settings.size ||
		    from.at == settings.rank)
			mp_fail("somebody else asks: job %d, rank %d", from.job, from.at);
		asked_by(from.at, request);
	}
	return unused;
}

/* Our request was rejected, so the winner's request has come, or will come. */
static void take_theirs(struct channel *channel)
{
	struct timeval now;
	struct timespec end;

	gettimeofday(&now, NULL);
	end.tv_sec = now.tv_sec + settings.stall;
	end.tv_nsec = now.tv_usec * 1000;
	if (channel->link == HELD)
		accept_it(channel, channel->held);
	else
		channel->link = UNCONNECTED;
	while (channel->link != CONNECTED)
		if (pthread_cond_timedwait(&changed, &connecting_lock, &end))
			mp_fail("rank %d rejected a request, and sends none of its own",
				channel->peer);
}

/* Does nothing if the peer is connected. */
void demand_connect(struct channel *channel)
{
	const char *before = doing;
	VIP_RETURN code;

	pthread_mutex_lock(&connecting_lock);
	if (channel->link == UNCONNECTED) {
		doing = "a peer, to connect on demand";
		channel->link = ASKING;
		pthread_mutex_unlock(&connecting_lock);
		code = connect_request(channel, ANYBODY);
		pthread_mutex_lock(&connecting_lock);
		if (code == VIP_REJECT) {
			take_theirs(channel);
		} else {
			must(code, "VipConnectRequest");
			channel->link = CONNECTED;
		}
		doing = before;
	}
	pthread_mutex_unlock(&connecting_lock);
}

void demand_stop(void)
{
	pthread_mutex_lock(&connecting_lock);
	over = 1;
	pthread_mutex_unlock(&connecting_lock);
	if (pthread_join(waiter, NULL))
		mp_fail("the waiting thread cannot be joined");
}

/* ---- the VIs ---- */

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
	else if (pthread_create(&waiter, NULL, wait_for_anybody, NULL))
		mp_fail("no thread");
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
