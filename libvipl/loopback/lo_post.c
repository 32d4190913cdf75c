/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting receives: keeps them, and publishes them in the lane for the peer. */
#include <errno.h>

#include "region.h"

/* Is all of the segment in a region that was looked up just before? */
static inline bool is_cached(const struct loopback_endpoint *endpoint, const struct segment *segment,
			   uint32_t dereg_epoch)
{
	const struct cached_region *cached = &endpoint->region_cache[segment->key % CACHED_REGIONS];
	uint64_t offset = segment->address - cached->start; /* huge when it is before the start */

	return cached->handle == segment->key && cached->dereg_epoch == dereg_epoch &&
	       offset <= cached->length && segment->length <= cached->length - offset;
}

/* usable(), which remembers the region. `dereg_epoch`: the device's, before the look-up. */
static uint32_t look_up(struct loopback_endpoint *endpoint, const struct segment *segment,
			uint32_t dereg_epoch)
{
	const struct region_entry *entry =
		&endpoint->device->regions->entries[segment->key & (TABLE_REGIONS - 1)];
	struct cached_region *cached = &endpoint->region_cache[segment->key % CACHED_REGIONS];
	uint32_t found = usable(endpoint, segment);

	/* If the entry is another region's by now, the one that was found is deregistered, and the epoch has changed. */
	cached->handle = found ? segment->key : 0;
	cached->dereg_epoch = dereg_epoch;
	cached->start = atomic_load_explicit(&entry->start, memory_order_relaxed);
	cached->length = atomic_load_explicit(&entry->length, memory_order_relaxed);
	return found;
}

/*
 * Makes sure that the memory of the receive's entry is there. And that of the message behind the one for this receive, because
 * whoever polls does not look whether it is: see bring_messages(). Moves the limit as far as this memory goes.
 */
static bool bring_entry(struct loopback_endpoint *endpoint, uint32_t index)
{
	uint32_t place = index & (LANE_RECEIVES - 1), count = LANE_RECEIVES - place;
	struct lane *in = endpoint->in;
	const size_t in_step = LANE_STEP - offsetof(struct lane, receives[place]) % LANE_STEP;

	if (count > in_step / sizeof(in->receives[0]))
		count = (uint32_t)(in_step / sizeof(in->receives[0]));
	if (!lane_has(in, endpoint->posting_known, in->messages, sizeof(in->messages))) {
		const uint32_t next = (index + 1) & (LANE_MESSAGES - 1);
		const size_t rest = LANE_STEP - offsetof(struct lane, messages[next]) % LANE_STEP;

		if (!lane_bring(in, &endpoint->posting_known, &in->messages[next], sizeof(in->messages[0])))
			return false;
		if (count > rest / sizeof(in->messages[0]))
			count = (uint32_t)(rest / sizeof(in->messages[0]));
	}
	if (!lane_bring(in, &endpoint->posting_known, &in->receives[place], sizeof(in->receives[0])))
		return false;
	endpoint->publish_limit = index + count;
	return true;
}

/* A peer that reads the entry sees the details as they are now. */
static inline void publish_entry(struct loopback_endpoint *endpoint, uint32_t index, const struct loopback_receive *receive)
{
	atomic_store_explicit(&endpoint->in->receives[index & (LANE_RECEIVES - 1)],
			      (uint64_t)(index + 1) << 32 | receive->usable, memory_order_release);
}

/* Publishes a receive that is not short, and says where its segments are. False if there is no memory for that. */
static __attribute__((noinline)) bool publish_long(struct loopback_endpoint *endpoint, uint32_t index,
						   const struct loopback_receive *receive)
{
	const struct segment *segments = receive_segments(endpoint, receive);
	const uint32_t count = segments ? receive->count : 0, place = receive->list & (LANE_POOL - 1);
	struct lane *in = endpoint->in;
	struct lane_detail *detail = &in->details[index & (LANE_RECEIVES - 1)];
	struct lane_segment *list = in->pool + place;

	if (!lane_bring(in, &endpoint->posting_known, detail, sizeof(*detail)) ||
	    (count > 1 && !lane_bring(in, &endpoint->posting_known, list, count * sizeof(*list))))
		return false;
	if (count == 1)
		*detail = (struct lane_detail){segments->address, segments->key, 1};
	else
		*detail = (struct lane_detail){.address = place, .count = count};
	for (uint32_t i = 0; count > 1 && i < count; i++)
		list[i] = (struct lane_segment){segments[i].address, segments[i].length, segments[i].key};
	publish_entry(endpoint, index, receive);
	return true;
}

/* The memory of the entry is there. False if there is none for its details. */
static inline bool publish_receive(struct loopback_endpoint *endpoint, uint32_t index, const struct loopback_receive *receive)
{
	if (receive->usable > endpoint->short_receive)
		return publish_long(endpoint, index, receive);
	publish_entry(endpoint, index, receive);
	return true;
}

bool loopback_publish(struct loopback_endpoint *endpoint, uint32_t index)
{
	return (index != endpoint->publish_limit || bring_entry(endpoint, index)) &&
	       publish_receive(endpoint, index, receive_at(endpoint, index));
}

/* A receive at the limit. Without a connection that is each. */
static __attribute__((noinline)) int add_slowly(struct loopback_endpoint *endpoint, uint32_t index)
{
	bool is_there = !endpoint->in || bring_entry(endpoint, index);

	if (is_there)
		atomic_store_explicit(&endpoint->posted, index + 1, memory_order_release);
	if (!endpoint->in)
		endpoint->publish_limit = index + 1;
	else if (!is_there || !publish_receive(endpoint, index, receive_at(endpoint, index)))
		endpoint_short_of_memory(endpoint);
	return is_there ? 0 : ENOBUFS;
}

/* Posts the receive; the caller has filled it in, except for `count`. */
static inline int add_receive(struct loopback_endpoint *endpoint, uint32_t index, uint32_t count,
			      struct loopback_receive *receive)
{
	receive->count = count;
	if (index == endpoint->publish_limit)
		return add_slowly(endpoint, index);
	atomic_store_explicit(&endpoint->posted, index + 1, memory_order_release);
	if (!publish_receive(endpoint, index, receive))
		endpoint_short_of_memory(endpoint);
	return 0;
}

/*
 * Keeps the segments of a receive that has not one, in one piece, behind those of earlier receives. Returns how many it has;
 * more than LANE_SEGMENTS if there is no room for them.
 */
static inline uint32_t keep_segments(struct loopback_endpoint *endpoint, struct loopback_receive *receive,
				     const struct segment *segments, unsigned count)
{
	uint32_t place = endpoint->pool_used;
	struct segment *kept;

	if ((place & (LANE_POOL - 1)) + count > LANE_POOL)
		place = (place | (LANE_POOL - 1)) + 1;
	receive->list = endpoint->pool_used;
	if (count > LANE_SEGMENTS ||
	    place + count - atomic_load_explicit(&endpoint->pool_free, memory_order_acquire) > LANE_POOL)
		return LANE_SEGMENTS + 1;
	receive->list = place;
	endpoint->pool_used = place + count;
	kept = endpoint->arrays->pool + (place & (LANE_POOL - 1));
	for (const struct segment *end = segments + count; segments != end; )
		*kept++ = *segments++;
	return count;
}

static __attribute__((noinline)) int add_any(struct loopback_endpoint *endpoint,
					     const struct segment *segments, unsigned count)
{
	uint32_t index = atomic_load_explicit(&endpoint->posted, memory_order_relaxed);
	struct loopback_receive *receive = receive_at(endpoint, index);
	uint32_t room = 0, room_usable = 0;

	for (unsigned i = 0; i < count; i++) {
		/* Data that comes for memory that is not registered breaks the connection. */
		if (room_usable == room)
			room_usable += is_cached(endpoint, &segments[i], receive->dereg_epoch)
					       ? segments[i].length
					       : look_up(endpoint, &segments[i], receive->dereg_epoch);
		room += segments[i].length;
	}
	receive->room = room;
	receive->usable = room_usable;
	receive->alone = 0;
	if (count != 1)
		return add_receive(endpoint, index, keep_segments(endpoint, receive, segments, count), receive);
	receive->alone = room_usable;
	receive->segment = segments[0];
	return add_receive(endpoint, index, 1, receive);
}

int loopback_post_receive(struct device_endpoint *base, const struct segment *segments,
			  unsigned count)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	uint32_t index = atomic_load_explicit(&endpoint->posted, memory_order_relaxed);
	struct loopback_receive *receive = receive_at(endpoint, index);

	receive->dereg_epoch =
		atomic_load_explicit(&endpoint->device->dereg_epoch, memory_order_acquire);
	if (count != 1 || !is_cached(endpoint, segments, receive->dereg_epoch))
		return add_any(endpoint, segments, count);
	receive->segment = *segments;
	receive->room = receive->usable = receive->alone = segments->length;
	return add_receive(endpoint, index, 1, receive);
}
