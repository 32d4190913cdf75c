/* SPDX-License-Identifier: BSD-2-Clause */
/* The device under test, and what libvipl/core does with it. */
#include <string.h>

#include "fuzz.h"

#define MOST_POLLS 64

struct world world;

bool world_poll(struct cq *cq)
{
	int reported;

	cq_lock(cq);
	cq->told = 0;
	reported = world.device->ops->cq_poll(cq->device);
	check(reported == cq->told);
	cq_unlock(cq);
	memory_check();
	for (unsigned i = 0; i < VIS; i++)
		peer_check(&world.vis[i]);
	return reported;
}

void vi_poll(struct vi *vi)
{
	for (unsigned i = 0; i < MOST_POLLS && world_poll(vi->send_cq); i++)
		;
	for (unsigned i = 0; i < MOST_POLLS && world_poll(vi->receive_cq); i++)
		;
}

static struct cq *cq_for(enum sharing sharing, unsigned vi, bool is_receive)
{
	if (sharing == ONE_CQ)
		return &world.cqs[0];
	/*
	 * With two CQs, the second VI has them the other way round. The device must still lock them
	 * in one order.
	 */
	return &world.cqs[sharing == TWO_CQS ? (vi & 1) ^ is_receive : 2 * vi + is_receive];
}

void world_create(enum sharing sharing)
{
	const struct device_ops *ops = world.device->ops;
	unsigned capacity;

	memset(world.regions, 0, sizeof(world.regions));
	for (unsigned i = 0; i < DOMAINS; i++) {
		world.domains[i] = ops->domain_create(world.device);
		check(world.domains[i]);
	}
	world.cq_count = sharing == OWN_CQS ? CQS : 2;
	for (unsigned i = 0; i < CQS; i++)
		world.cqs[i] = (struct cq){0};
	for (unsigned i = 0; i < world.cq_count; i++) {
		world.cqs[i].device =
			ops->cq_create(world.device, &world.cqs[i], NULL, sharing != OWN_CQS, 64, &capacity);
		check(world.cqs[i].device);
		check(capacity >= 64);
	}
	for (unsigned i = 0; i < VIS; i++) {
		world.vis[i].send_cq = cq_for(sharing, i, false);
		world.vis[i].receive_cq = cq_for(sharing, i, true);
	}
	memory_reset();
}

static void vi_destroy(struct vi *vi)
{
	if (vi->state == VI_NONE)
		return;
	if (vi->state == VI_LINKED)
		vi_tear_down(vi);
	world.device->ops->endpoint_destroy(vi->endpoint);
	vi->endpoint = NULL;
	vi->state = VI_NONE;
}

void world_destroy(void)
{
	for (unsigned i = 0; i < VIS; i++)
		vi_destroy(&world.vis[i]);
	for (unsigned i = 0; i < REGIONS; i++)
		memory_deregister(&world.regions[i]);
	for (unsigned i = 0; i < world.cq_count; i++)
		world.device->ops->cq_destroy(world.cqs[i].device);
	for (unsigned i = 0; i < DOMAINS; i++)
		world.device->ops->domain_destroy(world.domains[i]);
	world.device->ops->close(world.device);
	fuzz_forget_timer();
}

void vi_make(struct vi *vi)
{
	struct endpoint_config config = {
		.vi = vi,
		.domain = world.domains[0],
		.send_queue = &vi->send,
		.receive_queue = &vi->receive,
		.send_cq = vi->send_cq->device,
		.receive_cq = vi->receive_cq->device,
		.send_depth = SENDS_MOST,
		.receive_depth = WORK_MOST,
	};

	vi->endpoint = world.device->ops->endpoint_create(world.device, &config);
	check(vi->endpoint);
	check(config.send_depth >= 1 && config.receive_depth == WORK_MOST);
	vi->domain = 0;
	vi->state = VI_IDLE;
	vi->stopped = vi->broken = false;
	vi->send.vi = vi->receive.vi = vi;
	vi->send.is_receive = vi->send.locked = vi->receive.locked = false;
	vi->receive.is_receive = true;
	vi->send.head = vi->send.tail = vi->send.checked = 0;
	vi->receive.head = vi->receive.tail = vi->receive.checked = 0;
}

void vi_prepare(struct vi *vi)
{
	vi->state = VI_PREPARED;
	vi->stopped = vi->broken = false;
	vi->send.over = vi->receive.over = false;
}

static void recall(struct workqueue *queue)
{
	queue->head = queue->checked = queue->tail;
}

void vi_reset(struct vi *vi)
{
	vi_poll(vi);
	world.device->ops->endpoint_reset(vi->endpoint);
	recall(&vi->send);
	recall(&vi->receive);
	vi->state = VI_IDLE;
	vi_poll(vi); /* a completion would fail a check, since nothing is posted */
}

void vi_stop(struct vi *vi)
{
	vi_poll(vi);
	world.device->ops->endpoint_stop(vi->endpoint);
	vi->stopped = true;
	vi_poll(vi);
	/* All descriptors must be completed: none waits for the peer. */
	check(vi->state != VI_LINKED || (!work_count(&vi->send) && !work_count(&vi->receive)));
	vi_reset(vi);
}
