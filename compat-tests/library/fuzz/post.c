/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's posts. They are posts that VipPostSend and VipPostRecv accept. */
#include "fuzz.h"

/* Where a segment lies, in relation to its region. */
enum shape { WHOLE, PART_OF_IT, PAST_ITS_END, ANYWHERE };

static bool make_segment(const struct vi *vi, struct input *input, bool is_bounded, struct segment *segment)
{
	uint8_t flags = take8(input);
	const struct region *region = &world.regions[flags % REGIONS];
	enum shape shape = flags >> 6;
	uint32_t offset = 0;

	if (!region->device || region->domain != vi->domain)
		return false;
	segment->key = region->key;
	segment->length = region->length;
	if (shape != WHOLE) {
		offset = take16(input) % region->length;
		segment->length = take_length(input);
	}
	segment->address = (uintptr_t)region->start + offset;
	if (shape == ANYWHERE && !is_bounded)
		segment->address = flags & 8 ? take64(input) : (uintptr_t)region->start - take8(input);
	if (is_bounded || shape == PART_OF_IT) {
		if (segment->length > region->length - offset)
			segment->length = region->length - offset;
	}
	return segment->length;
}

/* Repeats the segments, so that there are too many to be published. */
static void repeat(struct work *work, uint32_t room)
{
	for (unsigned i = 0; work->count && work->count < SEGMENTS_MOST && work->length < room; i++) {
		struct segment *segment = &work->segments[work->count];

		*segment = work->segments[i];
		if (segment->length > room - work->length)
			segment->length = room - work->length;
		work->length += segment->length;
		work->count++;
	}
}

/* Makes up to `most` segments of at most `room` bytes. If the input asks for `most`, it repeats them. */
static void make_work(const struct vi *vi, struct input *input, bool is_bounded, unsigned most, uint32_t room,
		      struct work *work)
{
	unsigned wanted = take_below(input, most + 1), count = wanted;

	work->count = 0;
	work->length = 0;
	while (count-- && work->length < room) {
		struct segment *segment = &work->segments[work->count];

		if (!make_segment(vi, input, is_bounded, segment))
			continue;
		if (segment->length > room - work->length)
			segment->length = room - work->length;
		work->length += segment->length;
		work->count++;
	}
	if (wanted == most)
		repeat(work, room);
}

void post_receive(struct vi *vi, struct input *input)
{
	unsigned times = take8(input);
	struct work work = {0};

	make_work(vi, input, false, LANE_SEGMENTS, TRANSFER_MOST, &work);
	if (vi->state != VI_PREPARED && vi->state != VI_LINKED)
		return;
	times = times < 0xE0 ? 1 : (times - 0xDF) * 32;
	workqueue_lock(&vi->receive);
	for (; times-- && work_count(&vi->receive) < WORK_MOST; vi->receive.tail++) {
		*work_at(&vi->receive, vi->receive.tail) = work;
		check(!world.device->ops->post_receive(vi->endpoint, work.segments, work.count));
	}
	workqueue_unlock(&vi->receive);
}

/* Sets the target of an RDMA operation: an entry of the peer's table, or anywhere. */
static void aim(const struct vi *vi, struct input *input, struct device_send *send)
{
	uint8_t flags = take8(input);
	const struct region_entry *entry = &vi->peer.table->entries[flags & 7];

	send->remote_handle = flags & 64 ? take32(input) : atomic_load(&entry->handle);
	send->remote_address = flags & 128 ? take64(input) : atomic_load(&entry->start);
	if (flags & 32)
		send->remote_address += take16(input);
}

void post_send(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input);
	struct device_send send = {.control = (flags & 3) % 3, .immediate = flags};
	unsigned times = flags & 8 ? take8(input) : 1;
	struct work work = {.operation = (flags & 3) % 3, .immediate = flags & 4};
	bool is_rdma = work.operation != VIP_CONTROL_OP_SENDRECV;

	if (vi->state != VI_LINKED)
		return;
	make_work(vi, input, true, is_rdma ? LANE_SEGMENTS - 1 : LANE_SEGMENTS, TRANSFER_MOST, &work);
	if (is_rdma)
		aim(vi, input, &send);
	if (work.length > endpoint_of(vi)->own.max_transfer)
		return;
	if (endpoint_of(vi)->own.reliability == VIP_SERVICE_UNRELIABLE && work.operation == VIP_CONTROL_OP_RDMAREAD)
		return;
	send.control |= work.immediate ? VIP_CONTROL_IMMEDIATE : 0;
	send.segments = work.segments;
	send.count = work.count;
	send.length = work.length;
	workqueue_lock(&vi->send);
	while (times-- && work_count(&vi->send) < SENDS_MOST) {
		*work_at(&vi->send, vi->send.tail++) = work; /* before it is posted: it may complete at once */
		if (world.device->ops->post_send(vi->endpoint, &send)) {
			vi->send.tail--;
			break;
		}
	}
	workqueue_unlock(&vi->send);
	memory_check();
}
