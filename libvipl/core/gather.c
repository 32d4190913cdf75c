/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying between plain memory and the segments of a posted descriptor, for devices that leave it to the processor.
 *
 * The segments are read and checked again, because the program may have changed the descriptor or deregistered the memory
 * since it posted. The copy follows the descriptor as it is now. Nothing is copied to or from memory that is not
 * registered. VipDeregisterMem waits until copies have ended.
 */
#include "base/copy.h"
#include "base/thread.h"
#include "span.h"
#include "descriptor.h"
#include "nic.h"

/* What a descriptor's segments are used for. */
struct use {
	const struct vi *vi;
	bool writes;
};

static bool is_registered(const void *asked, const struct segment *segment, uint32_t reach)
{
	const struct use *use = asked;
	struct region_hint hint = {0};
	const struct region_view *region = region_of(use->vi, segment->key, &hint);

	return region && !(use->writes && region->read_only) && within(region, segment->address, reach);
}

/* Its `key` is the program's memory handle, not the device's key. */
static struct segment read_segment(const VIP_DATA_SEGMENT *data)
{
	return (struct segment){address_bits(&data->Data), READ_ONCE(data->Length),
				READ_ONCE(data->Handle)};
}

bool workqueue_is_registered(struct workqueue *queue)
{
	uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);
	const VIP_DESCRIPTOR *descriptor = queue->ring[done & (QUEUE_DESCRIPTORS - 1)].descriptor;
	struct use use = {queue->vi, queue->is_receive};
	unsigned count, operation;

	if (atomic_load_explicit(&queue->tail, memory_order_acquire) == done)
		return true;
	count = READ_ONCE(descriptor->CS.SegCount);
	operation = READ_ONCE(descriptor->CS.Control) & VIP_CONTROL_OP_MASK;
	use.writes |= operation == VIP_CONTROL_OP_RDMAREAD;
	for (unsigned i = !queue->is_receive && operation; i < count && i < MAX_SEGMENTS; i++) {
		struct segment segment = read_segment(&descriptor->DS[i].Local);

		if (segment.length && !is_registered(&use, &segment, segment.length))
			return false;
	}
	return true;
}

/* Copies between the span of the descriptor at this index and plain memory. */
static bool copy_segments(const struct workqueue *queue, uint32_t index, struct span span, struct span_copy copy)
{
	const VIP_DESCRIPTOR *descriptor = queue->ring[index & (QUEUE_DESCRIPTORS - 1)].descriptor;
	bool is_rdma = READ_ONCE(descriptor->CS.Control) & VIP_CONTROL_OP_MASK;
	unsigned count = READ_ONCE(descriptor->CS.SegCount);
	struct segment segments[MAX_SEGMENTS];
	struct use use = {queue->vi, !copy.to_plain};
	struct nic *nic = queue->vi->nic;
	unsigned used = 0;
	bool copied;

	for (unsigned i = is_rdma; i < count && i < MAX_SEGMENTS; i++)
		segments[used++] = read_segment(&descriptor->DS[i].Local);
	copy.allows = is_registered;
	copy.asked = &use;
	copy.carefully |= thread_is_library;
	pthread_rwlock_rdlock(&nic->copying);
	copied = span_copy(span, segments, used, copy);
	pthread_rwlock_unlock(&nic->copying);
	return copied;
}

bool workqueue_gather(struct workqueue *queue, void *to, uint32_t length, bool carefully)
{
	return copy_segments(queue, queue->submitted, (struct span){0, length},
			     (struct span_copy){.plain = to, .to_plain = true, .carefully = carefully});
}

bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length, bool carefully)
{
	uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);

	/* The descriptor came here through the device. This load also orders its memory after the post, for our own threads. */
	if (atomic_load_explicit(&queue->tail, memory_order_acquire) == done)
		return false;
	return copy_segments(queue, done, (struct span){offset, length},
			     (struct span_copy){.plain = (uint8_t *)(uintptr_t)from, .carefully = carefully});
}
