/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying between plain memory and the segments of a posted descriptor, for devices that leave it to the processor.
 *
 * The segments are read and checked again, because the program may have changed the descriptor or deregistered the memory
 * since it posted. The copy follows the descriptor as it is now. Nothing is copied to or from memory that is not
 * registered. VipDeregisterMem waits until copies have ended.
 */
#include "base/copy.h"
#include "base/own_memory.h"
#include "base/thread.h"
#include "span.h"
#include "descriptor.h"
#include "nic.h"

/* Is the segment registered up to the end of the piece? `writes`: for writing. */
static bool is_registered(const struct vi *vi, const struct segment *segment,
			  const struct segment *piece, bool writes)
{
	uint32_t reach = (uint32_t)(piece->address - segment->address) + piece->length;
	struct region_hint hint = {0};
	const struct region_view *region = region_of(vi, segment->key, &hint);

	return region && !(writes && region->read_only) &&
	       within(region, segment->address, reach);
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
	unsigned count, operation;
	bool is_written;

	if (queue->orphaned || atomic_load_explicit(&queue->tail, memory_order_acquire) == done)
		return true;
	count = READ_ONCE(descriptor->CS.SegCount);
	operation = READ_ONCE(descriptor->CS.Control) & VIP_CONTROL_OP_MASK;
	is_written = queue->is_receive || operation == VIP_CONTROL_OP_RDMAREAD;
	for (unsigned i = !queue->is_receive && operation; i < count && i < MAX_SEGMENTS; i++) {
		struct segment segment = read_segment(&descriptor->DS[i].Local);

		if (segment.length && !is_registered(queue->vi, &segment, &segment, is_written))
			return false;
	}
	return true;
}

static bool copy_segments(const struct vi *vi, const VIP_DESCRIPTOR *descriptor, uint32_t offset,
			  uint8_t *plain, uint32_t length, bool to_plain, bool carefully)
{
	unsigned count = READ_ONCE(descriptor->CS.SegCount);
	bool is_rdma = READ_ONCE(descriptor->CS.Control) & VIP_CONTROL_OP_MASK;
	struct span span = {offset, length};

	for (unsigned i = is_rdma; i < count && i < MAX_SEGMENTS && span.length; i++) {
		struct segment segment = read_segment(&descriptor->DS[i].Local);
		struct segment piece = span_next(&span, segment);
		void *memory = (void *)(uintptr_t)piece.address;

		if (!piece.length)
			continue;
		if (!is_registered(vi, &segment, &piece, !to_plain))
			return false;
		if (!(to_plain ? own_memory_take(plain, memory, piece.length, carefully)
			       : own_memory_put(memory, plain, piece.length, carefully)))
			return false;
		plain += piece.length;
	}
	return !span.length;
}

static bool copy_locked(const struct workqueue *queue, uint32_t index, uint32_t offset,
			uint8_t *plain, uint32_t length, bool to_plain, bool carefully)
{
	const VIP_DESCRIPTOR *descriptor = queue->ring[index & (QUEUE_DESCRIPTORS - 1)].descriptor;
	struct nic *nic = queue->vi->nic;
	bool copied;

	pthread_rwlock_rdlock(&nic->copying);
	copied = copy_segments(queue->vi, descriptor, offset, plain, length, to_plain, carefully || thread_is_library);
	pthread_rwlock_unlock(&nic->copying);
	return copied;
}

bool workqueue_gather(struct workqueue *queue, void *to, uint32_t length, bool carefully)
{
	return copy_locked(queue, queue->submitted, 0, to, length, true, carefully);
}

bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length, bool carefully)
{
	uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);

	/* The descriptor came here through the device. This load also orders its memory after the post, for our own threads. */
	if (queue->orphaned || atomic_load_explicit(&queue->tail, memory_order_acquire) == done)
		return false;
	return copy_locked(queue, done, offset, (uint8_t *)(uintptr_t)from, length, false, carefully);
}
