/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device under test, and what libvipl/core does with it; and the functions by which the device reports about queues. They
 * check that each report is allowed.
 */
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
	/* Of two CQs, the second VI has them the other way round. The device must still lock them in one order. */
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

/* ---- reports ---- */

/* These locks find a second lock by the same thread, and a wrong order. Real ones would deadlock. */
void workqueue_lock(struct workqueue *queue)
{
	check(!queue->locked);
	for (unsigned i = 0; i < CQS; i++)
		check(!world.cqs[i].locked);
	queue->locked = true;
}

void workqueue_unlock(struct workqueue *queue)
{
	check(queue->locked);
	queue->locked = false;
}

void cq_lock(struct cq *cq)
{
	check(!cq->locked);
	cq->locked = true;
}

void cq_unlock(struct cq *cq)
{
	check(cq->locked);
	cq->locked = false;
}

static bool is_reliable(const struct vi *vi)
{
	return endpoint_of(vi)->own.reliability != VIP_SERVICE_UNRELIABLE;
}

static void check_flush(struct workqueue *queue, uint32_t length)
{
	check(queue->vi->stopped);
	check(!length);
	queue->over = true;
}

static void check_error(struct workqueue *queue, uint32_t length)
{
	check(!queue->over);
	check(!length);
	queue->over = is_reliable(queue->vi);
}

static void check_receive(struct workqueue *queue, const struct work *work, uint32_t status, uint32_t length)
{
	const struct loopback_endpoint *endpoint = endpoint_of(queue->vi);
	bool is_rdma = status & VIP_STATUS_OP_REMOTE_RDMA_WRITE;

	switch (status) {
	case VIP_STATUS_DESC_FLUSHED_ERROR:
		check_flush(queue, length);
		break;
	case VIP_STATUS_LENGTH_ERROR:
	case VIP_STATUS_PROTECTION_ERROR:
		check(!queue->vi->stopped);
		check_error(queue, length);
		break;
	case 0:
	case VIP_STATUS_IMMEDIATE:
	case VIP_STATUS_IMMEDIATE | VIP_STATUS_OP_REMOTE_RDMA_WRITE:
		check(!queue->over);
		check(!queue->vi->stopped);
		check(length <= endpoint->own.max_transfer);
		check(is_rdma || length <= work->length);
		check(!is_rdma || !length || endpoint->own.rights.rdma_write);
		break;
	default:
		check(!"a receive has this status");
	}
}

static void check_send(struct workqueue *queue, const struct work *work, uint32_t status, uint32_t length)
{
	bool is_rdma = work->operation != VIP_CONTROL_OP_SENDRECV;
	bool takes_receive = !is_rdma || (work->operation == VIP_CONTROL_OP_RDMAWRITE && work->immediate);

	switch (status) {
	case VIP_STATUS_DESC_FLUSHED_ERROR:
		check_flush(queue, length);
		break;
	case 0:
		check(!queue->over);
		break;
	case VIP_STATUS_RDMA_PROT_ERROR:
		check(is_rdma);
		check(is_reliable(queue->vi));
		check_error(queue, length);
		break;
	case VIP_STATUS_REMOTE_DESC_ERROR:
		check(takes_receive);
		check(is_reliable(queue->vi));
		check_error(queue, length);
		break;
	case VIP_STATUS_TRANSPORT_ERROR:
	case VIP_STATUS_PROTECTION_ERROR:
		check(is_reliable(queue->vi));
		check_error(queue, length);
		break;
	default:
		check(!"a send has this status");
	}
}

void workqueue_complete(struct workqueue *queue, uint32_t status, uint32_t length, uint32_t immediate)
{
	struct vi *vi = queue->vi;
	struct cq *cq = queue->is_receive ? vi->receive_cq : vi->send_cq;

	(void)immediate;
	check(cq->locked);
	check(work_count(queue));
	if (queue->is_receive)
		check_receive(queue, work_at(queue, queue->head), status, length);
	else
		check_send(queue, work_at(queue, queue->head), status, length);
	queue->head++;
	cq->told++;
	vi->broken |= is_reliable(vi) && status & VIP_STATUS_ERROR_MASK;
}

/* Copies as libvipl/core/gather.c does. */
bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length, bool carefully)
{
	const struct work *work = work_at(queue, queue->head);
	const uint8_t *data = from;

	(void)carefully; /* all memory here can be accessed */
	check(queue->is_receive);
	check(queue->vi->receive_cq->locked);
	check(work_count(queue));
	check(offset <= work->length && length <= work->length - offset);
	for (unsigned i = 0; i < work->count && length; i++) {
		const struct segment *segment = &work->segments[i];
		const struct region *region = memory_find(segment->key, queue->vi->domain);
		uint64_t start = segment->address - (region ? (uintptr_t)region->start : 0);
		uint32_t here = segment->length;

		if (offset >= here) {
			offset -= here;
			continue;
		}
		here = here - offset < length ? here - offset : length;
		if (!region || region->read_only || start > region->length ||
		    (uint64_t)offset + here > region->length - start)
			return false;
		memcpy(region->start + start + offset, data, here);
		data += here;
		length -= here;
		offset = 0;
	}
	return !length;
}

/* One for each CQ's place, for all worlds. */
static struct cq_look *looks[CQS];

struct cq_look *cq_former_look(struct cq *cq)
{
	return looks[cq - world.cqs];
}

void cq_show(struct cq *cq, struct cq_look *look)
{
	looks[cq - world.cqs] = look;
}

void cq_announced(struct cq *cq)
{
	check(cq >= world.cqs && cq < world.cqs + world.cq_count);
}

bool cq_poll_for_device(struct cq *cq)
{
	check(cq >= world.cqs && cq < world.cqs + world.cq_count);
	return world_poll(cq);
}

void vi_ends_for(struct vi *vi, VIP_ERROR_CODE error)
{
	(void)vi;
	check(error == VIP_ERROR_CONN_LOST || error == VIP_ERROR_RECVQ_EMPTY || error == VIP_ERROR_RDMAW_PROT ||
	      error == VIP_ERROR_RDMAR_PROT);
}

void vi_closed(struct vi *vi)
{
	vi_ends_for(vi, VIP_ERROR_CONN_LOST);
}
