/* SPDX-License-Identifier: BSD-2-Clause */
/* The device under test, and the steps of a connection as libvipl/core takes them. */
#include <string.h>
#include <unistd.h>

#include "hello_fuzz.h"

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

	*vi = (struct vi){.endpoint = world.device->ops->endpoint_create(world.device, &config)};
	check(vi->endpoint);
	world.sends[index] = (struct workqueue){vi, &vi->sent, false};
	world.receives[index] = (struct workqueue){vi, &vi->posted, false};
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
	world.device->ops->disconnect(vi->endpoint);
}

void world_destroy(void)
{
	struct discriminator own = world_own();

	for (unsigned i = 0; i < VIS; i++) {
		if (world.vis[i].state == VI_CONNECTED)
			vi_tear_down(&world.vis[i]);
		world.device->ops->disconnect(world.vis[i].endpoint);
		world.device->ops->endpoint_destroy(world.vis[i].endpoint);
	}
	while (world.request_count)
		world.device->ops->reject(world.requests[--world.request_count], VIP_REJECT);
	while (world.listening) {
		world.device->ops->unlisten(world.device, &own);
		world.listening--;
	}
	world.device->ops->region_destroy(world.region);
	world.device->ops->cq_destroy(world.cq.device);
	world.device->ops->channel_destroy(world.channel);
	world.device->ops->domain_destroy(world.domain);
	world.device->ops->close(world.device);
	fuzz_forget_timer();
}
