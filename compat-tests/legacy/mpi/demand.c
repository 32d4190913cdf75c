/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * demand.c - makes connections on demand. A process that has something to send makes a request. A
 * thread of each process waits for requests. When two processes request each other the lower rank
 * wins: it rejects the other's request, and the other process accepts its request.
 */
#include <string.h>
#include <sys/time.h>

#include "layer.h"

#define LOOK 100 /* milliseconds between two looks of the waiting thread at `over` */

static pthread_t waiter;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int over; /* guarded by connecting_lock */

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

void demand_start(void)
{
	if (pthread_create(&waiter, NULL, wait_for_anybody, NULL))
		mp_fail("no thread");
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
