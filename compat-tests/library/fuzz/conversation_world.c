/* SPDX-License-Identifier: BSD-2-Clause */
/* The device under test, and the steps of a connection as libvipl/core takes them. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "conversation_fuzz.h"

struct world world;

static uint8_t buffer[0x4000];

static struct discriminator make_discriminator(uint8_t first)
{
	struct discriminator discriminator = {.length = MAX_DISCRIMINATOR_LEN, .bytes = {first}};
	pid_t process = getpid();

	memcpy(discriminator.bytes + 4, "fuzz", 4);
	memcpy(discriminator.bytes + 8, &process, sizeof(process));
	return discriminator;
}

struct discriminator world_own(void)
{
	return make_discriminator(1);
}

struct discriminator world_other(void)
{
	return make_discriminator(2);
}

static void create_vi(unsigned index)
{
	struct endpoint_config config = {
		.vi = &world.vis[index],
		.domain = world.domain,
		.send_queue = &world.sends[index],
		.receive_queue = &world.receives[index],
		.send_cq = world.cq.device,
		.receive_cq = world.cq.device,
		.send_depth = 128,
		.receive_depth = LANE_RECEIVES,
	};
	struct vi *vi = &world.vis[index];

	*vi = (struct vi){.endpoint = world.device->ops->endpoint_create(world.device, &config),
			  .connection = connection_create(world.connector, vi)};
	check(vi->endpoint && vi->connection);
	world.sends[index] = (struct workqueue){vi, &vi->sent, false};
	world.receives[index] = (struct workqueue){vi, &vi->posted, false};
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

void world_create(struct input *input)
{
	const struct region_rights rights = {true, true};
	unsigned capacity;
	uint32_t handle;
	bool read_only = false;
	int fd;

	open_device(input);
	if (world.is_remote)
		use_tcp();
	world.connector = connector_open((struct nic *)&world, world.device);
	check(world.connector);
	world.domain = world.device->ops->domain_create(world.device);
	world.channel = world.device->ops->channel_create(world.device, &fd);
	check(world.domain && world.channel);
	world.cq.device =
		world.device->ops->cq_create(world.device, &world.cq, world.channel, true, 64,
					     &capacity);
	world.region = world.device->ops->region_create(world.domain, buffer, sizeof(buffer),
							rights, &handle, &world.region_key,
							&read_only);
	check(world.cq.device && world.region);
	for (unsigned i = 0; i < VIS; i++)
		create_vi(i);
	world.request_count = world.listening = 0;
}

void world_poll(void)
{
	cq_lock(&world.cq);
	while (world.device->ops->cq_poll(world.cq.device))
		;
	cq_unlock(&world.cq);
}

void vi_unprepare(struct vi *vi)
{
	world_poll();
	world.device->ops->endpoint_reset(vi->endpoint);
	vi->posted = vi->sent = 0;
	world_poll();
	vi->state = VI_IDLE;
}

void vi_tear_down(struct vi *vi)
{
	world_poll();
	world.device->ops->endpoint_stop(vi->endpoint);
	world_poll();
	check(!vi->posted && !vi->sent);
	vi_unprepare(vi);
	connection_close(vi->connection);
}

void world_destroy(void)
{
	for (unsigned i = 0; i < VIS; i++) {
		if (world.vis[i].state == VI_CONNECTED)
			vi_tear_down(&world.vis[i]);
		connection_destroy(world.vis[i].connection);
		world.device->ops->endpoint_destroy(world.vis[i].endpoint);
	}
	while (world.request_count)
		client_reject(world.requests[--world.request_count], VIP_REJECT);
	while (world.listening) {
		acceptor_close(world.acceptor);
		world.listening--;
	}
	connector_close(world.connector);
	world.device->ops->region_destroy(world.region);
	world.device->ops->cq_destroy(world.cq.device);
	world.device->ops->channel_destroy(world.channel);
	world.device->ops->domain_destroy(world.domain);
	world.device->ops->close(world.device);
	fuzz_forget_timer();
}
