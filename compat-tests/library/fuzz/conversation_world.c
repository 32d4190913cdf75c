/* SPDX-License-Identifier: BSD-2-Clause */
/* The connector of the device under test, and the functions by which it reports. They check that each report is allowed. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "conversation.h"
#include "connect/vis.h"

struct talk talk;

struct discriminator discriminator_of(enum whose whose)
{
	struct discriminator discriminator = {.length = MAX_DISCRIMINATOR_LEN, .bytes = {(uint8_t)whose}};
	pid_t process = getpid();

	memcpy(discriminator.bytes + 4, "fuzz", 4);
	memcpy(discriminator.bytes + 8, &process, sizeof(process));
	return discriminator;
}

/* ---- over TCP: the same conversation, without a data path and without an end of the device's ---- */

/* A host of this process alone, so that several fuzzers do not meet. */
static unsigned remote_place(struct device *device, const struct in6_addr *host, const struct discriminator *wanted,
			     unsigned number, struct place at[PLACE_ADDRESSES])
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000000 | (uint32_t)getpid() % 0xfffffe + 1),
		.sin_port = htons((uint16_t)(2000 + PLACES * wanted->bytes[0] + number)),
	};

	(void)device;
	(void)host;
	if (number >= PLACES)
		return 0;
	memset(&at->address, 0, sizeof(at->address));
	memcpy(&at->address, &address, sizeof(address));
	at->length = sizeof(address);
	return 1;
}

static void remote_describe(struct device_endpoint *endpoint, struct description *own)
{
	(void)endpoint;
	memset(own->bytes, 'd', sizeof(own->bytes));
}

/* What a device would find there is of no meaning here, but for the first byte. */
static int remote_raise(struct device_endpoint *endpoint, bool accepts, const struct connect_info *own,
			const struct connect_info *peer, struct description *description)
{
	(void)endpoint;
	(void)accepts;
	(void)own;
	check(!description->fd_count && peer->discriminator.length <= MAX_DISCRIMINATOR_LEN);
	return description->bytes[0] < 250 ? 0 : EPROTO;
}

bool world_place(const struct discriminator *wanted, unsigned number, struct place *place)
{
	struct place at[PLACE_ADDRESSES];

	if (!world.device->ops->place(world.device, NULL, wanted, number, at))
		return false;
	*place = at[0];
	return true;
}

static void use_tcp(void)
{
	static struct device_ops remote;

	remote = loopback_device_ops;
	remote.place = remote_place;
	remote.admit = NULL;
	remote.takes_fd = NULL;
	remote.describe = remote_describe;
	remote.raise = remote_raise;
	world.device->ops = &remote;
}

/* Opening may fail while calls fail. The second try must succeed. */
static void open_device(struct input *input)
{
	VIP_NIC_ATTRIBUTES attributes;
	struct in6_addr host;
	int error;

	check(loopback_device_ops.open("via_lo0", 0, NULL, &world.device));
	trouble_begin(take8(input));
	error = loopback_device_ops.open("via_lo", 0, (struct nic *)&world, &world.device);
	trouble_end();
	if (error)
		check(!loopback_device_ops.open(NULL, 0, (struct nic *)&world, &world.device));
	world.device->ops->query(world.device, &attributes, &host);
}

void talk_create(struct input *input)
{
	static const uint8_t region[] = {1 | 2, 0, 0, 0x40, 0, 0x40}; /* 0x4000 bytes that peers may read and write */

	open_device(input);
	if (talk.is_remote)
		use_tcp();
	talk.connector = connector_open((struct nic *)&world, world.device);
	check(talk.connector);
	world_create(ONE_CQ);
	memory_register(&world.regions[0], &(struct input){region, sizeof(region)});
	for (unsigned i = 0; i < VIS; i++) {
		vi_make(&world.vis[i]);
		world.vis[i].connection = connection_create(talk.connector, &world.vis[i]);
		check(world.vis[i].connection);
	}
	talk.request_count = talk.listening = 0;
}

void talk_destroy(void)
{
	for (unsigned i = 0; i < VIS; i++) {
		if (world.vis[i].state == VI_LINKED)
			vi_tear_down(&world.vis[i]);
		connection_destroy(world.vis[i].connection);
	}
	while (talk.request_count)
		request_refuse(talk.requests[--talk.request_count], MESSAGE_REJECT);
	while (talk.listening) {
		acceptor_close(talk.acceptor);
		talk.listening--;
	}
	connector_close(talk.connector);
	world_destroy();
}

void vi_tear_down(struct vi *vi)
{
	vi_stop(vi);
	connection_close(vi->connection, false);
}

void peer_check(struct vi *vi)
{
	(void)vi;
}

static void check_info(const struct connect_info *peer)
{
	check(peer->discriminator.length <= MAX_DISCRIMINATOR_LEN);
	check(host_is_ipv4(&peer->host) && host_is_loopback(&peer->host));
}

void vi_hold_sends(struct vi *vi)
{
	check(vi->state == VI_PREPARED);
}

void vi_connected(struct vi *vi, const struct connect_info *peer)
{
	check(vi->state == VI_PREPARED);
	check_info(peer);
	vi->state = VI_LINKED;
}

void vi_withdraw(struct vi *vi, VIP_RETURN reason, bool goes_on)
{
	check(vi->state == VI_PREPARED);
	check(reason == VIP_REJECT || reason == VIP_TIMEOUT || reason == VIP_ERROR_RESOURCE || reason == VIP_NO_MATCH ||
	      reason == VIP_NOT_REACHABLE);
	check(!goes_on || reason == VIP_TIMEOUT);
	vi_reset(vi);
	if (goes_on)
		vi_prepare(vi);
	connection_withdrawn(vi->connection, reason, goes_on);
}

bool listeners_have_more(struct nic *nic, const struct discriminator *wanted)
{
	(void)nic;
	(void)wanted;
	return false;
}

void vi_lose(struct vi *vi, VIP_ERROR_CODE error)
{
	check(error == VIP_ERROR_CONN_LOST);
	check(vi->state == VI_LINKED);
	vi_tear_down(vi);
}

void device_routed(struct nic *nic, const struct in6_addr *host)
{
	(void)nic;
	(void)host;
	check(false); /* via_lo has no routes */
}

void vi_failed(struct vi *vi, VIP_ERROR_CODE error)
{
	(void)error;
	/* The peer can break the rules of a connection whose memory it shares. */
	if (vi->state == VI_LINKED)
		vi_tear_down(vi);
}

enum message_code listeners_take(struct nic *nic, struct request *request)
{
	const struct conversation *conversation = &request->conversation;

	check(nic == (struct nic *)&world);
	check_info(&conversation->peer);
	check(conversation->wanted.length <= MAX_DISCRIMINATOR_LEN);
	if (!talk.takes_requests || !talk.listening)
		return MESSAGE_NO_MATCH;
	if (talk.request_count == REQUESTS)
		return MESSAGE_BUSY;
	talk.requests[talk.request_count++] = request;
	return 0;
}
