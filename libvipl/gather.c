/*
 * Copying between plain memory and the segments of a posted descriptor, for devices that leave it to
 * the processor. The segments are read and checked anew, for much may have happened since the
 * descriptor was posted: a program that has changed it gets what it says now, and where its memory
 * is no longer registered nothing is copied. VipDeregisterMem returns when copies are over.
 */
#include "copy.h"
#include "nic.h"

/* The memory of one segment from `offset` on, or NULL. `writes`: it is to be written. */
static uint8_t *memory_of(const struct vi *vi, const VIP_DATA_SEGMENT *data, uint32_t offset,
			  uint32_t length, bool writes)
{
	uintptr_t address = (uintptr_t)READ_ONCE(data->Data.AddressBits);
	struct region_hint hint = {0};
	const struct region_view *region =
		region_table_find(&vi->nic->regions, READ_ONCE(data->Handle), &hint);

	if (!region || region->domain != vi->tag->domain || (writes && region->read_only) ||
	    address < region->start || address - region->start > region->length ||
	    (uint64_t)offset + length > region->length - (address - region->start))
		return NULL;
	return (uint8_t *)address + offset;
}

static bool copy(const struct vi *vi, const VIP_DESCRIPTOR *descriptor, uint32_t offset,
		 uint8_t *plain, uint32_t length, bool to_plain)
{
	unsigned count = READ_ONCE(descriptor->CS.SegCount);
	bool is_rdma = READ_ONCE(descriptor->CS.Control) & VIP_CONTROL_OP_MASK;

	for (unsigned i = is_rdma; i < count && i < MAX_SEGMENTS && length; i++) {
		const VIP_DATA_SEGMENT *data = &descriptor->DS[i].Local;
		uint32_t here = READ_ONCE(data->Length);
		uint8_t *memory;

		if (offset >= here) {
			offset -= here;
			continue;
		}
		here = here - offset < length ? here - offset : length;
		memory = memory_of(vi, data, offset, here, !to_plain);
		if (!memory)
			return false;
		if (to_plain)
			copy_out(plain, memory, here);
		else
			copy_unseen(memory, plain, here);
		plain += here;
		length -= here;
		offset = 0;
	}
	return !length;
}

static bool copy_locked(const struct workqueue *queue, uint32_t index, uint32_t offset,
			uint8_t *plain, uint32_t length, bool to_plain)
{
	const VIP_DESCRIPTOR *descriptor = queue->ring[index & (QUEUE_DESCRIPTORS - 1)].descriptor;
	struct nic *nic = queue->vi->nic;
	bool copied;

	pthread_rwlock_rdlock(&nic->copying);
	copied = copy(queue->vi, descriptor, offset, plain, length, to_plain);
	pthread_rwlock_unlock(&nic->copying);
	return copied;
}

bool workqueue_gather(struct workqueue *queue, void *to, uint32_t length)
{
	return copy_locked(queue, queue->submitted, 0, to, length, true);
}

bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length)
{
	uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);

	/* The descriptor came here through the device; this orders its memory by our means, too. */
	if (queue->dropped || atomic_load_explicit(&queue->tail, memory_order_acquire) == done)
		return false;
	return copy_locked(queue, done, offset, (uint8_t *)(uintptr_t)from, length, false);
}
